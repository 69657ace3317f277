//! `weir apply`: what it refuses, and that it leaves a host alone that it cannot set.

mod common;

use common::{Scratch, golden, run};

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
    changed("more.toml", "min = \"20MB/s\"", "min = \"95MB/s\"");
    scratch.file("server.toml", "[drive.a]\n[listen]\nnbd = [\"127.0.0.1:0\"]\n[volume.a]\ndrive = \"a\"\ncgroup = \"/a\"\n");
    golden(
        "apply-refuses",
        &scratch,
        &[
            &["apply"],
            &["apply", "absent.toml"],
            &["apply", "good.toml", "--restore"],
            &["apply", "good.toml", "--dry-run", "--check"],
            &["apply", "--restore", "--watch"],
            &["apply", "served.toml"],
            &["apply", "root.toml"],
            &["apply", "neither.toml"],
            &["apply", "word.toml"],
            &["apply", "more.toml"],
            &["check", "server.toml"],
        ],
    );
}

#[test]
fn a_host_without_the_device_is_left_alone() {
    let scratch = Scratch::new();
    scratch.file("contracts.toml", CONTRACTS);
    let apply = |rest: &[&str]| {
        run(
            &scratch,
            &[&["apply", "--journal", "journal"], rest].concat(),
        )
    };
    for option in ["--check", "--dry-run", "--watch"] {
        let said = apply(&["contracts.toml", option]);
        assert_eq!(said.status, Some(1), "{}", said.err);
        let what = "drive.fast.device: No such file or directory";
        assert!(said.err.contains(what), "{}", said.err);
        assert!(!scratch.path("journal").exists());
    }
    let said = apply(&["--restore"]);
    assert_eq!(said.status, Some(0));
    assert!(said.out.starts_with("nothing to put back"), "{}", said.out);
}

#[test]
fn what_is_no_block_device_is_refused() {
    let scratch = Scratch::new();
    let text = CONTRACTS.replace("/dev/weir-has-no-such-device", "/dev/null");
    scratch.file("contracts.toml", &text);
    let said = run(&scratch, &["apply", "contracts.toml", "--dry-run"]);
    assert_eq!(said.status, Some(1));
    assert!(said.err.contains("Block device required"), "{}", said.err);
}
