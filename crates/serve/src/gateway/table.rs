//! What the store holds for a volume.

/// A part of a minimum, in 65536ths.
pub type Part = u32;

/// All of a minimum.
pub const ONE: Part = 1 << 16;

/// The name of a lease, as the store gives it: no two are the same. A row is named by the lease that it goes with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lease(pub u64);

/// A minimum as a server's configuration states it. Zero promises nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stated {
    /// Bytes a second.
    pub bytes: u64,
    /// Requests a second.
    pub requests: u64,
}

impl Stated {
    /// More than any configuration states.
    pub const ANY: Self = Self {
        bytes: u64::MAX,
        requests: u64::MAX,
    };

    /// What both of two state.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            requests: self.requests.min(other.requests),
        }
    }

    /// A part of it, rounded down.
    #[must_use]
    pub fn part(self, part: Part) -> Self {
        let of = |all: u64| (u128::from(all) * u128::from(part) / u128::from(ONE)) as u64;
        Self {
            bytes: of(self.bytes),
            requests: of(self.requests),
        }
    }
}

/// What a server has written of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its lease.
    pub lease: Lease,
    /// The part of the minimum that it may promise.
    pub part: Part,
    /// The part that it could use.
    pub demand: Part,
    /// The whole, as it knows it.
    pub stated: Stated,
}

impl Row {
    /// What cannot be read: it may be a server's that has all of the minimum.
    pub fn unreadable(lease: Lease) -> Self {
        Self {
            lease,
            part: ONE,
            demand: ONE,
            stated: Stated::ANY,
        }
    }
}

/// All rows at an instant, in the order of their leases.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Table {
    /// Another number with each write. A row that goes with its lease does not change it: that only leaves more.
    pub generation: u64,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// The row of a lease.
    pub fn row(&self, lease: Lease) -> Option<&Row> {
        self.rows.iter().find(|row| row.lease == lease)
    }

    /// What rows other than a lease's leave of the minimum.
    pub fn left_by_others(&self, lease: Lease) -> Part {
        let others = self.rows.iter().filter(|row| row.lease != lease);
        ONE.saturating_sub(others.map(|row| row.part).fold(0, Part::saturating_add))
    }
}
