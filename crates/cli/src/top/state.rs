//! The state of `weir top`: a state machine that changes with news and keys and does not need a
//! terminal.
//!
//! The calls are [`TopState::on_news`] for news and [`TopState::on_key`] for keys. The other
//! functions are read by `draw`.

use super::row::{RowKind, TopColumn, TopRow};
use super::watch::ServerNews;
use std::collections::{BTreeMap, VecDeque};
use weir_manage::api::{Event, Second, ShortSecond, Status};

/// The number of seconds that are kept for sparklines.
const REMEMBERED: usize = 180;
/// The number of short seconds that are kept.
const SHORT: usize = 16;

/// A key that has a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPress {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    Left,
    Right,
    /// Moves by this number of rows, down if it is positive.
    Rows(isize),
    /// Moves by this number of screens, down if it is positive.
    Pages(isize),
    Home,
    End,
    /// The key combination Control and C.
    Interrupt,
}

/// The decision whether the display continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopFlow {
    On,
    End,
}

/// Everything that the display shows, and the position in it.
#[derive(Debug, Default)]
pub(super) struct TopState {
    status: Status,
    /// The recent values of each drive, tenant and volume, with the latest one at the end. The
    /// character is the kind of item: `d`, `t` or `v`.
    histories: BTreeMap<(char, String), VecDeque<u64>>,
    /// The most recent short seconds, with the latest one at the front.
    short: VecDeque<ShortSecond>,
    /// The reason why the server does not reply, while it does not.
    lost: Option<String>,
    kind: RowKind,
    sort: TopColumn,
    reverse: bool,
    filter: String,
    /// True while the user types the filter.
    typing: bool,
    /// True while the help is shown.
    helping: bool,
    /// The name of the selected row. The row stays selected when it moves.
    chosen: Option<String>,
    /// The number of rows that fit on the screen, as of the last drawing.
    page: usize,
}

impl TopState {
    pub(super) fn new(status: Status) -> Self {
        Self {
            status,
            page: 1,
            ..Self::default()
        }
    }

    /// Processes news of the server.
    pub(super) fn on_news(&mut self, news: ServerNews) {
        match news {
            ServerNews::Status(status) => {
                self.status = *status;
                self.lost = None;
                self.forget();
            }
            ServerNews::Event(Event::Second(second)) => self.second(second),
            ServerNews::Event(Event::Short(short)) => self.on_short_second(short),
            // A change is followed by a complete status, for which [`super::watch::follow`] asks.
            ServerNews::Event(Event::Change(_)) => {}
            ServerNews::Lost(why) => self.lost = Some(why),
        }
    }

    /// Processes the figures of one second.
    fn second(&mut self, second: Second) {
        self.status.uptime_seconds += 1;
        for now in second.drives {
            let busy = (now.busy * 1000.0) as u64;
            self.remember('d', &now.name, busy);
            if let Some(drive) = self.status.drives.iter_mut().find(|d| d.name == now.name) {
                drive.now = now;
            }
        }
        // The index avoids a search for each item, because there can be thousands.
        let mut places = places(&self.status.tenants, |t| &t.name);
        for now in second.tenants {
            if let Some(at) = places.remove(&now.name) {
                self.remember('t', &now.name, now.bytes_per_second);
                self.status.tenants[at].now = now;
            }
        }
        let mut places = self::places(&self.status.volumes, |v| &v.name);
        for now in second.volumes {
            if let Some(at) = places.remove(&now.name) {
                self.remember('v', &now.name, now.bytes_per_second);
                self.status.volumes[at].now = now;
            }
        }
    }

    /// Counts a short second for its volume or tenant, and remembers it.
    fn on_short_second(&mut self, short: ShortSecond) {
        let count = |causes: &mut BTreeMap<String, u64>| {
            *causes.entry(short.cause.clone()).or_default() += 1;
        };
        match short.of.split_once('.') {
            Some(("volume", name)) => {
                let mut volumes = self.status.volumes.iter_mut();
                if let Some(volume) = volumes.find(|v| v.name == name) {
                    count(&mut volume.seconds.short);
                }
            }
            Some(("tenant", name)) => {
                let mut tenants = self.status.tenants.iter_mut();
                if let Some(tenant) = tenants.find(|t| t.name == name) {
                    count(&mut tenant.seconds.short);
                }
            }
            _ => {}
        }
        // The oldest short second makes space for the new one.
        self.short.truncate(SHORT - 1);
        self.short.push_front(short);
    }

    /// Appends a value to the history of an item, and removes the oldest value if the history is
    /// full.
    fn remember(&mut self, kind: char, name: &str, value: u64) {
        let history = self.histories.entry((kind, name.to_owned())).or_default();
        if history.len() == REMEMBERED {
            history.pop_front();
        }
        history.push_back(value);
    }

    /// Removes the histories of items that no longer exist.
    fn forget(&mut self) {
        let status = &self.status;
        let drives = status.drives.iter().map(|d| ('d', &d.name));
        let tenants = status.tenants.iter().map(|t| ('t', &t.name));
        let volumes = status.volumes.iter().map(|v| ('v', &v.name));
        let there: std::collections::BTreeSet<_> = drives.chain(tenants).chain(volumes).collect();
        self.histories
            .retain(|(kind, name), _| there.contains(&(*kind, name)));
    }

    /// Processes a key. Control and C end the display in every mode.
    pub(super) fn on_key(&mut self, key: KeyPress) -> LoopFlow {
        if key == KeyPress::Interrupt {
            return LoopFlow::End;
        }
        if self.typing {
            self.type_filter(key);
            return LoopFlow::On;
        }
        // Any key closes the help.
        if self.helping {
            self.helping = false;
            return LoopFlow::On;
        }
        match key {
            KeyPress::Char('q') => return LoopFlow::End,
            KeyPress::Char('/') => self.typing = true,
            KeyPress::Char('?' | 'h') => self.helping = true,
            KeyPress::Char('r') => self.reverse = !self.reverse,
            KeyPress::Char('j') => self.choose(1),
            KeyPress::Char('k') => self.choose(-1),
            KeyPress::Tab => self.switch_kind(),
            KeyPress::Left => self.sort = self.sort.beside(-1),
            KeyPress::Right => self.sort = self.sort.beside(1),
            KeyPress::Rows(rows) => self.choose(rows),
            KeyPress::Pages(pages) => self.choose(pages * isize::try_from(self.page).unwrap_or(1)),
            // Half of the range moves to an end from any row, and cannot overflow.
            KeyPress::Home => self.choose(isize::MIN / 2),
            KeyPress::End => self.choose(isize::MAX / 2),
            KeyPress::Escape => self.filter.clear(),
            _ => {}
        }
        LoopFlow::On
    }

    /// Edits the filter. Escape clears it, and Enter ends the input.
    fn type_filter(&mut self, key: KeyPress) {
        match key {
            KeyPress::Char(c) => self.filter.push(c),
            KeyPress::Backspace => drop(self.filter.pop()),
            KeyPress::Escape => {
                self.filter.clear();
                self.typing = false;
            }
            KeyPress::Enter => self.typing = false,
            _ => {}
        }
    }

    /// Switches between volumes and tenants.
    fn switch_kind(&mut self) {
        self.kind = match self.kind {
            RowKind::Volumes => RowKind::Tenants,
            RowKind::Tenants => RowKind::Volumes,
        };
        // Volumes and tenants can have equal names, so the selection does not carry over.
        self.chosen = None;
    }

    /// Selects the row that is `by` rows further down, or the first or last row if there is no such
    /// row.
    fn choose(&mut self, by: isize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else {
            return;
        };
        let at = self.place(&rows).saturating_add_signed(by).min(last);
        self.chosen = Some(rows[at].name.to_owned());
    }

    /// Returns the index of the selected row, or 0 if no row is selected.
    pub(super) fn place(&self, rows: &[TopRow<'_>]) -> usize {
        let is_chosen = |row: &TopRow<'_>| Some(row.name) == self.chosen.as_deref();
        rows.iter().position(is_chosen).unwrap_or(0)
    }

    /// Returns the rows that match the filter, in the selected order.
    pub(super) fn rows(&self) -> Vec<TopRow<'_>> {
        self.rows_of(self.kind)
    }

    /// Returns the rows of volumes or tenants that match the filter, in the selected order.
    pub(super) fn rows_of(&self, kind: RowKind) -> Vec<TopRow<'_>> {
        let mut rows = TopRow::all(&self.status, kind);
        let filter = self.filter.to_lowercase();
        rows.retain(|row| row.matches(&filter));
        rows.sort_by(|a, b| {
            let order = a.order(b, self.sort);
            if self.reverse { order.reverse() } else { order }
        });
        rows
    }

    /// Returns the recent throughput of a volume or tenant in bytes per second, with the latest
    /// value at the end.
    pub(super) fn history(&self, row: &TopRow<'_>) -> Vec<u64> {
        let kind = if row.volume.is_some() { 'v' } else { 't' };
        self.history_of(kind, row.name)
    }

    /// Returns the recent load of a drive in thousandths of the time, with the latest value at the
    /// end.
    pub(super) fn busy(&self, drive: &str) -> Vec<u64> {
        self.history_of('d', drive)
    }

    fn history_of(&self, kind: char, name: &str) -> Vec<u64> {
        let history = self.histories.get(&(kind, name.to_owned()));
        history.map_or_else(Vec::new, |history| history.iter().copied().collect())
    }

    /// Returns the present state of the server.
    pub(super) fn status(&self) -> &Status {
        &self.status
    }

    /// Returns the most recent short second.
    pub(super) fn last_short(&self) -> Option<&ShortSecond> {
        self.short.front()
    }

    /// Returns the reason why the server does not reply, or `None` if it replies.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    pub(super) fn kind(&self) -> RowKind {
        self.kind
    }

    pub(super) fn sort(&self) -> (TopColumn, bool) {
        (self.sort, self.reverse)
    }

    /// Returns the filter, and true if the user is typing it.
    pub(super) fn filter(&self) -> (&str, bool) {
        (&self.filter, self.typing)
    }

    pub(super) fn is_helping(&self) -> bool {
        self.helping
    }

    /// Sets the number of rows that fit on the screen.
    pub(super) fn set_page(&mut self, rows: usize) {
        self.page = rows.max(1);
    }
}

/// Returns the index of each item, by its name.
fn places<T>(all: &[T], name: impl Fn(&T) -> &String) -> BTreeMap<String, usize> {
    let places = all.iter().enumerate();
    places.map(|(at, one)| (name(one).clone(), at)).collect()
}
