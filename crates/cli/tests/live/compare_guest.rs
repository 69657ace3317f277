//! Compares one short run under an unmodified kernel in a guest with the simulator. The drive of
//! the guest is the server's model, through ublk. It is the only guest that `./test` boots without
//! `--guest`.

use crate::common::{self, Scratch, has, record_of, run};
use serde_json::Value;
use weir_linux::guest::Kernel;

const SCENARIO: &str = r#"
name = "short"
duration = "2s"
run_in = "0s"
warm_up = "200ms"
host = { nr_requests = "linux", nomerges = 0 }
[[client]]
name = "target"
rw = "randread"
bs = "4KiB"
direct = true
size = "1GiB"
share = 300
[[client]]
name = "reader"
rw = "read"
bs = "128KiB"
direct = true
size = "1GiB"
max = { bandwidth = "3MB/s" }
"#;

/// The same scenario gives the same keys in both places, with similar bandwidths and latencies.
/// Parts that Linux does not support are left out.
#[test]
fn a_scenario_is_played_by_linux_beside_the_simulator() {
    let strict = std::env::var_os("WEIR_NO_SKIP").is_some();
    let there = ["qemu-system-x86_64", "fio", "nbd-client"].map(|program| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    });
    let kernel = Kernel::find("6.12", |line| println!("{line}"));
    if !strict && (there.contains(&false) || kernel.is_err()) {
        return println!("skipped: no QEMU, fio, nbd-client or kernel");
    }
    let scratch = Scratch::new();
    scratch.file("short.toml", SCENARIO);
    let line = "compare short.toml --json out.json --drive hitachi-hts72755 --on sim --on guest --kernel 6.12 --policy contract --repetitions 1 \
                --policy 'bfq + io.max'";
    let said = run(&scratch, line).ended(0).out;
    has(&said, "bfq + io.max @6.12");
    has(&said, "Left out: policy \"contract\"");
    assert!(said.lines().all(|line| line.len() <= 100), "{said}");
    let records = common::records(&scratch.read("out.json"));
    let policy = ("policy", "bfq + io.max");
    let of = |place, client| record_of(&records, &[policy, ("place", place), ("client", client)]);
    for client in ["target", "reader", "total"] {
        let (sim, guest) = (of("sim", client), of("guest", client));
        let number = |r: &Value, key: &str| r.pointer(key).and_then(Value::as_f64).unwrap();
        let ratio = number(sim, "/bandwidth_mb_per_s") / number(guest, "/bandwidth_mb_per_s");
        // The tolerances allow for the short run of two seconds.
        assert!((0.8..1.25).contains(&ratio), "{client}: {sim} {guest}");
        let ratio = number(sim, "/latency_us/mean") / number(guest, "/latency_us/mean");
        assert!((0.7..1.4).contains(&ratio), "{client}: {sim} {guest}");
        assert!(guest["kernel"].as_str().unwrap().starts_with("6.12"));
        assert!(number(guest, "/path_us") > 0.0 && sim.get("path_us").is_none());
    }
}
