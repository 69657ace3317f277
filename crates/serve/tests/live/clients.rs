//! Clients of other projects, each of which runs while hostile input is sent on other connections
//! of the same volume.
//!
//! Each test runs under the policy `contract`, on volumes in memory over a Unix socket and on
//! volumes in files over TCP. If a program is not installed, its test is skipped with a line.
//! `WEIR_NO_SKIP=1` makes that a failure.

use std::io::Write;
use std::path::Path;

use crate::tools::attack::Attack;
use crate::tools::metrics::MetricsSnapshot;
use crate::tools::program::{have, run, run_with};
use crate::tools::raw::{Raw, header};
use crate::tools::{TestSite, log, pattern, uri};
use weir_config::ListenAddress;
use weir_wire::nbd::{CommandFlags, Errno, NbdCommand};

/// The size of each volume in bytes.
const SIZE: usize = 40 << 20;

/// Starts a site with the equal volumes `a` and `b`, and the read-only volume `ro`. `storage`
/// returns the storage of a volume as configuration.
fn site(storage: &dyn Fn(&str) -> String) -> TestSite {
    let (a, b) = (storage("a"), storage("b"));
    let volume = |name: &str, rest: &str| {
        format!("[volume.{name}]\ndrive = \"disk\"\nsize = \"40MiB\"\n{rest}")
    };
    let promised = |storage: &str| format!("min = \"20MB/s\"\n{storage}");
    TestSite::start(&format!(
        "[drive.disk]\npolicy = \"contract\"\ncapacity = {{ read = \"400MB/s\", write = \"300MB/s\" }}\n{}{}{}",
        volume("a", &promised(&a)),
        volume("b", &promised(&b)),
        volume("ro", "read_only = true\nmemory = true\n"),
    ))
}

/// The site and the address that a test uses.
struct TestPlace<'a> {
    site: &'a TestSite,
    address: &'a ListenAddress,
}

impl TestPlace<'_> {
    fn uri(&self, export: &str) -> String {
        uri(self.address, export)
    }

    /// Returns the path of a file for the test.
    fn file(&self, name: &str) -> String {
        self.site.files.path().join(name).display().to_string()
    }

    /// Creates a file with data for a whole volume.
    fn image(&self, name: &str, seed: u64) -> String {
        let path = self.file(name);
        std::fs::write(&path, pattern(seed, SIZE)).unwrap();
        path
    }
}

/// Runs a test in memory over a Unix socket, and then in files over TCP, both under attack.
/// Afterwards the server must still answer.
fn under_attack(programs: &[&str], test: impl Fn(&TestPlace<'_>)) {
    if !have(programs) {
        return;
    }
    let memory = |_: &str| "memory = true\n".to_owned();
    let file = |volume: &str| format!("file = \"{{files}}/{volume}.img\"\n");
    for (seed, storage) in [(1, &memory as &dyn Fn(&str) -> String), (2, &file)] {
        let site = site(storage);
        let address = if seed == 1 { &site.unix } else { &site.tcp };
        let attacks = ["a", "b"].map(|v| Attack::start(address, v, seed));
        test(&TestPlace {
            site: &site,
            address,
        });
        for attack in attacks {
            assert!(attack.end() >= 10);
        }
        let mut raw = Raw::open(address, "a").unwrap();
        assert_eq!(raw.read(SIZE as u64 - 512, 512).unwrap().len(), 512);
        assert!(site.server.shutdown());
    }
}

#[test]
fn fio_verifies_the_writes_of_several_jobs() {
    under_attack(&["fio"], |place| {
        for (pattern, more) in [
            ("randwrite", "--fsync=16"),
            ("write", "--verify_backlog=32"),
        ] {
            let uri = format!("--uri={}", place.uri("a"));
            let rw = format!("--rw={pattern}");
            let arguments = [
                "--name=verify",
                "--ioengine=nbd",
                &uri,
                &rw,
                more,
                "--bsrange=512-128k",
                "--size=4M",
                "--offset_increment=4M",
                "--numjobs=4",
                "--iodepth=8",
                "--thread",
                "--verify=crc32c",
                "--verify_state_save=0",
                "--verify_fatal=1",
            ];
            let report = run("fio", &arguments);
            assert_eq!(report.matches("err= 0").count(), 4, "{report}");
        }
    });
}

#[test]
fn nbdcopy_takes_bytes_there_between_volumes_and_back() {
    under_attack(&["nbdcopy"], |place| {
        let (there, back) = (place.image("there", 3), place.file("back"));
        std::fs::write(&back, vec![0; SIZE]).unwrap();
        let (a, b) = (place.uri("a"), place.uri("b"));
        run("nbdcopy", &["--flush", "--connections=4", &there, &a]);
        run("nbdcopy", &["--synchronous", &a, &b]);
        run(
            "nbdcopy",
            &["--requests=16", "--request-size=1048576", &b, &back],
        );
        assert!(same(&there, &back));
    });
}

#[test]
fn nbdcopy_keeps_holes() {
    under_attack(&["nbdcopy", "nbdinfo"], |place| {
        let (sparse, back) = (place.file("sparse"), place.file("back"));
        let mut bytes = vec![0; SIZE];
        bytes[8 << 20..12 << 20].copy_from_slice(&pattern(4, 4 << 20));
        let file = std::fs::File::create(&sparse).unwrap();
        file.set_len(SIZE as u64).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes[8 << 20..12 << 20], 8 << 20)
            .unwrap();
        std::fs::write(&back, pattern(5, SIZE)).unwrap();
        let a = place.uri("a");
        // The sparse copy must also punch holes into data that was there.
        run("nbdcopy", &[&place.image("full", 6), &a]);
        run("nbdcopy", &["--flush", &sparse, &a]);
        run("nbdcopy", &[&a, &back]);
        assert!(same(&sparse, &back));
        let map = run("nbdinfo", &["--map", "--totals", &a]);
        assert!(map.contains("hole"), "{map}");
    });
}

/// The script tests all commands with all flags, and all requests that must be refused.
#[test]
fn nbdsh_finds_every_command_as_the_protocol_says() {
    under_attack(&["nbdsh"], |place| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/commands.py");
        let arguments = ["--base-allocation", "-c", "-"];
        for export in ["a", "ro"] {
            let input = std::fs::File::open(&script).unwrap();
            let text = format!("uri = {:?}; name = {export:?}\n", place.uri(export));
            let whole = place.file("script.py");
            std::fs::write(&whole, text + &std::io::read_to_string(input).unwrap()).unwrap();
            let said = run_with("nbdsh", &arguments, std::fs::File::open(&whole).unwrap());
            assert!(said.ends_with("well\n"), "{said}");
        }
    });
}

#[test]
fn qemu_img_converts_there_and_back_and_finds_no_difference() {
    under_attack(&["qemu-img"], |place| {
        let (image, copy) = (place.image("image", 7), place.file("copy.qcow2"));
        let (a, b) = (place.uri("a"), place.uri("b"));
        run(
            "qemu-img",
            &["convert", "-n", "-f", "raw", "-O", "raw", &image, &a],
        );
        run(
            "qemu-img",
            &["compare", "-f", "raw", "-F", "raw", &image, &a],
        );
        run(
            "qemu-img",
            &["convert", "-f", "raw", "-O", "qcow2", &a, &copy],
        );
        run(
            "qemu-img",
            &["compare", "-f", "qcow2", "-F", "raw", &copy, &a],
        );
        run(
            "qemu-img",
            &[
                "convert", "-n", "-W", "-m", "4", "-f", "qcow2", "-O", "raw", &copy, &b,
            ],
        );
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &a, &b]);
        let info = run("qemu-img", &["info", "-f", "raw", &a]);
        assert!(info.contains(&format!("{SIZE} bytes")), "{info}");
    });
}

#[test]
fn qemu_io_reads_the_patterns_it_wrote() {
    under_attack(&["qemu-io"], |place| {
        let a = place.uri("a");
        let commands = [
            "write -P 0xa1 0 1M",
            "write -f -P 0xa2 4097 513",
            "aio_write -P 0xa3 2M 64k",
            "aio_write -P 0xa4 3M 64k",
            "aio_flush",
            "flush",
            "read -P 0xa1 0 4097",
            "read -P 0xa2 4097 513",
            "read -P 0xa1 4610 1043966",
            "read -P 0xa3 2M 64k",
            "read -P 0xa4 3M 64k",
            "write -z 64k 128k",
            "read -P 0 64k 128k",
            "write -z -u 256k 64k",
            "read -P 0 256k 64k",
            "discard 512k 64k",
            "writev -P 0xa5 30M 512 4096 1",
            "readv -P 0xa5 30M 4096 512 1",
            "read -P 0xa1 192k 64k",
        ];
        let mut arguments = vec!["-f", "raw"];
        for command in &commands {
            arguments.extend(["-c", command]);
        }
        arguments.push(&a);
        let said = run("qemu-io", &arguments);
        assert!(!said.contains("failed"), "{said}");
        assert!(!said.contains("Pattern verification"), "{said}");
    });
}

#[test]
fn copies_through_an_nbdkit_proxy_are_identical() {
    under_attack(&["nbdkit", "nbdcopy"], |place| {
        let (there, back) = (place.image("there", 8), place.file("back"));
        std::fs::write(&back, vec![0; SIZE]).unwrap();
        let through = format!("uri={}", place.uri("a"));
        let copies = format!("nbdcopy --flush {there} $uri && nbdcopy --connections=2 $uri {back}");
        run(
            "nbdkit",
            &[
                "-U",
                "-",
                "--exit-with-parent",
                "nbd",
                &through,
                "shared=true",
                "--run",
                &copies,
            ],
        );
        assert!(same(&there, &back));
        // A copy without nbdkit shows that the data has reached the volume.
        std::fs::write(&back, vec![0; SIZE]).unwrap();
        run("nbdcopy", &[&place.uri("a"), &back]);
        assert!(same(&there, &back));
    });
}

#[test]
fn nbdinfo_lists_the_volumes_and_their_maps() {
    under_attack(&["nbdinfo", "nbdcopy"], |place| {
        let list = run("nbdinfo", &["--list", &place.uri("")]);
        for volume in ["export=\"a\":", "export=\"b\":", "export=\"ro\":"] {
            assert!(list.contains(volume), "{list}");
        }
        let count = |line| list.lines().filter(|l| l.trim() == line).count();
        assert_eq!(count("export-size: 41943040 (40M)"), 3, "{list}");
        assert_eq!(count("is_read_only: true"), 1, "{list}");
        assert_eq!(count("can_fua: true"), 2, "{list}");
        assert_eq!(count("can_multi_conn: true"), 3, "{list}");
        assert_eq!(count("base:allocation"), 3, "{list}");
        assert_eq!(run("nbdinfo", &["--size", &place.uri("a")]), "41943040\n");
        run("nbdcopy", &[&place.image("full", 9), &place.uri("a")]);
        let map = run("nbdinfo", &["--map", &place.uri("a")]);
        let fields: Vec<&str> = map.split_whitespace().collect();
        assert_eq!(fields, ["0", "41943040", "0", "data"], "{map}");
        let map = run("nbdinfo", &["--map", &place.uri("ro")]);
        let fields: Vec<&str> = map.split_whitespace().collect();
        assert_eq!(fields, ["0", "41943040", "3", "hole,zero"], "{map}");
    });
}

/// Returns true if two files have the same contents.
fn same(a: &str, b: &str) -> bool {
    std::fs::read(a).unwrap() == std::fs::read(b).unwrap()
}

/// A client asks with `FAST_ZERO` whether zeroing is faster than writing, and the negative answer
/// is not an error of the storage.
#[test]
fn zeroing_that_would_not_be_fast_is_no_failure_of_the_storage() {
    let mut log = log::listen();
    let site = TestSite::start(
        "[drive.d]\n[volume.v]\ndrive = \"d\"\nfile = \"{files}/v.img\"\nsize = \"1MiB\"\n",
    );
    let mut raw = Raw::open(&site.unix, "v").unwrap();
    log.take();
    // A range of 100 bytes is not aligned, so it would have to be written.
    let request = header(NbdCommand::WriteZeroes, CommandFlags::FAST_ZERO, 1, 0, 100);
    raw.stream.write_all(&request).unwrap();
    assert_eq!(raw.answer().unwrap().1, Err(Errno::NotSup));
    let errors = MetricsSnapshot::of(&site.server).sum("weir_errors_total", &[]);
    assert!(errors < 0.5, "{errors} errors");
    let said = log.take();
    assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
}
