//! What a server offers: exports, their sizes and features.

use super::flags::TransmissionFlags;

/// Block-size constraints of an export, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Smallest length and alignment of a request: a power of two, 1 to 65,536.
    pub minimum: u32,
    /// Smallest length and alignment that is efficient: a power of two, at least 512 and `minimum`.
    pub preferred: u32,
    /// Longest READ or WRITE: a multiple of `minimum`, or `u32::MAX` for no limit.
    pub maximum: u32,
}

impl BlockSizes {
    /// The sizes if none were negotiated: 1, 4096, unlimited.
    pub const DEFAULT: Self = Self {
        minimum: 1,
        preferred: 4096,
        maximum: u32::MAX,
    };

    /// Whether these sizes are valid for an export of `size` bytes.
    pub fn is_valid(&self, size: u64) -> bool {
        self.minimum.is_power_of_two()
            && self.minimum <= 65_536
            && self.preferred.is_power_of_two()
            && self.preferred >= self.minimum.max(512)
            && (self.maximum == u32::MAX || self.maximum.is_multiple_of(self.minimum))
            && u64::from(self.maximum) >= size.min(u64::from(self.preferred))
            && self.maximum > 0
    }
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One export, as the handshake describes it to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// Canonical name, at most 4096 bytes.
    pub name: String,
    /// A description for people; may be empty; at most 4096 bytes.
    pub description: String,
    /// The server's own number for it: returned in the session, never sent.
    pub key: u64,
    /// Size in bytes.
    pub size: u64,
    /// Its features. `HAS_FLAGS` need not be set; `SEND_DF` is removed unless structured replies are negotiated, and
    /// `SEND_FAST_ZERO` unless `SEND_WRITE_ZEROES` is set.
    pub flags: TransmissionFlags,
    /// Block-size constraints; they must be valid for `size` (see [`BlockSizes::is_valid`]).
    pub block_sizes: BlockSizes,
    /// Whether `BLOCK_STATUS` is supported, that is, whether `base:allocation` can be selected.
    pub allocation: bool,
}

/// The exports of a server, as the handshake needs them.
pub trait Exports {
    /// Calls `each` with name and description of every export that may be listed.
    fn list(&self, each: &mut dyn FnMut(&str, &str));

    /// The export of this name; the empty name is that of the default export, if there is one.
    fn find(&self, name: &str) -> Option<ExportInfo>;

    /// Why no transmission with this export, of [`find`](Self::find), can begin now, as a message
    /// for the client. Called last, when a client is about to begin: `None` reserves a connection
    /// for it.
    fn refuses(&self, _export: &ExportInfo) -> Option<&'static str> {
        None
    }

    /// Called when a client is denied something and the handshake goes on: for the log.
    fn denied(&self, _what: Denied<'_>) {}
}

/// What a client asked for and was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denied<'a> {
    /// An export of this name.
    Export(&'a str),
    /// Encryption (`STARTTLS`).
    Tls,
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
