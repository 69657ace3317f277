//! Test that a ring in use allocates no memory for an operation. The allocator that counts is
//! global.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};

use crate::common::{TempFile, config, next, open, pair};
use weir_uring::{Backend, FillMode, Header, Ring, Sync};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: it forwards every call to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller guarantees the same conditions that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees the same conditions that `System` requires.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_operation_allocates_no_memory() {
    let Some(mut ring) = open(&config(Backend::Uring)) else {
        return;
    };
    let temp = TempFile::new(1 << 20);
    let file = temp.direct();
    let (socket, mut peer) = pair();
    let mut segments = Vec::with_capacity(2);
    let mut bufs = Vec::with_capacity(2);
    let mut before = 0;
    for turn in 0..300 {
        // The first hundred rounds may allocate, until all vectors have their final capacity.
        if turn == 100 {
            before = COUNT.get();
        }
        peer.write_all(&[1; 28]).unwrap();
        let buf = ring.arena().alloc(4096).unwrap();
        ring.recv(1, &socket, buf, FillMode::Any).unwrap();
        let payload = ring.arena().alloc(8192).unwrap();
        ring.write(2, &file, 0, payload.into_shared(), Sync::No)
            .unwrap();
        bufs.extend((0..2).map(|_| ring.arena().alloc(4096).unwrap()));
        ring.read(3, &file, 65536, bufs).unwrap();
        segments.push(Header::new([2; 16]).into());
        segments.push(ring.arena().alloc(4096).unwrap().into());
        ring.send(4, &socket, segments).unwrap();
        ring.fsync(5, &file, true).unwrap();
        ring.waker().wake();
        // Empty vectors allocate nothing. The used ones return with their completions.
        (bufs, segments) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let completion = next(&mut ring);
            completion.result.unwrap();
            match completion.user {
                3 => bufs = completion.payload.into_bufs().unwrap(),
                4 => segments = completion.payload.into_segments().unwrap(),
                _ => drop(completion),
            }
        }
        bufs.clear();
        segments.clear();
        peer.read_exact(&mut [0; 4096 + 16]).unwrap();
    }
    assert!(before > 0, "the allocator counts");
    assert_eq!(COUNT.get() - before, 0);
}
