//! Disks of virtual machines: a guest that consists only of memory and queues uses a running
//! server.

use crate::tools;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::tools::guest::{DATA, GUEST, NO_STATUS, SIZE, TestGuest, doubles, inflight, words};
use crate::tools::{TestSite, log, pattern};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use weir_wire::ring::split::UsedHead;
use weir_wire::vhost::MessageCode;
use weir_wire::virtio_blk::{CONFIG_LEN, feature};

// The request types and status values of virtio (virtio 1.2, section 5.2.6).
const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

const VOLUMES: &str = "[drive.d]\n\
    [volume.alpha]\ndrive = \"d\"\nmemory = true\nsize = \"16MiB\"\nlisten = { vhost = \"{files}/alpha\" }\n\
    [volume.file]\ndrive = \"d\"\nfile = \"{files}/image\"\nsize = \"16MiB\"\nlisten = { vhost = \"{files}/file\" }\n\
    [volume.ro]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\nread_only = true\nlisten = { vhost = \"{files}/ro\" }\n";

/// Repeats an action until the log contains these words, because the number of log lines per second
/// is limited.
fn until_said(log: &mut log::LogReader, words: &str, mut act: impl FnMut()) {
    let mut said = String::new();
    for _ in 0..100 {
        act();
        said += &log.take();
        if said.contains(words) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("\"{words}\" was never said:\n{said}");
}

fn at(site: &TestSite, name: &str) -> PathBuf {
    site.files.path().join(name)
}

#[test]
fn guests_read_their_writes_from_any_storage() {
    let site = TestSite::start(VOLUMES);
    for name in ["alpha", "file"] {
        let mut guest = TestGuest::start(&at(&site, name), 1);
        for (sector, length, seed) in [
            (0, 512, 1),
            (8, 4096, 2),
            (3, 8192 + 512, 3),
            (99, 65_536, 4),
        ] {
            let bytes = pattern(seed, length);
            guest.write(sector, &bytes);
            assert_eq!(guest.request(0, FLUSH, 0, &[]), OK);
            assert_eq!(guest.read(sector, length), bytes, "{name}: {length} bytes");
        }
        // A request with several buffers that are not aligned for a drive.
        let bytes = pattern(9, 4096 + 1024);
        let parts = [
            (DATA + 0x3003, 1000),
            (DATA + 0x5000, 3096),
            (DATA + 0x9001, 1024),
        ];
        let mut done = 0;
        for (at, length) in parts {
            guest.put(at, &bytes[done..done + length as usize]);
            done += length as usize;
        }
        let buffers = guest.frame(DATA, OUT, 16, &parts);
        guest.submit(0, &buffers);
        assert_eq!(guest.next(0).written, 1);
        assert_eq!(guest.read(16, bytes.len()), bytes, "{name}");
        let parts = parts.map(|(at, length)| (at + 0x20_000, length));
        let buffers = guest.frame(DATA, IN, 16, &parts);
        guest.submit(0, &buffers);
        assert_eq!(guest.next(0).written, bytes.len() as u32 + 1);
        let found: Vec<u8> = parts
            .iter()
            .flat_map(|(at, n)| guest.get(*at, *n as usize))
            .collect();
        assert_eq!(found, bytes, "{name}");
    }
    let image = std::fs::read(at(&site, "image")).unwrap();
    assert_eq!(image[99 * 512..][..65_536], pattern(4, 65_536));
}

#[test]
// Eight sectors each are discarded and zeroed.
fn ranges_are_discarded_and_zeroed_and_the_disk_has_a_name() {
    let site = TestSite::start(VOLUMES);
    for name in ["alpha", "file"] {
        let mut guest = TestGuest::start(&at(&site, name), 1);
        guest.write(0, &[7; 16 << 10]);
        for (kind, first) in [(DISCARD, 0), (WRITE_ZEROES, 8)] {
            let range = [doubles(&[first]), words(&[8, 0])].concat();
            assert_eq!(guest.request(0, kind, 0, &range), OK, "{name}");
        }
        assert_eq!(guest.read(0, 8192), [0; 8192]);
        assert_eq!(guest.read(16, 8192), [7; 8192]);
        assert_eq!(guest.request(0, GET_ID, 0, &[0x55; 20]), OK);
        let mut id = [0; 20];
        id[..name.len()].copy_from_slice(name.as_bytes());
        assert_eq!(guest.get(DATA + 0x1000, 20), id);
    }
}

#[test]
fn a_server_without_nbd_serves_its_guests() {
    let files = tools::Temp::on_disk();
    let text = format!(
        "[drive.d]\n[volume.alpha]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\nlisten = {{ vhost = \"{}/alpha\" }}\n",
        files.path().display()
    );
    let options = weir_serve::ServerOptions::default();
    let server = weir_serve::LiveServer::start(&tools::parse(&text), &options).unwrap();
    let mut guest = TestGuest::start(&files.path().join("alpha"), 1);
    guest.write(0, &[7; 512]);
    assert_eq!(guest.read(0, 512), [7; 512]);
    drop(server);
}

#[test]
fn both_front_ends_of_a_volume_see_the_same() {
    let site = TestSite::start(VOLUMES);
    let mut guest = TestGuest::start(&at(&site, "alpha"), 1);
    let mut second = TestGuest::start(&at(&site, "alpha"), 1);
    let mut nbd = tools::raw::Raw::open(&site.unix, "alpha").unwrap();
    let bytes = pattern(5, 4096);
    guest.write(8, &bytes);
    assert_eq!(nbd.read(4096, 4096).unwrap(), bytes);
    assert_eq!(second.read(8, 4096), bytes);
}

/// Returns the number of sectors of the disk, from its configuration space.
fn capacity(guest: &TestGuest) -> u64 {
    let all = CONFIG_LEN as u32;
    let asked = [words(&[0, all, 0]), vec![0; CONFIG_LEN]].concat();
    guest.send(MessageCode::GET_CONFIG, 0, &asked, &[]);
    let answer = guest.answer(MessageCode::GET_CONFIG).expect("an answer");
    u64::from_le_bytes(answer[12..20].try_into().unwrap())
}

/// Returns the configuration of another volume with a socket of its own.
fn another(name: &str, socket: &str) -> String {
    format!(
        "[volume.{name}]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\nlisten = {{ vhost = \"{{files}}/{socket}\" }}\n"
    )
}

#[test]
fn sockets_come_and_go_with_their_volumes() {
    let mut site = TestSite::start(VOLUMES);
    let mut alpha = TestGuest::start(&at(&site, "alpha"), 1);
    let with = VOLUMES.to_owned() + &another("new", "new");
    for round in 0..3 {
        assert!(site.reload(&with));
        let mut guest = TestGuest::start(&at(&site, "new"), 1);
        // A new volume in memory is empty each time.
        assert_eq!(guest.read(0, 4096), [0; 4096]);
        let bytes = pattern(round, 4096);
        guest.write(0, &bytes);
        assert_eq!(guest.read(0, 4096), bytes);
        // The volume of a guest is not removed without permission, and continues to work.
        assert!(!site.reload(VOLUMES));
        assert_eq!(guest.read(0, 4096), bytes);
        assert_eq!(TestGuest::start(&at(&site, "new"), 1).read(0, 4096), bytes);
        if round == 0 {
            assert!(site.reload(&format!("{VOLUMES}[server]\nremove_in_use = true\n")));
            assert!(guest.is_ended());
        } else {
            drop(guest);
            tools::until("the guest stays", || site.reload(VOLUMES));
        }
        assert!(!at(&site, "new").exists());
        alpha.write(0, &pattern(round, 512));
    }
    let files = site.files.path().to_owned();
    assert!(site.reload(&with) && site.server.shutdown());
    assert!(!files.join("new").exists() && !files.join("alpha").exists());
}

#[test]
fn an_unavailable_socket_refuses_the_whole_change() {
    let mut site = TestSite::start(VOLUMES);
    std::fs::write(at(&site, "taken"), "not a socket").unwrap();
    let two = VOLUMES.to_owned() + &another("m", "m") + &another("n", "taken");
    let two = site.parse(&two);
    let refused = site.server.reload(&two).unwrap_err().to_string();
    assert!(refused.contains("volume.n.listen.vhost"), "{refused}");
    assert!(
        refused.contains("the path exists and is not a socket"),
        "{refused}"
    );
    let would = site.server.would_reload(&two).unwrap_err().to_string();
    assert_eq!(refused, would);
    // Another volume of the change has no file.
    let absent = another("n", "n").replace(
        "memory = true\nsize = \"1MiB\"",
        "file = \"{files}/absent\"",
    );
    assert!(!site.reload(&(VOLUMES.to_owned() + &another("m", "m") + &absent)));
    // The volume to be removed is in use, which the server finds out after it has created the
    // sockets.
    let guest = TestGuest::start(&at(&site, "ro"), 1);
    let without = VOLUMES.split("[volume.ro]").next().unwrap().to_owned();
    assert!(!site.reload(&(without.clone() + &another("m", "m"))));
    for name in ["m", "n"] {
        assert!(!at(&site, name).exists(), "{name}");
    }
    assert_eq!(std::fs::read(at(&site, "taken")).unwrap(), b"not a socket");
    drop(guest);
    // The socket of a server that was killed is replaced.
    drop(std::os::unix::net::UnixListener::bind(at(&site, "m")).unwrap());
    let next = without + &another("m", "m");
    tools::until("the guest stays", || site.reload(&next));
    let mut guest = TestGuest::start(&at(&site, "m"), 1);
    guest.write(0, &pattern(3, 512));
    assert!(!at(&site, "ro").exists());
}

#[test]
fn a_volume_grows_while_it_is_served_and_its_guests_are_told() {
    let mut site = TestSite::start(VOLUMES);
    let image = at(&site, "image");
    let sized = |size: &str| VOLUMES.replace("\"16MiB\"", &format!("{size:?}"));
    for (name, round) in [("alpha", 0), ("file", 1)] {
        let mut guest = TestGuest::start(&at(&site, name), 1);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let told = |count: usize| {
            let mut messages = vec![0; 12 * count];
            (&ours).read_exact(&mut messages).unwrap();
            assert_eq!(messages, words(&[2, 1, 0]).repeat(count));
        };
        ours.set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        guest.tell(MessageCode::SET_BACKEND_REQ_FD, &[], &[theirs.as_fd()]);
        let mut before = tools::raw::Raw::open(&site.unix, name).unwrap();
        let old = 16 + 16 * round;
        // A MiB has 1 << 11 sectors of 512 bytes.
        assert_eq!(capacity(&guest), old << 11);
        assert_eq!(guest.request(0, OUT, old << 11, &[1; 512]), IO_ERROR);
        // After a connection the server sends a notification, because a VMM that reconnects may
        // know an earlier size.
        told(1);

        // Stage 1: the server enlarges its image.
        let new = sized(&format!("{}MiB", old + 16));
        assert!(site.reload(&new));
        let file = std::fs::File::options().write(true).open(&image).unwrap();
        told(1);
        assert_eq!(capacity(&guest), (old + 16) << 11);
        let bytes = pattern(7, 4096);
        guest.write(((old + 16) << 11) - 8, &bytes);
        guest.write((old << 11) - 4, &bytes);
        assert_eq!(guest.read((old << 11) - 4, 4096), bytes);
        // Stage 2: NBD has no message for a new size. A connected client keeps the size that it
        // knows, and a new client sees the new size.
        assert!(before.read((old << 20) - 4096, 4096).is_ok());
        let mut after = tools::raw::Raw::open(&site.unix, name).unwrap();
        assert_eq!(after.read(((old + 16) << 20) - 4096, 4096).unwrap(), bytes);

        // Stage 3: without a change there is no notification, and a volume never shrinks, whatever
        // is requested.
        assert!(site.reload(&new));
        assert!(!site.reload(&sized(&format!("{old}MiB"))));
        file.set_len(old << 20).unwrap();
        assert!(!site.reload(&new));
        let unsaid = new.replace(
            "file = \"{files}/image\"\nsize = ",
            "file = \"{files}/image\"\n# ",
        );
        assert!(!site.reload(&unsaid));
        assert_eq!(capacity(&guest), (old + 16) << 11);
        file.set_len((old + 16) << 20).unwrap();
        assert!(site.reload(&unsaid));
        // Stage 4: a VMM that has closed its end of the channel gets no more notifications, and its
        // guest is served.
        ours.set_nonblocking(true).unwrap();
        assert!((&ours).read(&mut [0; 64]).is_err());
        drop(ours);
        assert_eq!(guest.read(0, 512).len(), 512);
    }
}

#[test]
fn several_queues_are_served_at_once_with_events_and_with_flags() {
    for features in [0, feature::EVENT_IDX] {
        let site = TestSite::start(VOLUMES);
        let mut guest = TestGuest::connect(&at(&site, "alpha"));
        guest.features &= !feature::EVENT_IDX | features;
        guest.agree();
        guest.tell_memory();
        for number in 0..4 {
            guest.add_queue(number);
            guest.tell_queue(number, 0);
        }
        let mut seen = 0;
        for round in 0..200u64 {
            // 32 places of the memory are used once each per round, by 4 queues with 8 requests.
            for number in 0..4 {
                for n in 0..8 {
                    let place = number as u64 * 8 + n;
                    let sector = (round * 32 + place) % 4096 * 8;
                    guest.submit_at(number, place, OUT, sector, 4096);
                }
            }
            for number in 0..4 {
                for _ in 0..8 {
                    assert_eq!(guest.next(number).written, 1);
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 200 * 32);
    }
}

#[test]
fn invalid_requests_get_a_status_and_the_queue_continues() {
    let mut log = log::listen();
    let site = TestSite::start(VOLUMES);
    let mut guest = TestGuest::start(&at(&site, "alpha"), 1);
    let data = [(DATA + 0x1000, 512)];
    // The disk has 32,768 sectors. The second and third request overflow when they are converted to
    // bytes or added up.
    for (kind, sector, expected) in [
        (IN, 32_768, IO_ERROR),
        (OUT, u64::MAX, IO_ERROR),
        (IN, u64::MAX / 512, IO_ERROR),
        (77, 0, UNSUPPORTED),
    ] {
        let buffers = guest.frame(DATA, kind, sector, &data);
        guest.submit(0, &buffers);
        guest.next(0);
        assert_eq!(guest.get(DATA + 16, 1), [expected], "{kind} at {sector}");
    }
    let mut bad = Vec::new();
    // In turn: data outside of memory, half a sector, data in the wrong direction, no data, no
    // header, and no status.
    for data in [(0x1000_0000, 512), (0xffff_ffff_0000, 512), (DATA, 100)] {
        bad.push((guest.frame(DATA, IN, 0, &[data]), Some(IO_ERROR)));
    }
    let mut wrong = guest.frame(DATA, IN, 0, &data);
    wrong[1].writable = false;
    bad.push((wrong, Some(IO_ERROR)));
    bad.push((guest.frame(DATA, IN, 0, &[]), Some(IO_ERROR)));
    let whole = guest.frame(DATA, IN, 0, &data);
    bad.push((whole[1..].to_vec(), Some(IO_ERROR)));
    bad.push((whole[..1].to_vec(), None));
    for (buffers, status) in bad {
        guest.put(DATA + 16, &[NO_STATUS]);
        guest.submit(0, &buffers);
        let used = guest.next(0);
        assert_eq!(used.written, u32::from(status.is_some()), "{buffers:?}");
        let expected = status.unwrap_or(NO_STATUS);
        assert_eq!(guest.get(DATA + 16, 1), [expected], "{buffers:?}");
    }
    guest.write(1, &[3; 512]);
    assert_eq!(guest.read(1, 512), [3; 512]);
    let mut read_only = TestGuest::start(&at(&site, "ro"), 1);
    until_said(&mut log, "the disk is read-only", || {
        assert_eq!(read_only.request(0, OUT, 0, &[1; 512]), IO_ERROR);
    });
    assert_eq!(read_only.read(0, 512), [0; 512]);
}

#[test]
fn an_invalid_queue_is_broken_and_other_queues_continue() {
    let site = TestSite::start(VOLUMES);
    let mut guest = TestGuest::start(&at(&site, "alpha"), 2);
    let mut other = TestGuest::start(&at(&site, "alpha"), 1);
    other.write(5, &[1; 512]);
    // The available index of the second queue jumps by more than its size.
    guest.put(0x4000 + 0x1000 + 2, &(SIZE + 1).to_le_bytes());
    tools::guest::kick(&guest.queues[1].kick);
    assert!(guest.next_within(1, Duration::from_millis(100)).is_none());
    guest.write(9, &[2; 512]);
    assert_eq!(other.read(9, 512), [2; 512]);
    // When the queue is stopped and set up again, it is served again.
    guest.send(MessageCode::GET_VRING_BASE, 0, &words(&[1, 0]), &[]);
    guest.answer(MessageCode::GET_VRING_BASE).unwrap();
    guest.put(0x4000 + 0x1000 + 2, &[0, 0]);
    guest.tell_queue(1, 0);
    assert_eq!(guest.request(1, OUT, 0, &[4; 512]), OK);
}

#[test]
fn invalid_messages_are_refused_or_end_the_connection() {
    let site = TestSite::start(VOLUMES);
    let path = at(&site, "alpha");
    let table = |guest: u64, size: u64| [words(&[1, 0]), doubles(&[guest, size, 0, 0])].concat();
    let slot = |guest: u64| [vec![0; 8], doubles(&[guest, 4096, 1 << 40 | guest, 0])].concat();
    let guest = TestGuest::start(&path, 1);
    let file = [guest.file.as_fd()];
    let both = [guest.file.as_fd(); 2];
    // Two regions of one page, at these distances for the guest and for its VMM.
    let two = |guest: u64, user: u64| {
        let regions = [0, 4096, 1 << 40, 0, guest, 4096, (1 << 40) + user, 4096];
        [words(&[2, 0]), doubles(&regions)].concat()
    };
    for (code, payload, files) in [
        (MessageCode::SET_FEATURES, doubles(&[1 << 63]), &[][..]),
        // Regions must not overlap, neither for the guest nor for the VMM.
        (MessageCode::SET_MEM_TABLE, two(4095, 8192), &both[..]),
        (MessageCode::SET_MEM_TABLE, two(8192, 4095), &both[..]),
        (MessageCode::SET_MEM_TABLE, table(0, 1 << 40), &file[..]),
        (MessageCode::SET_MEM_TABLE, table(0, 0), &file[..]),
        (MessageCode::SET_MEM_TABLE, table(0, 4096), &[][..]),
        (MessageCode::ADD_MEM_REG, slot(GUEST), &file[..]),
        (MessageCode::REM_MEM_REG, slot(1 << 30), &[][..]),
        (MessageCode::SET_VRING_NUM, words(&[1, 0]), &[][..]),
        (MessageCode::SET_VRING_NUM, words(&[1, 96]), &[][..]),
        (MessageCode::SET_VRING_NUM, words(&[16, 8]), &[][..]),
        (MessageCode::SET_VRING_NUM, words(&[0, 64]), &[][..]),
        (MessageCode::SET_VRING_KICK, doubles(&[1 << 8]), &[][..]),
        (MessageCode::SET_LOG_BASE, doubles(&[0, 0]), &file[..]),
        (
            MessageCode::SET_CONFIG,
            [words(&[0, 1, 0]), vec![1]].concat(),
            &[][..],
        ),
        (MessageCode::SET_INFLIGHT_FD, inflight(64, 1), &file[..]),
        (MessageCode(4711), vec![], &[][..]),
    ] {
        assert!(!guest.try_tell(code, &payload, files), "{code} {payload:?}");
    }
    assert!(guest.try_tell(MessageCode::SET_MEM_TABLE, &two(4096, 4096), &both));
    guest.tell_memory();
    // A guest may have 64 regions.
    for n in 1..64 {
        assert!(guest.try_tell(MessageCode::ADD_MEM_REG, &slot(n << 30), &file));
    }
    assert!(!guest.try_tell(MessageCode::ADD_MEM_REG, &slot(64 << 30), &file));
    // The server waits for the rest of a short message, but not for one that is longer than any
    // message can be.
    let half = TestGuest::connect(&path);
    half.send(MessageCode::GET_FEATURES, 0, &[], &[]);
    half.answer(MessageCode::GET_FEATURES).unwrap();
    std::io::Write::write_all(&mut &half.socket, &[1, 0, 0]).unwrap();
    let long = TestGuest::connect(&path);
    std::io::Write::write_all(&mut &long.socket, &words(&[5, 1, 1 << 20])).unwrap();
    assert!(long.is_ended());
    let many = TestGuest::connect(&path);
    // A message can have at most 8 descriptors.
    let nine = [many.file.as_fd(); 9];
    many.send(
        MessageCode::SET_MEM_TABLE,
        0,
        &[words(&[9, 0]), vec![0; 9 * 32]].concat(),
        &nine,
    );
    assert!(many.is_ended());
    let mut honest = TestGuest::start(&path, 1);
    honest.write(0, &[1; 512]);
}

#[test]
fn rings_outside_of_memory_break_their_queue_only() {
    let site = TestSite::start(VOLUMES);
    let mut guest = TestGuest::start(&at(&site, "alpha"), 1);
    // In turn: an address outside of memory, a ring that ends outside of it, an overflow, and a
    // misaligned address.
    for (n, address) in [
        (1, 0u64),
        (2, 0x7000_0000_0000 + (8 << 20) - 8),
        (3, u64::MAX),
        (4, 0x7000_0000_0001),
    ] {
        let places = doubles(&[address, address, address, 0]);
        guest.tell(MessageCode::SET_VRING_NUM, &words(&[n, 128]), &[]);
        guest.tell(
            MessageCode::SET_VRING_ADDR,
            &[words(&[n, 0]), places].concat(),
            &[],
        );
        let kick = [guest.queues[0].call.as_fd()];
        guest.tell(
            MessageCode::SET_VRING_KICK,
            &u64::from(n).to_ne_bytes(),
            &kick,
        );
        assert!(guest.try_tell(MessageCode::SET_VRING_ENABLE, &words(&[n, 1]), &[]));
    }
    guest.write(0, &[1; 512]);
}

#[test]
fn removed_guest_memory_ends_only_its_own_connection() {
    let site = TestSite::start(VOLUMES);
    for name in ["alpha", "file"] {
        let path = at(&site, name);
        let mut other = TestGuest::start(&path, 1);
        let mut guest = TestGuest::start(&path, 1);
        guest.write(0, &[1; 4096]);
        // The server may see the request before the memory is removed, so it writes to a range that
        // is not checked.
        let buffers = guest.frame(DATA, OUT, 16, &[(DATA + 0x1000, 4096)]);
        guest.queues[0].driver.add(&buffers).unwrap();
        let _ = guest.queues[0].driver.publish();
        rustix::fs::ftruncate(&guest.file, 0).unwrap();
        tools::guest::kick(&guest.queues[0].kick);
        assert!(guest.is_ended(), "{name}");
        other.write(8, &[2; 4096]);
        assert_eq!(other.read(0, 4096), [1; 4096], "{name}");
    }
}

#[test]
fn a_queue_that_is_stopped_says_how_far_it_was_served() {
    let site = TestSite::start(VOLUMES);
    let mut guest = TestGuest::start(&at(&site, "file"), 1);
    for n in 0..40 {
        guest.submit_at(0, n, OUT, n * 8, 4096);
    }
    guest.send(MessageCode::GET_VRING_BASE, 0, &words(&[0, 0]), &[]);
    let answer = guest.answer(MessageCode::GET_VRING_BASE).unwrap();
    let base = u32::from_ne_bytes(answer[4..].try_into().unwrap());
    // All requests that were taken are in the used ring. The others were not touched.
    let mut done = 0;
    while guest.next_within(0, Duration::ZERO).is_some() {
        done += 1;
    }
    assert_eq!(done, base);
    guest.tell_queue(0, base);
    for _ in base..40 {
        guest.next(0);
    }
}

#[test]
fn requests_in_flight_at_a_reconnect_are_answered_once() {
    let site = TestSite::start(VOLUMES);
    let path = at(&site, "file");
    let mut guest = TestGuest::connect(&path);
    guest.agree();
    guest.tell_memory();
    let notes = guest.inflight(1);
    guest.add_queue(0);
    guest.tell_queue(0, 0);
    let mut answered = vec![0; usize::from(SIZE)];
    let mut wanted = 0;
    for round in 0..30u64 {
        for n in 0..16 {
            guest.submit_at(0, n, OUT, (round * 16 + n) * 8, 4096);
            wanted += 1;
        }
        // The VMM disconnects in the middle of the requests, and reconnects.
        guest.come_back(&path, &notes);
        guest.tell_queue(0, 0);
        for _ in 0..16 {
            let used = guest.next(0);
            answered[used.head as usize] += 1;
            wanted -= 1;
        }
        assert_eq!(wanted, 0);
        assert!(
            guest.next_within(0, Duration::from_millis(2)).is_none(),
            "answered twice"
        );
    }
}

#[test]
fn a_monitor_that_comes_back_need_not_know_where_its_queue_stopped() {
    let site = TestSite::start(VOLUMES);
    let path = at(&site, "file");
    let mut guest = TestGuest::connect(&path);
    guest.agree();
    guest.tell_memory();
    let notes = guest.inflight(1);
    guest.add_queue(0);
    for _ in 0..3 {
        guest.tell_queue(0, 0);
        guest.write(0, &[1; 512]);
        guest.write(8, &[2; 512]);
        let more = guest.next_within(0, Duration::from_millis(2));
        assert_eq!(more, None, "nothing is served twice");
        guest.come_back(&path, &notes);
    }
}

#[test]
fn an_idle_guest_costs_nothing() {
    let site = TestSite::start(VOLUMES);
    let mut guest = TestGuest::start(&at(&site, "alpha"), 4);
    guest.write(0, &[1; 512]);
    std::thread::sleep(Duration::from_millis(50));
    let before = tools::process::server_threads();
    std::thread::sleep(Duration::from_millis(300));
    let after = tools::process::server_threads();
    for (name, used) in &after {
        let Some(was) = before.get(name) else {
            continue;
        };
        assert!(used.ticks - was.ticks <= 1, "{name} {was:?} {used:?}");
    }
}

/// Empty kicks are listened to less and less often, but a request behind them is found.
#[test]
fn a_storm_of_empty_kicks_wakes_the_server_seldom_and_hides_no_request() {
    let site = TestSite::start(VOLUMES);
    let mut guest = TestGuest::start(&at(&site, "alpha"), 2);
    let mut other = TestGuest::start(&at(&site, "alpha"), 1);
    other.write(0, &[1; 512]);
    let storm = |length: Duration| {
        let begun = std::time::Instant::now();
        let mut kicks = 0;
        while begun.elapsed() < length {
            tools::guest::kick(&guest.queues[1].kick);
            kicks += 1;
            std::thread::sleep(Duration::from_micros(20));
        }
        kicks
    };
    let before = tools::process::shard_sleeps();
    let kicks = storm(Duration::from_millis(500));
    let wakes = tools::process::shard_sleeps() - before;
    assert!(kicks > 1000, "{kicks} kicks");
    // The intervals are 1, 2, 4, ... ms, so there are about ten wake-ups in half a second, and a
    // few others.
    assert!(wakes < 60, "{wakes} wake-ups of {kicks} kicks");
    // The other queue of the same guest is not throttled, and a request in the second queue is
    // served.
    guest.write(8, &[2; 512]);
    assert_eq!(guest.request(1, OUT, 16, &[3; 512]), OK);
    assert_eq!(other.read(16, 512), [3; 512]);
}

/// The queue of this volume may wake the server at most once per millisecond.
#[test]
fn a_volume_that_sleeps_is_woken_seldom_and_one_that_gathers_calls_seldom() {
    let site = TestSite::start(
        "[drive.d]\n[volume.alpha]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\n\
         listen = { vhost = \"{files}/alpha\", sleep = \"1ms\", call_count = 16, call_delay = \"10ms\" }\n",
    );
    let mut guest = TestGuest::start(&at(&site, "alpha"), 1);
    guest.write(0, &[1; 512]);
    let (begun, before) = (std::time::Instant::now(), tools::process::shard_sleeps());
    let mut answered = 0;
    while begun.elapsed() < Duration::from_millis(300) {
        for n in 0..32 {
            guest.submit_at(0, n, IN, n, 512);
        }
        for _ in 0..32 {
            guest.next(0);
            answered += 1;
        }
    }
    let elapsed = begun.elapsed().as_millis() as u64;
    let wakes = tools::process::shard_sleeps() - before;
    // In each millisecond, the queue wakes the shard once, and a call of the guest wakes it once
    // more.
    assert!(
        wakes <= 2 * elapsed + 20,
        "{wakes} wake-ups in {elapsed} ms"
    );
    assert!(answered >= 64, "{answered} answers");
    let mut count = [0; 8];
    let _ = rustix::io::read(&guest.queues[0].call, &mut count);
    for n in 0..32 {
        let place = DATA + n * 0x2000;
        let buffers = guest.frame(place, IN, n, &[(place + 0x1000, 512)]);
        guest.queues[0].driver.add(&buffers).unwrap();
    }
    while guest.queues[0].driver.arm().unwrap() {}
    let _ = guest.queues[0].driver.publish();
    tools::guest::kick(&guest.queues[0].kick);
    std::thread::sleep(Duration::from_millis(60));
    rustix::io::read(&guest.queues[0].call, &mut count).unwrap();
    let calls = u64::from_ne_bytes(count);
    // 32 requests need two calls of 16 each.
    assert!((1..=8).contains(&calls), "{calls} calls for 32 requests");
}

/// A guest with one request at a time waits for the whole delay if answers are gathered. It does
/// not wait under the rules that depend on the load.
#[test]
fn each_volume_has_its_own_rule_for_calls() {
    let volume = |name: &str, calls: &str| {
        format!(
            "[volume.{name}]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\n\
             listen = {{ vhost = \"{{files}}/{name}\", calls = \"{calls}\", call_count = 16, call_delay = \"10ms\" }}\n"
        )
    };
    let rules = [("a", "gather"), ("b", "vic"), ("c", "spdk")];
    let volumes: String = rules
        .iter()
        .map(|(name, calls)| volume(name, calls))
        .collect();
    // A server with a high priority answers before the guest has stopped polling, so that no call
    // would be necessary.
    let usual = "[server]\npriority = \"normal\"\n";
    let site = TestSite::start(&format!("{usual}[drive.d]\n{volumes}"));
    let answered = rules.map(|(name, _)| {
        let mut guest = TestGuest::start(&at(&site, name), 1);
        let begun = std::time::Instant::now();
        let mut answered = 0;
        while begun.elapsed() < Duration::from_millis(300) {
            guest.read(0, 512);
            answered += 1;
        }
        // Many requests at a time are all answered under each rule.
        for _ in 0..200 {
            for n in 0..32 {
                guest.submit_at(0, n, IN, n, 512);
            }
            for _ in 0..32 {
                guest.next(0);
            }
        }
        answered
    });
    let [gather, vic, spdk] = answered;
    // If the guest polls in time, it needs no call, so the first rule can exceed 30 answers in 300
    // ms.
    println!("{answered:?} in thirty times the delay");
    assert!(vic > 3 * gather && spdk > 3 * gather, "{answered:?}");
}

/// Returns an event with the highest count, so that a writer blocks until it is read.
fn full_event() -> OwnedFd {
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    event
}

/// Returns the next head of a queue that makes no calls to its guest.
fn next_without_call(guest: &mut TestGuest, number: usize) -> UsedHead {
    let found = (0..500).find_map(|_| guest.next_within(number, Duration::from_millis(20)));
    found.expect("a request that is never answered")
}

#[test]
fn a_call_that_blocks_delays_no_other_queue() {
    let site = TestSite::start(VOLUMES);
    let path = at(&site, "alpha");
    let mut other = TestGuest::start(&path, 1);
    let mut guest = TestGuest::start(&path, 2);
    let call = full_event();
    guest.tell(MessageCode::SET_VRING_CALL, &doubles(&[0]), &[call.as_fd()]);
    for sector in 0..40 {
        let head = guest.submit_at(0, 0, OUT, sector, 512);
        assert_eq!(next_without_call(&mut guest, 0).head, head);
        assert_eq!(guest.get(DATA + 16, 1), [OK]);
        // Neither the other queue of the same guest nor another guest waits for the call.
        assert_eq!(guest.request(1, OUT, sector, &[3; 512]), OK);
        other.write(sector, &[4; 512]);
    }
    // One call was in progress, and one more is made for all answers since.
    let mut count = [0; 8];
    rustix::io::read(&call, &mut count).unwrap();
    let mut fds = [PollFd::new(&call, PollFlags::IN)];
    let patience = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "no call was made");
    // A guest that disconnects while a call of it blocks does not block the guests that connect
    // afterwards.
    let call = full_event();
    guest.tell(MessageCode::SET_VRING_CALL, &doubles(&[0]), &[call.as_fd()]);
    guest.submit_at(0, 0, OUT, 0, 512);
    next_without_call(&mut guest, 0);
    drop(guest);
    let mut next = TestGuest::start(&path, 1);
    next.write(0, &[5; 512]);
    assert_eq!(other.read(0, 512), [5; 512]);
}

/// The memory is mapped again while requests are in flight. These complete in the old mapping of
/// the same memory.
#[test]
fn tables_of_memory_are_exchanged_while_requests_are_in_flight() {
    let site = TestSite::start(VOLUMES);
    for name in ["alpha", "file"] {
        let mut guest = TestGuest::start(&at(&site, name), 1);
        for round in 1..=20 {
            for n in 0..16 {
                guest.put(DATA + n * 0x3000 + 0x1000, &[round; 4096]);
                guest.submit_at(0, n, OUT, n * 8, 4096);
            }
            guest.tell_memory();
            for _ in 0..16 {
                guest.next(0);
            }
            for n in 0..16 {
                let status = guest.get(DATA + n * 0x3000 + 16, 1);
                assert_eq!(status, [OK], "{name}, round {round}, request {n}");
            }
        }
        for n in 0..16 {
            assert_eq!(guest.read(n * 8, 4096), [20; 4096], "{name}");
        }
        // A table without the memory of a request makes that request fail, and restoring the table
        // makes the next one succeed.
        let far = [words(&[1, 0]), doubles(&[1 << 40, 4096, 1 << 50, 0])].concat();
        assert!(guest.try_tell(MessageCode::SET_MEM_TABLE, &far, &[guest.file.as_fd()]));
        guest.submit_at(0, 0, OUT, 0, 4096);
        guest.next(0);
        assert_eq!(guest.get(DATA + 16, 1), [NO_STATUS], "{name}");
        guest.tell_memory();
        // Replies come in order, so the table is in use when this one arrives.
        guest.ask(MessageCode::GET_FEATURES);
        guest.write(0, &[9; 4096]);
        assert_eq!(guest.read(0, 4096), [9; 4096], "{name}");
    }
}
