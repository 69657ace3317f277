//! User values of operations on the ring: what kind of operation, and whose.

/// Whose operation has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// A connection's receive.
    Receive(u32),
    /// A connection's send.
    Send(u32),
    /// An operation of the backend of a drive's volume.
    Backend { drive: usize, space: u32, op: u32 },
}

const BACKEND: u64 = 1 << 63;
const SEND: u64 = 1 << 62;

/// Most drives of one shard.
pub(crate) const DRIVES_MAX: usize = 1 << 13;
/// Spaces are numbered below this.
pub(crate) const SPACES_MAX: u32 = 1 << 17;

pub(crate) fn receive(connection: u32) -> u64 {
    u64::from(connection)
}

pub(crate) fn send(connection: u32) -> u64 {
    SEND | u64::from(connection)
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
    } else if token & SEND != 0 {
        Token::Send(low)
    } else {
        Token::Receive(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        assert_eq!(parse(receive(u32::MAX)), Token::Receive(u32::MAX));
        assert_eq!(parse(send(7)), Token::Send(7));
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
