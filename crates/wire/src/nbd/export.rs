//! Exports of a server: their sizes, features and names.

use super::flags::TransmissionFlags;

/// Block-size constraints of an export, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Smallest length and alignment of a request, a power of two from 1 to 65,536.
    pub minimum: u32,
    /// Smallest length and alignment that is efficient, a power of two that is at least 512 and at
    /// least `minimum`.
    pub preferred: u32,
    /// Longest READ or WRITE, a multiple of `minimum`, or `u32::MAX` for no limit.
    pub maximum: u32,
}

impl BlockSizes {
    /// The sizes that apply if none were negotiated: 1, 4096 and no maximum. `proto.md` (Size
    /// constraints) recommends the first two, and a maximum of at least 32 MiB.
    pub const DEFAULT: Self = Self {
        minimum: 1,
        preferred: 4096,
        maximum: u32::MAX,
    };

    /// Returns true if the protocol permits these sizes for an export of `size` bytes.
    pub fn is_valid(&self, size: u64) -> bool {
        self.minimum.is_power_of_two()
            && self.minimum <= 65_536
            && self.preferred.is_power_of_two()
            && self.preferred >= self.minimum.max(512)
            && (self.maximum == u32::MAX || self.maximum.is_multiple_of(self.minimum))
            // The maximum may be smaller than the preferred size if the whole export is.
            && u64::from(self.maximum) >= size.min(u64::from(self.preferred))
            && self.maximum > 0
    }
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A description of an export, as the handshake sends it to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// The canonical name of the export, at most 4096 bytes.
    pub name: String,
    /// A description for people, at most 4096 bytes. It may be empty.
    pub description: String,
    /// The server's own identifier of the export. It is returned in the session and never sent to a
    /// client.
    pub key: u64,
    /// The size of the export in bytes.
    pub size: u64,
    /// The features of the export. `HAS_FLAGS` need not be set. The handshake removes `SEND_DF`
    /// unless structured replies are negotiated, and `SEND_FAST_ZERO` unless `SEND_WRITE_ZEROES` is
    /// set.
    pub flags: TransmissionFlags,
    /// The size constraints. They must be valid for `size` (see [`BlockSizes::is_valid`]).
    pub block_sizes: BlockSizes,
    /// True if `BLOCK_STATUS` is supported, so that clients can select `base:allocation`.
    pub allocation: bool,
}

/// A server's exports, as the handshake looks them up.
pub trait Exports {
    /// Calls `each` with the name and the description of every export that may be listed.
    fn list(&self, each: &mut dyn FnMut(&str, &str));

    /// Returns the export with this name. The empty name stands for the default export, if the
    /// server has one.
    fn find(&self, name: &str) -> Option<ExportInfo>;

    /// Returns a message for the client if no session with this export can begin now.
    ///
    /// The handshake calls this last, when a client is about to begin with an export from
    /// [`find`](Self::find). If the result is `None`, the implementation has reserved a connection
    /// for the client.
    fn refusal(&self, _export: &ExportInfo) -> Option<&'static str> {
        None
    }

    /// Returns the use of TLS on this connection. The handshake calls this once, when the first
    /// option arrives, because the mode of a connection must not change (`proto.md`, Server-side
    /// requirements).
    fn tls_mode(&self) -> TlsMode {
        TlsMode::Off
    }

    /// Returns whether the client may learn about an export and use it. `secure` is true if the
    /// connection is encrypted.
    fn access(&self, _export: &ExportInfo, _secure: bool) -> ExportAccess {
        ExportAccess::Granted
    }

    /// Called when a client is denied something, so that the server can log it.
    fn on_denied(&self, _what: Denial<'_>) {}
}

/// A client's demand that was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial<'a> {
    /// An export of this name, which does not exist.
    Export(&'a str),
    /// Encryption (`STARTTLS`), which the server does not offer.
    Tls,
    /// The export of this name, or any export if there is no name, without encryption.
    Plain(Option<&'a str>),
    /// The export of this name, which the client is not permitted to use.
    Access(&'a str),
}

/// The use of TLS on one connection (`proto.md`, Server-side requirements).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// TLS is not offered (NOTLS).
    Off,
    /// TLS is offered, and some exports can require it (SELECTIVETLS).
    Selective,
    /// Every option except `STARTTLS` and `ABORT` requires TLS (FORCEDTLS).
    Forced,
}

/// The decision on the access of one client to one export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportAccess {
    /// The client may use the export.
    Granted,
    /// The client may use the export only on an encrypted connection.
    TlsRequired,
    /// The client is not permitted to use the export.
    Denied,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(minimum: u32, preferred: u32, maximum: u32, size: u64) -> bool {
        BlockSizes {
            minimum,
            preferred,
            maximum,
        }
        .is_valid(size)
    }

    #[test]
    fn block_sizes_obey_the_protocol() {
        assert!(BlockSizes::default().is_valid(0));
        assert!(BlockSizes::default().is_valid(u64::MAX));
        assert!(valid(65_536, 65_536, 65_536, 1 << 30));
        assert!(
            valid(512, 4096, 1536, 1536),
            "the export is shorter than the preferred size"
        );
        for (minimum, preferred, maximum, why) in [
            (0, 4096, 65_536, "no minimum"),
            (3, 4096, u32::MAX, "minimum is no power of two"),
            (131_072, 131_072, u32::MAX, "minimum too large"),
            (1, 5000, 65_536, "preferred is no power of two"),
            (1, 256, 65_536, "preferred too small"),
            (8192, 4096, 65_536, "preferred below minimum"),
            (512, 4096, 65_535, "maximum is no multiple of minimum"),
            (1, 4096, 2048, "maximum below preferred"),
        ] {
            assert!(!valid(minimum, preferred, maximum, 1 << 30), "{why}");
        }
        assert!(!valid(1, 4096, 0, 0), "no maximum");
    }
}
