//! The table of a shared minimum, as the store holds it.

/// A part of a minimum, in 1/65536.
pub type MinimumPart = u32;

/// The whole minimum, as a [`MinimumPart`].
pub const ONE: MinimumPart = 1 << 16;

/// The identifier of a lease, which the store assigns and never reuses. The row of a server is
/// named by its lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lease(pub u64);

/// A minimum as a server's configuration states it. Zeroes promise nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StatedMinimum {
    /// The promised bytes per second.
    pub bytes: u64,
    /// The promised requests per second.
    pub requests: u64,
}

impl StatedMinimum {
    /// The largest value, which exceeds every configuration.
    pub const ANY: Self = Self {
        bytes: u64::MAX,
        requests: u64::MAX,
    };

    /// Returns the smaller rate of the two minimums, for bytes and for requests separately.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            requests: self.requests.min(other.requests),
        }
    }

    /// Returns a part of the minimum, rounded down.
    #[must_use]
    pub fn part(self, part: MinimumPart) -> Self {
        // The product of a rate and a part can exceed 64 bits.
        let of = |all: u64| (u128::from(all) * u128::from(part) / u128::from(ONE)) as u64;
        Self {
            bytes: of(self.bytes),
            requests: of(self.requests),
        }
    }
}

/// The row of a server, which the server itself has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberRow {
    /// The lease of the server.
    pub lease: Lease,
    /// The part of the minimum that the server may promise.
    pub part: MinimumPart,
    /// The part of the minimum that the server could use.
    pub demand: MinimumPart,
    /// The whole minimum, as stated by the server's configuration.
    pub stated: StatedMinimum,
}

impl MemberRow {
    /// Returns the substitute for a row that cannot be read. It assumes that the server holds all
    /// of the minimum.
    pub fn unreadable(lease: Lease) -> Self {
        Self {
            lease,
            part: ONE,
            demand: ONE,
            stated: StatedMinimum::ANY,
        }
    }
}

/// All rows at one time, in the order of their leases.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MemberTable {
    /// A number that changes with each write. The removal of a row with its lease does not change
    /// it, because the removal only leaves more to the other servers.
    pub generation: u64,
    /// The rows of all live servers.
    pub rows: Vec<MemberRow>,
}

impl MemberTable {
    /// Returns the row of a lease, if there is one.
    pub fn row(&self, lease: Lease) -> Option<&MemberRow> {
        self.rows.iter().find(|row| row.lease == lease)
    }

    /// Returns the part of the minimum that is not taken by rows of other leases.
    pub fn left_by_others(&self, lease: Lease) -> MinimumPart {
        let others = self.rows.iter().filter(|row| row.lease != lease);
        // Saturating, because unreadable rows count as the whole minimum, so that the sum can
        // exceed it.
        ONE.saturating_sub(
            others
                .map(|row| row.part)
                .fold(0, MinimumPart::saturating_add),
        )
    }
}
