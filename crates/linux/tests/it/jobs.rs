//! Tests of the translation of scenarios into jobs of fio, and of the measurement of their logs.

use weir_config::scenario::{self, Choice, Scenario};
use weir_config::{policy, profile};
use weir_core::{Op, Span};
use weir_linux::play::log::LoggedRequest;
use weir_linux::play::{FioLog, JobPaths, PlayHost, PlayJobs, PlayPlan, measure, player};
use weir_measure::MeasuredKind;
use weir_measure::promise::RunContext;

fn built(text: &str, drive: &str, policy: &str) -> Scenario {
    let drive = profile::find(drive).unwrap().drive;
    let choice = Choice::new(&drive, None, policy);
    let script = scenario::read(text, "x.toml").unwrap();
    let policy = policy::find(policy).unwrap();
    script.scenario(&choice).unwrap().under(&policy)
}

const TWO: &str = r#"
name = "two"
duration = "2s"
run_in = "1s"
warm_up = "500ms"
[[client]]
name = "target"
rw = "randread"
bs = "4KiB"
direct = true
size = "8MiB"
ionice = "realtime"
share = 300
[[client]]
name = "log"
rw = "write"
bs = "8KiB"
direct = true
size = "1MiB"
fdatasync = 2
rate_iops = 300
startdelay = "100ms"
max = { bandwidth = "1MB/s" }
"#;

#[test]
fn a_scenario_is_a_section_for_each_client() {
    let scenario = built(TWO, "demo", "bfq");
    let jobs = PlayJobs::new(&scenario, 0).unwrap();
    let cgroups = [None, Some("/cg/a".to_owned()), Some("/cg/b".to_owned())];
    let file = jobs.file(&JobPaths {
        device: "/dev/x",
        cgroups: &cgroups,
    });
    let (_, sections) = file.split_once("filename=/dev/x\n").unwrap();
    // Both run until the end at 2.5 s (warm-up and duration), the second one from its delay of 100
    // ms on. 300 requests of 8 KiB per second are 2,457,600 bytes: the rate is in bytes, because
    // 300 does not divide a second.
    let seed = |n| weir_model::load::seed("two", 0, n) >> 1;
    let expected = format!(
        "
[0.target]
exec_prerun=echo $PPID > /cg/a/cgroup.procs && : > ready.0 && : < go.0
exec_postrun=: > over.0
write_lat_log=log
offset=0
size=8388608
runtime=2500000us
randseed={}
direct=1
rw=randread
bs=4096
ioengine=psync
iodepth=1
time_based=1
prioclass=1
prio=4

[1.log]
exec_prerun=echo $PPID > /cg/b/cgroup.procs && : > ready.1 && : < go.1
exec_postrun=: > over.1
write_lat_log=log
offset=8388608
size=1048576
runtime=2400000us
randseed={}
direct=1
rw=write
bs=8192
fdatasync=2
ioengine=psync
iodepth=1
rate=2457600
time_based=1
",
        seed(0),
        seed(1)
    );
    assert_eq!(sections, expected);
    assert_eq!((jobs.bytes, jobs.writes), (9 << 20, true));
    assert_eq!(jobs.clients[1].begins_ns, 100_000_000);
    let run_in = jobs.run_in_file("/dev/x").unwrap();
    assert!(
        run_in.contains("offset=0\nsize=8388608\n") && run_in.contains("iodepth=32\n"),
        "{run_in}"
    );
}

#[test]
fn a_plan_has_the_knobs_and_comes_back_from_text() {
    let scenario = built(TWO, "demo", "bfq + io.max");
    let policy = policy::find("bfq + io.max").unwrap();
    let shape = scenario.drive.shape();
    let (plan, _) = PlayPlan::new(&scenario, &policy, 0, Some(&shape)).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<PlayPlan>(&text).unwrap(), plan);
    let values: Vec<String> = plan
        .settings
        .iter()
        .map(|s| format!("{} {}", s.knob, s.value))
        .collect();
    for value in [
        "queue/scheduler bfq",
        "queue/nomerges 2",
        "queue/iosched/low_latency 0",
        "io.bfq.weight 300",
        "io.max rbps=1000000 wbps=1000000 riops=max wiops=max",
    ] {
        assert!(values.iter().any(|v| v == value), "{value}: {values:?}");
    }
    assert_eq!(plan.groups, ["/weir-1", "/weir-2"]);
}

/// Each refused key is named, with a remedy.
#[test]
fn unplayable_keys_are_refused_by_name() {
    let client = "[[client]]\nname = \"a\"\nsize = \"8MiB\"\n";
    for (keys, key) in [
        (
            "direct = true\nrw = \"write\"\nfdatasync = 1\niodepth = 4",
            "iodepth",
        ),
        (
            "direct = true\niodepth = 4\nthinktime = \"1ms\"",
            "thinktime",
        ),
        ("direct = true\nnrfiles = 4", "nrfiles"),
    ] {
        let scenario = built(&format!("name = \"x\"\n{client}{keys}\n"), "demo", "none");
        let refused = PlayJobs::new(&scenario, 0).unwrap_err();
        assert_eq!((refused.client.as_deref(), refused.key), (Some("a"), key));
        assert!(refused.to_string().starts_with("client a: "), "{refused}");
    }
    for name in ["ring", "journal"] {
        let text = scenario::source(name).unwrap();
        let drive = profile::find("demo").unwrap().drive;
        let script = scenario::read(text, "x.toml").unwrap();
        let case = script.cases().last().map(String::as_str);
        let choice = Choice::new(&drive, case, "none");
        let scenario = script.scenario(&choice).unwrap();
        let refused = PlayJobs::new(&scenario, 0).unwrap_err();
        assert!(["guest", "filesystem"].contains(&refused.key), "{refused}");
    }
}

/// Under a kernel, such a client is the program that fills the page cache, whatever depth its
/// requests have in the simulator.
#[test]
fn a_client_that_stands_for_write_back_writes_through_the_page_cache() {
    let client = "name = \"x\"\nduration = \"2s\"\nrun_in = \"0s\"\nwarm_up = \"500ms\"\n[[client]]\nname = \"a\"\nsize = \"8MiB\"\n\
                  rw = \"write\"\nbs = \"128KiB\"\ndirect = true\niodepth = 8\niodepth_low = 4\nfdatasync = 3\n";
    let jobs = |keys: &str| PlayJobs::new(&built(&format!("{client}{keys}"), "demo", "none"), 0);
    // As direct writes, eight in flight do not go together with fdatasync.
    assert_eq!(jobs("").unwrap_err().key, "iodepth");
    let jobs = jobs("writeback = true\n").unwrap();
    let keys = &jobs.clients[0].keys;
    for line in ["direct=0", "ioengine=psync", "iodepth=1", "fdatasync=3"] {
        assert!(keys.lines().any(|l| l == line), "{line}: {keys}");
    }
    assert!(!keys.contains("iodepth_low"), "{keys}");
    assert!(jobs.writes && jobs.writes_back);
    let scenario = built(&format!("{client}writeback = true\n"), "demo", "none");
    let measured = measure(&scenario, 0, &[log(10, 1_000)], 1_000_000 * 1_000_000, None);
    assert_eq!(measured.clients[0].depth, 1);
}

/// Returns a log of requests that end a millisecond apart.
fn log(count: u64, latency_ns: u64) -> FioLog {
    let entry = |n: u64| LoggedRequest {
        ended_ms: 1_000_000 + n,
        latency_ns,
        op: Op::Read,
        bytes: 4096,
    };
    FioLog {
        entries: (0..count).map(entry).collect(),
        ..FioLog::default()
    }
}

#[test]
fn logs_are_measured_as_the_simulator_measures() {
    let text = "name = \"x\"\nduration = \"2s\"\nrun_in = \"0s\"\nwarm_up = \"500ms\"\n[[client]]\nname = \"a\"\ndirect = true\nsize = \"8MiB\"\nmin = \"4MB/s\"\n";
    let scenario = built(text, "demo", "none");
    let began_ns = 1_000_000 * 1_000_000;
    let step = Some(Span::from_millis(10));
    let measured = measure(&scenario, 0, &[log(3_000, 900_000)], began_ns, step);
    let meter = &measured.clients[0].meter;
    // The measurement covers the time from 0.5 s to 2.5 s, in which 2,000 requests end.
    assert_eq!((meter.requests(), meter.bytes()), (2_000, 2_000 * 4096));
    assert!((meter.latency().mean() - 900_000.0).abs() < 1.0);
    assert_eq!(measured.total.bytes(), meter.bytes());
    assert!(meter.course().is_some());
    let run = weir_measure::RunId::default();
    let record = measured.clients[0].record(&run, None, &RunContext::new(measured.total.seconds()));
    assert_eq!(record.promise_seconds.unwrap().kept, 2);
    let half = measure(&scenario, 0, &[log(3_000, 90_000)], began_ns, None);
    // The client had a request waiting for 9 % of each second only, and was owed that part of its
    // min.
    let record = half.clients[0].record(&run, None, &RunContext::new(half.total.seconds()));
    assert_eq!(record.promise_seconds.unwrap().short, 0);
}

#[test]
fn flushes_follow_the_writes_that_they_are_for() {
    let scenario = built(TWO, "demo", "none");
    let mut writes = log(100, 200_000);
    for entry in &mut writes.entries {
        entry.op = Op::Write;
        entry.ended_ms += 1_000;
    }
    // 100 writes with fdatasync = 2 have a flush after every second one.
    (writes.flushes, writes.flush_ns) = (50, 300_000);
    let logs = [log(2_000, 100_000), writes];
    let measured = measure(&scenario, 0, &logs, 1_000_000 * 1_000_000, None);
    let meter = &measured.clients[1].meter;
    let flushes = meter.of(MeasuredKind::Flush).unwrap();
    assert_eq!(flushes.latency().count(), 50);
    assert!((flushes.latency().mean() - 300_000.0).abs() < 1.0);
    assert_eq!(
        meter.of(MeasuredKind::Write).unwrap().latency().count(),
        100
    );
}

/// fio reports flushes only while it measures completion latencies.
#[test]
fn fio_counts_the_flushes_of_a_job() {
    let scenario = built(
        &TWO.replace("2s", "200ms")
            .replace("1s", "0s")
            .replace("500ms", "0s"),
        "demo",
        "none",
    );
    let place = tempfile::tempdir().unwrap();
    let (plan, _) = PlayPlan::new(&scenario, &policy::find("none").unwrap(), 0, None).unwrap();
    let host = PlayHost {
        device: place.path().join("device"),
        cgroups: None,
        scratch: place.path().join("scratch"),
    };
    let device = std::fs::File::create(&host.device).unwrap();
    device.set_len(plan.jobs.bytes).unwrap();
    match host.play(&plan, &|| true) {
        Ok(played) => assert!(played.logs[1].flushes > 0, "{:?}", played.logs[1]),
        Err(player::PlayError::NoFio(why)) if std::env::var_os("WEIR_NO_SKIP").is_none() => {
            println!("skipped: {why}");
        }
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn every_scenario_that_comes_with_weir_is_played_or_refused_with_a_reason() {
    let drive = profile::find("plextor-px-256m5s").unwrap().drive;
    let (mut played, mut refused) = (0, 0);
    for name in scenario::names() {
        let script = scenario::read(scenario::source(name).unwrap(), "x.toml").unwrap();
        let cases = script.cases();
        let cases: Vec<Option<&str>> = match cases {
            [] => vec![None],
            some => some.iter().map(|c| Some(c.as_str())).collect(),
        };
        for case in cases {
            let choice = Choice::new(&drive, case, "none");
            let Ok(scenario) = script.scenario(&choice) else {
                continue;
            };
            match PlayJobs::new(&scenario, 0) {
                Ok(jobs) => {
                    assert_eq!(jobs.clients.len(), scenario.clients.len());
                    played += 1;
                }
                Err(why) => {
                    assert!(!why.why.is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(played > 30 && refused > 5, "{played} and {refused}");
}
