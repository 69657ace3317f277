//! The representation in etcd: keys, and rows as text.

use crate::gateway::table::{Lease, MemberRow, MinimumPart, ONE, StatedMinimum};

/// The keys of one minimum.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// The common prefix of all keys, which ends with a slash.
    pub(super) all: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, name: &str) -> Self {
        Self {
            all: format!("{prefix}/{name}/"),
        }
    }

    /// Returns the first key after all keys of the minimum.
    pub(super) fn end(&self) -> String {
        // '0' follows '/' in ASCII.
        let all = self.all.strip_suffix('/').unwrap_or(&self.all);
        format!("{all}0")
    }

    pub(super) fn generation(&self) -> String {
        format!("{}generation", self.all)
    }

    pub(super) fn row(&self, lease: Lease) -> String {
        format!("{}member/{:016x}", self.all, lease.0)
    }

    /// Returns the lease in the key of a row, or `None` if the key does not have the form that
    /// [`Keys::row`] creates.
    pub(super) fn lease(&self, key: &str) -> Option<Lease> {
        let name = key.strip_prefix(&self.all)?.strip_prefix("member/")?;
        let lease = Lease(u64::from_str_radix(name, 16).ok()?);
        // Without this comparison, several spellings of a number would name the same lease.
        (self.row(lease) == key).then_some(lease)
    }

    /// Returns true if the key is that of a row, readable or not.
    pub(super) fn is_row(&self, key: &str) -> bool {
        key.strip_prefix(&self.all)
            .is_some_and(|name| name.starts_with("member/"))
    }
}

/// Formats a row as readable text. `by` identifies its owner.
pub(super) fn write(row: &MemberRow, by: &str) -> String {
    let StatedMinimum { bytes, requests } = row.stated;
    format!(
        "part={}/{ONE} demand={}/{ONE} min={bytes} min_iops={requests} by={by}",
        row.part, row.demand
    )
}

/// Parses the row of a lease from its text, or returns `None` if the text has another form. Unknown
/// words are ignored, so that later versions can add some.
pub(super) fn read(lease: Lease, text: &str) -> Option<MemberRow> {
    let word = |name: &str| {
        let mut words = text.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    // A part is a fraction of `ONE`. Another denominator belongs to a version that counts
    // differently.
    let part = |name: &str| {
        let (part, of) = word(name)?.split_once('/')?;
        let part: MinimumPart = part.parse().ok()?;
        (of.parse() == Ok(ONE) && part <= ONE).then_some(part)
    };
    Some(MemberRow {
        lease,
        part: part("part")?,
        demand: part("demand")?,
        stated: StatedMinimum {
            bytes: word("min")?.parse().ok()?,
            requests: word("min_iops")?.parse().ok()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_writing_and_other_text_is_refused() {
        let row = MemberRow {
            lease: Lease(7),
            part: 21_845,
            demand: ONE,
            stated: StatedMinimum {
                bytes: 10_000_000,
                requests: 100,
            },
        };
        let text = write(&row, "host/17");
        assert_eq!(
            text,
            "part=21845/65536 demand=65536/65536 min=10000000 min_iops=100 by=host/17"
        );
        assert_eq!(read(Lease(7), &text), Some(row));
        assert_eq!(read(Lease(7), &format!("{text} later=1")), Some(row));
        for wrong in [
            "",
            "hello",
            "part=1/2 demand=1/2 min=1 min_iops=0",
            "part=65537/65536 demand=1/65536 min=1 min_iops=0",
            "part=1/65536 demand=1/65536 min=-1 min_iops=0",
            "part=1/65536 min=1 min_iops=0",
        ] {
            assert_eq!(read(Lease(7), wrong), None, "{wrong}");
        }
    }

    /// The entries that a server of 0.1 wrote to an etcd, each as a key and a value.
    #[test]
    fn entries_of_0_1_are_read() {
        let text = include_str!("../../../../cli/tests/data/0.1/etcd.txt");
        let keys = Keys::new("/weir", "alpha");
        let mut entries = text.lines().filter_map(|line| line.split_once(' '));
        assert_eq!(entries.next().unwrap().0, keys.generation());
        let (key, value) = entries.next().unwrap();
        let row = MemberRow {
            lease: Lease(0x694d_a229_7c4f_9205),
            part: 1024,
            demand: 0,
            stated: StatedMinimum {
                bytes: 10_000_000,
                requests: 0,
            },
        };
        assert_eq!(keys.lease(key), Some(row.lease));
        assert_eq!(read(row.lease, value), Some(row));
        // A server of 0.1 also has to read what this program writes.
        assert_eq!(write(&row, "vm/31734"), value);
    }

    #[test]
    fn a_row_key_contains_its_lease() {
        let keys = Keys::new("/weir", "alpha");
        let key = keys.row(Lease(0x694d_7a6f));
        assert_eq!(key, "/weir/alpha/member/00000000694d7a6f");
        assert_eq!(keys.lease(&key), Some(Lease(0x694d_7a6f)));
        for other in ["member/694d7a6f", "member/x", "generation", "membership"] {
            assert_eq!(keys.lease(&format!("/weir/alpha/{other}")), None, "{other}");
        }
        assert!(keys.is_row("/weir/alpha/member/x") && !keys.is_row("/weir/alpha/generation"));
        // `end` includes all rows but no key of the minimum `alpha2`.
        assert!(keys.all < key && key < keys.end());
        assert!(
            keys.end().as_str() < "/weir/alpha2/" || keys.end().as_str() > "/weir/alpha2/member"
        );
    }
}
