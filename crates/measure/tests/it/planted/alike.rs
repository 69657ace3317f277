//! Causes that are planted in virtual time, like those that `crates/cli/tests/live/causes.rs`
//! plants in a live server.

use super::planted::promised;
use weir_core::{Capacity, Instant, Span};
use weir_measure::explain::{Cause, Standings};
use weir_measure::promise::Excuse;
use weir_model::drive::null;
use weir_model::load::{Arrival, Program};
use weir_sim::{CpuStall, Path, Policy, Scenario, SimRun};

/// Returns the cause, with the neighbour, that the records of a comparison name for the short and
/// excused seconds of the first client.
pub(crate) fn recorded(scenario: &Scenario, policy: &Policy) -> Option<(Cause, Option<String>)> {
    let stalls = scenario.machine.stalls.iter().map(|s| (s.at, s.length));
    let mut standings = Standings::new(scenario.promised_groups()?).stalled(stalls.collect());
    let run =
        SimRun::observed(scenario, policy, 0, vec![&mut standings]).expect("it can be played");
    let mut results = run.run(|_| {}).expect("it makes progress");
    results.standings = standings.into_all();
    let alone = weir_sim::measure_alone(scenario).expect("it can be played");
    let record = results.records(&alone).into_iter().next()?;
    let seconds = record.promise_seconds?;
    if let Some(cause) = seconds.main_short() {
        return Some((cause, seconds.main_neighbour().map(str::to_owned)));
    }
    let excused = Excuse::ALL.into_iter();
    let most = excused.max_by_key(|why| seconds.excused_as(*why))?;
    if seconds.unasked >= seconds.excused_as(most).max(1) {
        return Some((Cause::ClientIdle, None));
    }
    (seconds.excused_as(most) > 0).then(|| (most.cause(), None))
}

/// A scenario whose first client suffers from a known cause.
pub(crate) struct PlantedScenario {
    pub(crate) name: &'static str,
    pub(crate) scenario: Scenario,
    pub(crate) policy: Policy,
    pub(crate) cause: Cause,
    pub(crate) neighbour: Option<&'static str>,
}

/// A client: its name, its min in MB/s, and its program.
type PlantedClient = (&'static str, u64, Program);

fn reads(kib: u32, depth: u32) -> Program {
    Program::random_reads(kib << 10, depth)
}

/// Returns a scenario with clients on a drive of `link` MB/s and a queue of `tags`.
fn on(link: u64, tags: u16, clients: &[PlantedClient]) -> Scenario {
    let config = null::NullConfig {
        service: Span::from_micros(30),
        link: link * 1_000_000,
        tags,
        ..null::NullConfig::demo()
    };
    let length = Span::from_secs(4);
    let mut scenario = Scenario::new(
        "alike",
        weir_model::drive::DriveConfig::Null(config),
        length,
    );
    for (name, min, program) in clients {
        let contract = promised(min * 1_000_000);
        scenario.add_client_with_group(*name, contract, 1 << 30, *program);
    }
    scenario
}

/// Returns a scenario with clients on a drive of 20 MB/s, for which a capacity of 100 MB/s is
/// stated.
fn slow(clients: &[PlantedClient]) -> Scenario {
    let mut scenario = on(20, 32, clients);
    scenario.capacity = Some(Capacity {
        read: 100_000_000,
        write: 100_000_000,
        ..Capacity::NONE
    });
    scenario
}

/// Returns a scenario with clients on a drive of 100 MB/s, whose server has no CPU for most of the
/// time.
fn late(clients: &[PlantedClient]) -> Scenario {
    let mut scenario = on(100, 32, clients);
    scenario.path = Path {
        latency: Span::from_micros(10),
        turn: Span::from_micros(5),
        processor: Span::from_micros(2),
    };
    let mut at = Instant::ZERO + Span::from_millis(5);
    // The server is stalled for 70 of every 95 ms.
    while at < Instant::ZERO + scenario.duration {
        let length = Span::from_millis(70);
        scenario.machine.stalls.push(CpuStall { at, length });
        at = at + length + Span::from_millis(25);
    }
    scenario
}

/// Returns scenarios for eight of the causes that `causes.rs` plants live. The others do not occur
/// here: a model neither fails requests nor is on another server, its clients always read their
/// replies, and no group of these scenarios has two clients and a max.
pub(crate) fn alike() -> Vec<PlantedScenario> {
    let neighbours = |name, scenario, neighbour| PlantedScenario {
        name,
        scenario,
        policy: Policy::none(),
        cause: Cause::Neighbour,
        neighbour: Some(neighbour),
    };
    let own = |name, cause, scenario| PlantedScenario {
        name,
        scenario,
        policy: Policy::contract(),
        cause,
        neighbour: None,
    };
    let alpha = |min, program| ("alpha", min, program);
    let (victim, hog) = (alpha(60, reads(32, 2)), reads(128, 24));
    let two = [victim, ("beta", 0, hog)];
    let three = [victim, ("beta", 0, reads(64, 4)), ("gamma", 0, hog)];
    let deep = reads(64, 16);
    let thinks = Program {
        arrival: Arrival::Closed {
            think: Span::from_millis(100),
        },
        ..reads(4, 1)
    };
    vec![
        // With 32 places in the drive, all requests wait in the drive's queue. With 2, most wait in
        // the elevator.
        neighbours("the drive's queue", on(100, 32, &two), "beta"),
        neighbours("the elevator", on(100, 2, &two), "beta"),
        neighbours("two neighbours", on(100, 32, &three), "gamma"),
        own(
            "depth",
            // 4 KiB take 30 us and 41 us on the link, so one request at a time reaches 58 of 80
            // MB/s.
            Cause::OwnDepth,
            on(100, 32, &[alpha(80, reads(4, 1))]),
        ),
        own("a slow drive", Cause::SlowDrive, slow(&[alpha(60, deep)])),
        own(
            "a slow drive that a neighbour uses, too",
            Cause::SlowDrive,
            slow(&[alpha(30, deep), ("beta", 30, deep)]),
        ),
        own("a busy host", Cause::HostBusy, late(&[alpha(80, deep)])),
        own(
            // 4 KiB every 100 ms are 0.04 of 20 MB/s.
            "think time",
            Cause::ClientIdle,
            on(100, 32, &[alpha(20, thinks)]),
        ),
    ]
}
