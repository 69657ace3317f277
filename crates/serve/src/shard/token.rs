//! User values of operations on the ring, which identify the owner of each operation.
//!
//! A front end's value has the slot of the client in bits 0 to 31 and the operation in bits 32 to
//! 62. A backend's value has the operation in bits 0 to 31, the space in bits 32 to 48, the drive
//! in bits 49 to 61, and bit 63 set.

/// The owner of an operation, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// An operation of a client's front end.
    Front { slot: u32, op: u32 },
    /// An operation of the backend of a drive's volume.
    Backend { drive: usize, space: u32, op: u32 },
}

/// The bit that distinguishes backends' values from those of front ends.
const BACKEND: u64 = 1 << 63;

/// The largest number of drives of one shard, so that a drive's number takes 13 bits.
pub(crate) const DRIVES_MAX: usize = 1 << 13;
/// The number of spaces of a drive, so that a space's number takes 17 bits.
pub(crate) const SPACES_MAX: u32 = 1 << 17;

/// Returns the user value of a front end's operation.
pub(crate) fn front(slot: u32, op: u32) -> u64 {
    debug_assert!(op < 1 << 31);
    u64::from(op) << 32 | u64::from(slot)
}

/// Returns the part of the value that all operations of a backend have in common. The backend uses
/// the low 32 bits.
pub(crate) fn backend(drive: usize, space: u32) -> u64 {
    debug_assert!(drive < DRIVES_MAX && space < SPACES_MAX);
    BACKEND | (drive as u64) << 49 | u64::from(space) << 32
}

/// Returns the owner of the operation with this user value.
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
