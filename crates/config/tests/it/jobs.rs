//! Job files as people write them for `fio`: those that are played, and those that are refused for
//! a reason that `docs/scenarios.md` states.

use crate::common::files;
use crate::common::held;

use files::{files, told};
use held::check;
use std::fmt::Write as _;
use std::fs;
use weir_config::profile;
use weir_config::scenario::{self, Choice, Scenario};
use weir_config::{Problem, manual};
use weir_model::load::{Arrival, Size};

fn read(text: &str) -> Result<scenario::Script, Vec<Problem>> {
    scenario::parse(text, "a.fio")
}

fn built(script: &scenario::Script, drive: &str) -> Result<Scenario, Vec<Problem>> {
    let drive = profile::find(drive).expect("built in").drive;
    script.scenario(&Choice::new(&drive, None, "none"))
}

fn on(text: &str, drive: &str) -> Scenario {
    let script = read(text).unwrap_or_else(|p| panic!("{p:#?}"));
    built(&script, drive).unwrap_or_else(|p| panic!("{p:#?}"))
}

/// Returns the first problem of a refused text, with its help.
fn refusal(text: &str) -> String {
    let problems = read(text).expect_err("it is refused");
    problems[0].to_string()
}

/// Compares the results of `tests/jobs/NAME.fio` with `tests/jobs.txt`: the notes and the clients,
/// or the problems. The manual must contain the reason of each problem. With `WEIR_BLESS=1`, the
/// file is written.
#[test]
fn forty_job_files_play_or_are_refused_for_a_documented_reason() {
    let (page, mut all, mut played) = (manual::scenarios(), String::new(), 0);
    let jobs = files("tests/jobs", "fio");
    assert!(jobs.len() >= 40, "{}", jobs.len());
    for (path, text) in &jobs {
        let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
        writeln!(all, "== {name}").expect("a String takes anything");
        match read(text) {
            Ok(script) => {
                all += &told(script.notes());
                let clients = built(&script, "samsung-970-pro")
                    .expect("read before")
                    .clients;
                let names: Vec<&str> = clients.iter().map(|c| &c.name[..]).collect();
                writeln!(all, "plays {}", names.join(", ")).expect("a String takes anything");
                played += 1;
            }
            Err(problems) => {
                all += &told(&problems);
                for problem in problems {
                    let option = format!("`{}`", problem.key);
                    let rows = page
                        .lines()
                        .filter(|l| l.starts_with("| ") && l.contains(&option));
                    let stated = rows
                        .filter(|row| !row.contains("| played |") && !row.contains("| noted |"));
                    assert!(stated.count() > 0, "{name}: {problem}");
                }
            }
        }
    }
    check("tests/jobs.txt", &all);
    // At least half of the files are played.
    assert!(played >= 20, "{played}");
}

#[test]
fn a_rate_of_a_mixed_job_holds_for_reads_and_for_writes() {
    let of = |rate: &str, rw: &str| {
        let text = format!("[a]\nrw={rw}\ndirect=1\nsize=1m\nruntime=1\n{rate}\n");
        on(&text, "demo").clients[0].program.arrival
    };
    let ms = |n: u64| weir_core::Span::from_millis(n);
    let apart = |reads, writes| Arrival::Apart {
        reads,
        writes,
        poisson: false,
    };
    assert_eq!(
        of("rate_iops=1000", "randrw"),
        apart(Some(ms(1)), Some(ms(1)))
    );
    assert_eq!(
        of("rate_iops=1000,500", "rw"),
        apart(Some(ms(1)), Some(ms(2)))
    );
    // 4,096,000 bytes per second are 1,000 requests of 4 KiB.
    assert_eq!(of("rate=4096000,", "rw"), apart(Some(ms(1)), None));
    assert_eq!(
        of("rate_iops=,500", "write"),
        Arrival::Even { interval: ms(2) }
    );
    let none = weir_core::Span::ZERO;
    assert_eq!(
        of("rate_iops=,500", "read"),
        Arrival::Closed { think: none }
    );
}

#[test]
fn direct_requests_must_be_whole_sectors_and_the_help_is_possible() {
    let said = refusal("[n]\nrw=write\nbs=2300\nsize=22m\ndirect=1\nfdatasync=1\n");
    assert!(
        said.contains("\"2300\" is not a multiple of 512 bytes"),
        "{said}"
    );
    assert!(
        said.contains("help: write a multiple of 512, or remove direct=1"),
        "{said}"
    );
    // Second stage: the offset of a direct job.
    let said = refusal("[n]\nrw=read\noffset=100\nsize=1m\ndirect=1\n");
    assert!(
        said.contains("offset: \"100\" is not a multiple of 512"),
        "{said}"
    );
    assert!(read("[n]\nrw=read\nbs=1536\nsize=1m\ndirect=1\n").is_ok());
    // Third stage: a buffered job, whose offset must be a multiple of a page.
    let said = refusal("[n]\nrw=read\noffset=100\nsize=1m\n");
    assert!(said.contains("help: write a multiple of 4k"), "{said}");
    // Fourth stage: a buffered job can have requests of any size.
    let log = on(
        "[n]\nrw=write\nioengine=sync\nfdatasync=1\nsize=22m\nbs=2300\n",
        "demo",
    );
    assert_eq!(log.clients[0].program.size, Size::Fixed(2300));
    assert!(log.clients[0].buffered.is_some());
    // Fifth stage: an offset beyond the end of the file.
    let said = refusal("[n]\nrw=read\ndirect=1\nfilesize=1m\noffset=2m\n");
    assert!(
        said.contains("offset: \"2m\" is at or after the end of the file"),
        "{said}"
    );
}

#[test]
fn a_device_is_the_chosen_drive() {
    let whole =
        "[a]\nfilename=/dev/nvme1n1\ndirect=1\nrw=randread\nnumjobs=4\ntime_based\nruntime=1\n";
    for size in ["", "size=100%\n"] {
        for drive in ["samsung-970-pro", "seagate-st3808110as"] {
            let built = on(&format!("{whole}{size}"), drive);
            let length = built.drive.size().expect("it has one") / 4096 * 4096;
            assert_eq!(built.spaces, [length], "{drive}");
            assert!(built.clients.iter().all(|c| c.region.length == length));
        }
    }
    // Second stage: percentages refer to the chosen drive.
    let half = on(&format!("{whole}size=50%\noffset=75%\n"), "samsung-970-pro");
    // From 75 % of the drive, only a quarter is left, although the job wants half. Both are rounded
    // to pages.
    let [start, length] = [half.clients[0].region.start, half.clients[0].region.length];
    let all = half.drive.size().expect("it has one");
    assert!(start.abs_diff(all / 4 * 3) < 8192 && length.abs_diff(all / 4) < 8192);
    // Third stage: the offset is within the default drive, but beyond the end of a smaller one.
    let beyond = "[a]\nfilename=/dev/sda\ndirect=1\nruntime=1\noffset=300g\n";
    let script = read(beyond).expect("the usual drive is larger");
    let refused = built(&script, "seagate-st3808110as").expect_err("a smaller drive");
    assert_eq!(refused[0].key, "offset", "{refused:?}");
}

#[test]
fn jobs_on_two_devices_are_refused() {
    let two = "[a]\nfilename=/dev/nvme0n1\ndirect=1\nsize=1g\nruntime=1\n\
               [b]\nfilename=/dev/nvme1n1\ndirect=1\nsize=1g\nruntime=1\n";
    let said = refusal(two);
    assert!(
        said.contains("is a different device from \"/dev/nvme0n1\""),
        "{said}"
    );
    assert!(said.contains("choose the drive with --drive"), "{said}");
    assert!(read(&two.replace("nvme1n1", "nvme0n1")).is_ok());
}

#[test]
fn a_phase_begins_when_the_previous_phase_has_ended() {
    let text = "[global]\ndirect=1\nsize=1m\nruntime=5\n[a]\n[b]\nstonewall\nramp_time=1\n[c]\n[d]\nwait_for=a\n";
    let all = on(text, "demo");
    let secs = |s: weir_core::Span| s.as_nanos() / 1_000_000_000;
    let times: Vec<(u64, u64)> = (all.clients.iter())
        .map(|c| (secs(c.program.start), c.program.stop.map_or(0, secs)))
        .collect();
    // b waits for a, which ends at 5 s, and has 1 s of ramp time. c is in the same phase as b. d
    // waits for a alone.
    assert_eq!(times, [(0, 5), (5, 11), (5, 10), (5, 10)]);
    assert!(secs(all.warm_up + all.duration) >= 11);
    let said = refusal("[global]\ndirect=1\nsize=1m\nruntime=5\n[a]\nwait_for=b\n[b]\n");
    assert!(
        said.contains("wait_for: \"b\" is not the name of an earlier job"),
        "{said}"
    );
}

#[test]
fn twelve_sizes_and_the_words_of_the_machine_are_read() {
    let sizes = "512/4:1024/1:1536/1:2048/1:2560/1:3072/1:3584/1:4k/67:8k/10:16k/7:32k/3:64k/3";
    let text =
        format!("[a]\ndirect=1\nruntime=1\nrw=randrw\nbssplit={sizes}\nfilename=/dev/nvme0n1\n");
    let Size::Split(split) = on(&text, "samsung-970-pro").clients[0].program.size else {
        panic!("a split")
    };
    assert_eq!(split.parts().count(), 12);
    let text =
        "[a]\ndirect=1\nruntime=1\nbs=2*$pagesize\nsize=256*$pagesize+4096\nnumjobs=$ncpus\n";
    let all = on(text, "demo");
    assert_eq!(all.clients[0].program.size, Size::Fixed(8192));
    assert_eq!(all.clients[0].region.length, 257 * 4096);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(all.clients.len(), processors);
}

#[test]
fn a_file_is_included_relative_to_the_job_file_and_problems_say_where() {
    let folder = std::env::temp_dir().join(format!("weir-include-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("writable");
    let put = |name: &str, text: &str| fs::write(folder.join(name), text).expect("writable");
    // First stage: an included file in the directory of the job file, which is not the working
    // directory.
    put("jobs.fio", "[global]\ninclude common.inc\n[a]\nrw=read\n");
    put("common.inc", "direct=1\nsize=1m\nruntime=1\n");
    let script = scenario::load(&folder.join("jobs.fio"));
    let clients = script.map(|s| built(&s, "demo").map(|b| b.clients.len()));
    // Second stage: the problem is in the included file, and has its name and line.
    put("common.inc", "direct=1\nsize=1m\nruntime=1\nbs=4x");
    let wrong = scenario::load(&folder.join("jobs.fio")).expect_err("bs");
    // Third stage: the file includes itself.
    put("jobs.fio", "[global]\ninclude jobs.fio\n[a]\nsize=1m\n");
    let round = scenario::load(&folder.join("jobs.fio")).expect_err("it never ends");
    fs::remove_dir_all(&folder).expect("it is there");
    assert_eq!(clients, Ok(Ok(1)));
    let common = folder.join("common.inc").display().to_string();
    assert_eq!(
        (wrong[0].file.clone(), wrong[0].line),
        (common, 4),
        "{wrong:?}"
    );
    assert!(round[0].message.contains("16 deep"), "{round:?}");
}

#[test]
fn a_misspelt_option_never_proposes_one_that_is_refused_or_unrelated() {
    let hint = |option: &str| {
        let said = refusal(&format!("[a]\nsize=1m\n{option}=1\n"));
        said.split_once("did you mean ")
            .map(|(_, rest)| rest.to_owned())
    };
    assert_eq!(hint("iodept").as_deref(), Some("iodepth?"));
    assert_eq!(hint("time_base").as_deref(), Some("time_based?"));
    for option in [
        "verfiy",
        "flwo",
        "cgroup_wieght",
        "log_something_ms",
        "rateonly",
    ] {
        assert_eq!(hint(option), None, "{option}");
    }
    let text = "[a]\ndirect=1\nsize=1m\nruntime=1\nratemin=1024\nlog_hist_msec=1000\nunified_rw_reporting=1\nreadonly\nss=iops:1%\n";
    let notes = read(text).expect("notes only").notes().len();
    // The five options from `ratemin` to `ss` have no effect.
    assert_eq!(notes, 5);
}
