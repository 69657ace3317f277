//! The shard's memory: how much each client can reserve, and the allocation of buffers.
//!
//! Every byte that a connection makes the server hold is *reserved* before the request is taken
//! from its socket. The payload of a write is reserved until the write has completed, and the data
//! of a read until its answer has been sent. No request thus waits for memory while it holds some.
//! Clients that do not read their answers or do not send announced data keep the memory they have,
//! and get no more.
//!
//! One half of the memory is guaranteed in equal parts to the maximum number of connections. (A
//! connection that made room for another keeps its part for its last answers. There are only a few
//! of these, for a short time, see `Shard::evict`.)
//!
//! The other half is shared with dynamic thresholds (Choudhury and Hahne, 1998): no connection may
//! have more of it than is free. Even if all others take as much as they can, a newcomer can get at
//! least half as much as each of them has.
//!
//! A request larger than the guaranteed part may have to wait for memory that others hold. If that
//! takes long, idle clients that hold memory are disconnected (`Shard::evict_idle`).

use weir_uring::{Arena, Buf, Segment, SharedBuf};

use crate::backend::Data;

/// The size of the smallest buffer, in bytes. Memory in whole pages can always be allocated,
/// however fragmented it is.
pub(crate) const PAGE: usize = 4096;
/// The size of the largest buffer, in bytes.
const LARGEST: usize = 1 << 20;

/// The memory reservations of one shard.
#[derive(Debug)]
pub(crate) struct MemoryPool {
    /// Bytes that are guaranteed to every connection.
    guaranteed: u64,
    /// Bytes of the shared half that are not reserved.
    free: u64,
    /// True if a client waits for a large reservation. Others must then leave more memory free.
    pub(crate) tight: bool,
}

impl MemoryPool {
    /// Creates the pool for an arena of `bytes` and at most `connections`. One eighth of the arena
    /// remains for receive buffers and rounding.
    pub(crate) fn new(bytes: u64, connections: u32) -> Self {
        let usable = bytes - bytes / 8;
        Self {
            guaranteed: usable / 2 / u64::from(connections.max(1)),
            free: usable / 2,
            tight: false,
        }
    }

    /// Reserves `bytes` for a connection that has `used`. Returns false if it must wait. A
    /// connection that has nothing under way (`alone`) may take all free memory.
    pub(crate) fn take(&mut self, used: &mut u64, bytes: u64, alone: bool) -> bool {
        let before = used.saturating_sub(self.guaranteed);
        let after = (*used + bytes).saturating_sub(self.guaranteed);
        let extra = after - before;
        let Some(left) = self.free.checked_sub(extra) else {
            return false;
        };
        let threshold = if self.tight { left / 4 } else { left };
        // A connection that is alone is exempt from the threshold, or a large request could wait
        // for ever.
        if extra > 0 && after > threshold && !alone {
            return false;
        }
        self.free = left;
        *used += bytes;
        true
    }

    /// Reserves `bytes` for a connection that has `used`, or as much of that as is left. Returns
    /// the number of bytes.
    pub(crate) fn take_most(&mut self, used: &mut u64, bytes: u64) -> u64 {
        let left = self.free + self.guaranteed.saturating_sub(*used);
        let bytes = bytes.min(left);
        let took = self.take(used, bytes, true);
        debug_assert!(took, "{bytes} bytes of {left}");
        bytes
    }

    /// Returns true if a connection that has `used` has more than the guaranteed amount.
    pub(crate) fn exceeds_guarantee(&self, used: u64) -> bool {
        used > self.guaranteed
    }

    /// Releases a reservation. Returns true if the shared half has grown by it.
    pub(crate) fn unreserve(&mut self, used: &mut u64, bytes: u64) -> bool {
        debug_assert!(bytes <= *used, "{bytes} bytes back of {used}");
        let before = used.saturating_sub(self.guaranteed);
        *used = used.saturating_sub(bytes);
        let extra = before - used.saturating_sub(self.guaranteed);
        self.free += extra;
        extra > 0
    }
}

/// Returns the memory that a range of `length` bytes takes, with slack for an alignment to `align`.
pub(crate) fn cost(length: u32, align: u32) -> u64 {
    // Aligning can add up to `align` bytes in front of the range and after it.
    let slack = if align > 1 { 2 * u64::from(align) } else { 0 };
    let bytes = u64::from(length) + slack;
    if bytes > LARGEST as u64 {
        // Larger ranges consist of several buffers, the last of which is rounded up.
        return bytes.next_multiple_of(PAGE as u64) + LARGEST as u64 / 4;
    }
    // The arena allocates powers of two.
    bytes.next_power_of_two().max(PAGE as u64)
}

/// Returns buffers for a read of `length` bytes at `offset` of the volume, or `None` if there is no
/// memory.
pub(crate) fn allocate_read(arena: &Arena, offset: u64, length: u32, align: u32) -> Option<Data> {
    let lead = (offset % u64::from(align)) as usize;
    let length = length as usize;
    let wide = (lead + length).next_multiple_of(align as usize);
    if let Some(mut buf) = allocate_buffer(arena, wide) {
        buf.set_window(lead..lead + length);
        return Some(Data::Read(buf));
    }
    let mut bufs = Vec::new();
    if !fragments(arena, wide, &mut bufs) {
        return None;
    }
    let mut left = length;
    for (n, buf) in bufs.iter_mut().enumerate() {
        let start = if n == 0 { lead } else { 0 };
        let end = buf.len().min(start + left);
        left -= end - start;
        buf.set_window(start..end);
    }
    Some(Data::ReadMany(bufs))
}

/// Allocates buffers for a payload of `length` bytes into `bufs`, which must be empty. Returns
/// false and leaves `bufs` empty if there is no memory.
pub(crate) fn allocate_payload_buffers(arena: &Arena, length: u32, bufs: &mut Vec<Buf>) -> bool {
    if let Some(buf) = allocate_buffer(arena, length as usize) {
        bufs.push(buf);
        return true;
    }
    fragments(arena, length as usize, bufs)
}

/// Returns the part of a payload that a piece covers.
pub(crate) fn payload_slice(payload: &[SharedBuf], within: u32, length: u32) -> Data {
    let (mut skip, mut left) = (within as usize, length as usize);
    let mut segments = Vec::new();
    for buf in payload {
        if skip >= buf.len() {
            skip -= buf.len();
            continue;
        }
        let end = buf.len().min(skip + left);
        let part = buf.slice(skip..end);
        left -= end - skip;
        skip = 0;
        if left == 0 && segments.is_empty() {
            return Data::Write(part);
        }
        segments.push(Segment::Buf(part));
        if left == 0 {
            break;
        }
    }
    Data::WriteMany(segments)
}

/// Allocates one buffer of at least a page.
fn allocate_buffer(arena: &Arena, length: usize) -> Option<Buf> {
    if length > LARGEST {
        return None;
    }
    let mut buf = arena.alloc(length.max(PAGE))?;
    buf.set_window(0..length);
    Some(buf)
}

/// Allocates several buffers, each as large as possible. All except the last are whole pages.
fn fragments(arena: &Arena, length: usize, bufs: &mut Vec<Buf>) -> bool {
    let mut left = length;
    let mut size = LARGEST;
    while left > 0 {
        let wanted = left.min(size);
        if let Some(buf) = allocate_buffer(arena, wanted) {
            left -= wanted;
            bufs.push(buf);
        } else if size > PAGE {
            size /= 2;
        } else {
            bufs.clear();
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guaranteed amounts are those in the documentation of the configuration.
    #[test]
    fn each_connection_gets_the_documented_guarantee() {
        for (arena, connections, guaranteed) in [
            (128 << 20, 256, 224 << 10),
            (64 << 20, 256, 112 << 10),
            (64 << 20, 1024, 28 << 10),
        ] {
            let mut pool = MemoryPool::new(arena, connections);
            // With nothing left in the shared half, all connections can take the guaranteed amount
            // page by page.
            pool.free = 0;
            for _ in 0..connections {
                let mut used = 0;
                for _ in 0..guaranteed / PAGE as u64 {
                    assert!(pool.take(&mut used, PAGE as u64, false));
                }
                assert!(!pool.take(&mut used, PAGE as u64, false));
            }
        }
    }

    #[test]
    fn a_newcomer_gets_at_least_half_of_the_memory_of_a_hog() {
        let mut pool = MemoryPool::new(256 << 20, 256);
        let mut used = [0u64; 200];
        for _ in 0..1000 {
            for used in &mut used {
                pool.take(used, 64 << 10, false);
            }
        }
        let most = used.iter().max().copied().unwrap();
        let mut honest = 0;
        while pool.take(&mut honest, 64 << 10, false) {}
        assert!(honest + (64 << 10) >= most / 2, "{honest} against {most}");
        assert!(used.iter().sum::<u64>() + honest <= 256 << 20);
        for used in &mut used {
            let all = *used;
            pool.unreserve(used, all);
        }
        pool.unreserve(&mut honest.clone(), honest);
        assert_eq!(pool.free, (256 << 20) / 8 * 7 / 2);
    }

    #[test]
    fn a_large_request_passes_alone() {
        let mut pool = MemoryPool::new(128 << 20, 256);
        let mut used = 0;
        assert!(!pool.take(&mut used, cost(40 << 20, 1), false));
        assert!(pool.take(&mut used, cost(40 << 20, 1), true));
        assert!(!pool.take(&mut used, cost(40 << 20, 1), true));
    }

    #[test]
    fn fragmented_memory_is_handed_out_in_pages() {
        let arena = Arena::new(1 << 20).unwrap();
        let mut all: Vec<Buf> = std::iter::from_fn(|| arena.alloc(PAGE)).collect();
        let mut keep = false;
        all.retain(|_| {
            keep = !keep;
            keep
        });
        let Some(Data::ReadMany(bufs)) = allocate_read(&arena, 5000, 128 << 10, 4096) else {
            panic!("half of the arena is free");
        };
        // The read begins at the aligned offset 5000 - 904 = 4096. Its first buffer has a lead of
        // 904 bytes.
        assert_eq!(bufs.iter().map(|b| b.len()).sum::<usize>(), 128 << 10);
        assert_eq!(bufs[0].window(), 904..4096);
        assert!(allocate_read(&arena, 0, 512 << 10, 1).is_none());
    }

    #[test]
    fn a_slice_of_a_payload_has_the_bytes_of_its_range() {
        let arena = Arena::new(1 << 20).unwrap();
        let mut bufs = Vec::new();
        assert!(allocate_payload_buffers(&arena, 10_000, &mut bufs));
        for (n, byte) in bufs[0].iter_mut().enumerate() {
            *byte = n as u8;
        }
        let second = arena.alloc(PAGE).unwrap();
        bufs.push(second);
        let payload: Vec<SharedBuf> = bufs.into_iter().map(Buf::into_shared).collect();
        // The first buffer has 10,000 bytes, so 5,000 bytes from 300 on are within it.
        match payload_slice(&payload, 300, 5000) {
            Data::Write(part) => assert!(part.len() == 5000 && part[0] == (300 % 256) as u8),
            other => panic!("{other:?}"),
        }
        // The range begins 1,000 bytes before the end of the first buffer.
        match payload_slice(&payload, 9_000, 2_000) {
            Data::WriteMany(parts) => {
                assert_eq!(
                    parts.iter().map(|p| p.len()).collect::<Vec<_>>(),
                    [1000, 1000]
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
