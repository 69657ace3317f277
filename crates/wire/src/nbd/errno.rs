//! The error values that a reply can contain.

/// An error value of the protocol. The discriminant is the value on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u32)]
pub enum Errno {
    /// EPERM: not permitted, such as a write on a read-only export.
    #[error("operation not permitted")]
    Perm = 1,
    /// EIO: the storage failed.
    #[error("input/output error")]
    Io = 5,
    /// ENOMEM: no memory. A server should avoid it (`proto.md`, Error values).
    #[error("cannot allocate memory")]
    NoMem = 12,
    /// EINVAL: the request is invalid.
    #[error("invalid argument")]
    Inval = 22,
    /// ENOSPC: no space, or a write beyond the end.
    #[error("no space left on device")]
    NoSpc = 28,
    /// EOVERFLOW: the reply to a READ with the flag DF does not fit into one chunk, or a range
    /// without payload is too long.
    #[error("value too large")]
    Overflow = 75,
    /// ENOTSUP: zeroing is not faster than writing. Only for `WRITE_ZEROES` with the flag
    /// `FAST_ZERO`.
    #[error("operation not supported")]
    NotSup = 95,
    /// ESHUTDOWN: the server is shutting down.
    #[error("server is shutting down")]
    Shutdown = 108,
}

impl Errno {
    /// Returns the value of the error on the wire.
    #[inline]
    pub const fn to_wire(self) -> u32 {
        self as u32
    }

    /// Returns the error of a reply, or `None` for 0. An unknown value counts as EINVAL, as
    /// `proto.md` recommends (Error values).
    pub const fn from_wire(value: u32) -> Option<Self> {
        Some(match value {
            0 => return None,
            1 => Self::Perm,
            5 => Self::Io,
            12 => Self::NoMem,
            28 => Self::NoSpc,
            75 => Self::Overflow,
            95 => Self::NotSup,
            108 => Self::Shutdown,
            _ => Self::Inval,
        })
    }

    /// Returns the error to reply for an error number of Linux.
    ///
    /// EROFS and EACCES become EPERM. EDQUOT and EFBIG become ENOSPC, as `proto.md` recommends
    /// (Error values). A number without a counterpart becomes EIO.
    pub const fn from_os(number: i32) -> Self {
        match number {
            // EPERM, EACCES and EROFS.
            1 | 13 | 30 => Self::Perm,
            12 => Self::NoMem,
            22 => Self::Inval,
            // EFBIG, ENOSPC and EDQUOT.
            27 | 28 | 122 => Self::NoSpc,
            75 => Self::Overflow,
            95 => Self::NotSup,
            108 => Self::Shutdown,
            _ => Self::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Errno; 8] = [
        Errno::Perm,
        Errno::Io,
        Errno::NoMem,
        Errno::Inval,
        Errno::NoSpc,
        Errno::Overflow,
        Errno::NotSup,
        Errno::Shutdown,
    ];

    #[test]
    fn wire_values_round_trip() {
        assert_eq!(ALL.map(Errno::to_wire), [1, 5, 12, 22, 28, 75, 95, 108]);
        for errno in ALL {
            assert_eq!(Errno::from_wire(errno.to_wire()), Some(errno));
        }
        assert_eq!(Errno::from_wire(0), None);
        assert_eq!(Errno::from_wire(4711), Some(Errno::Inval));
    }

    #[test]
    fn os_errors_map_as_the_protocol_asks() {
        for (number, errno) in [
            (1, Errno::Perm),
            (13, Errno::Perm),
            (12, Errno::NoMem),
            (22, Errno::Inval),
            (75, Errno::Overflow),
            (95, Errno::NotSup),
            (108, Errno::Shutdown),
            (30, Errno::Perm),
            (27, Errno::NoSpc),
            (122, Errno::NoSpc),
            (28, Errno::NoSpc),
            (5, Errno::Io),
            (16, Errno::Io),
        ] {
            assert_eq!(Errno::from_os(number), errno, "error number {number}");
        }
    }
}
