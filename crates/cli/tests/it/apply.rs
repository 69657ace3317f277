//! `weir apply`: the input that it refuses, and a host that it cannot configure and therefore
//! leaves unchanged.

use crate::common::{Scratch, golden, has, run};
use std::fs;

const CONTRACTS: &str = r#"
[drive.fast]
device = "/dev/weir-has-no-such-device"
policy = "bfq"
capacity = { read = "100MB/s", write = "100MB/s" }

[volume.alpha]
drive = "fast"
cgroup = "/alpha"
min = "20MB/s"
"#;

#[test]
fn apply_refuses() {
    let scratch = Scratch::new();
    scratch.file("good.toml", CONTRACTS);
    let changed = |name: &str, from: &str, to: &str| {
        assert!(CONTRACTS.contains(from));
        scratch.file(name, &CONTRACTS.replace(from, to));
    };
    changed("served.toml", "cgroup = \"/alpha\"", "memory = true");
    changed("root.toml", "cgroup = \"/alpha\"", "cgroup = \"/\"");
    changed("neither.toml", "cgroup = \"/alpha\"", "");
    changed("word.toml", "policy = \"bfq\"", "policy = \"bqf\"");
    // 95 of 100 MB/s are more than the 90 % that admission permits.
    changed("more.toml", "min = \"20MB/s\"", "min = \"95MB/s\"");
    scratch.file("server.toml", "[drive.a]\n[listen]\nnbd = [\"127.0.0.1:0\"]\n[volume.a]\ndrive = \"a\"\ncgroup = \"/a\"\n");
    golden(
        "apply-refuses",
        &scratch,
        "\
apply
apply absent.toml
apply good.toml --restore
apply good.toml --dry-run --check
apply --restore --watch
apply good.toml --root .
apply good.toml --root good.toml --dry-run
apply good.toml --root . --watch
apply served.toml
apply root.toml
apply neither.toml
apply word.toml
apply more.toml
check server.toml
",
    );
}

#[test]
fn a_host_without_the_device_is_left_alone() {
    let scratch = Scratch::new();
    scratch.file("contracts.toml", CONTRACTS);
    let apply = |rest: &str| run(&scratch, &format!("apply --journal journal {rest}"));
    for option in ["--check", "--dry-run", "--watch"] {
        let said = apply(&format!("contracts.toml {option}")).ended(1);
        has(&said.err, "drive.fast.device: No such file or directory");
        assert!(!scratch.path("journal").exists());
    }
    let said = apply("--restore").ended(0);
    assert!(said.out.starts_with("nothing to restore"), "{}", said.out);
}

#[test]
fn a_path_that_is_no_block_device_is_refused() {
    let scratch = Scratch::new();
    // `/dev/null` is a character device.
    let text = CONTRACTS.replace("/dev/weir-has-no-such-device", "/dev/null");
    scratch.file("contracts.toml", &text);
    let said = run(&scratch, "apply contracts.toml --dry-run").ended(1);
    has(&said.err, "Block device required");
}

/// Writes a host as files that any user can write: one disk, cgroups of version 2, and one running
/// unit.
fn recorded(scratch: &Scratch) {
    let put = |path: &str, text: &str| {
        let path = scratch.path("host").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(
        "proc/self/mounts",
        "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
    );
    put("dev/sda", "");
    put("sys/block/sda/dev", "8:0\n");
    put("sys/block/sda/mq/0/nr_tags", "32\n");
    put("sys/block/sda/queue/scheduler", "none [mq-deadline] bfq\n");
    put("sys/block/sda/queue/rotational", "1\n");
    put("run/systemd/system/x.service", "");
    for group in ["", "system.slice/", "system.slice/db.service/"] {
        for (file, text) in [
            ("cgroup.procs", ""),
            ("cgroup.controllers", "io memory\n"),
            ("cgroup.subtree_control", "io memory\n"),
        ] {
            put(&format!("sys/fs/cgroup/{group}{file}"), text);
        }
    }
    let links = scratch.path("host/dev/disk/by-id");
    fs::create_dir_all(&links).unwrap();
    std::os::unix::fs::symlink("../../sda", links.join("ata-disk")).unwrap();
}

#[test]
fn a_recorded_host_shows_the_whole_plan_with_refusals() {
    let scratch = Scratch::new();
    recorded(&scratch);
    let text = |policy: &str| {
        format!(
            "[drive.fast]\ndevice = \"/dev/disk/by-id/ata-disk\"\npolicy = \"{policy}\"\n\
             [volume.db]\ndrive = \"fast\"\nunit = \"db.service\"\nshare = 300\n\
             [volume.gone]\ndrive = \"fast\"\nunit = \"gone.service\"\nshare = 50\n"
        )
    };
    scratch.file("bfq.toml", &text("bfq"));
    scratch.file(
        "all.toml",
        &text("bfq").replace("gone.service", "db2.service"),
    );
    scratch.file("contract.toml", &text("contract"));
    // The group of the second unit exists now, but the unit `gone.service` does not.
    let group = scratch.path("host/sys/fs/cgroup/system.slice/db2.service");
    fs::create_dir(&group).unwrap();
    fs::write(group.join("cgroup.procs"), "").unwrap();
    golden(
        "apply-recorded",
        &scratch,
        "\
apply bfq.toml --dry-run --root host
apply all.toml --dry-run --root host
apply contract.toml --dry-run --root host
apply all.toml --check --root host
",
    );
}
