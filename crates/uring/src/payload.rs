//! The payload of an operation: buffers, and small headers next to them.

use std::ops::Deref;

use crate::arena::{Buf, SharedBuf};
use crate::guest::GuestSlice;

/// A short sequence of bytes that is stored by value, such as a reply's header before its data.
#[derive(Clone, Copy)]
pub struct Header {
    bytes: [u8; Self::MAX],
    len: u8,
}

impl Header {
    /// The maximum length of a header in bytes.
    pub const MAX: usize = 64;

    /// Creates a header from an array. An array longer than [`Header::MAX`] does not compile.
    pub fn new<const N: usize>(bytes: [u8; N]) -> Self {
        const { assert!(N <= Self::MAX, "a header holds at most 64 bytes") };
        let mut all = [0; Self::MAX];
        all[..N].copy_from_slice(&bytes);
        Self {
            bytes: all,
            len: N as u8,
        }
    }

    /// Creates a header from a slice. Returns `None` if it is longer than [`Header::MAX`].
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        let mut all = [0; Self::MAX];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self {
            bytes: all,
            len: bytes.len() as u8,
        })
    }
}

impl Deref for Header {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Header").field(&&**self).finish()
    }
}

/// A segment of the data that [`Ring::send`](crate::Ring::send) and
/// [`Ring::write`](crate::Ring::write) transfer: a header, or the window of a buffer.
#[derive(Clone, Debug)]
pub enum Segment {
    /// Bytes that are stored by value.
    Header(Header),
    /// The window of a buffer.
    Buf(SharedBuf),
}

impl Deref for Segment {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Header(header) => header,
            Self::Buf(buf) => buf,
        }
    }
}

impl From<Header> for Segment {
    fn from(header: Header) -> Self {
        Self::Header(header)
    }
}

impl From<Buf> for Segment {
    fn from(buf: Buf) -> Self {
        Self::Buf(buf.into_shared())
    }
}

impl From<SharedBuf> for Segment {
    fn from(buf: SharedBuf) -> Self {
        Self::Buf(buf)
    }
}

/// The buffers of an operation.
///
/// They return with its completion or rejection in the same form, and with their windows unchanged.
/// Vectors return with their contents, so that they can be cleared and reused without another
/// allocation.
#[derive(Debug, Default)]
pub enum Payload {
    /// No buffers, for fsync, fallocate, poll, signals and commands.
    #[default]
    None,
    /// One buffer to read or receive into.
    Buf(Buf),
    /// Several buffers to read or receive into.
    Bufs(Vec<Buf>),
    /// One buffer to write from.
    Shared(SharedBuf),
    /// Several segments to write or send from.
    Segments(Vec<Segment>),
    /// Memory of a guest to read into or to write from.
    Guest(Vec<GuestSlice>),
}

/// Memory that a read can fill. The trait is not exported, so no other crate can implement it and
/// let a read fill shared memory.
pub trait ReadTarget: Into<Payload> {}

/// Memory from which a write can take its bytes.
pub trait WriteSource: Into<Payload> {}

/// Makes each type usable by reads or writes, and names the form of payload in which it returns.
macro_rules! memory {
    ($($type:ty, $form:ident: $($use:ident)+;)+) => { $(
        impl From<$type> for Payload {
            fn from(memory: $type) -> Self {
                Self::$form(memory)
            }
        }
        $(impl $use for $type {})+
    )+ };
}

memory! {
    Buf, Buf: ReadTarget;
    Vec<Buf>, Bufs: ReadTarget;
    SharedBuf, Shared: WriteSource;
    Vec<Segment>, Segments: WriteSource;
    Vec<GuestSlice>, Guest: ReadTarget WriteSource;
}

impl Payload {
    /// Returns the buffer of a read or receive.
    pub fn into_buf(self) -> Option<Buf> {
        match self {
            Self::Buf(buf) => Some(buf),
            _ => None,
        }
    }

    /// Returns the buffers of a read or receive into several buffers.
    pub fn into_bufs(self) -> Option<Vec<Buf>> {
        match self {
            Self::Bufs(bufs) => Some(bufs),
            _ => None,
        }
    }

    /// Returns the buffer of a write.
    pub fn into_shared(self) -> Option<SharedBuf> {
        match self {
            Self::Shared(buf) => Some(buf),
            _ => None,
        }
    }

    /// Returns the segments of a write or send.
    pub fn into_segments(self) -> Option<Vec<Segment>> {
        match self {
            Self::Segments(segments) => Some(segments),
            _ => None,
        }
    }

    pub(crate) fn is_guest(&self) -> bool {
        matches!(self, Self::Guest(_))
    }

    /// Returns the total length of all windows in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Buf(buf) => buf.len(),
            Self::Bufs(bufs) => bufs.iter().map(|buf| buf.len()).sum(),
            Self::Shared(buf) => buf.len(),
            Self::Segments(segments) => segments.iter().map(|segment| segment.len()).sum(),
            Self::Guest(slices) => slices.iter().map(GuestSlice::len).sum(),
        }
    }

    /// Returns the number of buffers and headers.
    pub fn pieces(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Buf(_) | Self::Shared(_) => 1,
            Self::Bufs(bufs) => bufs.len(),
            Self::Segments(segments) => segments.len(),
            Self::Guest(slices) => slices.len(),
        }
    }

    /// Calls `f` with the start and the length of each window, in order. The memory may be written
    /// only if the payload is one to read into.
    pub(crate) fn for_each_piece(&mut self, mut f: impl FnMut(*mut u8, usize)) {
        match self {
            Self::None => {}
            Self::Buf(buf) => f(buf.as_mut_ptr(), buf.len()),
            Self::Bufs(bufs) => {
                for buf in bufs {
                    f(buf.as_mut_ptr(), buf.len());
                }
            }
            // The pointer is only read, because this payload is not one to read into.
            Self::Shared(buf) => f(buf.as_ptr().cast_mut(), buf.len()),
            Self::Segments(segments) => {
                for segment in segments {
                    f(segment.as_ptr().cast_mut(), segment.len());
                }
            }
            Self::Guest(slices) => {
                for slice in slices {
                    f(slice.as_ptr(), slice.len());
                }
            }
        }
    }
}
