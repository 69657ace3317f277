//! Scenarios and job files of `fio`: those that come with Weir, problems of other files, and
//! mutants.

use crate::common::files;
use crate::common::fuzz;
use crate::common::held;
use crate::common::mutate;

use files::{files, told};
use fuzz::scenario_text;
use held::check;
use mutate::walk;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use weir_config::policy;
use weir_config::profile;
use weir_config::scenario::{self, Choice, Script};
use weir_core::{Capacity, elevator};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn built_in_scenarios_can_be_played_on_every_drive() {
    let names: Vec<_> = scenario::names().collect();
    assert_eq!(
        names.len(),
        files("scenarios", "toml").len(),
        "every file is built in"
    );
    for name in names {
        let script = scenario::find(name).expect("built in");
        assert_eq!(script.name(), name);
        assert!(
            !script.about().is_empty() && script.about().len() <= 100,
            "{name}"
        );
        let load = script.load();
        assert!(load.is_empty() || load.ends_with('.'), "a sentence: {load}");
        let cases: Vec<Option<&str>> = match script.cases() {
            [] => vec![None],
            some => some.iter().map(|c| Some(c.as_str())).collect(),
        };
        for case in cases {
            for policy in ["none", "io.latency", "bfq", "bfq-bytes", "contract"] {
                for drive in profile::names() {
                    let drive = profile::find(drive).expect("built in").drive;
                    let choice = Choice::new(&drive, case, policy);
                    let built = script.scenario(&choice).expect("read before");
                    let target = built.clients.iter().find(|c| c.name == script.target());
                    assert!(target.is_some(), "{name}: {}", script.target());
                    for client in &built.clients {
                        assert_eq!(client.program.validate(client.region), Ok(()));
                    }
                }
            }
        }
    }
}

#[test]
fn an_unknown_name_has_a_nearest_one() {
    // Only the nearest name is suggested.
    let unknown = scenario::find("latencies").unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "unknown scenario \"latencies\"; did you mean \"latency\"?"
    );
}

fn script(text: &str) -> Script {
    scenario::read(text, "test.toml").unwrap_or_else(|p| panic!("{p:#?}"))
}

/// Returns a scenario on the demo drive in a case under a policy.
fn built(script: &Script, case: Option<&str>, policy: &str) -> scenario::Scenario {
    let drive = profile::find("demo").expect("built in").drive;
    let choice = Choice::new(&drive, case, policy);
    script.scenario(&choice).expect("read before")
}

#[test]
fn the_case_the_drive_and_the_policy_override_keys_in_this_order() {
    let text = "duration = \"1s\"\n[[client]]\nname = \"a\"\nsize = \"1MiB\"\ndirect = true\nmin = \"1MB/s\"\n\
                [case.one]\nduration = \"2s\"\n[case.two.client.a]\nnumjobs = 2\nname = \"b\"\n[[case.three.client]]\n\
                name = \"c\"\nsize = \"2MiB\"\ndirect = true\n[on.flash]\nduration = \"3s\"\n[under.bfq]\nduration = \"4s\"\n\
                client.a.share = 7\nbfq.slice_idle = \"4ms\"\n";
    let script = script(text);
    assert_eq!(script.cases(), ["one", "two", "three"]);
    // The case states 2 s, `on.flash` replaces that by 3 s, and `under.bfq` replaces it by 4 s.
    let one = built(&script, Some("one"), "none");
    assert_eq!(
        (one.duration.as_nanos(), one.clients.len()),
        (3_000_000_000, 1)
    );
    let one = built(&script, Some("one"), "bfq");
    assert_eq!(
        (one.duration.as_nanos(), one.groups[0].contract.share),
        (4_000_000_000, 7)
    );
    // The case renames the client, and two clients with the new name replace it.
    let two = built(&script, Some("two"), "none");
    let names: Vec<&str> = two.clients.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["b-01", "b-02"]);
    // The array of tables adds a client.
    assert_eq!(built(&script, Some("three"), "none").clients[1].name, "c");
    assert_eq!((two.case.as_str(), two.name.as_str()), ("two", "test"));
    let drive = profile::find("demo").expect("built in").drive;
    // `under.bfq` sets 4 ms. Under another policy, 8 ms is the default.
    for (policy, idle) in [("bfq", 4_000_000), ("none", 8_000_000)] {
        let choice = Choice::new(&drive, Some("one"), policy);
        let mut tuned = policy::find("bfq").expect("it comes with Weir");
        script.tune(&choice, &mut tuned).unwrap();
        let elevator::Config::Bfq(bfq) = tuned.elevator else {
            panic!("another elevator")
        };
        assert_eq!(bfq.slice_idle.as_nanos(), idle, "{policy}");
    }
}

/// Checks that a scenario for a drive of 200 MB/s promises half on a drive with half of the rate,
/// rounded down to 100 kB/s, and no more on a faster one.
#[test]
fn a_slower_drive_promises_less() {
    let text = "meant_for = \"200MB/s\"\npolicies = [\"bfq\", \"none\"]\n[[client]]\nname = \"a\"\nsize = \"1MiB\"\n\
                direct = true\nmin = \"10MB/s\"\n";
    let script = script(text);
    assert_eq!(script.policies(), ["bfq", "none"]);
    let drive = profile::find("demo").expect("built in").drive;
    let promised = |rate| {
        let choice = Choice {
            drive: &drive,
            capacity: Some(Capacity {
                read: rate,
                write: 2 * rate,
                ..drive.capacity().expect("it has one")
            }),
            ..Choice::new(&drive, None, "none")
        };
        script.scenario(&choice).expect("read before").groups[0]
            .contract
            .min
    };
    // 50.5/200 of 10 MB/s are 2.525 MB/s, which is rounded down to 2.5.
    let minima = [50_500_000, 100_000_000, 200_000_000, 400_000_000].map(promised);
    assert_eq!(minima, [2_500_000, 5_000_000, 10_000_000, 10_000_000]);
}

#[test]
fn a_case_changes_keys_of_a_table_and_leaves_its_others() {
    let text = "[host]\nnr_requests = \"linux\"\nadapter = \"linux\"\n[[client]]\nname = \"a\"\nsize = \"1MiB\"\ndirect = true\n\
                [case.one.host]\nadapter = \"none\"\n[case.two]\nduration = \"2s\"\n";
    let adapter = |case| built(&script(text), Some(case), "none").adapter;
    let linux = scenario::NrRequests::Linux;
    let is = |adapter: scenario::Adapter| (adapter.nr_requests, adapter.ata);
    // The case replaces one key of `[host]`, and the other key stays.
    assert_eq!(is(adapter("one")), (linux, false));
    assert_eq!(is(adapter("two")), (linux, true));
}

#[test]
fn an_ata_adapter_has_one_queue_of_at_most_32_commands() {
    let with = |adapter: &str, queues, tags| {
        let text = format!(
            "[host]\nadapter = \"{adapter}\"\n[[client]]\nname = \"a\"\nsize = \"1MiB\"\ndirect = true\n"
        );
        let null = weir_model::drive::null::NullConfig {
            queues,
            tags,
            ..weir_model::drive::null::NullConfig::demo()
        };
        let drive = weir_model::drive::DriveConfig::Null(null);
        let choice = Choice::new(&drive, None, "none");
        script(&text)
            .scenario(&choice)
            .expect("read before")
            .adapter
            .ata
    };
    // NCQ has 32 tags.
    assert!(with("linux", 1, 32) && with("linux", 1, 1));
    assert!(!with("linux", 1, 33) && !with("linux", 2, 32) && !with("none", 1, 32));
}

#[test]
fn groups_files_and_zones_have_the_values_of_the_scenario() {
    let text = "[[group]]\nname = \"top\"\nmin = \"9MB/s\"\n[[group]]\nname = \"low\"\nparent = \"top\"\n\
                [[client]]\nname = \"s\"\nnumjobs = 3\nsize = \"1MiB\"\noffset_increment = \"16KiB\"\nfile = \"f\"\n\
                direct = true\nbs = \"16KiB\"\nzonesize = \"16KiB\"\nzoneskip = \"32KiB\"\ngroup = \"low\"\n\
                [[client]]\nname = \"own\"\nsize = \"2MiB\"\noffset = \"4KiB\"\ndirect = true\n";
    let volumes = built(&script(text), None, "none");
    let low = weir_core::GroupId(2);
    assert_eq!(volumes.groups.len(), 3);
    assert_eq!(
        (volumes.groups[1].parent, volumes.clients[0].group),
        (weir_core::GroupId(1), low)
    );
    // The three clients begin 16 KiB apart, so their file is 32 KiB longer than `size`.
    let starts: Vec<u64> = volumes.clients.iter().map(|c| c.region.start).collect();
    assert_eq!(starts, [0, 16 << 10, 32 << 10, 4096]);
    assert_eq!(volumes.spaces, [(1 << 20) + (32 << 10), (2 << 20) + 4096]);
    assert!(volumes.clients[..3].iter().all(|c| c.space.0 == 0));
    let none = weir_config::Policy::none();
    assert_eq!(volumes.sizes(&none).spaces, 2);
    assert_eq!(volumes.outstanding(&volumes.clients[0], &none), 1);
    // The table also has room for the reads of the run-in.
    assert_eq!(volumes.sizes(&none).per_stream, scenario::RUN_IN_DEPTH);
    let files = built(
        &script(&format!("layout = \"files\"\n{text}")),
        None,
        "none",
    );
    // With `layout = "files"`, the second file follows the first on one device.
    let whole = (3 << 20) + (36 << 10);
    assert_eq!((files.spaces, files.places), (vec![whole], vec![0]));
    assert_eq!(files.clients[3].region.start, (1 << 20) + (36 << 10));
}

#[test]
fn a_job_file_is_one_client_a_job() {
    let text =
        fs::read_to_string(folder("tests/scenarios/accepted.fio")).expect("part of the source");
    let path = std::env::temp_dir().join(format!("weir-jobs-{}.fio", std::process::id()));
    fs::write(&path, text).expect("writable");
    let script = scenario::load(&path);
    fs::remove_file(&path).expect("it is there");
    let script = script.unwrap_or_else(|p| panic!("{p:#?}"));
    assert_eq!(script.notes().len(), 2, "{:?}", script.notes());
    let built = built(&script, None, "none");
    let names: Vec<&str> = built.clients.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "reader-01",
            "reader-02",
            "reader-03",
            "mixed",
            "split",
            "strided",
            "paced",
            "thinker"
        ]
    );
    assert_eq!(built.warm_up.as_nanos(), 2_000_000_000);
    assert_eq!(built.duration.as_nanos(), 11_000_000_000);
    let paced = &built.clients[6].program;
    // The rate is 10 * 10^6 bytes per second because of `kb_base`, so 4,096 bytes take 409.6 us.
    let weir_model::load::Arrival::Even { interval } = paced.arrival else {
        panic!("{paced:?}")
    };
    assert_eq!(interval.as_nanos(), 409_600);
}

/// Linux compares I/O priorities only within a group.
#[test]
fn jobs_have_groups_of_their_own_unless_their_priorities_differ() {
    let jobs = "[global]\nrw=read\nsize=1m\ndirect=1\nruntime=1\n[a]\n[b]\nnumjobs=2\n";
    let groups = |more: &str| {
        let script = scenario::parse(&format!("{jobs}{more}"), "a.fio").unwrap();
        let clients = built(&script, None, "none").clients;
        let groups: Vec<u32> = clients.iter().map(|c| c.group.0).collect();
        let notes = script.notes().iter().map(ToString::to_string);
        (groups, notes.collect::<Vec<_>>())
    };
    // Job b has two clients, so there are three groups.
    assert_eq!(groups(""), (vec![1, 2, 3], Vec::new()));
    let (shared, notes) = groups("prio=7\n");
    assert_eq!(shared, [0, 0, 0]);
    assert!(
        notes.len() == 1 && notes[0].starts_with("a.fio:9:1: prio: differs between jobs"),
        "{notes:?}"
    );
}

/// Checks the job files of these tests and of the lab's experiments. Mutants are checked below.
#[test]
fn job_files_play_the_same_once_printed() {
    let mut printed = 0;
    for folder in ["tests/scenarios", "../lab/experiments"] {
        for (path, text) in files(folder, "fio") {
            let _ = scenario_text(&text, "fio");
            let script = scenario::load_jobs(&path);
            printed += usize::from(script.is_ok_and(|s| s.printed().is_some()));
        }
    }
    // The bound guards against files that are not read.
    assert!(printed >= 15, "{printed}");
    let jobs = scenario::parse(
        "[a]\nsize=1m\ndirect=1\nruntime=1\nbs=4k\nrate_iops=200\n",
        "a.fio",
    );
    let jobs = jobs.expect("it is a job").printed();
    assert!(
        jobs.is_some_and(|text| text.contains("\nrate_iops = 200\n")),
        "a rate of requests stays one where it is exact"
    );
    assert_eq!(
        script("[[client]]\nname = \"a\"\nsize = \"1MiB\"\ndirect = true\n").printed(),
        None
    );
}

/// Checks the times and counts of a job file's clients in Weir's units.
#[test]
fn jobs_are_converted_to_the_units_of_weir() {
    let text = "[global]\ndirect=1\nsize=1m\nruntime=5\n\
                [hourly]\nrw=randread\nbs=4k\nrate=1\n\
                [slow]\nbs=8k\nrate=1k\n\
                [counted]\nbs=4k\nrate_iops=3\n\
                [poisson]\nbs=64k\nrate_iops=50\nrate_process=poisson\nnumber_ios=5\n\
                [thinks]\nbs=64k\nthinktime=70\nnumber_ios=500\n\
                [whole]\nbs=300k\n\
                [timed]\nbs=300k\ntime_based\n\
                [idle]\nbs=1m\nprioclass=3\n\
                [first]\nbs=1m\nprioclass=1\nprio=1\n\
                [plain]\nbs=1m\nprioclass=2\nnumjobs=1\n";
    let script = scenario::parse(text, "a.fio").unwrap_or_else(|p| panic!("{p:#?}"));
    let mut all = String::new();
    for client in built(&script, None, "none").clients {
        let program = &client.program;
        let name = &client.name;
        let (arrival, requests) = (program.arrival, program.requests);
        let priority = client.priority;
        writeln!(
            all,
            "{name} {arrival:?} {requests:?} {:?} {}",
            priority.class, priority.level
        )
        .unwrap();
    }
    // The interval between two requests is at most an hour. The number of requests is that of whole
    // blocks in `size`.
    assert_eq!(
        all,
        "hourly Even { interval: 3600000000000ns } Some(256) BestEffort 4\n\
         slow Even { interval: 8000000000ns } Some(128) BestEffort 4\n\
         counted Even { interval: 333333333ns } Some(256) BestEffort 4\n\
         poisson Poisson { interval: 20000000ns } Some(5) BestEffort 4\n\
         thinks Closed { think: 70000ns } Some(16) BestEffort 4\n\
         whole Closed { think: 0ns } Some(3) BestEffort 4\n\
         timed Closed { think: 0ns } None BestEffort 4\n\
         idle Closed { think: 0ns } Some(1) Idle 4\n\
         first Closed { think: 0ns } Some(1) Realtime 1\n\
         plain Closed { think: 0ns } Some(1) BestEffort 4\n"
    );
}

fn answer(text: &str, ending: &str) -> String {
    let path = format!("a.{ending}");
    let read = scenario::parse(text, &path);
    let problems = match &read {
        Ok(script) => script.notes(),
        Err(problems) => problems,
    };
    let mut answer = told(problems);
    if read.is_ok() {
        answer += "accepted\n";
    }
    answer
}

/// Compares the problems of `tests/scenarios/NAME.toml` and `NAME.fio` with
/// `tests/scenarios/messages.txt`. With `WEIR_BLESS=1`, the file is written, and a person reviews
/// the difference.
#[test]
fn every_problem_is_reported_as_in_its_golden_file() {
    let mut all = String::new();
    let mut refused = 0;
    for ending in ["toml", "fio"] {
        for (path, text) in files("tests/scenarios", ending) {
            let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
            let answer = answer(&text, ending);
            refused += usize::from(!answer.ends_with("accepted\n"));
            writeln!(all, "== {name}\n{answer}").expect("a String takes anything");
        }
    }
    // The bound guards against files that are not read.
    assert!(refused >= 90, "{refused}");
    check("tests/scenarios/messages.txt", &all);
}

#[test]
fn mutated_files_never_panic_and_errors_have_positions() {
    for ending in ["toml", "fio"] {
        let own = files("tests/scenarios", ending).into_iter().map(|f| f.1);
        let built_in = scenario::names().filter_map(scenario::source);
        let built_in = built_in.filter(|_| ending == "toml").map(str::to_owned);
        let mut all: Vec<String> = own.chain(built_in).collect();
        all.retain(|text| !text.is_empty());
        walk(&all, 1_500, 100, |text| scenario_text(text, ending));
    }
}

#[test]
fn every_case_may_set_the_required_keys_of_a_client() {
    let text = "[[client]]\nname = \"a\"\n[case.z.client.a]\nsize = \"1MiB\"\ndirect = true\n";
    let read = scenario::read(text, "a.toml");
    assert_eq!(
        read.map(|script| script.cases().to_vec()),
        Ok(vec!["z".to_owned()])
    );
}
