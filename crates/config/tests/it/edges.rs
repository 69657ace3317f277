//! Exact bounds of values, and the accessors of servers and policies.

use std::fmt::Write as _;
use weir_config::{Server, Storage, parse, policy};

/// Returns the first line of the first problem of a file with this text.
fn said(text: &str) -> Result<Server, String> {
    let drive = "\n[drive.one]\n";
    parse("", &(text.to_owned() + drive)).map_err(|problems| {
        let first = &problems[0];
        first.to_string().lines().next().unwrap().to_owned()
    })
}

/// Returns the first problem of a file that listens at this address and has these further lines.
fn listening(address: &str, more: &str) -> Result<Server, String> {
    said(&format!("[listen]\nnbd = [\"{address}\"]\n{more}\n"))
}

#[test]
fn modes_of_sockets_have_three_or_four_octal_digits() {
    let mode =
        |mode: &str| listening("unix:/run/weir.sock", &format!("socket_mode = \"{mode}\"")).is_ok();
    for good in ["000", "660", "777", "0777", "0000"] {
        assert!(mode(good), "{good}");
    }
    // 1777 is octal, but has a bit beyond the permissions.
    for bad in ["", "7", "66", "00660", "1777", "888", "+660", "-660", "66x"] {
        assert!(!mode(bad), "{bad}");
    }
}

#[test]
fn owners_of_sockets_are_a_user_a_group_or_both() {
    let owner = |owner: &str| {
        listening(
            "unix:/run/weir.sock",
            &format!("socket_owner = \"{owner}\""),
        )
        .is_ok()
    };
    for good in ["a", "a:b", ":b", "0:0", "a:"] {
        assert!(owner(good), "{good}");
    }
    // Neither part, too many parts, white space, and a control character.
    for bad in ["", ":", "a:b:c", "a b", "a:b c", "a\\t"] {
        assert!(!owner(bad), "{bad}");
    }
}

#[test]
fn paths_of_files_are_absolute_and_no_longer_than_the_system_takes() {
    let path = |path: &str| {
        said(&format!(
            "listen.nbd = [\"unix:/run/weir.sock\"]\n[volume.alpha]\ndrive = \"one\"\nfile = \"{path}\"\nsize = \"1MiB\"\n"
        ))
    };
    assert!(path("/a").is_ok());
    // 4,095 bytes are the maximum.
    assert!(path(&format!("/{}", "a".repeat(4_000))).is_ok());
    for bad in ["a", "./a", "/a\\u0000b", &format!("/{}", "a".repeat(5_000))] {
        let refused = path(bad).unwrap_err();
        assert!(refused.contains("is not an absolute path"), "{refused}");
    }
}

#[test]
fn a_server_listens_at_64_addresses() {
    let many = |count: u32| {
        let mut text = "[listen]\nnbd = [".to_owned();
        for port in 0..count {
            write!(text, "\"127.0.0.1:{}\", ", 10_000 + port).unwrap();
        }
        said(&(text + "]\n")).is_ok()
    };
    assert!(many(64));
    assert!(!many(65));
}

#[test]
fn a_server_has_at_most_1024_drives() {
    let many = |count: u32| {
        let mut text = String::new();
        for drive in 0..count {
            writeln!(text, "[drive.d{drive}]").unwrap();
        }
        listening("127.0.0.1:0", &text).is_ok()
    };
    // The helper adds one more drive.
    assert!(many(1023));
    assert!(!many(1024));
}

const SERVER: &str = "\
[listen]
nbd = [\"127.0.0.1:0\"]
[drive.d]
capacity = { read = \"100MB/s\", write = \"100MB/s\" }
[volume.cached]
drive = \"d\"
memory = true
size = \"1MiB\"
[volume.promised]
drive = \"d\"
memory = true
size = \"1MiB\"
min = \"1MB/s\"
[volume.model]
drive = \"m\"
size = \"1MiB\"
[drive.m]
model = \"demo\"
";

#[test]
fn a_volume_with_a_problem_of_its_own_is_not_added_up() {
    let problems = |max: &str| {
        let text = format!(
            "[listen]\nnbd = [\"127.0.0.1:0\"]\n[drive.d]\ncapacity = {{ read = \"100MB/s\", write = \"100MB/s\" }}\n\
             [volume.a]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\nmin = \"80MB/s\"\nmax = {{ bandwidth = \"{max}\" }}\n\
             [volume.b]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\nmin = \"60MB/s\"\n"
        );
        let problems = parse("", &text).expect_err("that is too much");
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].to_string()
    };
    // The sum is 80 + 60 = 140 MB/s of 90 that can be promised. If volume a contradicts itself, it
    // is not part of a sum.
    let [both, own] = [problems("90MB/s"), problems("70MB/s")];
    assert!(both.contains("140"), "the sum: {both}");
    assert!(!own.contains("140"), "its max is less than its min: {own}");
}

#[test]
fn a_missing_drive_of_a_volume_or_tenant_is_reported_once() {
    let problems = |tenant: &str, volume: &str| {
        let text = format!(
            "[drive.one]\n[drive.two]\n[listen]\nnbd = [\"unix:/run/weir.sock\"]\n[tenant.t]\n{tenant}\n\
             [volume.v]\n{volume}\ntenant = \"t\"\nmemory = true\nsize = \"1GiB\"\n"
        );
        let problems = parse("", &text).expect_err("a drive is missing");
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].to_string()
    };
    let drive = |name: &str| format!("drive = \"{name}\"");
    // First stage: the tenant is on another drive than the volume.
    let two = problems(&drive("one"), &drive("two"));
    assert!(two.contains("is a tenant of drive"), "{two}");
    // Second stage: the volume's drive does not exist.
    let unknown = problems(&drive("one"), &drive("three"));
    assert!(unknown.contains("unknown drive \"three\""), "{unknown}");
    // Third stage: the tenant has no drive, and the volume is not reported for that.
    let none = problems("", &drive("two"));
    assert!(none.contains("tenant.t"), "{none}");
}

#[test]
fn a_server_knows_its_file_and_the_position_of_each_key() {
    let server = parse("here.toml", SERVER).unwrap();
    assert_eq!(server.file(), "here.toml");
    assert!(server.is_written("drive.d.capacity"));
    // The capacity of the model is known, but the file does not state it.
    assert!(!server.is_written("drive.m.capacity"));
    let promised = |name| server.volume(name).unwrap().is_promised();
    assert!(promised("promised") && !promised("cached"));
    let cached = server.volume("cached").unwrap();
    assert_eq!((&cached.storage, cached.block()), (&Storage::Memory, 512));
    // The key is in line 13 of the text.
    let problem = server.problem("volume.promised.min", "is seen".into(), None);
    assert_eq!(
        problem.to_string(),
        "here.toml:13:7: volume.promised.min: is seen"
    );
}

#[test]
fn a_policy_knows_its_elevator_its_controllers_and_its_source() {
    let policy = |name| policy::find(name).unwrap();
    let bfq = policy("bfq");
    assert!(bfq.uses("bfq") && !bfq.uses("contract"));
    let latency = policy("none + io.latency");
    assert!(latency.uses("none") && latency.uses("io.latency") && !latency.uses("bfq"));
    assert!(!bfq.is_from_file());
    assert_eq!(bfq.word(), "bfq");
    assert!(policy("contract").keeps_min() && !bfq.keeps_min());
    assert_eq!(weir_config::Policy::none(), policy("none"));
    assert_ne!(weir_config::Policy::none(), weir_config::Policy::contract());
}

#[test]
fn a_volume_says_where_its_socket_for_virtual_machines_is_written() {
    let text = "listen.nbd = [\"127.0.0.1:0\"]\ndrive.d = {}\nvolume.\"a.b\" = { drive = \"d\", memory = true, size = \"1MiB\", listen.vhost = \"/run/a\" }\n";
    let server = parse("weir.toml", text).expect("it is right");
    let key = server.volumes[0].vhost_key();
    assert_eq!(key, "volume.\"a.b\".listen.vhost");
}

/// Clients need a way to connect: NBD, or a socket of a volume.
#[test]
fn a_server_may_listen_at_sockets_of_volumes_alone() {
    let volume = |listen: &str| {
        format!("[drive.d]\n[volume.a]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\n{listen}\n")
    };
    let own = volume("listen = { vhost = \"/run/a\" }");
    for (text, wrong) in [
        (own.clone(), ""),
        (format!("listen = {{}}\n{own}"), ""),
        (format!("listen.socket_mode = \"0660\"\n{own}"), ""),
        (format!("listen.nbd = []\n{own}"), "listen.nbd"),
        // The wrong path is reported, but not a second problem for the missing addresses.
        (
            volume("listen = { vhost = \"run/a\" }"),
            "volume.a.listen.vhost",
        ),
        (volume(""), "listen"),
        (format!("listen = {{}}\n{}", volume("")), "listen.nbd"),
        (volume("listen = {}"), "listen volume.a.listen.vhost"),
    ] {
        match parse("", &text) {
            Ok(server) => {
                assert_eq!(wrong, "", "{text}");
                assert!(server.listen.nbd.is_empty());
                // The printed file is valid too.
                let printed = server.to_string();
                let again = parse("", &printed);
                assert_eq!(again.map(|s| s.to_string()), Ok(printed));
            }
            Err(problems) => {
                let keys: Vec<String> = problems.into_iter().map(|p| p.key).collect();
                assert_eq!(keys.join(" "), wrong, "{text}");
            }
        }
    }
}

/// Checks that a file of the maximum length is read, and a longer one is refused.
#[test]
fn files_beyond_the_maximum_length_are_refused() {
    let padded = |text: &str, length: usize| format!("{text}{}", " ".repeat(length - text.len()));
    let server = "[listen]\nnbd = [\"127.0.0.1:0\"]\n[drive.d]\n";
    let read_server = |length| parse("", &padded(server, length)).is_ok();
    // Server files can have 16 MiB, and scenarios 1 MiB.
    assert!(read_server(16 << 20) && !read_server((16 << 20) + 1));
    let script = |text: &str, name: &str, length| {
        let read = weir_config::scenario::parse(&padded(text, length), name);
        read.map_err(|problems| println!("{}", problems[0])).is_ok()
    };
    let toml = "about = \"a\"\nduration = \"1s\"\ndrives = [\"demo\"]\n[[client]]\nname = \"a\"\nsize = \"1MiB\"\nrw = \"read\"\n";
    let fio = "[a]\nrw=read\nsize=1m\nruntime=1\n";
    for (text, name) in [(toml, "a.toml"), (fio, "a.fio")] {
        assert!(script(text, name, 1 << 20), "{name}");
        for length in [(1 << 20) + 1, 3 << 20] {
            assert!(!script(text, name, length), "{name}, {length}");
        }
    }
}
