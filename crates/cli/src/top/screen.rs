//! The terminal of `weir top`: takes it over, draws on it, and restores it at the end.
//!
//! Three threads send their input to the loop in [`show`]: one watches the server, one reads keys,
//! and one receives signals.

use super::AGAIN;
use super::draw::draw;
use super::look::ScreenStyle;
use super::state::{KeyPress, LoopFlow, TopState};
use super::watch::{self, ServerNews};
use crate::failure::Failure;
use crate::output;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use weir_manage::api::ManagementServer;

/// The largest number of inputs that wait to be drawn. A thread with more input blocks.
const WAITING: usize = 64;

/// The input of the loop in [`show`].
enum LoopInput {
    News(ServerNews),
    Key(KeyPress),
    /// The size of the terminal has changed.
    Size,
    /// The process has received a signal to end.
    Signal(i32),
    /// The terminal no longer exists.
    Gone,
}

/// Shows a server on the whole terminal, until the user or a signal ends the display.
pub(super) fn run(server: &ManagementServer, state: TopState) -> Result<(), Failure> {
    // A terminal without control sequences cannot show the display.
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if dumb || !output::is_terminal() {
        let reason = "standard output is not a terminal; use --once or --json to print lines";
        return Err(Failure::Usage(reason.to_owned()));
    }
    let cannot = |what: &str, error: &io::Error| {
        let reason = weir_config::os_error::message(error);
        Failure::Run(format!("cannot {what}: {reason}"))
    };
    let (sender, inputs) = sync_channel(WAITING);
    let client = server.client().map_err(Failure::run)?;
    let to = sender.clone();
    let watching = thread::Builder::new().name("weir-top-watch".to_owned());
    watching
        .spawn(move || watch_on(&client, &to))
        .map_err(|e| cannot("watch the server", &e))?;
    // Signals must be handled before the terminal is taken over. Otherwise a signal in between
    // would end the process without restoring it.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])
        .map_err(|e| cannot("watch for signals", &e))?;
    let to = sender.clone();
    thread::spawn(move || {
        for signal in signals.forever() {
            // The loop has ended if nobody receives the signal, and the process is about to exit.
            let _ = to.send(LoopInput::Signal(signal));
        }
    });
    // `try_init` installs a panic hook that restores the terminal as well.
    let terminal = ratatui::try_init().map_err(|e| cannot("draw on the terminal", &e))?;
    thread::spawn(move || read_keys(&sender));
    let ended = show(terminal, state, &inputs);
    // The terminal is restored before any message is printed.
    let restored = ratatui::try_restore();
    match ended {
        Ok(None) => restored.map_err(|e| cannot("restore the terminal", &e)),
        Ok(Some(signal)) => Err(Failure::Interrupted(signal, String::new())),
        Err(error) => Err(cannot("draw on the terminal", &error)),
    }
}

/// Draws until a key or a signal ends the display. Returns the signal, if it was one.
fn show(
    mut terminal: DefaultTerminal,
    mut state: TopState,
    inputs: &Receiver<LoopInput>,
) -> io::Result<Option<i32>> {
    let look = ScreenStyle {
        colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    loop {
        terminal.draw(|frame| draw(frame, &mut state, look))?;
        let Ok(first) = inputs.recv() else {
            return Ok(None);
        };
        // All other inputs that wait are processed before the next drawing, so that the display
        // keeps up with them.
        for input in std::iter::once(first).chain(inputs.try_iter()) {
            match input {
                LoopInput::News(news) => state.on_news(news),
                LoopInput::Key(key) => {
                    if state.on_key(key) == LoopFlow::End {
                        return Ok(None);
                    }
                }
                LoopInput::Size => {}
                LoopInput::Signal(signal) => return Ok(Some(signal)),
                LoopInput::Gone => return Ok(None),
            }
        }
    }
}

/// Sends the news of the server to the loop. If the connection is lost, this is sent as well, and
/// another attempt follows.
fn watch_on(client: &weir_manage::api::ManagementClient, to: &SyncSender<LoopInput>) {
    loop {
        let ended = watch::follow(client, |news| {
            let sent = to.send(LoopInput::News(news));
            sent.map_err(|_| Failure::Unread)
        });
        let Ok(why) = ended else { return };
        if to.send(LoopInput::News(ServerNews::Lost(why))).is_err() {
            return;
        }
        thread::sleep(AGAIN);
    }
}

/// Sends keys and changes of size to the loop, until the terminal no longer exists.
fn read_keys(to: &SyncSender<LoopInput>) {
    loop {
        let input = match event::read() {
            // Terminals that support it report when a key is released. Only presses and repetitions
            // count.
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                match known(key.code, key.modifiers) {
                    Some(key) => LoopInput::Key(key),
                    None => continue,
                }
            }
            Ok(Event::Resize(..)) => LoopInput::Size,
            Ok(_) => continue,
            Err(_) => LoopInput::Gone,
        };
        let is_last = matches!(input, LoopInput::Gone);
        if to.send(input).is_err() || is_last {
            return;
        }
    }
}

/// Returns the function of a key, or `None` if the key has none.
fn known(code: KeyCode, modifiers: KeyModifiers) -> Option<KeyPress> {
    let control = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        // In raw mode, Control and C is a key and not a signal.
        KeyCode::Char('c' | 'd') if control => KeyPress::Interrupt,
        KeyCode::Char(c) if !control && !c.is_control() => KeyPress::Char(c),
        KeyCode::Enter => KeyPress::Enter,
        KeyCode::Esc => KeyPress::Escape,
        KeyCode::Backspace => KeyPress::Backspace,
        KeyCode::Tab | KeyCode::BackTab => KeyPress::Tab,
        KeyCode::Left => KeyPress::Left,
        KeyCode::Right => KeyPress::Right,
        KeyCode::Up => KeyPress::Rows(-1),
        KeyCode::Down => KeyPress::Rows(1),
        KeyCode::PageUp => KeyPress::Pages(-1),
        KeyCode::PageDown => KeyPress::Pages(1),
        KeyCode::Home => KeyPress::Home,
        KeyCode::End => KeyPress::End,
        _ => return None,
    })
}
