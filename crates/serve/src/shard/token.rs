//! User values of operations on the ring: what kind of operation, and whose.

/// Whose operation has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// An operation of a client's front end.
    Front { slot: u32, op: u32 },
    /// An operation of the backend of a drive's volume.
    Backend { drive: usize, space: u32, op: u32 },
}

const BACKEND: u64 = 1 << 63;

/// Most drives of one shard.
pub(crate) const DRIVES_MAX: usize = 1 << 13;
/// Spaces are numbered below this.
pub(crate) const SPACES_MAX: u32 = 1 << 17;

pub(crate) fn front(slot: u32, op: u32) -> u64 {
    debug_assert!(op < 1 << 31);
    u64::from(op) << 32 | u64::from(slot)
}

/// The part that all operations of a backend share; the low 32 bits are its own.
pub(crate) fn backend(drive: usize, space: u32) -> u64 {
    debug_assert!(drive < DRIVES_MAX && space < SPACES_MAX);
    BACKEND | (drive as u64) << 49 | u64::from(space) << 32
}

pub(crate) fn parse(token: u64) -> Token {
    let low = token as u32;
    if token & BACKEND != 0 {
        Token::Backend {
            drive: (token >> 49) as usize % DRIVES_MAX,
            space: (token >> 32) as u32 % SPACES_MAX,
            op: low,
        }
    } else {
        Token::Front {
            slot: low,
            op: (token >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for (slot, op) in [(0, 0), (u32::MAX, 1), (7, (1 << 31) - 1)] {
            assert_eq!(parse(front(slot, op)), Token::Front { slot, op });
        }
        for (drive, space, op) in [
            (0, 0, 0),
            (DRIVES_MAX - 1, SPACES_MAX - 1, u32::MAX),
            (3, 65_536, 9),
        ] {
            let token = backend(drive, space) | u64::from(op);
            assert_eq!(parse(token), Token::Backend { drive, space, op });
        }
    }
}
