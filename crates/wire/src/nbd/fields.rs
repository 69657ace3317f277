//! Fields of a handshake message that has arrived completely.

use super::constants::MAX_STRING;

/// The rest of a message. Each method takes the next field and returns `None` if the message is
/// malformed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_be_bytes)
    }

    /// Takes a string that is preceded by its length in 32 bits.
    pub(super) fn counted_string(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok()?;
        string(self.bytes(length)?)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        // The length comes from the other side, so it may exceed the message.
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Returns the rest of the message as a string.
    pub(super) fn last_string(self) -> Option<&'a str> {
        string(self.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*chunk)
    }
}

/// Returns the bytes as a string if the protocol permits it: UTF-8, no NUL, at most [`MAX_STRING`]
/// bytes (`proto.md`, Conventions).
pub(super) fn string(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > MAX_STRING || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_and_end() {
        let mut fields = Fields::new(&[0, 1, 0, 0, 0, 2, b'h', b'i', 0, 0, 0, 0, 0, 0, 0, 3, 9]);
        assert_eq!(fields.u16(), Some(1));
        assert_eq!(fields.counted_string(), Some("hi"));
        assert_eq!(fields.u64(), Some(3));
        assert_eq!(fields.u16(), None);
        assert!(!fields.is_empty());
    }

    #[test]
    fn strings_are_bounded_utf8_without_nul() {
        assert_eq!(string(b""), Some(""));
        assert_eq!(string("gr\u{fc}n".as_bytes()), Some("gr\u{fc}n"));
        assert_eq!(string(b"a\0b"), None);
        assert_eq!(string(&[0xff]), None);
        assert_eq!(string(&[b'a'; MAX_STRING]).map(str::len), Some(MAX_STRING));
        assert_eq!(string(&[b'a'; MAX_STRING + 1]), None);
        assert_eq!(
            Fields::new(&[0xff, 0xff, 0xff, 0xff, b'a']).counted_string(),
            None
        );
    }
}
