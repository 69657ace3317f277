use super::*;
use crate::fake::FakeHost;
use crate::journal::ApplyJournal;
use crate::run::preview;
use weir_config::apply::parse;

const SERVER: &str = include_str!("../../recordings/server.txt");

const CONTRACTS: &str = r#"
[drive.fast]
device = "/dev/disk/by-id/ata-disk"
policy = "bfq"
[volume.runs]
drive = "fast"
cgroup = "/runs"
share = 300
[volume.stopped]
drive = "fast"
unit = "stopped.service"
share = 200
"#;

/// Returns the writes of a plan, the settings that it withholds, and the number of problems.
fn planned(text: &str, change: impl FnOnce(&mut FakeHost)) -> (Vec<String>, Vec<String>, usize) {
    let mut fake = FakeHost::new(SERVER);
    change(&mut fake);
    let plan = HostPlan::new(&fake, &parse("", text).unwrap());
    let writes = preview(&fake, &plan, &ApplyJournal::empty());
    let writes = writes.iter().map(ToString::to_string).collect();
    let withheld = plan.withheld.iter().map(ToString::to_string).collect();
    (writes, withheld, plan.problems.len())
}

#[test]
fn a_unit_that_does_not_run_withholds_its_own_settings_alone() {
    let (writes, withheld, problems) = planned(CONTRACTS, |_| ());
    let why = "unit stopped.service is not running, so that it has no cgroup";
    assert_eq!(
        withheld,
        [format!(
            "refused: volume.stopped: io.bfq.weight \"200\": {why}"
        )]
    );
    assert_eq!(problems, 1);
    for part in [
        "queue/scheduler: \"mq-deadline\" -> \"bfq\"",
        "/runs/io.bfq.weight",
    ] {
        assert!(
            writes.iter().any(|write| write.contains(part)),
            "{writes:#?}"
        );
    }
}

#[test]
fn cgroups_of_version_1_withhold_the_settings_of_cgroups() {
    let version_1 = "cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n";
    let text = CONTRACTS.replace("\"bfq\"", "\"io.cost\"");
    let (writes, withheld, problems) =
        planned(&text, |fake| fake.put("/proc/self/mounts", version_1));
    let knobs: Vec<&str> = withheld
        .iter()
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    assert_eq!(
        knobs,
        ["io.cost.model", "io.cost.qos", "io.weight", "io.weight"],
        "{withheld:#?}"
    );
    assert!(
        withheld
            .iter()
            .all(|line| line.contains("cgroups of version 1")),
        "{withheld:#?}"
    );
    assert_eq!(problems, 1);
    let scheduler = "/sys/block/sda/queue/scheduler: \"mq-deadline\" -> \"none\"";
    assert_eq!(writes, [scheduler]);
}

#[test]
fn drives_that_are_refused_withhold_everything() {
    for (from, to, withheld) in [
        (
            "/dev/disk/by-id/ata-disk",
            "/dev/gone",
            "refused: drive.fast: queue/scheduler \"bfq\": /dev/gone: ",
        ),
        (
            "\"bfq\"",
            "\"contract\"",
            "refused: drive.fast: everything: policy \"contract\": Linux has no elevator",
        ),
        (
            "\"bfq\"",
            "\"io.low\"",
            "refused: drive.fast: everything: policy \"io.low\": io.low was removed",
        ),
    ] {
        let (writes, found, _) = planned(&CONTRACTS.replace(from, to), |_| ());
        assert_eq!(writes, [""; 0], "{to}");
        assert!(found[0].starts_with(withheld), "{to}: {found:#?}");
    }
    // A device mapper supports limits only.
    let text = CONTRACTS.replace("/dev/disk/by-id/ata-disk", "/dev/dm-0");
    let text = text
        .replace("\"bfq\"", "\"bfq + io.max\"")
        .replace("share = 300", "max = { iops = 9 }");
    let (writes, withheld, _) = planned(&text, |_| ());
    let limited = |line: &String| line.contains("/runs/io.max");
    assert!(writes.iter().any(limited), "{writes:#?}");
    assert!(
        withheld[0].contains("queue/scheduler \"bfq\": dm-0 has no request queue"),
        "{withheld:#?}"
    );
    // The help does not propose a policy that would be refused as well.
    let text = CONTRACTS.replace("/dev/disk/by-id/ata-disk", "/dev/dm-0");
    let text = text.replace("\"bfq\"", "\"contract\"");
    let fake = FakeHost::new(SERVER);
    let plan = HostPlan::new(&fake, &parse("", &text).unwrap());
    let help = plan.problems[0].help.as_deref().unwrap_or_default();
    assert!(
        help.contains("\"io.max\"") && !help.contains("\"bfq\""),
        "{help}"
    );
    // If two drives are the same device, the second one gets no settings.
    let second = "[drive.other]\ndevice = \"/dev/sda\"\npolicy = \"kyber\"\n";
    let (writes, withheld, problems) = planned(&[CONTRACTS, second].concat(), |_| ());
    assert!(
        !writes.iter().any(|line| line.contains("kyber")),
        "{writes:#?}"
    );
    assert!(
        withheld
            .iter()
            .any(|line| line.contains("drive.other: queue/scheduler \"kyber\": leads to sda")),
        "{withheld:#?}"
    );
    assert_eq!(problems, 2);
}
