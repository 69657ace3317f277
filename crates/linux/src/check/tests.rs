use super::*;
use crate::fake::FakeHost;
use crate::plan::HostPlan;
use weir_config::apply::parse;

const SERVER: &str = include_str!("../../recordings/server.txt");

/// Returns the problems and warnings for a policy on a device with two cgroups, after a change of
/// the host.
fn said(device: &str, policy: &str, change: impl FnOnce(&mut FakeHost)) -> Vec<String> {
    said_of(
        &format!(
            "[drive.a]\ndevice = \"{device}\"\npolicy = \"{policy}\"\n\
         [volume.one]\ndrive = \"a\"\ncgroup = \"/one\"\nshare = 200\nlatency = \"5ms\"\n\
         [volume.two]\ndrive = \"a\"\ncgroup = \"/two\"\n"
        ),
        SERVER,
        change,
    )
}

fn said_of(text: &str, host: &str, change: impl FnOnce(&mut FakeHost)) -> Vec<String> {
    let mut fake = FakeHost::new(host);
    change(&mut fake);
    let host = parse("", text).unwrap();
    let plan = HostPlan::new(&fake, &host);
    let problems = plan.problems.iter().map(ToString::to_string);
    let warnings = warnings(&fake, &plan).into_iter().map(|w| w.to_string());
    problems.chain(warnings).collect()
}

/// Checks that a line contains these parts, which are separated by two dots.
#[track_caller]
fn has(said: &[String], parts: &str) {
    let is_it = |line: &&String| parts.split(" .. ").all(|part| line.contains(part));
    assert!(
        said.iter().any(|line| is_it(&line)),
        "{parts} is not in {said:#?}"
    );
}

#[track_caller]
fn has_not(said: &[String], part: &str) {
    assert!(
        !said.iter().any(|line| line.contains(part)),
        "{part} is in {said:#?}"
    );
}

#[test]
fn unused_weights_are_reported() {
    let set = |fake: &mut FakeHost| {
        fake.put(
            "/sys/fs/cgroup/system.slice/io.weight",
            "default 100\n8:0 300",
        );
        fake.put("/sys/fs/cgroup/system.slice/io.bfq.weight", "default 400");
    };
    let all = said("/dev/sda", "mq-deadline", set);
    has(
        &all,
        "system.slice/io.weight .. has no effect on sda .. io.cost is not enabled",
    );
    has(
        &all,
        "system.slice/io.bfq.weight .. has no effect on sda .. mq-deadline",
    );
    let all = said("/dev/sda", "bfq", set);
    has_not(&all, "its elevator");
    let all = said("/dev/sda", "io.cost", set);
    has_not(&all, "not enabled");
}

#[test]
fn bfq_together_with_io_cost_is_reported() {
    has(
        &said("/dev/sda", "bfq + io.cost", |_| ()),
        "sda .. bfq and io.cost both .. use only one",
    );
    // io.cost was enabled before, and the plan does not change it.
    let left = |fake: &mut FakeHost| {
        fake.put("/sys/fs/cgroup/io.cost.qos", "8:0 enable=1 ctrl=auto");
    };
    has(
        &said("/dev/sda", "bfq", left),
        "bfq and io.cost both .. 8:0 enable=0",
    );
}

#[test]
fn missing_features_of_the_kernel_are_reported() {
    let text = SERVER.replace(" bfq\n", "\n");
    let file = "[drive.a]\ndevice = \"/dev/sda\"\npolicy = \"bfq\"\n";
    has(
        &said_of(file, &text, |_| ()),
        "sda .. bfq is not loaded .. none, mq-deadline, kyber",
    );
    // The file is missing in a cgroup that has the controller.
    let without = |fake: &mut FakeHost| fake.remove_tree("/sys/fs/cgroup/system.slice/io.latency");
    has(
        &said("/dev/sda", "io.latency", without),
        "CONFIG_BLK_CGROUP_IOLATENCY",
    );
    // Without a cgroup that has the controller, the kernel's build configuration is read.
    let configured = |fake: &mut FakeHost| {
        for file in ["io.max", "io.latency"] {
            fake.remove_tree(&format!("/sys/fs/cgroup/system.slice/{file}"));
        }
        fake.put(
            "/boot/config-6.12.0",
            "CONFIG_BLK_CGROUP=y\n# CONFIG_BLK_CGROUP_IOLATENCY is not set",
        );
    };
    has(
        &said("/dev/sda", "io.latency", configured),
        "CONFIG_BLK_CGROUP_IOLATENCY",
    );
    has(
        &said("/dev/sda", "io.low", |_| ()),
        "io.low was removed from Linux in 6.10",
    );
    let all = said("/dev/sda", "io.latency", |_| ());
    has_not(&all, "IOLATENCY");
}

#[test]
fn stacked_devices_are_reported() {
    has(&said("/dev/sda", "bfq", |_| ()), "sda: is part of dm-0");
    has(
        &said("/dev/dm-0", "io.max", |_| ()),
        r"dm-0: is a device mapper .. sda1",
    );
    has(
        &said("/dev/dm-0", "bfq", |_| ()),
        "drive.a.policy: dm-0 has no request queue .. use a device below it: sda1",
    );
    has(
        &said("/dev/dm-0", "io.cost", |_| ()),
        "dm-0 has no request queue .. io.cost.qos",
    );
    has(
        &said("/dev/sda1", "bfq", |_| ()),
        "drive.a.device: is a partition of sda",
    );
    has(
        &said("/dev/sdb", "bfq", |_| ()),
        "No such file .. /dev/nvme0n1, /dev/sda",
    );
}

#[test]
fn problems_of_the_cgroup_tree_are_reported() {
    // Version 1 has the controller for storage.
    let v1 = SERVER.replace(
        "\tcgroup2 ",
        "\tcgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n\tcgroup2 ",
    );
    let file = "[drive.a]\ndevice = \"/dev/sda\"\npolicy = \"bfq\"\n[volume.one]\ndrive = \"a\"\ncgroup = \"/a/b/c\"\n";
    has(
        &said_of(file, &v1, |_| ()),
        "volume.one: the io controller is not available",
    );
    // No cgroups of version 2 are mounted.
    let none = SERVER.replace("\tcgroup2 /sys/fs/cgroup", "\ttmpfs /sys/fs/cgroup");
    has(
        &said_of(file, &none.replace(" cgroup2 rw", " tmpfs rw"), |_| ()),
        "are not mounted",
    );
    // The root has the controller but does not pass it on.
    let missing = SERVER.replace(
        "cgroup.subtree_control = cpu io memory pids",
        "cgroup.subtree_control = cpu",
    );
    let all = said_of(file, &missing, |_| ());
    has(
        &all,
        "/sys/fs/cgroup/cgroup.subtree_control: +io is missing .. run weir apply, which enables it",
    );
    has(&all, r"/a/b/c: has no memory controller");
    // The parent has a process of its own, so that +io would be refused.
    let internal = |fake: &mut FakeHost| {
        use crate::files::HostFiles;
        fake.make("/sys/fs/cgroup/a").unwrap();
        fake.put("/sys/fs/cgroup/a/cgroup.procs", "77");
    };
    has(
        &said_of(file, SERVER, internal),
        "/a/cgroup.subtree_control: +io is missing .. no internal processes",
    );
    // The root itself does not have the controller.
    let gone = SERVER
        .replace(
            "cgroup.controllers ! cpu io memory pids",
            "cgroup.controllers ! cpu memory",
        )
        .replace(
            "cgroup.subtree_control = cpu io memory pids",
            "cgroup.subtree_control = cpu memory",
        );
    has(
        &said_of(file, &gone, |_| ()),
        "the io controller is not available",
    );
}

#[test]
fn units_of_systemd_are_reported() {
    let file = |member: &str| {
        format!(
            "[drive.a]\ndevice = \"/dev/sda\"\npolicy = \"bfq\"\n[volume.one]\ndrive = \"a\"\n{member}\n"
        )
    };
    let all = |member: &str| said_of(&file(member), SERVER, |_| ());
    has(
        &all("unit = \"db.service\""),
        "db.service: belongs to systemd and is not delegated",
    );
    has(
        &all("cgroup = \"/system.slice/db.service\""),
        "belongs to systemd and is not delegated",
    );
    has(
        &all("cgroup = \"/system.slice/db.service/x\""),
        "volume.one.cgroup: is below db.service",
    );
    has(
        &all("unit = \"gone.service\""),
        "volume.one.unit: unit gone.service is not running",
    );
    // pods.service has been delegated.
    let delegated = all("cgroup = \"/system.slice/pods.service/x\"");
    has_not(&delegated, "systemd's");
    has(&all("cgroup = \"/one\""), "60-scheduler.rules .. --watch");
}

#[test]
fn weights_in_several_cgroups_are_reported() {
    let text = "[drive.a]\ndevice = \"/dev/sda\"\npolicy = \"bfq\"\n\
                [volume.one]\ndrive = \"a\"\ncgroup = \"/a/one\"\n[volume.two]\ndrive = \"a\"\ncgroup = \"/two\"\n";
    has(&said_of(text, SERVER, |_| ()), "sda .. (/ and /a)");
}

#[test]
fn a_cgroup_cannot_give_commands_to_the_terminal() {
    let folder = "/sys/fs/cgroup/a\u{1b}[2J\nroot: all is well";
    let said = said("/dev/sda", "none", |fake| {
        fake.put(&format!("{folder}/cgroup.procs"), "");
        fake.put(&format!("{folder}/io.weight"), "default 500\n");
    });
    has(
        &said,
        r"/a\u{1b}[2J\nroot: all is well/io.weight: has no effect",
    );
    let mut lines = said.iter().flat_map(|said| said.split('\n'));
    assert!(!lines.any(|line| line.contains(char::is_control) || line.starts_with("root")));
}
