//! Clients connect and disconnect, contracts change, and requests are cancelled.

use weir_core::record::Call;
use weir_core::{
    Contract, Edit, GroupId, Instant, Layer, Max, Outcome, Output, Refusal, Sizes, Span,
};
use weir_measure::promise::{Excuse, PromisedRate};
use weir_model::drive::null;
use weir_model::load::Program;
use weir_sim::{Action, Observer, Policy, Scenario, ScheduledAction, SimError, SimRun};

fn scenario(clients: u32, depth: u32) -> Scenario {
    let drive = weir_model::drive::DriveConfig::Null(null::NullConfig::demo());
    let mut scenario = Scenario::new("events", drive, Span::from_secs(4));
    for n in 0..clients {
        let program = Program::random_reads(4096, depth);
        scenario.add_client_with_group(format!("c{n}"), Contract::DEFAULT, 1 << 20, program);
    }
    scenario
}

fn at(ms: u64, action: Action) -> ScheduledAction {
    ScheduledAction {
        at: Span::from_millis(ms),
        action,
    }
}

fn set(id: u32, contract: Contract) -> Action {
    Action::Change(vec![Edit::SetContract {
        id: GroupId(id),
        contract,
    }])
}

#[test]
fn a_client_is_served_from_its_arrival_to_its_departure() {
    let mut s = scenario(2, 4);
    s.clients[1].arrives = Span::from_secs(1);
    s.clients[1].leaves = Some(Span::from_secs(3));
    let results = SimRun::new(&s, &Policy::none(), 0)
        .unwrap()
        .run(|_| {})
        .unwrap();
    let seconds = |client: usize| -> Vec<u64> {
        let meter = &results.clients[client].meter;
        let windows = meter.seconds().complete(meter.end_ns());
        windows.iter().map(|w| w.requests).collect()
    };
    // The link carries 61,035 requests of 4 KiB per second, and in the seconds 1 and 2 two clients
    // share them.
    let (stays, comes) = (seconds(0), seconds(1));
    assert_eq!((comes[0], comes[3]), (0, 0));
    assert!(comes[1] > 30_000 && comes[2] > 30_000);
    assert!(stays[0] > 59_000 && stays[3] > 59_000 && stays[1] < 31_000);
    let gone = &results.clients[1].meter;
    assert_eq!(gone.failures(), 4, "what it waited for");
    let seconds = results.judge(1, PromisedRate::new(1, 0).unwrap()).seconds;
    assert_eq!((seconds.promised, seconds.kept), (4, 2));
    let idle = seconds.excused[Excuse::Idle as usize];
    assert_eq!(idle, 2, "no promise is broken to a client that is gone");
}

#[test]
fn a_max_holds_from_its_change_on_and_a_refused_change_is_noted() {
    let mut s = scenario(1, 8);
    let limited = Contract {
        max: Max::of_bandwidth(10_000_000),
        ..Contract::DEFAULT
    };
    let greedy = Contract::DEFAULT.with_min(300_000_000);
    s.actions = vec![
        at(3_000, set(1, greedy)),
        at(1_000, set(1, limited)),
        at(2_000, set(1, Contract::DEFAULT)),
    ];
    let results = SimRun::new(&s, &Policy::none(), 0)
        .unwrap()
        .run(|_| {})
        .unwrap();
    let meter = &results.clients[0].meter;
    let mb: Vec<u64> = (meter.seconds().complete(meter.end_ns()).iter())
        .map(|w| w.bytes / 1_000_000)
        .collect();
    assert_eq!((mb[1], mb[3]), (10, mb[2]));
    assert!(mb[0] > 200 && mb[2] > 200);
    assert!(
        meter.split().limit.max() > 3_000_000,
        "eight requests at 10 MB/s"
    );
    let [(when, refusal)] = results.refusals[..] else {
        panic!("one refusal")
    };
    assert_eq!(when, Instant::ZERO + Span::from_secs(3));
    assert!(matches!(refusal, Refusal::OverCapacity { .. }));
}

#[test]
fn a_held_client_gets_nothing_and_its_requests_wait() {
    let mut s = scenario(2, 4);
    let hold = |held| Action::Hold { client: 0, held };
    s.actions = vec![at(1_000, hold(true)), at(2_000, hold(false))];
    let results = SimRun::new(&s, &Policy::none(), 0)
        .unwrap()
        .run(|_| {})
        .unwrap();
    let meter = &results.clients[0].meter;
    let windows = meter.seconds().complete(meter.end_ns());
    assert!(windows[1].requests <= 4 && windows[2].requests > 30_000);
    assert!(meter.latency().max() >= 999_000_000);
    assert_eq!(results.unanswered, 8);
}

/// An observer that counts outcomes.
#[derive(Default)]
struct Outcomes {
    ok: u64,
    cancelled: u64,
}

impl Observer for Outcomes {
    fn call(&mut self, _now: Instant, call: &Call<'_>, _layer: &mut Layer) {
        let Call::Poll { outputs, .. } = call else {
            return;
        };
        for output in *outputs {
            if let Output::Done(done) = output {
                match done.outcome {
                    Outcome::Ok => self.ok += 1,
                    Outcome::Cancelled => self.cancelled += 1,
                    Outcome::Error(_) => panic!("this drive never fails"),
                }
            }
        }
    }
}

#[test]
fn a_cancelled_request_fails_and_its_client_goes_on() {
    // Many more requests than the drive accepts, so that the oldest is in the drive or about to be
    // dispatched.
    let mut s = scenario(1, 100);
    s.actions = (1..100)
        .map(|ms| at(ms, Action::Cancel { client: 0 }))
        .collect();
    s.actions.push(at(
        100,
        Action::Hold {
            client: 0,
            held: true,
        },
    ));
    s.actions
        .extend((101..150).map(|ms| at(ms, Action::Cancel { client: 0 })));
    let mut outcomes = Outcomes::default();
    let run = SimRun::observed(&s, &Policy::none(), 0, vec![&mut outcomes]).unwrap();
    let results = run.run(|_| {}).unwrap();
    assert_eq!(results.clients[0].meter.failures(), outcomes.cancelled);
    // On hold, the client's requests are not in the drive, so that each of the 49 later
    // cancellations succeeds.
    assert!(
        outcomes.cancelled >= 49,
        "on hold, the oldest is not in the drive"
    );
    assert_eq!(outcomes.ok + outcomes.cancelled, results.counters.done);
    assert_eq!(
        results.counters.accepted,
        results.counters.done + results.unanswered
    );
}

#[test]
fn refused_requests_are_submitted_again() {
    let mut s = scenario(4, 50);
    for client in &mut s.clients {
        client.program.requests = Some(5_000);
    }
    // The tables are too small in different ways: for all requests, for those of a stream, or for
    // both.
    for (requests, per_stream, reserved) in
        [(20, 50, 1), (400, 7, 1), (9, 1, 1), (12, 3, 0), (5, 50, 1)]
    {
        s.sizes = Some(Sizes {
            requests,
            streams: 5,
            groups: 5,
            spaces: 4,
            per_stream,
            reserved,
            scheduler_tags: 3,
            events: 0,
            stalled: 0,
        });
        let results = SimRun::new(&s, &Policy::none(), 0)
            .unwrap()
            .run(|_| {})
            .unwrap();
        assert!(results.counters.rejected > 0 || per_stream < 50);
        assert_eq!(
            (results.counters.done, results.unanswered),
            (20_000, 0),
            "{requests} {per_stream} {reserved}"
        );
    }
}

#[test]
fn invalid_scenarios_are_refused_before_the_run() {
    let error = |spoil: fn(&mut Scenario)| {
        let mut s = scenario(2, 1);
        spoil(&mut s);
        SimRun::new(&s, &Policy::none(), 0).unwrap_err()
    };
    assert!(matches!(
        error(|s| s.clients[1].region.start = 1),
        SimError::Region { .. }
    ));
    assert!(matches!(
        error(|s| s.clients[1].space.0 = 9),
        SimError::Region { .. }
    ));
    assert!(matches!(
        error(|s| s.clients[0].program.depth = 0),
        SimError::Program { .. }
    ));
    assert!(matches!(
        error(|s| s.groups[0].contract.min = 1 << 40),
        SimError::Refused(_)
    ));
    assert!(matches!(
        error(|s| s.actions = vec![at(0, Action::Cancel { client: 2 })]),
        SimError::NoSuchClient(2)
    ));
    assert_eq!(
        error(|s| s.clients[1].space.0 = 9).to_string(),
        "client c1: its region must be inside its file"
    );
}
