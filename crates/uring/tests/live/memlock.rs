//! Test of the registration of memory under a low `RLIMIT_MEMLOCK`.

use crate::common::{TempFile, config, next, open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use weir_uring::{AnyRing, Backend, IoRingConfig, Registration, Ring, Sync};

#[test]
fn only_the_permitted_amount_of_memory_is_registered() {
    // The test runs in a process of its own, because the limit and the capability belong to the
    // process.
    if std::env::var_os("WEIR_TEST_MEMLOCK").is_none() {
        let name = "memlock::only_the_permitted_amount_of_memory_is_registered";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact"])
            .env("WEIR_TEST_MEMLOCK", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    // With this capability, the limit does not apply.
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::IPC_LOCK);
    set_capabilities(None, sets).unwrap();
    let maximum = getrlimit(Resource::Memlock).maximum;

    // 1 MiB of the 4 MiB may be pinned, so a quarter or less is registered.
    limit(1 << 20, maximum);
    let Some(ring) = open(&config(Backend::Uring)) else {
        return;
    };
    match ring.registration() {
        Registration::Partial(bytes) => assert!((1 << 18..=1 << 20).contains(&bytes)),
        // The limit counts all processes of the user, so nothing may be left of it.
        Registration::None => assert_eq!(registration(1 << 16), Registration::None),
        Registration::Full => panic!("4 MiB are not 1 MiB"),
    }
    every_buffer_works(ring);

    // Without any permitted memory, the ring works with unregistered buffers.
    limit(0, maximum);
    let Some(ring) = open(&config(Backend::Uring)) else {
        return;
    };
    assert_eq!(ring.registration(), Registration::None);
    every_buffer_works(ring);
}

fn limit(bytes: u64, maximum: Option<u64>) {
    let lower = Rlimit {
        current: Some(bytes),
        maximum,
    };
    setrlimit(Resource::Memlock, lower).unwrap();
}

fn registration(bytes: usize) -> Registration {
    let config = IoRingConfig {
        registered_bytes: bytes,
        ..config(Backend::Uring)
    };
    AnyRing::open(&config).unwrap().registration()
}

/// Writes and reads with buffers inside and outside of the registered part, which together are the
/// whole arena.
fn every_buffer_works(mut ring: AnyRing) {
    let temp = TempFile::new(0);
    let file = temp.direct();
    let bufs: Vec<_> = std::iter::from_fn(|| ring.arena().alloc(1 << 18)).collect();
    let count = bufs.len();
    assert!(count >= 15);
    for (mut buf, place) in bufs.into_iter().zip(0u8..) {
        buf.fill(place + 1);
        let at = u64::from(place) << 18;
        ring.write(u64::from(place), &file, at, buf.into_shared(), Sync::No)
            .unwrap();
    }
    let mut back = Vec::new();
    for _ in 0..count {
        let written = next(&mut ring);
        assert_eq!(written.result, Ok(1 << 18));
        back.push((written.user, written.payload.into_shared().unwrap()));
    }
    for (user, buf) in back {
        drop(buf);
        let buf = ring.arena().alloc(1 << 18).unwrap();
        ring.read(user, &file, user << 18, buf).unwrap();
    }
    for _ in 0..count {
        let read = next(&mut ring);
        let buf = read.payload.into_buf().unwrap();
        assert!(buf.iter().all(|byte| u64::from(*byte) == read.user + 1));
    }
    assert_eq!(temp.bytes().len(), count << 18);
}
