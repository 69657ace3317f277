//! The values of accepted server files, their plans and their notes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use weir_config::policy;
use weir_config::{
    Cache, GroupOwner, Id, Limits, ListenAddress, Policy, Server, SocketOwner, Storage,
    ThreadPriority, explain, load, load_again, parse, plan, warnings,
};
use weir_core::elevator::{Config as Elevator, bfq, contract};
use weir_core::{
    Capacity, Class, Contract, Edit, GroupId, Instant, Layer, Max, ROOT, Refusal, SpaceId, Span,
};

fn corpus(name: &str) -> Server {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    load(&folder.join(name)).expect("accepted")
}

fn read(text: &str) -> Server {
    let listen = "[listen]\nnbd = [\"127.0.0.1:0\"]\n";
    parse("", &format!("{listen}{text}")).expect("accepted")
}

fn policy(name: &str) -> Policy {
    policy::find(name).expect("it comes with Weir")
}

#[test]
fn the_example_of_the_design_is_read() {
    let server = corpus("design.toml");
    let [drive] = &server.drives[..] else {
        panic!("{:?}", server.drives)
    };
    assert_eq!(drive.name, "fast");
    assert_eq!(drive.policy, policy("bfq"));
    let capacity = Capacity {
        read: 160_000_000,
        write: 120_000_000,
        iops: 0,
        ..Capacity::NONE
    };
    assert_eq!(drive.capacity, Some(capacity));
    let listeners = [
        ListenAddress::Unix(PathBuf::from("/run/weir/nbd.sock")),
        ListenAddress::Tcp("127.0.0.1:10809".parse().unwrap()),
    ];
    assert_eq!(server.listen.nbd, listeners);
    assert_eq!(
        server.listen.metrics,
        Some("127.0.0.1:9809".parse().unwrap())
    );
    assert!(!server.listen.insecure);
    assert_eq!(server.listen.socket_mode, 0o600);
    assert_eq!(server.listen.socket_owner, SocketOwner::default());
    assert_eq!(server.limits, Limits::default());
    let alpha = server.volume("alpha").expect("it is there");
    assert_eq!(alpha.drive, "fast");
    assert_eq!(
        alpha.storage,
        Storage::File("/var/lib/weir/alpha.img".into())
    );
    assert_eq!(alpha.size, Some(8 << 30));
    assert_eq!((alpha.read_only, alpha.cache), (false, Cache::Direct));
    assert_eq!(alpha.tenant.as_deref(), Some("acme"));
    let contract = Contract {
        min: 10_000_000,
        min_iops: 0,
        share: 100,
        max: Max {
            bandwidth: 50_000_000,
            iops: 5000,
            burst: Span::from_secs(2),
            ..Max::NONE
        },
        class: Class::BestEffort,
    };
    assert_eq!(alpha.contract, contract);
    assert_eq!(
        server.tenant("acme").expect("it is there").contract,
        Contract::DEFAULT
    );
}

#[test]
fn every_key_of_drives_arrives() {
    let server = corpus("everything.toml");
    let disk = server.drive("disk").unwrap();
    assert_eq!(
        (disk.queues, disk.tags, disk.max_transfer),
        (4, 64, 1 << 20)
    );
    assert!(disk.rotational);
    let capacity = disk.capacity.unwrap();
    assert_eq!(
        [capacity.iops, capacity.read_iops, capacity.write_iops],
        [20_000, 30_000, 20_000]
    );
    assert_eq!(
        (disk.limits.requests, disk.limits.scheduler_tags),
        (8192, 512)
    );
    assert_eq!((disk.limits.volumes, disk.limits.tenants), (16, 4));
    let tuned = contract::Config {
        excess: contract::Excess::Bytes,
        catch_up: Span::from_millis(50),
        forget: Span::from_millis(10),
        idle_class_timeout: Span::ZERO,
        sacrifice: 30,
        remote: Span::from_millis(30),
        bound_in_flight: false,
    };
    assert_eq!(disk.policy.name, "contract");
    assert_eq!(disk.policy.elevator, Elevator::Contract(tuned));
    let linux = server.drive("linux").unwrap();
    let tuned = bfq::Config {
        fifo_expire_sync: Span::from_millis(100),
        fifo_expire_async: Span::from_millis(300),
        back_seek_max: 8 * 1024,
        back_seek_penalty: 3,
        slice_idle: Span::from_millis(9),
        max_budget: 8192,
        timeout_sync: Span::from_millis(250),
        strict_guarantees: true,
        async_charge_factor: 4,
        seeky_threshold: 20,
        low_latency: false,
        injection: false,
        merge: false,
        stable_merge: true,
        charge: bfq::Charge::Service,
        asymmetry: bfq::Asymmetry::Weights,
        waker_detections: 2,
        waker_window: Span::from_micros(200),
    };
    assert_eq!(linux.policy.name, "bfq");
    assert_eq!(linux.policy.elevator, Elevator::Bfq(tuned));
    let demo = weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
    assert_eq!(linux.model, Some(demo.clone()));
    assert_eq!(linux.capacity, demo.capacity());
    assert_eq!((linux.tags, linux.max_transfer), (32, 128 << 10));
    assert_eq!(server.drive("plain").unwrap().policy, policy("none"));
}

#[test]
fn every_key_of_listeners_and_limits_arrives() {
    let server = corpus("everything.toml");
    assert!(server.listen.insecure);
    assert_eq!(server.listen.nbd.len(), 4);
    assert_eq!(
        server.listen.nbd[3],
        ListenAddress::Tcp("127.0.0.1:10810".parse().unwrap())
    );
    assert_eq!(server.listen.socket_mode, 0o660);
    let owner = SocketOwner {
        user: Some(Id::Name("weir".into())),
        group: Some(Id::Number(107)),
    };
    assert_eq!(server.listen.socket_owner, owner);
    let limits = Limits {
        connections: 300,
        requests_per_connection: 2,
        bytes_per_connection: 2 << 20,
        unsent_per_connection: 1 << 20,
        request_size: 1 << 20,
        handshake_timeout: Span::from_millis(2500),
        arena: 64 << 20,
    };
    assert_eq!(server.limits, limits);
    assert_eq!(server.process.priority, ThreadPriority::High);
    assert_eq!(server.process.spin, Span::from_micros(20));
}

#[test]
fn every_key_of_volumes_arrives() {
    let server = corpus("everything.toml");
    let alpha = server.volume("alpha").unwrap();
    assert!(alpha.read_only);
    let max = Max {
        bandwidth: 50_000_000,
        read_bandwidth: 40_000_000,
        write_bandwidth: 30_000_000,
        iops: 5000,
        read_iops: 4000,
        write_iops: 3000,
        iops_size: 256 << 10,
        burst: Span::from_secs(2),
    };
    assert_eq!(alpha.contract.max, max);
    let beta = server.volume("beta").unwrap();
    assert_eq!(beta.storage, Storage::Device("/dev/disk/by-id/beta".into()));
    assert_eq!((beta.size, beta.contract.class), (None, Class::Realtime));
    assert_eq!(server.volume("gamma").unwrap().size, Some(512));
    assert_eq!(server.volume("host").unwrap().cache, Cache::Host);
    assert_eq!(
        server.volume("on/the model").unwrap().storage,
        Storage::Model
    );
    assert_eq!(server.volume("lumps").unwrap().storage, Storage::Model);
}

#[test]
fn keys_that_are_left_out_have_their_defaults() {
    let server = read("[drive.d]\n[drive.disk]\nrotational = true\n");
    let drive = server.drive("d").unwrap();
    assert_eq!(drive.policy, policy("contract"));
    assert_eq!(drive.capacity, None);
    assert_eq!(
        (drive.queues, drive.tags, drive.max_transfer),
        (1, 32, 128 << 10)
    );
    assert_eq!(server.drive("disk").unwrap().max_transfer, 1280 << 10);
    assert!(server.volumes.is_empty());
}

#[test]
fn a_volume_with_a_model_sets_the_model_of_its_drive() {
    let model = "model = { kind = \"null\", service = \"30us\", tags = 8 }\nsize = \"1MiB\"\n";
    let text = format!(
        "[drive.d]\n[volume.a]\ndrive = \"d\"\n{model}[volume.b]\ndrive = \"d\"\n{model}[volume.c]\ndrive = \"d\"\nsize = \"1MiB\"\n"
    );
    let server = read(&text);
    // Volume c names no model, but is on the same drive.
    assert!(server.volumes.iter().all(|v| v.storage == Storage::Model));
    assert_eq!(server.drive("d").unwrap().tags, 8);
}

const TWO_DRIVES: &str = r#"
[drive.x]
capacity = { read = "100MB/s", write = "200MB/s" }
[drive.y]
[tenant.t2]
drive = "x"
min = "40MB/s"
[tenant.t1]
drive = "x"
[tenant.t0]
drive = "y"
[volume.b]
drive = "x"
memory = true
size = "2MiB"
tenant = "t2"
min = "30MB/s"
[volume.a]
drive = "x"
file = "/a"
[volume.c]
drive = "y"
memory = true
size = "1MiB"
"#;

#[test]
fn slots_follow_names() {
    let server = read(TWO_DRIVES);
    let x = plan(&server, "x").expect("it is there");
    assert_eq!(plan(&server, "z"), None);
    let tenants: Vec<_> = x.tenants.iter().map(|(n, g)| (n.as_str(), g.0)).collect();
    // Tenants are numbered from 1 in the order of their names, followed by volumes. The tenant t0
    // is on the other drive.
    assert_eq!(tenants, [("t1", 1), ("t2", 2)]);
    let volumes: Vec<_> = x
        .volumes
        .iter()
        .map(|(n, s)| (n.as_str(), s.group.0, s.space.0))
        .collect();
    assert_eq!(volumes, [("a", 3, 0), ("b", 4, 1)]);
    assert_eq!(x.member(GroupId(2)), Some(GroupOwner::Tenant("t2")));
    assert_eq!(x.member(GroupId(4)), Some(GroupOwner::Volume("b")));
    assert_eq!(x.member(ROOT), Some(GroupOwner::Drive("x")));
    assert_eq!(x.member(GroupId(9)), None);
    let promised = |min| Contract::DEFAULT.with_min(min);
    let add = |id, parent, contract| Edit::AddGroup {
        id: GroupId(id),
        parent: GroupId(parent),
        contract,
    };
    let expected = [
        add(1, 0, Contract::DEFAULT),
        add(2, 0, promised(40_000_000)),
        // The file's size is not in the configuration, so the server adds it when it opens the
        // file.
        add(3, 0, Contract::DEFAULT),
        add(4, 2, promised(30_000_000)),
        Edit::SetSpace {
            id: SpaceId(1),
            size: Some(2 << 20),
        },
    ];
    assert_eq!(x.edits, expected);
}

#[test]
fn the_core_takes_every_plan() {
    // The largest values that the file permits for sizes of the core's tables.
    let largest = r#"
        [drive.d]
        queues = 16
        tags = 4096
        limits = { requests = 1048576, volumes = 65536, tenants = 65536 }
        [limits]
        connections = 3840
        arena = "240MiB"
        requests_per_connection = 65536
    "#;
    // The smallest values that the file permits.
    let smallest = r"
        [drive.d]
        tags = 1
        limits = { requests = 2, scheduler_tags = 1, volumes = 1, tenants = 0 }
        [limits]
        connections = 1
        requests_per_connection = 1
    ";
    for server in [
        corpus("everything.toml"),
        read(TWO_DRIVES),
        read(smallest),
        read(largest),
    ] {
        for drive in &server.drives {
            let plan = plan(&server, &drive.name).unwrap();
            let mut layer = Layer::new(plan.config.clone()).expect("within the core's limits");
            layer.change(Instant::ZERO, &plan.edits).expect("admitted");
        }
    }
}

#[test]
fn refusals_of_a_running_layer_have_names() {
    let server = read(TWO_DRIVES);
    let plan = plan(&server, "x").unwrap();
    let mut layer = Layer::new(plan.config.clone()).unwrap();
    layer.change(Instant::ZERO, &plan.edits).unwrap();
    let greedy = Edit::SetContract {
        id: plan.volumes["a"].group,
        // The tenant's 40 MB/s and these 60 are 100 MB/s. 90 % of the slower rate, 100 MB/s, can be
        // promised.
        contract: Contract::DEFAULT.with_min(60_000_000),
    };
    let refusal = layer.change(Instant::ZERO, &[greedy]).unwrap_err();
    assert_eq!(
        explain(&server, &plan, &refusal).to_string(),
        "5:12: drive.x.capacity: the promises on drive.x would add up to 100MB/s, and at most 90MB/s can be promised (90 % of its read capacity, 100MB/s)\n  \
         help: lower this promise: tenant.t2 40MB/s"
    );
    // Second stage: a refusal that names a group.
    let in_use = Refusal::GroupInUse(plan.volumes["b"].group);
    assert_eq!(
        explain(&server, &plan, &in_use).to_string(),
        "14:1: volume.b: has connections and cannot be removed\n  help: close its connections first"
    );
}

#[test]
fn promises_that_a_policy_does_not_keep_cause_warnings() {
    let volume = |name, drive, key| {
        format!("[volume.{name}]\ndrive = \"{drive}\"\nmemory = true\nsize = \"1MiB\"\n{key}\n")
    };
    let capacity = "capacity = { read = \"100MB/s\", write = \"100MB/s\", iops = 1000 }";
    let text = [
        format!("[drive.n]\npolicy = \"none\"\n{capacity}\n"),
        format!("[drive.b]\npolicy = \"bfq\"\n{capacity}\n[drive.c]\n{capacity}\n"),
        "[tenant.t]\ndrive = \"n\"\nmin_iops = 5\n".to_owned(),
        volume("a", "n", "share = 5"),
        volume("b", "b", "class = \"realtime\"\nmax = { iops = 5 }"),
        // The policy `contract` keeps this min, so there is no warning about it.
        volume("c", "c", "min = \"1MB/s\""),
    ];
    let warnings = warnings(&read(&text.concat()));
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let help = "help: use policy \"contract\", which guarantees it; it counts against the capacity in any case";
    let expected = [
        format!(
            "13:12: tenant.t.min_iops: is not enforced under policy \"none\", which serves first come, first served\n  {help}"
        ),
        "18:9: volume.a.share: is not enforced under policy \"none\", which serves first come, first served\n  \
         help: use policy \"contract\", which guarantees it"
            .to_owned(),
        format!(
            "23:9: volume.b.class: is not enforced under policy \"bfq\", which ignores it\n  {help}"
        ),
    ];
    assert_eq!(texts, expected);
}

/// Checks that the reported promise is the added one: the last one in the file, or the one that the
/// previous file did not have.
#[test]
fn overcommitment_is_reported_at_the_added_min() {
    let volume = |name, min: u32| {
        format!(
            "[volume.{name}]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\nmin = \"{min}MB/s\"\n"
        )
    };
    let head = "listen.nbd = [\"127.0.0.1:0\"]\ndrive.d.capacity = { read = \"100MB/s\", write = \"100MB/s\" }\n";
    let file = |volumes: [String; 3]| head.to_owned() + &volumes.concat();
    let over = |text: &str, before: Option<&str>| {
        let path = std::env::temp_dir().join(format!("weir-config-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let problems = match before {
            Some(before) => load_again(&path, &parse("", before).unwrap()),
            None => load(&path),
        }
        .unwrap_err();
        std::fs::remove_file(path).unwrap();
        problems
            .iter()
            .map(|p| (p.line, p.key.clone()))
            .collect::<Vec<_>>()
    };
    // 40 + 40 + 40 MB/s exceed 90 % of 100 MB/s.
    let text = file([volume("z", 40), volume("a", 40), volume("m", 40)]);
    assert_eq!(over(&text, None), [(17, "volume.m.min".to_owned())]);
    // In the first case a promise grew, and in the second one was added.
    let before = file([volume("z", 40), volume("a", 10), volume("m", 40)]);
    assert_eq!(
        over(&text, Some(&before)),
        [(12, "volume.a.min".to_owned())]
    );
    let before = file([volume("y", 1), volume("a", 40), volume("m", 40)]);
    assert_eq!(over(&text, Some(&before)), [(7, "volume.z.min".to_owned())]);
}

/// Checks that other files are refused, because they could be endless or block until their other
/// end is opened.
#[test]
fn only_regular_files_are_read() {
    // Opening this pipe would block, because it has no writer.
    let pipe = std::env::temp_dir().join(format!("weir-config-{}.pipe", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for (path, what) in [
        (Path::new("/dev/zero"), "a character device"),
        (Path::new("/"), "a directory"),
        (&pipe, "a pipe"),
    ] {
        let problems = load(path).unwrap_err();
        let wanted = format!(
            "{}: is {what}, not a regular file\n  help: name a regular file",
            path.display()
        );
        assert_eq!(problems[0].to_string(), wanted);
    }
    std::fs::remove_file(pipe).unwrap();
    let long = std::env::temp_dir().join(format!("weir-config-{}.long", std::process::id()));
    // The file is sparse, so it takes no space.
    let sparse = std::fs::File::create(&long).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let problems = load(&long).unwrap_err();
    assert!(problems[0].message.starts_with("is longer than 16MiB"));
    std::fs::remove_file(long).unwrap();
}

#[test]
fn printed_servers_parse_to_the_same_server() {
    for name in ["design.toml", "everything.toml"] {
        let server = corpus(name);
        let again = parse("", &server.to_string());
        assert_eq!(again, Ok(server));
    }
}

#[test]
fn an_unreadable_or_too_long_file_is_reported() {
    let problems = load(Path::new("/does/not/exist.toml")).unwrap_err();
    assert!(
        problems[0]
            .to_string()
            .starts_with("/does/not/exist.toml: cannot read the file: ")
    );
    let long = format!("#{}", " ".repeat(16 << 20));
    let problems = parse("weir.toml", &long).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "weir.toml:1:1: is longer than 16MiB, the maximum"
    );
}

/// Checks that a large file is read within the time that a start or a reload may take.
#[test]
fn twenty_thousand_volumes_are_accepted() {
    let mut text = String::from(
        "[drive.d]\npolicy = \"none\"\ncapacity = { read = \"100GB/s\", write = \"100GB/s\" }\nlimits = { volumes = 20000 }\n",
    );
    for n in 0..20_000 {
        let _ = write!(
            text,
            "[volume.v{n}]\ndrive = \"d\"\nfile = \"/images/{n}\"\nmin = \"1MB/s\"\n"
        );
    }
    let server = read(&text);
    assert_eq!(plan(&server, "d").unwrap().edits.len(), 20_000);
}

/// Checks that the number of reported problems is limited, and that they are found quickly.
#[test]
fn at_most_a_hundred_problems_are_shown() {
    let mut text = String::from("[drive.d]\n[listen]\nnbd = [\"127.0.0.1:0\"]\n");
    for n in 0..20_000 {
        let _ = write!(
            text,
            "[volume.v{n}]\ndrive = \"e{n}\"\ntenant = \"t{n}\"\nfiel = \"/x\"\n"
        );
    }
    let problems = parse("weir.toml", &text).unwrap_err();
    // A hundred problems, and the number of the others.
    assert_eq!(problems.len(), 101);
    assert!(
        problems[100]
            .message
            .ends_with("more problems are not shown")
    );
}

#[test]
fn a_model_provides_a_capacity_that_the_file_does_not_state() {
    let server = |model: &str, stated: &str| {
        let text = format!(
            "[drive.d]\nmodel = \"{model}\"\n{stated}\n[listen]\nnbd = [\"127.0.0.1:0\"]\n"
        );
        parse("", &text).unwrap()
    };
    // Any model is faster than this capacity, so it is possible.
    let stated = "capacity = { read = \"1MB/s\", write = \"1MB/s\", read_iops = 5 }";
    for name in weir_config::profile::names() {
        let given = server(name, "");
        let capacity = given.drives[0].capacity.expect(name);
        assert!(capacity.bytes() > 1_000_000, "{name}: {capacity:?}");
        // The measured capacity is printed as if it had been stated, and it is possible for the
        // model.
        assert_eq!(parse("", &given.to_string()), Ok(given), "{name}");
        let capacity = server(name, stated).drives[0].capacity.unwrap();
        let parts = [
            capacity.read,
            capacity.write,
            capacity.iops,
            capacity.read_iops,
            capacity.write_iops,
        ];
        assert_eq!(parts, [1_000_000, 1_000_000, 0, 5, 0], "{name}");
    }
    let disk = server("hitachi-hts72755", "").drives[0].capacity.unwrap();
    assert_eq!(disk.iops, disk.read_iops.min(disk.write_iops));
    // The inner zone of this disk transfers 60 MB/s.
    assert!(
        disk.read <= 60_000_000 && disk.read > 57_000_000,
        "{disk:?}"
    );
}

#[test]
fn request_sizes_that_a_promise_needs_are_noted() {
    let notes = |policy: &str, capacity: &str, min: &str| {
        let rotational = !capacity.contains("50000");
        let text = format!(
            "drive.d = {{ rotational = {rotational}, policy = \"{policy}\", capacity = {{ read = \"100MB/s\", write = \"100MB/s\"{capacity} }} }}\n\
             listen.nbd = [\"127.0.0.1:0\"]\nvolume.v = {{ drive = \"d\", memory = true, size = \"1GiB\", {min} }}"
        );
        let server = parse("", &text).unwrap();
        let notes = weir_config::notes(&server).into_iter();
        notes.map(|n| n.message).collect::<Vec<_>>()
    };
    let disk = ", read_iops = 100";
    let slow = "min = \"10MB/s\"";
    // A request takes 9.96 ms and 10 ns per byte. The bytes of 10 MB/s take 0.1 s of each second.
    // In the other 0.9 s, 90.4 requests are possible. 10 MB / 90.4 are 108.1 KiB, which is rounded
    // up to a multiple of 4 KiB.
    assert_eq!(
        notes("contract", disk, slow),
        [
            "for random requests, the 10MB/s promised in bytes are guaranteed only for\n  reads of at least 112KiB; those of 4KiB get 409kB/s"
        ]
    );
    // Under `none`, no min is guaranteed for any request.
    assert_eq!(notes("none", disk, slow), [""; 0]);
    assert_eq!(notes("contract", "", slow), [""; 0], "nothing is known");
    let flash = ", iops = 50000";
    assert_eq!(notes("contract", flash, slow), [""; 0], "4 KiB will do");
    // 80 requests per second leave 12.5 ms for each: 10 ms for the first 4 KiB, and 2.5 ms for 244
    // KiB more at 100 MB/s.
    assert_eq!(
        notes("contract", ", iops = 100", "min_iops = 80"),
        [
            "for random requests, the 80 requests/s promised are guaranteed only for\n  requests of up to 248KiB"
        ]
    );
    // Longer requests reach the drive in parts of 128 KiB.
    assert_eq!(notes("contract", flash, "min_iops = 80"), [""; 0]);
}

#[test]
fn a_remote_drive_has_a_deeper_queue() {
    let read = |drive: &str| {
        let text = format!(
            "drive.d = {{ {drive} }}\nlisten.nbd = [\"127.0.0.1:0\"]\n\
             volume.v = {{ drive = \"d\", nbd = \"nbd://pool.example/v\" }}"
        );
        let server = parse("", &text).unwrap();
        let noted = weir_config::notes(&server).len();
        let drive = server.drive("d").unwrap();
        (drive.tags, drive.max_transfer >> 10, noted)
    };
    let remote = "contract = { remote = \"30ms\" }";
    assert_eq!(read(remote), (256, 1280, 0));
    // Keys that are set replace the defaults of remote drives, and the note disappears if `tags` is
    // set.
    let said = ", tags = 64, max_transfer = \"1MiB\"";
    assert_eq!(read(&(remote.to_owned() + said)), (64, 1024, 0));
    assert_eq!(read(""), (32, 128, 1));
    assert_eq!(read("policy = \"none\""), (32, 128, 1));
    assert_eq!(
        read(&("policy = \"none\"".to_owned() + said)),
        (64, 1024, 0)
    );
}
