use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::MemfdFlags;
use weir_wire::ring::{Guest, Load, Shared, Store};
use weir_wire::vhost::Region;

use super::*;

const PAGE: u64 = 4096;

fn memory(bytes: u64) -> OwnedFd {
    let file = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    file
}

#[test]
fn both_mappings_of_a_file_are_the_same_memory() {
    let file = memory(4 * PAGE);
    let whole = Mapping::new(&file, 0, 4 * PAGE).unwrap();
    // This mapping begins and ends within a page.
    let inner = Mapping::new(&file, PAGE + 8, 2 * PAGE).unwrap();
    drop(file);
    let (ours, theirs) = (
        whole.part(PAGE + 8, 64).unwrap(),
        inner.part(0, 2 * PAGE as usize).unwrap(),
    );
    ours.store16(2, 0x1234, Store::Release);
    assert_eq!(theirs.load16(2, Load::Acquire), 0x1234);
    theirs.store32(60, 0x5678_9abc, Store::Relaxed);
    assert_eq!(ours.load32(60, Load::Relaxed), 0x5678_9abc);
    let mut bytes = [0; 2];
    ours.read(2, &mut bytes);
    assert_eq!(bytes, [0x34, 0x12], "little-endian");
    let long: Vec<u8> = (0..200).collect();
    theirs.write(100, &long);
    let mut back = vec![0; 200];
    whole
        .slice(PAGE + 8, PAGE as u32)
        .unwrap()
        .copy_to(100, &mut back);
    assert_eq!(back, long);
}

#[test]
fn invalid_ranges_are_not_mapped() {
    let file = memory(2 * PAGE);
    // One byte more than the file has.
    let short = Mapping::new(&file, PAGE, PAGE + 1);
    assert!(matches!(short, Err(MapError::Short { .. })), "{short:?}");
    let none = Mapping::new(&file, 0, 0);
    assert!(matches!(none, Err(MapError::Range { .. })), "{none:?}");
    // The end would be beyond 2^64.
    let beyond = Mapping::new(&file, u64::MAX, 2);
    assert!(matches!(beyond, Err(MapError::Range { .. })), "{beyond:?}");
    let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let socket = Mapping::new(&socket, 0, PAGE);
    assert!(matches!(socket, Err(MapError::NoFile)), "{socket:?}");
    let read_only = File::open("/proc/self/exe").unwrap();
    let read_only = Mapping::new(&read_only, 0, PAGE);
    assert!(
        matches!(read_only, Err(MapError::System(_))),
        "{read_only:?}"
    );

    // Slices must not be empty or extend beyond the mapping.
    let mapping = Mapping::new(&file, 0, 2 * PAGE).unwrap();
    assert!(mapping.slice(0, 0).is_none());
    assert!(mapping.slice(2 * PAGE, 1).is_none());
    assert!(mapping.slice(u64::MAX, 1).is_none());
    assert!(mapping.slice(PAGE, PAGE as u32 + 1).is_none());
    assert!(mapping.slice(PAGE, PAGE as u32).is_some());
    assert!(mapping.part(1, 2 * PAGE as usize).is_none());
}

fn region(guest: u64, size: u64) -> Region {
    Region {
        guest,
        size,
        user: guest + (1 << 40),
        offset: 0,
    }
}

#[test]
fn a_range_over_two_regions_is_two_slices_and_a_gap_is_none() {
    let files = [memory(PAGE), memory(PAGE), memory(PAGE)];
    let at = [PAGE, 2 * PAGE, 4 * PAGE];
    let regions = files.iter().zip(at).map(|(file, guest)| MappedRegion {
        region: region(guest, PAGE),
        mapping: Mapping::new(file, 0, PAGE).unwrap(),
    });
    let mut regions: Vec<_> = regions.collect();
    // The order of the regions must not matter.
    regions.reverse();
    let guest = GuestMemory::new(regions);
    let mut slices = Vec::new();
    // 100 bytes are in the first region, and 200 in the second.
    guest.slices(2 * PAGE - 100, 300, &mut slices).unwrap();
    let lengths: Vec<_> = slices.iter().map(GuestSlice::len).collect();
    assert_eq!(lengths, [100, 200]);
    assert_eq!(guest.contiguous(2 * PAGE - 100, 300), Some(100));
    let bytes: Vec<u8> = (0..=255).collect();
    guest.write(2 * PAGE - 100, &bytes).unwrap();
    let mut back = vec![0; 256];
    guest.read(2 * PAGE - 100, &mut back).unwrap();
    assert_eq!(back, bytes);
    let mut second = [0; 4];
    slices[1].copy_to(0, &mut second);
    assert_eq!(second, [100, 101, 102, 103]);
    for (address, length) in [
        (0, 1),
        (PAGE - 1, 1),
        // The gap from page 3 to page 4.
        (3 * PAGE - 1, 2),
        (3 * PAGE, 1),
        (5 * PAGE - 1, 2),
        (u64::MAX, 2),
    ] {
        assert!(
            guest.slices(address, length, &mut slices).is_err(),
            "{address:#x}"
        );
        let mut bytes = vec![0; length as usize];
        assert!(guest.read(address, &mut bytes).is_err());
        assert!(guest.write(address, &bytes).is_err());
    }
    assert!(guest.user_part((1 << 40) + PAGE, PAGE as usize).is_some());
    let over = guest.user_part((1 << 40) + PAGE + 8, PAGE as usize);
    assert!(over.is_none(), "a ring lies in one region");
}

#[test]
fn truncated_guest_memory_reads_as_zeroes_and_is_marked_broken() {
    let file = memory(4 * PAGE);
    let mapping = Mapping::new(&file, 0, 4 * PAGE).unwrap();
    let other = Mapping::new(memory(PAGE), 0, PAGE).unwrap();
    let slice = mapping.slice(0, 4 * PAGE as u32).unwrap();
    slice.copy_from(0, &[7; 4 * PAGE as usize]);
    // Truncating the file has no effect until the missing part is accessed.
    rustix::fs::ftruncate(&file, PAGE).unwrap();
    assert!(!mapping.is_broken());
    let mut bytes = vec![1; 2 * PAGE as usize];
    slice.copy_to(2 * PAGE as usize, &mut bytes);
    assert!(mapping.is_broken() && slice.is_broken());
    assert!(!other.is_broken());
    assert_eq!(bytes, vec![0; 2 * PAGE as usize]);
    // The memory can still be used, but no other process sees it.
    slice.copy_from(0, &[9; 100]);
    let part = mapping.part(3 * PAGE, 16).unwrap();
    part.store16(0, 1, Store::Release);
    assert_eq!(part.load16(0, Load::Acquire), 1);
}

#[test]
fn a_slice_keeps_its_mapping() {
    let file = memory(PAGE);
    let guest = GuestMemory::new(vec![MappedRegion {
        region: region(0, PAGE),
        mapping: Mapping::new(&file, 0, PAGE).unwrap(),
    }]);
    let mut slices = Vec::new();
    guest.slices(0, 16, &mut slices).unwrap();
    // The slice keeps the mapping alive.
    drop(guest);
    slices[0].copy_from(0, b"still there");
    let mut bytes = [0; 11];
    rustix::io::pread(&file, &mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still there");
}
