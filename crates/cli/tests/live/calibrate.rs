//! `weir calibrate`: its results for modelled drives that are served live, the input that it
//! refuses, and its continuation after an interruption.

use crate::common;
use crate::common::running::RunningServer;
use crate::common::{CommandOutput, Scratch, golden, has, run, signal, weir};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use weir_config::profile;
use weir_core::{Op, Span};
use weir_lab::calibrate::{
    Calibration, CalibrationPlan, CalibrationTarget, RateWindow, StepLatency, StepResult,
};
use weir_model::drive::DriveConfig;

/// Serves a modelled drive as the volume `disk`, and returns the server with the URI of the volume.
fn serve(scratch: &Scratch, model: &str, size: &str) -> (RunningServer, String) {
    let socket = scratch.path("nbd.sock");
    let text = format!(
        "[drive.d]\npolicy = \"none\"\nmodel = {model}\n[listen]\nnbd = [\"unix:{}\"]\n[limits]\nrequests_per_connection = 256\n\
         [volume.disk]\ndrive = \"d\"\nsize = \"{size}\"\n",
        socket.display()
    );
    scratch.file("weir.toml", &text);
    let server = common::running::serve(scratch);
    let uri = format!("nbd+unix:///disk?socket={}", socket.display());
    (server, uri)
}

/// Returns the figures of the model itself: sequential bytes per second, and random requests of 4
/// KiB per second.
fn said(drive: &DriveConfig) -> [(&'static str, f64); 4] {
    let capacity = match drive {
        // The minimum of a null drive is that of short requests, which is not the sequential rate.
        DriveConfig::Null(_) => drive.best_case().unwrap(),
        _ => drive.worst_case(u64::MAX).unwrap().unwrap(),
    };
    let at_random = |op| drive.random_rate(op, 4096).unwrap() as f64;
    [
        ("read-sequential", capacity.read as f64),
        ("write-sequential", capacity.write as f64),
        ("read-random", at_random(Op::Read)),
        ("write-random", at_random(Op::Write)),
    ]
}

/// Returns the slower end of a measured result, in the unit of [`said`].
fn found(known: &Value, name: &str) -> f64 {
    let steps = known["steps"].as_array().unwrap().iter();
    let end = format!("{name}-end");
    let rates = steps.filter(|s| s["name"] == name || s["name"] == end.as_str());
    let per = |step: &Value| match step["length"].as_f64().unwrap() {
        4096.0 => 4096.0,
        _ => 1.0,
    };
    rates
        .map(|s| s["bytes_per_second"].as_f64().unwrap() / per(s))
        .fold(f64::INFINITY, f64::min)
}

/// Repeats the command until nothing is left to measure. On a busy machine, it can leave the last
/// steps for another run.
fn complete(scratch: &Scratch, ask: &str) -> CommandOutput {
    let all = (0..5).map(|_| run(scratch, ask));
    let mut last =
        all.skip_while(|said| !said.err.contains("contains the results of an earlier run"));
    last.next().expect("it comes to an end")
}

/// Only one model is measured at a time, because the tests share two CPUs.
static ALONE: Mutex<()> = Mutex::new(());

/// The number of attempts. If the machine is busy with something else, a measurement is disturbed
/// and repeated.
const ATTEMPTS: u32 = 3;

/// Serves a model, measures it over NBD, and compares each figure with that of the model.
fn within_five_percent(model: &str, size: &str, time: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let model = model.replace('\n', " ");
    let drive = profile::read_inline(&model).unwrap().drive;
    let furthest = (0..ATTEMPTS).map(|_| furthest(&drive, &model, size, time));
    let best = furthest.take_while(|off| *off > 5.0).count();
    assert!(best < ATTEMPTS as usize, "{} is not found", drive.name());
}

/// Returns the largest deviation of a figure, in percent.
fn furthest(drive: &DriveConfig, model: &str, size: &str, time: &str) -> f64 {
    let scratch = Scratch::new();
    let (server, uri) = serve(&scratch, model, size);
    let ask = format!("calibrate {uri} --write --time {time} --json -");
    let all = complete(&scratch, &ask).ended(0);
    server.end();
    let known: Value = serde_json::from_str(&all.out).unwrap();
    let mut furthest: f64 = 0.0;
    for (name, says) in said(drive) {
        let found = found(&known, name);
        let off = (found / says - 1.0) * 100.0;
        println!(
            "{} {name}: {found:.0}, the model says {says:.0}: {off:+.2} %",
            drive.name()
        );
        furthest = furthest.max(off.abs());
    }
    // The results alone are enough for a profile. There is no profile of the kind of a null drive.
    let profile = format!("calibrate {uri} --write --profile mine.toml");
    let fitted = run(&scratch, &profile).ended(0);
    println!("{}", fitted.err);
    // A disturbed measurement does not have to give a profile that fits.
    let is_disturbed = furthest > 5.0 || matches!(drive, DriveConfig::Null(_));
    assert!(is_disturbed || !fitted.err.contains("TOO FAR OFF"));
    furthest
}

#[test]
fn a_plain_drive_served_live_is_found() {
    let model = r#"{ kind = "null", service = "2ms", tags = 64, link = "10MB/s" }"#;
    within_five_percent(model, "4GiB", "15s");
}

#[test]
fn a_flash_drive_served_live_is_found() {
    let model = r#"{ kind = "ssd", size = "64GiB", tags = 32, queues = 1, link = "30MB/s", duplex = false, overhead = "100us", command = "500us",
        channels = 2, dies = 2, channel = "100MB/s", page = "16KiB", read = "80us", program = "3ms", erase = "4ms", suspend = "100us",
        block = 256, read_ahead = "256KiB", window = "600us", favour = "1MiB", write_buffer = "2MiB", flush = "0s", protected = false,
        spare = 100, filled = 50 }"#;
    within_five_percent(model, "64GiB", "15s");
}

#[test]
fn a_disk_served_live_is_found() {
    let model = r#"{ kind = "hdd", outer.bytes = "40GiB", outer.rate = "60MB/s", middle.bytes = "40GiB", middle.rate = "50MB/s",
        inner.bytes = "40GiB", inner.rate = "40MB/s", rpm = 15000, seek.track = "300us", seek.average = "2ms", seek.full = "4ms",
        settle = "100us", tags = 32, ageing = "30ms", overhead = "100us", link = "300MB/s", segments = 16, segment = "1MiB",
        write_cache = "2MiB", flush = "0s" }"#;
    within_five_percent(model, "120GiB", "30s");
}

fn window(bytes_per_second: f64) -> RateWindow {
    RateWindow {
        seconds: 0.5,
        bytes_per_second,
    }
}

/// Returns complete results for a target, whose figures are not those of any real drive.
fn calibrated(path: &str, write: bool) -> Calibration {
    let target = CalibrationTarget {
        path: path.to_owned(),
        size: 512_110_190_592,
        device: Some("259:0".to_owned()),
        depth: 256,
        rotational: false,
        write,
        flush: true,
        sparse: write,
    };
    let mut known = Calibration::new(target.clone());
    known.written = 1 << 35;
    let plan = CalibrationPlan::new(&target);
    while let Some((step, _)) = plan.next(&known, Span::from_secs(60)) {
        let load = step.load;
        // The generated rate grows with the depth up to 64 and with the length, and decreases with
        // the percentage of writes.
        let rate = f64::from(load.depth.min(64)) * (4e6 + f64::from(load.length) * 100.0);
        let rate = rate * (1.0 - f64::from(load.writes) / 200.0);
        let steady = !step.name.ends_with("depth-8");
        known.steps.push(StepResult {
            name: step.name,
            load,
            bytes_per_second: rate,
            half: Some(rate / 100.0),
            steady,
            trend: 0.0,
            skipped: 1,
            windows: [rate * 1.5, rate, rate].map(window).into(),
            seconds: 2.0,
            requests: (2.0 * rate) as u64 / u64::from(load.length),
            latency_us: Some(StepLatency {
                mean: 90.0,
                p50: 80.0,
                p95: 200.0,
                p99: 400.0,
                max: 5000.0,
            }),
            processor_wait: Some(0.01),
        });
    }
    known
}

fn state(scratch: &Scratch, name: &str, known: &Calibration) {
    scratch.file(name, &serde_json::to_string(known).unwrap());
}

#[test]
fn calibrated_figures_are_shown_and_used_by_init() {
    let scratch = Scratch::new();
    let path = scratch.at("disk.img");
    state(&scratch, "both.json", &calibrated(&path, true));
    state(&scratch, "reads.json", &calibrated(&path, false));
    golden(
        "calibrate",
        &scratch,
        "\
calibrate disk.img --write --state both.json
calibrate disk.img --state reads.json
init --calibrated both.json --drive fast --volume alpha=10GiB --volume 'beta gamma=1GiB'
init reads.toml --calibrated reads.json --listen unix:/run/weir/nbd.sock --volume alpha=1GiB
init plain.toml
",
    );
    let text = scratch.read("weir.toml");
    let server = weir_config::parse("", &text).unwrap();
    let capacity = server.drives[0].capacity.unwrap();
    assert_eq!(server.drives[0].name, "fast");
    assert!(capacity.read > capacity.write && capacity.read_iops > capacity.write_iops);
    // The contract in the comment can be admitted if it is uncommented.
    let promised = text.replace("# min", "min").replace("# max", "max");
    weir_config::parse("", &promised).unwrap();
    let text = scratch.read("reads.toml");
    let server = weir_config::parse("", &text).unwrap();
    assert_eq!(server.drives[0].capacity, None, "writes are not known");
    assert_eq!(server.drives[0].tags, 64);
    golden_of_inits(&scratch);
}

/// Compares the written configurations with a golden file, in which people can review them.
fn golden_of_inits(scratch: &Scratch) {
    let texts = ["weir.toml", "reads.toml", "plain.toml"].map(|name| {
        let text = scratch.read(name);
        format!("== {name}\n{text}\n")
    });
    let text = texts.concat();
    let directory = scratch.at("");
    common::golden_text(
        "init",
        &text.replace(directory.trim_end_matches('/'), "DIR"),
    );
}

/// Writes files that the command must refuse.
fn wrong_files(scratch: &Scratch) {
    scratch.file("small.img", "not empty");
    scratch.file("notes.txt", "my notes");
    scratch.file("old.json", "{\"weir_calibration\": 7}");
    scratch.file("there.toml", "# mine");
    let hole = fs::File::create(scratch.path("hole.img")).unwrap();
    hole.set_len(1 << 27).unwrap();
    let mut other = calibrated("/dev/other", false);
    state(scratch, "other.json", &other);
    other.target.path = scratch.at("disk.img");
    fs::write(scratch.path("disk.img"), "").unwrap();
    state(scratch, "mine.json", &other);
    other.weir_calibration = 1;
    state(scratch, "mine.json", &other);
    other.target.write = true;
    other.steps.pop();
    state(scratch, "wrote.json", &other);
    other.weir_calibration = 2;
    state(scratch, "new.json", &other);
}

#[test]
fn wrong_input_is_refused_with_a_remedy() {
    let scratch = Scratch::new();
    wrong_files(&scratch);
    golden(
        "calibrate-refuses",
        &scratch,
        "\
calibrate
calibrate missing.img
calibrate missing.img --write
calibrate missing/a.img --write --size 1GiB
calibrate missing.img --size 1GiB
calibrate small.img
calibrate hole.img
calibrate .
calibrate hole.img --time 1s
calibrate hole.img --time 60
calibrate hole.img --state notes.txt
calibrate hole.img --state old.json
calibrate hole.img --state new.json
calibrate hole.img --state other.json
calibrate hole.img --state missing/state.json
calibrate nbd://localhost:port/disk
calibrate nbd+unix:///disk?socket=missing.sock
calibrate nbd+unix:///disk?socket=missing.sock --write --size 1GiB
calibrate disk.img --state /dev/null
calibrate disk.img --state wrote.json
calibrate disk.img --state mine.json --write
init there.toml
init weir.conf
init --volume alpha
init --volume alpha=10
init --volume alpha=1GiB --volume alpha=2GiB
init --calibrated mine.json
init --listen nowhere
init --calibrated missing.json
init --calibrated notes.txt
init missing/weir.toml
",
    );
    assert_eq!(scratch.read("notes.txt"), "my notes");
    assert_eq!(scratch.read("there.toml"), "# mine");
    assert!(!scratch.names().contains(&"missing.img".to_owned()));
}

/// A file with foreign data is never written to, but data that the command itself wrote can be
/// overwritten.
#[test]
fn a_file_with_data_stays_as_it_is() {
    let scratch = Scratch::new();
    let image = scratch.path("disk.img");
    let mut data = vec![0_u8; 64 << 20];
    // 50 MiB are 52,428,800 bytes.
    data[50 << 20] = 1;
    fs::write(&image, &data).unwrap();
    let ask = "calibrate disk.img --write --time 5s";
    let said = run(&scratch, ask).ended(1);
    has(&said.err, "has data, the first at offset 52428800");
    assert!(fs::read(&image).unwrap() == data, "nothing was written");
    // A file that contains nothing but zeroes can be overwritten.
    data[50 << 20] = 0;
    fs::write(&image, &data).unwrap();
    run(&scratch, ask).ended(0);
    // The command recognises its own data even without the results of the earlier run.
    fs::remove_file(scratch.path("weir-calibration-disk.img.json")).unwrap();
    run(&scratch, ask).ended(0);
    // A single foreign byte in the command's own data is recognised.
    let mut data = fs::read(&image).unwrap();
    data[1000] ^= 1;
    fs::write(&image, &data).unwrap();
    let said = run(&scratch, &format!("{ask} --again"));
    has(&said.err, "has data, the first at offset 0");
    assert!(fs::read(&image).unwrap() == data, "nothing was written");
}

/// A sparse file is checked in all its data, and not only at samples.
#[test]
fn a_single_byte_in_a_sparse_file_is_found() {
    let scratch = Scratch::new();
    let image = scratch.path("disk.img");
    let file = fs::File::create_new(&image).unwrap();
    file.set_len(64 << 20).unwrap();
    // The byte is between two of the blocks that are sampled in a file without holes.
    let at = (30 << 20) + 4096 + 100;
    file.write_at(&[1], at).unwrap();
    let ask = "calibrate disk.img --write --time 5s";
    let said = run(&scratch, ask).ended(1);
    has(&said.err, "has data, the first at offset");
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    assert_eq!(byte, [1], "nothing was written");
}

#[test]
fn an_interrupted_measurement_continues() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let model = r#"{ kind = "null", service = "1ms", tags = 16, link = "50MB/s" }"#;
    let (server, uri) = serve(&scratch, model, "1GiB");
    let ask = format!("calibrate {uri} --time 6s");
    let mut begun = weir(&scratch, &ask);
    let begun = begun.stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = begun.spawn().unwrap();
    // The name of the state file depends on the target.
    let state = || {
        let mut names = scratch.names().into_iter();
        names.find(|name| name.starts_with("weir-calibration-"))
    };
    let known = || {
        let text = fs::read_to_string(scratch.path(&state()?)).ok()?;
        serde_json::from_str::<Value>(&text).ok()
    };
    let steps = || known().map_or(0, |known| known["steps"].as_array().unwrap().len());
    let some = || {
        (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            steps() > 1
        })
    };
    // The measurement is interrupted after some of its steps.
    assert!(some(), "a step is saved as soon as it ends");
    signal(&begun, Signal::INT);
    let ended = begun.wait_with_output().unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{err}");
    let before = steps();
    has(&err, &format!("{before} steps are in {}", state().unwrap()));
    // The next run continues with the remaining steps.
    let went = run(&scratch, &ask).ended(0);
    has(&went.err, &format!("continuing; {before} steps"));
    assert!(steps() > before);
    let again = complete(&scratch, &ask);
    assert_eq!(run(&scratch, &ask).out, again.out);
    server.end();
    // The results give a profile, and the suggested section is a valid configuration.
    let more = format!("{ask} --profile mine.toml");
    run(&scratch, &more).ended(0);
    run(&scratch, "drives ./mine.toml").ended(0);
    run(&scratch, "init new.toml --listen 127.0.0.1:0").ended(0);
    run(&scratch, "check new.toml").ended(0);
}

/// The kernel reports that the disk rotates, but it is faster than any rotating disk.
#[test]
fn measurements_decide_if_a_drive_is_rotational() {
    let scratch = Scratch::new();
    let path = scratch.at("disk.img");
    let mut known = calibrated(&path, true);
    known.target.rotational = true;
    state(&scratch, "weir-calibration-disk.img.json", &known);
    let ask = "calibrate disk.img --write";
    let said = run(&scratch, ask);
    has(&said.out, ", not a rotating disk;");
    has(&said.out, "rotational = false");
    has(&said.out, "rpct=95.00");
    // With rates of 200 requests per second, it is as slow as a rotating disk.
    for found in &mut known.steps {
        found.bytes_per_second = f64::from(found.load.length) * 200.0;
        found.latency_us = found.latency_us.map(|us| StepLatency { mean: 9e3, ..us });
    }
    state(&scratch, "weir-calibration-disk.img.json", &known);
    let said = run(&scratch, ask);
    has(&said.out, ", a rotating disk;");
    has(&said.out, "rotational = true");
}

#[test]
fn each_target_has_results_of_its_own_which_init_finds() {
    let scratch = Scratch::new();
    let of = |name: &str| scratch.at(name);
    for directory in ["a", "b"] {
        fs::create_dir(scratch.path(directory)).unwrap();
    }
    // A target with the same name in another directory, and results in a file with a chosen name.
    state(
        &scratch,
        "weir-calibration-disk.img.json",
        &calibrated(&of("a/disk.img"), true),
    );
    state(&scratch, "mine.json", &calibrated("/dev/mine", true));
    let said = run(&scratch, "init one.toml").ended(0);
    has(&said.err, "taken from weir-calibration-disk.img.json");
    let text = scratch.read("one.toml");
    has(&text, "tags = 64");
    fs::write(scratch.path("b/disk.img"), vec![0_u8; 64 << 20]).unwrap();
    let said = run(&scratch, "calibrate b/disk.img --write --time 5s").ended(0);
    let next = "next: run `weir init --calibrated weir-calibration-disk.img-2.json`";
    has(&said.err, next);
    let said = run(&scratch, "init two.toml").ended(2);
    let choice = format!(
        "--calibrated weir-calibration-disk.img-2.json (measured on {})",
        of("b/disk.img")
    );
    has(&said.err, &choice);
    let chosen = "init two.toml --calibrated weir-calibration-disk.img-2.json --volume alpha=1MiB";
    run(&scratch, chosen).ended(0);
}

/// A state file may contain numbers that no measurement gives. The command must show or refuse the
/// consequences, but not panic.
#[test]
fn a_state_file_can_say_anything() {
    let scratch = Scratch::new();
    let path = scratch.at("disk.img");
    for write in [true, false] {
        // The numbers include zero, the extremes of a float, and a negative rate.
        for number in [0.0, 1e-300, 1e12, 1e300, -1e300] {
            for integer in [0, 1, 1 << 16, u32::MAX] {
                let mut known = calibrated(&path, write);
                known.target.size = u64::from(integer) * u64::from(integer);
                known.target.rotational = integer == 1;
                for found in &mut known.steps {
                    found.load.length = integer;
                    found.load.depth = integer;
                    found.bytes_per_second = number;
                    found.half = (integer > 0).then_some(number);
                    found.windows = vec![window(number); integer.min(9) as usize];
                    found.skipped = integer as usize;
                    found.requests = u64::from(integer);
                    found.processor_wait = Some(number);
                }
                state(&scratch, "any.json", &known);
                for line in [
                    "calibrate disk.img --state any.json",
                    "calibrate disk.img --state any.json --profile any.toml",
                    "init any-server.toml --calibrated any.json --volume v=1GiB",
                ] {
                    let said = run(&scratch, line);
                    let ended = matches!(said.status, Some(0..=2));
                    assert!(ended && !said.err.contains("panicked"), "{said:#?}");
                }
                let _ = fs::remove_file(scratch.path("any-server.toml"));
            }
        }
    }
}
