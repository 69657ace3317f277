use super::*;
use crate::boot;
use crate::fake::{FakeHost, Killed};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use weir_config::apply::{KernelHost, parse};

const SERVER: &str = include_str!("../../recordings/server.txt");

macro_rules! contracts {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../tests/contracts/", $name, ".toml")))),*]
    };
}

/// Ten files of contracts. The example `apply` uses the same in a guest.
const CONTRACTS: [(&str, &str); 10] = contracts![
    "01-limits" "02-shares" "03-tenants" "04-cost" "05-cost-targets" "06-deadline" "07-kyber" "08-two-drives" "09-latency" "10-both"
];

fn contracts(text: &str, a: &str, b: &str) -> KernelHost {
    parse("", &text.replace("@A@", a).replace("@B@", b)).unwrap()
}

fn disk(text: &str) -> KernelHost {
    contracts(text, "/dev/disk/by-id/ata-disk", "/dev/nvme0n1")
}

fn flash(text: &str) -> KernelHost {
    contracts(text, "/dev/disk/by-id/nvme-flash", "/dev/sda")
}

/// A journal in a directory of its own, which is removed when this is dropped.
struct ScratchJournal(PathBuf);

impl ScratchJournal {
    fn new(name: &str) -> Self {
        // A directory in memory if possible, because each step waits until its journal is durable.
        let memory = PathBuf::from("/dev/shm");
        let place = if memory.is_dir() {
            memory
        } else {
            std::env::temp_dir()
        };
        let folder = place.join(format!("weir-apply-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn journal(&self) -> ApplyJournal {
        ApplyJournal::open(&self.0.join("journal")).unwrap()
    }

    fn is_empty(&self) -> bool {
        !self.0.join("journal").exists()
    }
}

impl Drop for ScratchJournal {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns all contents of a host. Lines of io.cost that only say that it is off are left out,
/// because io.cost leaves them once it was on.
fn texts(host: &FakeHost) -> BTreeMap<String, String> {
    let mut all = host.texts();
    for (path, text) in &mut all {
        if path.ends_with("io.cost.qos") || path.ends_with("io.cost.model") {
            let knob = Knob::find(path.rsplit('/').next().unwrap()).unwrap();
            let said = text.lines().filter(|line| {
                let number = line.split(' ').next().unwrap();
                knob.value(line, number) != knob.unset_value()
            });
            let mut said: Vec<&str> = said.collect();
            said.sort_unstable();
            *text = said.join("\n");
        }
    }
    all
}

fn applied(
    fake: &mut FakeHost,
    host: &KernelHost,
    scratch: &ScratchJournal,
) -> (ApplyCounts, Vec<StepReport>) {
    let plan = HostPlan::new(fake, host);
    assert_eq!(plan.problems, [], "it can be done");
    let mut all = Vec::new();
    let applied = apply(fake, &plan, &mut scratch.journal(), &mut |said| {
        all.push(said.clone());
    });
    (applied.unwrap(), all)
}

fn restored(fake: &mut FakeHost, scratch: &ScratchJournal) -> (RestoreCounts, Vec<StepReport>) {
    let mut all = Vec::new();
    let restored = restore(fake, &mut scratch.journal(), &mut |said| {
        all.push(said.clone());
    });
    (restored.unwrap(), all)
}

#[test]
fn applying_again_writes_nothing_and_undo_restores_everything() {
    for (name, text) in CONTRACTS {
        for host in [disk(text), flash(text)] {
            let scratch = ScratchJournal::new(&format!("twice-{name}"));
            let mut fake = FakeHost::new(SERVER);
            let before = texts(&fake);
            let (first, _) = applied(&mut fake, &host, &scratch);
            assert!(first.done > 0, "{name}");
            let after = texts(&fake);
            let (second, said) = applied(&mut fake, &host, &scratch);
            assert_eq!((second.done, said), (0, Vec::new()), "{name}");
            assert_eq!(texts(&fake), after, "{name}");
            let (restored, said) = restored(&mut fake, &scratch);
            assert_eq!(
                (restored.changed, restored.kept),
                (0, 0),
                "{name}: {said:#?}"
            );
            assert_eq!(texts(&fake), before, "{name}");
            assert!(scratch.is_empty(), "{name}");
        }
    }
}

/// Kills a process before and after each of its changes, and restores everything. The restoring
/// process is killed as well.
#[test]
fn a_kill_at_any_change_leaves_everything_restorable() {
    let mut kills = 0;
    for (name, text) in CONTRACTS {
        for host in [disk(text), flash(text)] {
            let scratch = ScratchJournal::new(&format!("killed-{name}"));
            let before = texts(&FakeHost::new(SERVER));
            for number in 0.. {
                // The loop ends when the work has fewer changes than the number of the kill.
                let mut was = false;
                for after in [false, true] {
                    let mut fake = FakeHost::new(SERVER);
                    was |= !killed(&mut fake, number, after, |fake| {
                        applied(fake, &host, &scratch);
                    });
                    kills += 1;
                    restored(&mut fake, &scratch);
                    assert_eq!(texts(&fake), before, "{name}: killed at {number}");
                    assert!(scratch.is_empty());
                }
                if was {
                    break;
                }
            }
            for number in 0.. {
                let mut fake = FakeHost::new(SERVER);
                applied(&mut fake, &host, &scratch);
                let was = !killed(&mut fake, number, number % 2 == 0, |fake| {
                    restored(fake, &scratch);
                });
                kills += 1;
                restored(&mut fake, &scratch);
                assert_eq!(
                    texts(&fake),
                    before,
                    "{name}: putting back killed at {number}"
                );
                if was {
                    break;
                }
            }
        }
    }
    assert!(kills > 400, "{kills}");
}

/// Runs work that is killed at a change. Returns true if it was killed before its end.
fn killed(fake: &mut FakeHost, number: u64, after: bool, work: impl FnOnce(&mut FakeHost)) -> bool {
    fake.kill(number, after);
    let ended = catch_unwind(AssertUnwindSafe(|| work(fake)));
    if let Err(why) = &ended {
        assert!(why.is::<Killed>(), "it failed by itself");
    }
    fake.cancel_kill();
    ended.is_err()
}

#[test]
fn another_file_undoes_settings_that_it_does_not_contain() {
    let scratch = ScratchJournal::new("other");
    let mut fake = FakeHost::new(SERVER);
    let before = texts(&fake);
    for (name, text) in CONTRACTS {
        for host in [disk(text), flash(text)] {
            applied(&mut fake, &host, &scratch);
            let mut alone = FakeHost::new(SERVER);
            let own = ScratchJournal::new(&format!("alone-{name}"));
            applied(&mut alone, &host, &own);
            let (now, fresh) = (texts(&fake), texts(&alone));
            let differs = |path: &&String| now.get(*path) != fresh.get(*path);
            let differ: Vec<&String> = now.keys().chain(fresh.keys()).filter(differs).collect();
            // The tunables of an elevator that was replaced are known again only when it returns.
            let is_elevators =
                |path: &str| path.contains("/queue/") || path.ends_with("bfq.weight");
            assert!(differ.iter().all(|p| is_elevators(p)), "{name}: {differ:?}");
        }
    }
    restored(&mut fake, &scratch);
    assert_eq!(texts(&fake), before);
}

#[test]
fn values_of_other_programs_are_reported_and_left() {
    let scratch = ScratchJournal::new("changed");
    let mut fake = FakeHost::new(SERVER);
    applied(&mut fake, &disk(CONTRACTS[0].1), &scratch);
    let file = "/sys/fs/cgroup/reader/io.max";
    fake.put(file, "8:0 rbps=1 wbps=max riops=max wiops=max");
    fake.put("/sys/fs/cgroup/writer/cgroup.procs", "99");
    let (all, said) = restored(&mut fake, &scratch);
    assert_eq!((all.changed, all.kept), (1, 1));
    let lines: Vec<String> = said.iter().map(ToString::to_string).collect();
    assert!(
        lines
            .iter()
            .any(|l| l.contains("another program has changed it since") && l.contains("rbps=1 ")),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|l| l.contains("it is not empty")),
        "{lines:#?}"
    );
    assert!(!scratch.is_empty(), "the cgroup is still to be removed");
    fake.put("/sys/fs/cgroup/writer/cgroup.procs", "");
    let (all, _) = restored(&mut fake, &scratch);
    assert_eq!((all.undone, all.kept), (1, 0));
    assert!(scratch.is_empty());
}

#[test]
fn repaired_values_are_restored_to_the_state_before_the_first_run() {
    let scratch = ScratchJournal::new("repaired");
    let mut fake = FakeHost::new(SERVER);
    let before = texts(&fake);
    let host = disk(CONTRACTS[1].1);
    applied(&mut fake, &host, &scratch);
    let after = texts(&fake);
    fake.write("/sys/block/sda/queue/scheduler", "kyber")
        .unwrap();
    let (again, said) = applied(&mut fake, &host, &scratch);
    assert!(again.done > 1, "the elevator, its tunables and weights");
    assert!(
        said.iter()
            .all(|s| matches!(s, StepReport::Repaired { .. })),
        "{said:#?}"
    );
    assert_eq!(texts(&fake), after);
    restored(&mut fake, &scratch);
    assert_eq!(texts(&fake), before);
}

#[test]
fn a_refused_step_undoes_the_earlier_steps() {
    let scratch = ScratchJournal::new("refused");
    let mut fake = FakeHost::new(&SERVER.replace(" io.latency", ""));
    fake.remove_tree("/sys/fs/cgroup/system.slice/io.latency");
    let before = texts(&fake);
    let plan = HostPlan::new(&fake, &disk(CONTRACTS[8].1));
    let failed = apply(&mut fake, &plan, &mut scratch.journal(), &mut |_| {}).unwrap_err();
    assert!(
        failed.to_string().contains("CONFIG_BLK_CGROUP_IOLATENCY"),
        "{failed}"
    );
    assert_eq!(texts(&fake), before);
    assert!(scratch.is_empty());
    let mut fake = FakeHost::new(&SERVER.replace("scheduler = ", "scheduler ! "));
    let plan = HostPlan::new(&fake, &disk(CONTRACTS[8].1));
    let failed = apply(&mut fake, &plan, &mut scratch.journal(), &mut |_| {}).unwrap_err();
    assert!(failed.to_string().contains("read-only"), "{failed}");
    assert!(scratch.is_empty());
}

#[test]
fn a_replaced_device_is_not_touched_and_a_renamed_device_is_found() {
    let scratch = ScratchJournal::new("moved");
    let host = disk(CONTRACTS[0].1);
    let mut fake = FakeHost::new(SERVER);
    applied(&mut fake, &host, &scratch);
    let journal = std::fs::read(scratch.0.join("journal")).unwrap();
    // Another disk has the same name and number.
    fake.put("/sys/block/sda/diskseq", "9");
    let between = texts(&fake);
    let (all, said) = restored(&mut fake, &scratch);
    assert!(
        all.changed >= 2 && said.iter().any(|s| s.to_string().contains("was removed")),
        "{said:#?}"
    );
    assert_eq!(
        texts(&fake)["/sys/block/sda/queue/scheduler"],
        between["/sys/block/sda/queue/scheduler"]
    );
    // The disk has another name and number now.
    std::fs::write(scratch.0.join("journal"), &journal).unwrap();
    let moved = SERVER.replace("sda", "sdz").replace("8:0", "65:144");
    let mut fake = FakeHost::new(
        &moved
            .replace("[mq-deadline]", "mq-deadline")
            .replace("scheduler = none mq", "scheduler = [none] mq"),
    );
    fake.put("/sys/fs/cgroup/reader/cgroup.procs", "");
    fake.put(
        "/sys/fs/cgroup/reader/io.max",
        "65:144 rbps=20000000 wbps=max riops=2000 wiops=max",
    );
    let (_, said) = restored(&mut fake, &scratch);
    assert!(
        texts(&fake)["/sys/block/sdz/queue/scheduler"].contains("[mq-deadline]"),
        "{said:#?}"
    );
    assert!(!fake.exists("/sys/fs/cgroup/reader"));
    // The machine was rebooted: there is nothing to restore, and nothing is changed.
    std::fs::write(scratch.0.join("journal"), &journal).unwrap();
    let mut fake = FakeHost::new(&SERVER.replace("000000000001", "000000000002"));
    let before = texts(&fake);
    let (all, _) = restored(&mut fake, &scratch);
    assert_eq!((all.undone, all.changed, all.kept), (0, 0, 0));
    assert_eq!(texts(&fake), before);
    assert!(scratch.is_empty());
}

#[test]
fn units_of_systemd_get_drop_ins() {
    let scratch = ScratchJournal::new("systemd");
    let mut fake = FakeHost::new(SERVER);
    let before = texts(&fake);
    let text = "[drive.a]\ndevice = \"/dev/nvme0n1\"\npolicy = \"bfq + io.max\"\n\
                [volume.db]\ndrive = \"a\"\nunit = \"db.service\"\nshare = 300\nmax = { read_bandwidth = \"5MB/s\" }\n\
                [volume.pods]\ndrive = \"a\"\nunit = \"pods.service\"\nshare = 200\n";
    let host = parse("", text).unwrap();
    let (_, said) = applied(&mut fake, &host, &scratch);
    assert_eq!(fake.reloads(), 1);
    let unit = &texts(&fake)["/run/systemd/system/db.service.d/50-weir.conf"];
    assert!(
        unit.contains(
            "[Service]\nIODeviceWeight=/dev/nvme0n1 2300\nIOReadBandwidthMax=/dev/nvme0n1 5000000\n"
        ),
        // bfq's weight of 300 is 100 + 200 × 9900 / 900 = 2300 in systemd's scale.
        "{unit}"
    );
    let delegated = "/sys/fs/cgroup/system.slice/pods.service/io.bfq.weight";
    assert!(texts(&fake)[delegated].contains("259:0 200"), "{said:#?}");
    let (second, _) = applied(&mut fake, &host, &scratch);
    assert_eq!((second.done, fake.reloads()), (0, 1));
    let host = parse("", &text.replace("share = 300", "share = 400")).unwrap();
    applied(&mut fake, &host, &scratch);
    let (_, said) = restored(&mut fake, &scratch);
    assert_eq!(texts(&fake), before);
    assert_eq!(fake.reloads(), 3);
    // The second change first, whose file had another text before; then the first, which made the
    // file.
    let file = "/run/systemd/system/db.service.d/50-weir.conf".to_owned();
    let of_unit = said.iter().filter(|line| line.to_string().contains(&file));
    let of_unit: Vec<&StepReport> = of_unit.collect();
    assert_eq!(
        of_unit,
        [&StepReport::Unit(file.clone()), &StepReport::Removed(file)]
    );
}

#[test]
fn a_preview_contains_every_change() {
    for (name, text) in CONTRACTS {
        let scratch = ScratchJournal::new(&format!("preview-{name}"));
        let mut fake = FakeHost::new(SERVER);
        let host = disk(text);
        let plan = HostPlan::new(&fake, &host);
        let foreseen = preview(&fake, &plan, &scratch.journal());
        let (_, said) = applied(&mut fake, &host, &scratch);
        let file = |said: &StepReport| match said {
            StepReport::Set { file, .. } | StepReport::Other { file, .. } => file.clone(),
            other => other.to_string(),
        };
        let done: Vec<String> = said.iter().map(file).collect();
        let foreseen: Vec<String> = foreseen.iter().map(file).collect();
        // The preview contains more, because the defaults of the new elevator are unknown until it
        // is selected.
        assert!(
            done.iter().all(|d| foreseen.contains(d)),
            "{name}: {done:#?} {foreseen:#?}"
        );
        assert_eq!(preview(&fake, &plan, &scratch.journal()), [], "{name}");
    }
}

#[test]
fn journal_entries_for_foreign_files_are_not_undone() {
    let scratch = ScratchJournal::new("foreign");
    let mut fake = FakeHost::new(SERVER);
    let before = texts(&fake);
    let unit = HostChange::Unit {
        file: "/etc/cron.d/job".to_owned(),
        old: Some("* * * * * root id\n".to_owned()),
        new: String::new(),
    };
    let make = HostChange::Make {
        folder: "/sys/fs/cgroup/../../block".to_owned(),
    };
    let boot = boot::id(&fake);
    let mut journal = scratch.journal();
    for change in [unit, make] {
        journal.change(&boot, None, change).unwrap();
    }
    drop(journal);
    let (outcome, said) = restored(&mut fake, &scratch);
    assert_eq!((outcome.undone, outcome.kept), (0, 2));
    let told = |line: &StepReport| {
        line.to_string()
            .contains("weir apply never changes this file")
    };
    assert!(said.len() == 2 && said.iter().all(told), "{said:?}");
    assert_eq!(texts(&fake), before);
    assert!(
        !scratch.is_empty(),
        "the journal keeps what it could not undo"
    );
}

#[test]
fn ten_times_as_many_cgroups_take_ten_times_as_long() {
    // The processor time of this thread does not depend on other work of the machine.
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let took = |cgroups: usize| {
        let mut text = String::from(
            "[drive.a]\ndevice = \"/dev/sda\"\npolicy = \"bfq + io.max\"\ncapacity = { read = \"100GB/s\", write = \"100GB/s\" }\n",
        );
        for n in 0..cgroups {
            let _ = write!(
                text,
                "[volume.v{n}]\ndrive = \"a\"\ncgroup = \"/g{n}\"\nmax = {{ bandwidth = \"1MB/s\" }}\n"
            );
        }
        let scratch = ScratchJournal::new(&format!("many-{cgroups}"));
        let fake = FakeHost::new(SERVER);
        let began = now();
        let host = parse("", &text).unwrap();
        let plan = HostPlan::new(&fake, &host);
        let _ = crate::warnings(&fake, &plan);
        let foreseen = preview(&fake, &plan, &scratch.journal()).len();
        let took = now() - began;
        assert!(foreseen >= 3 * cgroups);
        took
    };
    let best = |cgroups| took(cgroups).min(took(cgroups));
    let (few, many) = (best(800), best(8_000));
    // 20 instead of 10 leaves room for noise. Quadratic work would take 100 times as long.
    assert!(many < few * 20.0, "{few} s and {many} s");
}
