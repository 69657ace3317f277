//! Requests of a host's clients are merged if the scenario selects it.

use weir_config::policy::find;
use weir_config::profile;
use weir_config::scenario::{Choice, read};
use weir_sim::SimRun;
use weir_verify::audit::Auditors;

/// Plays sequential reads of 4 KiB with a queue depth of 8, on a drive that serves several at once.
/// Returns the number of requests, and of the commands into which they were merged.
fn play(host: &str, policy: &str) -> (u64, u64) {
    let text = format!(
        r#"
        duration = "1s"
        host = {host}
        [[client]]
        name = "reader"
        rw = "read"
        bs = "4KiB"
        size = "1GiB"
        direct = true
        iodepth = 8
        "#
    );
    let script = read(&text, "x.toml").unwrap();
    let drive = profile::find("demo").unwrap().drive;
    let choice = Choice::new(&drive, None, policy);
    let scenario = script.scenario(&choice).unwrap();
    let policy = find(policy).unwrap();
    let mut auditors = Auditors::new();
    let run = SimRun::observed(&scenario, &policy, 0, vec![&mut auditors]).unwrap();
    let counters = run.run(|_| {}).unwrap().counters;
    let found = auditors.end(false);
    assert!(found.is_empty(), "{:?}", found.violations());
    (counters.done, counters.dispatched)
}

#[test]
fn requests_are_merged_where_the_scenario_says_so_and_the_elevator_merges() {
    let off = play("{}", "none");
    assert!(off.0 > 1_000 && off.1 <= off.0 + 8, "{off:?}");
    for (host, policy, merged) in [
        ("{ nomerges = 2, plug = \"all\" }", "none", false),
        // Without an elevator, no request waits on a drive with free tags, and direct requests are
        // not plugged.
        ("{ nomerges = 0 }", "none", false),
        ("{ nomerges = 0, plug = \"all\" }", "none", true),
        ("{ nomerges = 1, plug = \"all\" }", "none", true),
        ("{ nomerges = 0, plug = \"all\" }", "contract", false),
        ("{ nomerges = 0, plug = \"none\" }", "none", false),
    ] {
        let (requests, commands) = play(host, policy);
        println!("{host} {policy}: {requests} requests, {commands} commands");
        let each = requests as f64 / commands as f64;
        assert_eq!(each > 1.5, merged, "{host} {policy}: {each}");
    }
}
