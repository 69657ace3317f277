//! Sets of flags of exports, requests and extents.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

macro_rules! flag_set {
    (
        $(#[$set_doc:meta])*
        $set:ident($bits:ty) { $($(#[$doc:meta])* $flag:ident = $bit:literal;)* }
    ) => {
        $(#[$set_doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $set($bits);

        impl $set {
            $($(#[$doc])* pub const $flag: Self = Self(1 << $bit);)*

            /// The empty set of flags.
            pub const EMPTY: Self = Self(0);

            /// Creates a set from its bits on the wire. Bits without a name are kept.
            #[inline]
            pub const fn from_bits(bits: $bits) -> Self {
                Self(bits)
            }

            /// Returns the bits of the set on the wire.
            #[inline]
            pub const fn bits(self) -> $bits {
                self.0
            }

            /// Returns true if every flag of `other` is in this set.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns this set with the flags of `other`.
            #[inline]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Returns this set without the flags of `other`.
            #[inline]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl BitOr for $set {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl BitOrAssign for $set {
            fn bitor_assign(&mut self, other: Self) {
                *self = self.with(other);
            }
        }

        impl fmt::Debug for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let named = [$((stringify!($flag), u32::from(Self::$flag.0))),*];
                write_names(f, u32::from(self.0), &named)
            }
        }
    };
}

flag_set! {
    /// The features of an export, as sent to the client (`NBD_FLAG_*`). `HAS_FLAGS` is added when
    /// the flags are sent.
    TransmissionFlags(u16) {
        /// The field is valid. This flag is always set on the wire.
        HAS_FLAGS = 0;
        /// The export is read-only, so that writes are refused with EPERM.
        READ_ONLY = 1;
        /// The server supports the command FLUSH.
        SEND_FLUSH = 2;
        /// The server supports the flag FUA.
        SEND_FUA = 3;
        /// The medium rotates, so that seeks are expensive.
        ROTATIONAL = 4;
        /// The server supports the command TRIM.
        SEND_TRIM = 5;
        /// The server supports `WRITE_ZEROES` and its flag `NO_HOLE`.
        SEND_WRITE_ZEROES = 6;
        /// The server supports the flag DF. It is sent only if structured replies were negotiated.
        SEND_DF = 7;
        /// A FLUSH or FUA on one connection also covers writes that completed on other connections.
        CAN_MULTI_CONN = 8;
        /// The server supports the command CACHE.
        SEND_CACHE = 10;
        /// The server supports the flag `FAST_ZERO`. It is sent only together with
        /// `SEND_WRITE_ZEROES`.
        SEND_FAST_ZERO = 11;
    }
}

flag_set! {
    /// The flags of one request (`NBD_CMD_FLAG_*`).
    CommandFlags(u16) {
        /// The reply must wait until the data is on stable storage.
        FUA = 0;
        /// `WRITE_ZEROES` must not punch a hole.
        NO_HOLE = 1;
        /// READ must be answered with at most one data chunk.
        DF = 2;
        /// `BLOCK_STATUS` must report one extent, which is no longer than the requested range.
        REQ_ONE = 3;
        /// `WRITE_ZEROES` must fail with ENOTSUP if it is no faster than writing.
        FAST_ZERO = 4;
    }
}

flag_set! {
    /// The state of an extent in the context `base:allocation`.
    ExtentFlags(u32) {
        /// The extent is not allocated.
        HOLE = 0;
        /// The extent reads as zeroes.
        ZERO = 1;
    }
}

/// Writes the names of the flags that are set, then the unnamed bits in hexadecimal.
fn write_names(f: &mut fmt::Formatter<'_>, bits: u32, named: &[(&str, u32)]) -> fmt::Result {
    let mut rest = bits;
    let mut separator = "";
    for (name, flag) in named.iter().filter(|(_, flag)| bits & flag != 0) {
        write!(f, "{separator}{name}")?;
        separator = " | ";
        rest &= !flag;
    }
    if rest != 0 || bits == 0 {
        write!(f, "{separator}{rest:#x}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_names_known_flags_and_keeps_the_rest() {
        let flags = TransmissionFlags::READ_ONLY | TransmissionFlags::SEND_CACHE;
        assert_eq!(format!("{flags:?}"), "READ_ONLY | SEND_CACHE");
        assert_eq!(
            // Bit 15 has no name, so it is printed in hexadecimal.
            format!("{:?}", CommandFlags::from_bits(0x8001)),
            "FUA | 0x8000"
        );
        assert_eq!(format!("{:?}", ExtentFlags::EMPTY), "0x0");
    }

    #[test]
    fn sets_behave_like_sets() {
        let both = CommandFlags::FUA | CommandFlags::NO_HOLE;
        assert!(both.contains(CommandFlags::FUA));
        assert!(both.contains(CommandFlags::EMPTY));
        assert!(!CommandFlags::FUA.contains(both));
        assert_eq!(both.without(CommandFlags::FUA), CommandFlags::NO_HOLE);
    }
}
