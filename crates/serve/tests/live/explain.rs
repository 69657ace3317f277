//! A running server explains why a volume is slow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::tools::raw::Raw;
use crate::tools::{TestSite, until};
use weir_config::ListenAddress;
use weir_measure::explain::{Cause, RequestStage};
use weir_serve::ExplainError;

/// A link of 100 MB/s that serves in the order of arrival, and a client that is promised 60 MB/s.
const CONFIG: &str = "
[drive.d]
policy = \"none\"
model = { kind = \"null\", service = \"30us\", tags = 32, link = \"100MB/s\" }
[volume.client]
drive = \"d\"
min = \"60MB/s\"
size = \"64MiB\"
[volume.hog]
drive = \"d\"
size = \"64MiB\"
[drive.other]
[volume.idle]
drive = \"other\"
memory = true
size = \"64MiB\"
";

/// Reads one block after another until `stop` is set.
fn reads(address: &ListenAddress, export: &str, length: u32, stop: &AtomicBool) {
    let mut raw = Raw::open(address, export).unwrap();
    let mut offset = 0;
    while !stop.load(Ordering::Relaxed) {
        assert_eq!(raw.read(offset, length).unwrap().len(), length as usize);
        offset = (offset + u64::from(length)) % (32 << 20);
    }
}

#[test]
fn the_neighbour_is_named_and_parts_add_up() {
    let site = TestSite::start(CONFIG);
    let explainer = site.server.explainer();
    let stop = AtomicBool::new(false);
    // Six reads of 128 KiB take the link from two of 32 KiB, so the client gets about 8 of 100
    // MB/s.
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| reads(&site.unix, "hog", 128 << 10, &stop));
        }
        for _ in 0..2 {
            scope.spawn(|| reads(&site.unix, "client", 32 << 10, &stop));
        }
        std::thread::sleep(Duration::from_millis(3500));
        // The explanation is requested by another thread while requests are being served.
        let why = explainer
            .explain("client", Some(Duration::from_secs(2)))
            .unwrap();
        stop.store(true, Ordering::Relaxed);
        let parts: f64 = why.parts.iter().map(|part| part.us).sum();
        assert!((parts / why.latency_us - 1.0).abs() < 0.01, "{why:#?}");
        assert!((2.0..=3.6).contains(&why.seconds), "{why:#?}");
        assert_eq!(why.neighbours[0].name, "hog", "{why:#?}");
        assert_eq!(why.parts[0].cause, Cause::Neighbour, "{why:#?}");
        assert_eq!(why.parts[0].stage, Some(RequestStage::Drive), "{why:#?}");
        let promise = why.promise.unwrap();
        assert!(
            promise.promised >= 1 && promise.all_short() > 0,
            "{promise:#?}"
        );
        assert!(why.waiting.is_some(), "two requests are always under way");
    });
    let idle = site.server.explain("idle", None).unwrap();
    assert_eq!((idle.requests, idle.cause), (0, None), "{idle:#?}");
    let unknown = site.server.explain("nobody", None);
    assert_eq!(unknown.unwrap_err(), ExplainError::NoSuchVolume);
    site.server.shutdown();
    let ended = explainer.explain("client", None);
    assert_eq!(ended.unwrap_err(), ExplainError::NoAnswer);
}

#[test]
fn a_volume_that_takes_the_place_of_another_is_not_explained_by_it() {
    let mut site = TestSite::start(CONFIG);
    let mut raw = Raw::open(&site.unix, "hog").unwrap();
    for n in 0..100 {
        raw.read(n * 4096, 4096).unwrap();
    }
    drop(raw);
    assert_eq!(site.server.explain("hog", None).unwrap().requests, 100);
    let without = CONFIG.replace("[volume.hog]", "[volume.new]");
    // The server may not have noticed the end of the connection yet.
    until("the connection stays", || site.reload(&without));
    assert!(site.server.explain("hog", None).is_err());
    assert_eq!(site.server.explain("new", None).unwrap().requests, 0);
}
