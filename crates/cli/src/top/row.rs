//! A row of the table: a volume, or a tenant with all of its volumes.

use super::figure::{count, percent, rate, requests, time};
use super::look::NAME_MIN;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use weir_manage::api::{Contract, Latency, SecondCounts, Status, Tenant, Volume};

/// The kind of rows that the table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum RowKind {
    #[default]
    Volumes,
    Tenants,
}

/// A column of the table. Rows can be sorted by any column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TopColumn {
    #[default]
    Name,
    Promised,
    Got,
    Part,
    Share,
    Limit,
    Elevator,
    Drive,
    Queue,
    By,
    Short,
}

impl TopColumn {
    pub(super) const ALL: [Self; 11] = [
        Self::Name,
        Self::Promised,
        Self::Got,
        Self::Part,
        Self::Share,
        Self::Limit,
        Self::Elevator,
        Self::Drive,
        Self::Queue,
        Self::By,
        Self::Short,
    ];

    /// The columns that a narrow screen omits, in the order in which they are omitted.
    const DROPPED: [Self; 10] = [
        Self::Share,
        Self::Part,
        Self::Queue,
        Self::Limit,
        Self::Elevator,
        Self::Drive,
        Self::By,
        Self::Promised,
        Self::Short,
        Self::Got,
    ];

    /// Returns the title and the width of a column. The name has the width 0, because it gets the
    /// remaining width.
    pub(super) const fn look(self) -> (&'static str, u16) {
        match self {
            Self::Name => ("NAME", 0),
            Self::Promised => ("PROMISED", 8),
            Self::Got => ("GOT", 8),
            Self::Part => ("PART", 4),
            Self::Share => ("SHARE", 5),
            Self::Limit => ("LIMIT", 5),
            Self::Elevator => ("ELEV", 5),
            Self::Drive => ("DRIVE", 5),
            Self::Queue => ("QUEUE", 5),
            Self::By => ("LIMITED BY", 12),
            Self::Short => ("SHORT", 5),
        }
    }

    /// Returns the columns that fit on a screen of `width` columns, next to a name of at least
    /// [`NAME_MIN`] columns.
    ///
    /// If they do not all fit, the least important ones are omitted. They are not clipped, because
    /// a number without its first digits would be wrong.
    pub(super) fn shown(width: u16) -> Vec<Self> {
        let mut shown = Self::ALL.to_vec();
        for dropped in Self::DROPPED {
            // A space follows each column.
            let others = shown.iter().map(|column| column.look().1 + 1);
            if NAME_MIN - 1 + others.sum::<u16>() <= width {
                break;
            }
            shown.retain(|column| *column != dropped);
        }
        shown
    }

    /// Returns true if the column contains text, and false if it contains numbers.
    pub(super) const fn is_text(self) -> bool {
        matches!(self, Self::Name | Self::By)
    }

    /// Returns the column that is `step` columns further to the right, and begins again at the
    /// other end.
    pub(super) fn beside(self, step: isize) -> Self {
        let at = Self::ALL.iter().position(|c| *c == self).unwrap_or(0);
        let all = Self::ALL.len();
        Self::ALL[at.wrapping_add_signed(step).wrapping_add(all) % all]
    }
}

/// The values of one row.
#[derive(Debug, Clone)]
pub(super) struct TopRow<'a> {
    pub(super) name: &'a str,
    pub(super) drive: &'a str,
    pub(super) tenant: Option<&'a str>,
    pub(super) contract: &'a Contract,
    /// The promise of this server, in bytes per second and in requests per second.
    promised: (u64, u64),
    bytes: u64,
    requests: u64,
    /// The fraction of the drive's bytes that the row should get by its share. `part` is the
    /// fraction that it got.
    share: f64,
    part: f64,
    latency: Option<Latency>,
    /// The number of requests that are not completed.
    pub(super) queue: u32,
    /// The cause that limits the throughput, or `None` if there are no requests.
    pub(super) limited_by: Option<&'a str>,
    /// The cause if the last second was short.
    pub(super) short_now: Option<&'a str>,
    /// The number of short seconds since the start of the server.
    short: u64,
    /// The volume of the row, or `None` for a tenant.
    pub(super) volume: Option<&'a Volume>,
}

impl<'a> TopRow<'a> {
    /// Returns a row for each volume or tenant.
    pub(super) fn all(status: &'a Status, kind: RowKind) -> Vec<Self> {
        match kind {
            RowKind::Volumes => status.volumes.iter().map(Self::of_volume).collect(),
            RowKind::Tenants => {
                let mut members = BTreeMap::<&str, Vec<&Volume>>::new();
                for volume in &status.volumes {
                    if let Some(tenant) = &volume.tenant {
                        members.entry(tenant).or_default().push(volume);
                    }
                }
                let tenants = status.tenants.iter();
                let of = |tenant: &'a Tenant| {
                    let members = members.get(tenant.name.as_str());
                    Self::of_tenant(tenant, members.map_or(&[], Vec::as_slice))
                };
                tenants.map(of).collect()
            }
        }
    }

    fn of_volume(volume: &'a Volume) -> Self {
        let now = &volume.now;
        Self {
            name: &volume.name,
            drive: &volume.drive,
            tenant: volume.tenant.as_deref(),
            contract: &volume.contract,
            promised: volume.promised(),
            bytes: now.bytes_per_second,
            requests: now.requests_per_second,
            share: now.share,
            part: now.got,
            latency: now.latency,
            queue: now.queue,
            limited_by: now.limited_by.as_deref(),
            short_now: now.short.as_deref(),
            short: volume.seconds.all_short(),
            volume: Some(volume),
        }
    }

    fn of_tenant(tenant: &'a Tenant, members: &[&'a Volume]) -> Self {
        let now = &tenant.now;
        let sum = |of: fn(&Volume) -> f64| members.iter().map(|v| of(v)).sum::<f64>();
        let latency = mean_latency(members);
        // The status of a tenant does not name its drive, but its configuration does.
        let drive = tenant.config.get("drive").and_then(|drive| drive.as_str());
        Self {
            name: &tenant.name,
            drive: drive.unwrap_or_default(),
            tenant: None,
            contract: &tenant.contract,
            promised: tenant.contract.promised(1.0),
            bytes: now.bytes_per_second,
            requests: now.requests_per_second,
            share: sum(|v| v.now.share),
            part: sum(|v| v.now.got),
            latency,
            queue: now.queue,
            limited_by: most(members),
            short_now: now.short.as_deref(),
            short: tenant.seconds.all_short(),
            volume: None,
        }
    }

    /// Returns true if the contract promises requests and no bytes.
    pub(super) fn is_in_requests(&self) -> bool {
        self.contract.min_bytes_per_second == 0 && self.contract.min_requests_per_second > 0
    }

    /// Returns true if a flush has failed. All later flushes fail as well.
    pub(super) fn has_failed(&self) -> bool {
        self.volume.is_some_and(|volume| volume.now.sync_failed)
    }

    /// Returns the counts of promised seconds, if the row is a volume.
    pub(super) fn seconds(&self) -> Option<&'a SecondCounts> {
        self.volume.map(|volume| &volume.seconds)
    }

    /// Returns the text of a cell.
    pub(super) fn cell(&self, column: TopColumn) -> String {
        let part = |of: fn(&Latency) -> f64| {
            self.latency
                .as_ref()
                .map_or_else(|| "-".into(), |l| time(of(l)))
        };
        match column {
            TopColumn::Name => self.name.to_owned(),
            TopColumn::Promised if self.is_in_requests() => requests(self.promised.1),
            TopColumn::Promised if self.contract.min_bytes_per_second == 0 => "-".to_owned(),
            TopColumn::Promised => rate(self.promised.0),
            TopColumn::Got if self.is_in_requests() => requests(self.requests),
            TopColumn::Got => rate(self.bytes),
            TopColumn::Part => percent(self.part),
            TopColumn::Share => percent(self.share),
            TopColumn::Limit => part(|l| l.limit_us),
            TopColumn::Elevator => part(|l| l.elevator_us),
            TopColumn::Drive => part(|l| l.drive_us),
            TopColumn::Queue => count(self.queue.into()),
            TopColumn::By if self.has_failed() => "FAILED".to_owned(),
            TopColumn::By => self.limited_by.unwrap_or("-").to_owned(),
            // The exclamation mark means that the last second was short.
            TopColumn::Short if self.short_now.is_some() => format!("!{}", count(self.short)),
            TopColumn::Short if self.short == 0 => "-".to_owned(),
            TopColumn::Short => count(self.short),
        }
    }

    /// Compares two rows by a column: names in alphabetical order, numbers in descending order.
    /// Rows that are equal are sorted by name.
    pub(super) fn order(&self, other: &Self, column: TopColumn) -> Ordering {
        let number = |of: fn(&Self) -> f64| of(other).total_cmp(&of(self));
        // Rows without a latency come after all others.
        let wait = |row: &Self, of: fn(&Latency) -> f64| row.latency.as_ref().map_or(-1.0, of);
        let waits = |of| wait(other, of).total_cmp(&wait(self, of));
        let by_column = match column {
            TopColumn::Name => Ordering::Equal,
            TopColumn::Promised => other.promised.cmp(&self.promised),
            TopColumn::Got => other.bytes.cmp(&self.bytes),
            TopColumn::Part => number(|row| row.part),
            TopColumn::Share => number(|row| row.share),
            TopColumn::Limit => waits(|l| l.limit_us),
            TopColumn::Elevator => waits(|l| l.elevator_us),
            TopColumn::Drive => waits(|l| l.drive_us),
            TopColumn::Queue => other.queue.cmp(&self.queue),
            TopColumn::By => other.limited_by.cmp(&self.limited_by),
            TopColumn::Short => {
                let short = |row: &Self| (row.short_now.is_some(), row.short);
                short(other).cmp(&short(self))
            }
        };
        // Equal rows keep their order from second to second, because names are unique.
        by_column.then_with(|| self.name.cmp(other.name))
    }

    /// Returns true if the filter matches the row: as a part of its name, drive or tenant, or as
    /// the whole cause that limits it. `text` must be in lower case.
    pub(super) fn matches(&self, text: &str) -> bool {
        let words = [self.name, self.drive, self.tenant.unwrap_or_default()];
        let contains = |word: &str| word.to_lowercase().contains(text);
        words.into_iter().any(contains) || self.limited_by == Some(text)
    }
}

/// Returns the mean latency over all requests of several volumes.
fn mean_latency(volumes: &[&Volume]) -> Option<Latency> {
    let mut all = Latency::default();
    let mut requests = 0.0;
    for volume in volumes {
        let weight = volume.now.requests_per_second as f64;
        let Some(latency) = volume.now.latency.filter(|_| weight > 0.0) else {
            continue;
        };
        requests += weight;
        all.limit_us += latency.limit_us * weight;
        all.elevator_us += latency.elevator_us * weight;
        all.drive_us += latency.drive_us * weight;
    }
    (requests > 0.0).then(|| Latency {
        limit_us: all.limit_us / requests,
        elevator_us: all.elevator_us / requests,
        drive_us: all.drive_us / requests,
    })
}

/// Returns the most frequent cause that limits the volumes of a tenant. Volumes without requests
/// have no cause.
fn most<'a>(volumes: &[&'a Volume]) -> Option<&'a str> {
    let mut counts = BTreeMap::<&str, usize>::new();
    let causes = volumes.iter().filter_map(|v| v.now.limited_by.as_deref());
    causes.for_each(|cause| *counts.entry(cause).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(cause, _)| cause)
}
