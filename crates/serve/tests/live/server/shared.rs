//! Volumes with a shared minimum: the reported part is in force until it lapses, whatever a reload
//! changes.

use std::time::{Duration, Instant};

use weir_measure::promise::PromisedRate;
use weir_serve::{HeldPart, PartUsage, VolumeFigures};

use crate::server::client::serve;
use crate::tools::metrics::MetricsSnapshot;
use crate::tools::{TestSite, until};

const DRIVE: &str = "drive.d.capacity = { read = \"100MB/s\", write = \"100MB/s\" }\n\
    gateways.etcd = [\"http://127.0.0.1:1\"]\n";

fn volume(min: &str, rest: &str) -> String {
    format!(
        "{DRIVE}volume.v = {{ drive = \"d\", memory = true, size = \"1MiB\", min = \"{min}\"{rest} }}\n"
    )
}

fn shared(min: &str) -> String {
    volume(min, ", shared = \"v\"")
}

fn held(min: u64, part: f64, ms: u64) -> HeldPart {
    held_until(min, part, Instant::now() + Duration::from_millis(ms))
}

fn held_until(min: u64, part: f64, until: Instant) -> HeldPart {
    HeldPart {
        min,
        min_iops: 0,
        part,
        until,
        lapses: 3,
    }
}

fn figures(bench: &TestSite) -> VolumeFigures {
    let drives = bench.server.watch().figures().unwrap();
    drives[0].volumes[0].clone()
}

fn promised(bench: &TestSite) -> Option<u64> {
    figures(bench)
        .rate
        .map(|PromisedRate { a_second, .. }| a_second)
}

#[test]
fn a_shared_min_is_promised_only_while_a_part_is_held() {
    let before_start = Instant::now();
    let bench = serve(&shared("40MB/s"));
    assert_eq!((promised(&bench), figures(&bench).part), (None, Some(0.0)));
    let parts = bench.server.parts();
    let used = parts.hold("v", held(10_000_000, 0.25, 60_000)).unwrap();
    assert_eq!(used, Some(PartUsage::default()));
    assert_eq!(promised(&bench), Some(10_000_000));
    let metrics = MetricsSnapshot::of(&bench.server);
    let of_v = &[("volume", "v")];
    assert!((metrics.sum("weir_gateway_part", of_v) - 0.25).abs() < 1e-9);
    // The lapses of `held` are passed through to the metrics.
    assert!((metrics.sum("weir_gateway_lease_lost_total", of_v) - 3.0).abs() < 1e-9);
    parts.hold("v", held(10_000_000, 0.25, 50)).unwrap();
    until("the part lapses", || promised(&bench).is_none());
    assert_eq!(figures(&bench).part, Some(0.0));
    // A part that lapsed before the server started, and so before the shard's current turn began.
    let lapsed = held_until(10_000_000, 0.25, before_start);
    parts.hold("v", lapsed).unwrap();
    assert_eq!(promised(&bench), None);
    // A volume that does not exist.
    assert_eq!(parts.hold("w", held(1, 1.0, 400)), Ok(None));
    assert!(bench.server.shutdown());
    assert!(parts.hold("v", held(1, 1.0, 400)).is_err());
}

#[test]
fn usage_of_clients_is_reported() {
    let model = "{ kind = \"null\", service = \"1ms\", tags = 8, link = \"1GB/s\" }";
    let bench = serve(&format!(
        "drive.d.model = {model}\ngateways.etcd = [\"http://127.0.0.1:1\"]\n\
         volume.v = {{ drive = \"d\", size = \"1MiB\", min = \"1MB/s\", shared = \"v\" }}\n"
    ));
    let mut client = bench.connect("v");
    for _ in 0..4 {
        client.read(0, 4096);
    }
    // The gateway's part is 0, but usage is reported anyway.
    let used = bench.server.parts().hold("v", held(0, 0.0, 400));
    let used = used.unwrap().unwrap();
    assert_eq!((used.bytes, used.requests), (4 * 4096, 4));
    // Four reads one after another take 1 ms each.
    assert!(used.waited_ns >= 4_000_000, "{}", used.waited_ns);
}

#[test]
fn a_part_is_never_more_than_the_whole_that_a_reload_leaves() {
    let mut bench = serve(&shared("40MB/s"));
    let parts = bench.server.parts();
    parts.hold("v", held(20_000_000, 0.5, 60_000)).unwrap();
    bench.change(&shared("10MB/s")).unwrap();
    // Half of the new whole is less than the part, so the part is cut to the whole.
    assert_eq!(promised(&bench), Some(10_000_000));
    bench.change(&shared("80MB/s")).unwrap();
    assert_eq!(promised(&bench), Some(20_000_000));
    // The whole minimum was admitted, so one server can hold all of it while the others are absent.
    parts.hold("v", held(80_000_000, 1.0, 60_000)).unwrap();
    assert_eq!(promised(&bench), Some(80_000_000));
}

#[test]
fn sharing_a_min_takes_it_away_and_ending_that_restores_it() {
    let mut bench = serve(&volume("40MB/s", ""));
    assert_eq!(promised(&bench), Some(40_000_000));
    assert_eq!(figures(&bench).part, None);
    bench.change(&shared("40MB/s")).unwrap();
    assert_eq!(promised(&bench), None);
    let parts = bench.server.parts();
    parts.hold("v", held(10_000_000, 0.25, 60_000)).unwrap();
    assert_eq!(promised(&bench), Some(10_000_000));
    bench.change(&volume("40MB/s", "")).unwrap();
    assert_eq!(promised(&bench), Some(40_000_000));
    parts.hold("v", held(1, 0.0, 60_000)).unwrap();
    assert_eq!(promised(&bench), Some(40_000_000), "it is nobody else's");
}
