//! Keeping a host so.

use crate::failure::Failure;
use crate::output;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir_config::apply::Host;
use weir_linux::{Files, Journal, Plan, Said};

/// How often a host is looked at, and how soon a signal is noticed.
const LOOK: Duration = Duration::from_secs(1);
const NOTICE: Duration = Duration::from_millis(100);

/// What a signal to end sets, where that is to be waited for: from here on none ends the process in the middle of a step.
pub(super) fn interrupt(wanted: bool) -> Result<Option<Arc<AtomicBool>>, Failure> {
    if !wanted {
        return Ok(None);
    }
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        let registered = flag::register(signal, Arc::clone(&ended));
        registered.map_err(|e| Failure::Run(format!("cannot watch for signals: {e}")))?;
    }
    Ok(Some(ended))
}

/// Sets again what somebody has changed, until a signal ends it. A line is said for each knob, and for what goes wrong once.
pub(super) fn watch(
    files: &mut dyn Files,
    host: &Host,
    journal: &mut Journal,
    ended: &AtomicBool,
) -> Result<(), Failure> {
    output::tell("watching the settings; SIGTERM ends the command and leaves them in place");
    let mut trouble = String::new();
    loop {
        let mut waited = Duration::ZERO;
        while waited < LOOK {
            if ended.load(Ordering::Relaxed) {
                output::tell("ended; the settings stay in place");
                return Ok(());
            }
            thread::sleep(NOTICE);
            waited += NOTICE;
        }
        let now = again(files, host, journal);
        if now != trouble {
            match now.as_str() {
                "" => output::tell("the problem no longer exists"),
                now => output::tell(&format!("warning: {now}")),
            }
            trouble = now;
        }
    }
}

/// Does what is to be done again; returns what is wrong.
fn again(files: &mut dyn Files, host: &Host, journal: &mut Journal) -> String {
    let plan = Plan::new(files, host);
    if let Some(problem) = plan.problems.first() {
        // A device or a unit that is not there now may come back: the others are not changed for it.
        return problem.to_string();
    }
    // What is left is left each time.
    let mut wrong = Vec::new();
    let mut say = |said: &Said| match said {
        Said::Left { .. } => wrong.push(said.to_string()),
        _ => output::tell(&said.to_string()),
    };
    let done = weir_linux::apply(files, &plan, journal, &mut say);
    wrong.extend(done.err().map(|failed| failed.to_string()));
    wrong.join("; ")
}
