//! `weir calibrate`: what it finds of modelled drives that are served live, what it refuses, and that it goes on after a break.

mod common;

use common::running::{Running, start};
use common::{Scratch, run, weir};
use serde_json::Value;
use std::sync::{Mutex, PoisonError};
use weir_config::profile;
use weir_core::Op;
use weir_drive::Config;

/// Serves a modelled drive as the volume `disk`; returns the server and the URI.
fn serve(scratch: &Scratch, model: &str, size: &str) -> (Running, String) {
    let socket = scratch.path("nbd.sock");
    let text = format!(
        "[drive.d]\npolicy = \"none\"\nmodel = {model}\n[listen]\nnbd = [\"unix:{}\"]\n[limits]\nrequests_per_connection = 256\n\
         [volume.disk]\ndrive = \"d\"\nsize = \"{size}\"\n",
        socket.display()
    );
    scratch.file("weir.toml", &text);
    let server = start(&mut weir(scratch, &["serve", "weir.toml"]));
    let uri = format!("nbd+unix:///disk?socket={}", socket.display());
    (server, uri)
}

/// What a model says of itself: bytes a second in sequence, and requests of 4 KiB a second at random places.
fn said(drive: &Config) -> [(&'static str, f64); 4] {
    let capacity = match drive {
        // Its least is with short requests.
        Config::Null(_) => drive.most().unwrap(),
        _ => drive.least(u64::MAX).unwrap().unwrap(),
    };
    let at_random = |op| drive.at_random(op, 4096).unwrap() as f64;
    [
        ("read-sequential", capacity.read as f64),
        ("write-sequential", capacity.write as f64),
        ("read-random", at_random(Op::Read)),
        ("write-random", at_random(Op::Write)),
    ]
}

/// The slower end of what was found under a name, in the unit of [`said`].
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

/// One model at a time: they share two processors with whatever else runs.
static ALONE: Mutex<()> = Mutex::new(());

/// A machine that is busy with something else disturbs a measurement, which is repeated then.
const ATTEMPTS: u32 = 3;

/// Serves a model, measures it through NBD, and compares each figure with the model's own.
fn within_five_percent(model: &str, size: &str, time: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let model = model.replace('\n', " ");
    let drive = profile::read_inline(&model).unwrap().drive;
    let furthest = (0..ATTEMPTS).map(|_| furthest(&drive, &model, size, time));
    let best = furthest.take_while(|off| *off > 5.0).count();
    assert!(best < ATTEMPTS as usize, "{} is not found", drive.name());
}

/// How far off the worst of the figures is, per cent.
fn furthest(drive: &Config, model: &str, size: &str, time: &str) -> f64 {
    let scratch = Scratch::new();
    let (server, uri) = serve(&scratch, model, size);
    let all = run(
        &scratch,
        &["calibrate", &uri, "--write", "--time", time, "--json", "-"],
    );
    assert_eq!(all.status, Some(0), "{}", all.err);
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
    furthest
}

#[test]
fn a_plain_drive_served_live_is_found() {
    let model = r#"{ kind = "null", service = "8ms", tags = 16, link = "20MB/s" }"#;
    within_five_percent(model, "4GiB", "10s");
}

#[test]
fn a_flash_drive_served_live_is_found() {
    let model = r#"{ kind = "ssd", size = "64GiB", tags = 32, queues = 1, link = "30MB/s", duplex = false, overhead = "100us", command = "500us",
        channels = 2, dies = 2, channel = "100MB/s", page = "16KiB", read = "80us", program = "3ms", erase = "4ms", suspend = "100us",
        block = 256, read_ahead = "256KiB", window = "600us", favour = "1MiB", write_buffer = "2MiB", flush = "0s", protected = false,
        spare = 100, filled = 50 }"#;
    within_five_percent(model, "64GiB", "12s");
}

#[test]
fn a_disk_served_live_is_found() {
    let model = r#"{ kind = "hdd", outer.bytes = "40GiB", outer.rate = "60MB/s", middle.bytes = "40GiB", middle.rate = "50MB/s",
        inner.bytes = "40GiB", inner.rate = "40MB/s", rpm = 15000, seek.track = "300us", seek.average = "2ms", seek.full = "4ms",
        settle = "100us", tags = 32, ageing = "30ms", overhead = "100us", link = "300MB/s", segments = 16, segment = "1MiB",
        write_cache = "2MiB", flush = "0s" }"#;
    within_five_percent(model, "120GiB", "30s");
}
