//! Tests of each kind of program, step by step.

use super::*;
use crate::load::program::{Activity, Arrival, Law, Pattern, Size, Skew};
use crate::load::seed;
use Vec;
use std::vec;
use weir_core::Span;

mod apart;

const REGION: Region = Region::new(1 << 20, 1 << 20);

fn us(n: u64) -> Instant {
    Instant::ZERO + Span::from_micros(n)
}

fn client(program: Program) -> LoadClient {
    LoadClient::new(&program, seed("test", 0, 0), REGION).unwrap()
}

/// Issues all requests that are due at `now`, and returns them with the step after them.
fn burst(client: &mut LoadClient, now: Instant) -> (Vec<Io>, Step) {
    let mut issued = Vec::new();
    loop {
        match client.next(now) {
            Step::Issue(io) => issued.push(io),
            other => return (issued, other),
        }
    }
}

fn ops(issued: &[Io]) -> Vec<Op> {
    issued.iter().map(|io| io.op).collect()
}

/// The client waits until one of its four requests is left, and then issues three more. `fio` does
/// the same with `iodepth_low=1`, or with `iodepth_batch_complete_min=3`.
#[test]
fn a_loop_in_batches_fills_up_at_its_low_depth() {
    let mut c = client(Program {
        arrival: Arrival::Batches { low: 1 },
        ..Program::sequential_reads(4096, 4)
    });
    let issued = |c: &mut LoadClient, now| burst(c, now).0.len();
    assert_eq!(issued(&mut c, us(0)), 4);
    for (now, more) in [(5, 0), (6, 0), (7, 3), (8, 0), (9, 0), (9, 3)] {
        c.completed(us(now));
        assert_eq!(issued(&mut c, us(now)), more, "{now}");
        assert_eq!(c.next(us(now)), Step::WaitForCompletion);
    }
}

#[test]
fn a_closed_loop_keeps_its_depth() {
    let mut c = client(Program::sequential_reads(4096, 3));
    let (issued, then) = burst(&mut c, us(0));
    assert_eq!(then, Step::WaitForCompletion);
    assert_eq!(
        issued
            .iter()
            .map(|io| (io.number, io.offset, io.due))
            .collect::<Vec<_>>(),
        [
            (0, 1 << 20, us(0)),
            (1, (1 << 20) + 4096, us(0)),
            (2, (1 << 20) + 8192, us(0))
        ]
    );
    c.completed(us(5));
    c.completed(us(5));
    let (issued, then) = burst(&mut c, us(7));
    assert_eq!(
        (issued.len(), issued[0].due, then),
        (2, us(7), Step::WaitForCompletion)
    );
}

#[test]
fn each_request_has_its_own_think_time() {
    let think = Span::from_micros(10);
    let mut c = client(Program {
        arrival: Arrival::Closed { think },
        ..Program::random_reads(4096, 2)
    });
    assert_eq!(burst(&mut c, us(0)).0.len(), 2);
    // The first request thinks from 3 us to 13 us, the second from 5 us to 15 us.
    c.completed(us(3));
    assert_eq!(c.next(us(3)), Step::WaitUntil(us(13)));
    c.completed(us(5));
    assert_eq!(c.next(us(12)), Step::WaitUntil(us(13)));
    let (issued, then) = burst(&mut c, us(13));
    assert_eq!((issued.len(), then), (1, Step::WaitUntil(us(15))));
    let (issued, then) = burst(&mut c, us(15));
    assert_eq!((issued.len(), then), (1, Step::WaitForCompletion));
}

#[test]
fn an_open_loop_keeps_its_rate_and_its_due_times() {
    let interval = Span::from_micros(10);
    let mut c = client(Program {
        arrival: Arrival::Even { interval },
        start: Span::from_micros(5),
        ..Program::random_reads(4096, 3)
    });
    assert_eq!(c.next(us(0)), Step::WaitUntil(us(5)));
    let (issued, then) = burst(&mut c, us(5));
    assert_eq!((issued.len(), then), (1, Step::WaitUntil(us(15))));
    // The call is late and the queue depth is exhausted. Requests keep the times at which they were
    // due.
    let (issued, then) = burst(&mut c, us(50));
    assert_eq!(
        issued.iter().map(|io| io.due).collect::<Vec<_>>(),
        [us(15), us(25)]
    );
    assert_eq!(then, Step::WaitForCompletion);
    c.completed(us(60));
    assert_eq!(burst(&mut c, us(60)).0[0].due, us(35));
}

#[test]
fn poisson_arrivals_have_their_mean() {
    let interval = Span::from_micros(10);
    let mut c = client(Program {
        arrival: Arrival::Poisson { interval },
        ..Program::random_reads(4096, 65_536)
    });
    let n = burst(&mut c, us(500_000)).0.len();
    // 50,000 arrivals are expected, with a standard deviation of 224.
    assert!((48_900..51_100).contains(&n), "{n} of 50000");
}

#[test]
fn a_client_stops_at_its_time_or_after_its_requests() {
    let stop = Some(Span::from_micros(10));
    let mut c = client(Program {
        stop,
        ..Program::random_reads(4096, 1)
    });
    assert_eq!(burst(&mut c, us(9)).0.len(), 1);
    assert_eq!(c.next(us(10)), Step::WaitForCompletion);
    c.completed(us(11));
    assert_eq!(c.next(us(11)), Step::Finished);

    let mut c = client(Program {
        requests: Some(2),
        ..Program::random_reads(4096, 8)
    });
    let (issued, then) = burst(&mut c, us(0));
    assert_eq!((issued.len(), then), (2, Step::WaitForCompletion));
    c.completed(us(1));
    c.completed(us(1));
    assert_eq!((c.next(us(1)), c.issued()), (Step::Finished, 2));

    // The next request would be due after the stop, so there is nothing to wait for.
    let arrival = Arrival::Even {
        interval: Span::from_micros(20),
    };
    let mut c = client(Program {
        arrival,
        stop,
        ..Program::random_reads(4096, 8)
    });
    assert_eq!(burst(&mut c, us(0)).1, Step::WaitForCompletion);
    c.completed(us(1));
    assert_eq!(c.next(us(1)), Step::Finished);

    let mut c = client(Program {
        stop,
        start: Span::from_micros(10),
        ..Program::random_reads(4096, 1)
    });
    assert_eq!(c.next(us(0)), Step::Finished, "it never starts");
}

#[test]
fn mixes_have_their_proportion_and_fua_is_for_writes() {
    let mut c = client(Program {
        writes: 30,
        fua: true,
        ..Program::random_reads(4096, 10_000)
    });
    let (issued, _) = burst(&mut c, us(0));
    let writes = issued.iter().filter(|io| io.op == Op::Write).count();
    // 3000 writes are expected, with a standard deviation of 46.
    assert!((2_770..3_230).contains(&writes), "{writes}");
    for io in &issued {
        assert_eq!(io.flags.has(Flags::FUA), io.op == Op::Write);
    }
    let all = |writes| {
        ops(&burst(
            &mut client(Program {
                writes,
                ..Program::random_reads(4096, 9)
            }),
            us(0),
        )
        .0)
    };
    assert_eq!((all(0), all(100)), (vec![Op::Read; 9], vec![Op::Write; 9]));
}

#[test]
fn a_flush_comes_after_so_many_writes() {
    let mut c = client(Program {
        writes: 100,
        sync: SyncMode::Flush(2),
        ..Program::random_reads(4096, 7)
    });
    let (issued, _) = burst(&mut c, us(0));
    let (w, f) = (Op::Write, Op::Flush);
    assert_eq!(ops(&issued), [w, w, f, w, w, f, w]);
    assert_eq!((issued[2].offset, issued[2].length), (0, 0));
}

#[test]
fn an_fdatasync_waits_for_outstanding_writes_and_delays_later_ones() {
    let mut c = client(Program {
        writes: 100,
        sync: SyncMode::Fdatasync(3),
        ..Program::random_reads(4096, 4)
    });
    let (issued, then) = burst(&mut c, us(0));
    assert_eq!((issued.len(), then), (3, Step::WaitForCompletion));
    c.completed(us(1));
    c.completed(us(2));
    assert_eq!(c.next(us(2)), Step::WaitForCompletion);
    c.completed(us(3));
    let (issued, then) = burst(&mut c, us(3));
    assert_eq!(
        (ops(&issued), then),
        (vec![Op::Flush], Step::WaitForCompletion)
    );
    c.completed(us(4));
    assert_eq!(ops(&burst(&mut c, us(4)).0), [Op::Write; 3]);
}

#[test]
fn a_seed_determines_the_requests() {
    let program = Program {
        pattern: Pattern::ZIPF,
        writes: 50,
        size: Size::Range {
            min: 512,
            max: 65_536,
            step: 512,
        },
        ..Program::random_reads(4096, 100)
    };
    let run = |seed| burst(&mut LoadClient::new(&program, seed, REGION).unwrap(), us(0)).0;
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn the_first_requests_of_a_random_reader_never_change() {
    let mut c = client(Program::random_reads(4096, 8));
    let blocks: Vec<u64> = burst(&mut c, us(0))
        .0
        .iter()
        .map(|io| (io.offset - REGION.start) / 4096)
        .collect();
    assert_eq!(blocks, [20, 205, 47, 250, 243, 17, 23, 188]);
}

/// A random program with up to 200 requests.
fn drawn(rng: &mut Rng) -> Program {
    let time = Span::from_nanos(rng.range(1, 5_000));
    let every = rng.range(1, 5) as u32;
    let min = rng.range(1, 3_000) as u32;
    Program {
        pattern: [Pattern::Sequential, Pattern::Random, Pattern::ZIPF][rng.range(0, 2) as usize],
        zones: None,
        files: rng.range(1, 3) as u32,
        activity: (rng.range(0, 1) == 0).then_some(Activity {
            on: time + Span::from_nanos(1),
            off: time,
        }),
        writes: rng.range(0, 100) as u8,
        fua: rng.range(0, 1) == 0,
        sync: [
            SyncMode::Never,
            SyncMode::Flush(every),
            SyncMode::Fdatasync(every),
        ][rng.range(0, 2) as usize],
        size: Size::Range {
            min,
            max: min + rng.range(0, 3_000) as u32,
            step: rng.range(1, 700) as u32,
        },
        depth: rng.range(1, 9) as u32,
        arrival: [
            Arrival::Closed { think: Span::ZERO },
            Arrival::Closed { think: time },
            Arrival::Even { interval: time },
            Arrival::Poisson { interval: time },
        ][rng.range(0, 3) as usize],
        think_every: rng.range(1, 5) as u32,
        start: Span::from_nanos(rng.range(0, 9_000)),
        start_spread: Span::ZERO,
        stop: (rng.range(0, 3) == 0).then(|| Span::from_nanos(rng.range(0, 90_000))),
        requests: Some(rng.range(0, 200)),
    }
}

#[test]
fn every_program_keeps_its_bounds_and_comes_to_its_end() {
    let mut rng = Rng::new(9);
    for _ in 0..2_000 {
        let program = drawn(&mut rng);
        let region = Region::new(rng.range(0, 1 << 40), rng.range(18_000, 80_000));
        let mut client = LoadClient::new(&program, rng.next_u64(), region).unwrap();
        let (mut now, mut issued, mut syncing, mut last_due) =
            (Instant::ZERO, 0, false, Instant::ZERO);
        loop {
            match client.next(now) {
                Step::Issue(io) => {
                    assert_eq!(io.number, issued);
                    issued += 1;
                    assert!(!syncing, "nothing is issued beside an fdatasync");
                    assert!(client.outstanding() <= program.depth);
                    assert!(io.due <= now);
                    // A flush is not an arrival: it can be between two requests that are both late.
                    if io.op != Op::Flush {
                        assert!(last_due <= io.due);
                        last_due = io.due;
                    }
                    assert!(now >= Instant::ZERO + program.start);
                    assert!(program.stop.is_none_or(|stop| now < Instant::ZERO + stop));
                    let end = io.offset + u64::from(io.length);
                    let inside = region.start <= io.offset && end <= region.start + region.length;
                    assert!(inside || (io.op == Op::Flush && end == 0));
                    let fdatasync = matches!(program.sync, SyncMode::Fdatasync(_));
                    if io.op == Op::Flush && fdatasync {
                        assert_eq!(
                            client.outstanding(),
                            1,
                            "everything before it has completed"
                        );
                        syncing = true;
                    }
                }
                Step::WaitUntil(at) => {
                    assert!(at > now, "it never waits for the past");
                    now = at;
                    // Completions can arrive at any time.
                    if client.outstanding() > 0 && rng.range(0, 1) == 0 {
                        client.completed(now);
                        syncing = false;
                    }
                }
                Step::WaitForCompletion => {
                    assert!(client.outstanding() > 0, "a completion is to come");
                    now += Span::from_nanos(rng.range(0, 3_000));
                    client.completed(now);
                    syncing = false;
                }
                Step::Finished => break,
            }
        }
        assert_eq!(client.outstanding(), 0);
        assert!(program.stop.is_some() || Some(issued) == program.requests);
    }
}

fn resting(mut program: Program, on: u64, off: u64) -> LoadClient {
    program.activity = Some(Activity {
        on: Span::from_micros(on),
        off: Span::from_micros(off),
    });
    client(program)
}

#[test]
fn a_closed_loop_rests_and_goes_on_where_it_was() {
    let mut program = Program::sequential_reads(4096, 1);
    program.start = Span::from_micros(5);
    let mut c = resting(program, 10, 20);
    assert_eq!(burst(&mut c, us(0)).1, Step::WaitUntil(us(5)));
    assert_eq!(burst(&mut c, us(5)).0.len(), 1);
    c.completed(us(15));
    // The client is active from 5 us to 15 us and from 35 us to 45 us.
    assert_eq!(burst(&mut c, us(15)), (vec![], Step::WaitUntil(us(35))));
    assert_eq!(burst(&mut c, us(34)), (vec![], Step::WaitUntil(us(35))));
    let (issued, then) = burst(&mut c, us(35));
    assert_eq!(
        (issued[0].offset, issued[0].due, then),
        ((1 << 20) + 4096, us(35), Step::WaitForCompletion)
    );
}

#[test]
fn an_open_loop_has_no_due_requests_while_it_rests() {
    let mut program = Program::sequential_reads(4096, 100);
    let interval = Span::from_micros(4);
    program.arrival = Arrival::Even { interval };
    let mut c = resting(program, 10, 90);
    let mut dues = Vec::new();
    let mut now = us(0);
    while dues.len() < 7 {
        let (issued, then) = burst(&mut c, now);
        dues.extend(issued.iter().map(|io| io.due));
        let Step::WaitUntil(at) = then else {
            panic!("{then:?}")
        };
        assert!(at > now);
        now = at;
    }
    // Requests are 4 us apart on a clock that does not advance from 10 us to 100 us.
    assert_eq!(dues, [0, 4, 8, 102, 106, 200, 204].map(us));
}

#[test]
fn a_stop_during_a_pause_ends_the_program() {
    let mut program = Program::sequential_reads(4096, 1);
    program.stop = Some(Span::from_micros(25));
    let mut c = resting(program, 10, 20);
    assert_eq!(burst(&mut c, us(0)).0.len(), 1);
    assert_eq!(burst(&mut c, us(12)).1, Step::WaitForCompletion);
    c.completed(us(13));
    assert_eq!(burst(&mut c, us(13)).1, Step::Finished);
}

#[test]
fn a_start_is_drawn_once_for_each_run() {
    let spread = Program {
        start: Span::from_micros(100),
        start_spread: Span::from_micros(50),
        stop: Some(Span::from_micros(1_000)),
        ..Program::random_reads(4096, 1)
    };
    let starts = (0..200).map(|repetition| {
        let mut c = LoadClient::new(&spread, seed("test", repetition, 0), REGION).unwrap();
        let Step::WaitUntil(start) = c.next(us(0)) else {
            panic!("it has to wait for its start");
        };
        let later = start.since(us(100));
        assert_eq!(c.program().stop, Some(Span::from_micros(1_000) + later));
        assert!(matches!(c.next(start), Step::Issue(_)));
        later
    });
    let mut starts = starts.collect::<Vec<_>>();
    starts.sort_unstable();
    starts.dedup();
    assert!(starts.len() > 190 && starts[starts.len() - 1] <= Span::from_micros(50));
    assert!(starts[0] < Span::from_micros(5) && starts[starts.len() - 1] > Span::from_micros(45));
    let long = Program {
        start_spread: Span::from_secs(3_601),
        ..spread
    };
    let error = LoadClient::new(&long, 0, REGION).unwrap_err();
    assert_eq!(error.field, "start_spread");
}

#[test]
fn think_time_follows_every_so_many_answers() {
    let mut c = client(Program {
        arrival: Arrival::Closed {
            think: Span::from_micros(100),
        },
        think_every: 3,
        ..Program::random_reads(4096, 1)
    });
    for round in 0..2 {
        let begins = round * 105;
        for k in 0..3 {
            let at = us(begins + k);
            assert_eq!(burst(&mut c, at).0.len(), 1, "round {round}, {k}");
            c.completed(us(begins + k + 1));
        }
        let then = us(begins + 103);
        assert_eq!(c.next(us(begins + 3)), Step::WaitUntil(then));
        assert_eq!(c.next(us(begins + 102)), Step::WaitUntil(then));
        // The call is late, and the next round begins with it.
    }
}

/// As with fio, `rate_iops=100000` with `fdatasync=1` writes a hundred thousand times per second,
/// and flushes as often.
#[test]
fn a_flush_is_no_arrival_of_an_open_loop() {
    let interval = Span::from_micros(10);
    let program = Program {
        writes: 100,
        sync: SyncMode::Fdatasync(1),
        arrival: Arrival::Even { interval },
        ..Program::random_reads(4096, 4)
    };
    let mut c = LoadClient::new(&program, 7, Region::new(0, 1 << 20)).unwrap();
    let (mut now, mut writes, mut flushes) = (Instant::ZERO, 0, 0);
    while now < us(1000) {
        match c.next(now) {
            Step::Issue(io) => {
                if io.op == Op::Write {
                    assert_eq!(io.due, us(10 * writes));
                    writes += 1;
                } else {
                    assert_eq!(io.due, now, "it has waited for the write only");
                    flushes += 1;
                }
                now += Span::from_micros(2);
                c.completed(now);
            }
            Step::WaitUntil(at) => now = at,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((writes, flushes), (100, 100));
}

#[test]
fn a_program_that_ends_says_how_long_it_took() {
    let mut c = client(Program {
        start: Span::from_micros(5),
        requests: Some(3),
        ..Program::random_reads(4096, 2)
    });
    assert_eq!(c.runtime(), None);
    assert_eq!(burst(&mut c, us(5)).0.len(), 2);
    c.completed(us(9));
    assert_eq!(burst(&mut c, us(9)).0.len(), 1);
    c.completed(us(20));
    assert_eq!(c.runtime(), None, "one is outstanding");
    c.completed(us(31));
    assert_eq!(c.runtime(), Some(Span::from_micros(26)));
    assert_eq!(
        (c.next(us(90)), c.runtime()),
        (Step::Finished, Some(Span::from_micros(26)))
    );
    let endless = client(Program::random_reads(4096, 2));
    assert_eq!(endless.runtime(), None);
}

#[test]
fn overdue_requests_are_counted() {
    let open = Program {
        arrival: Arrival::Even {
            interval: Span::from_micros(10),
        },
        start: Span::from_micros(5),
        ..Program::random_reads(4096, 1)
    };
    let mut c = client(open);
    assert_eq!(
        [0, 4, 5, 14, 15, 55].map(|at| c.overdue(us(at))),
        [0, 0, 1, 1, 2, 6]
    );
    assert_eq!(burst(&mut c, us(5)).0.len(), 1);
    assert_eq!([14, 15, 55].map(|at| c.overdue(us(at))), [0, 1, 5]);
    let stopping = client(Program {
        stop: Some(Span::from_micros(25)),
        ..open
    });
    assert_eq!(
        stopping.overdue(us(1_000)),
        2,
        "one at the stop itself is not due"
    );
    let few = client(Program {
        requests: Some(4),
        ..open
    });
    assert_eq!(few.overdue(us(1_000)), 4);
    // The client is active for 20 us and pauses for 80 us: two requests per round.
    let resting = client(Program {
        activity: Some(Activity {
            on: Span::from_micros(20),
            off: Span::from_micros(80),
        }),
        ..open
    });
    assert_eq!(
        [20, 90, 106, 150].map(|at| resting.overdue(us(at))),
        [2, 2, 3, 4]
    );
    let closed = client(Program::random_reads(4096, 1));
    assert_eq!(closed.overdue(us(1_000)), 0);
}

#[test]
fn a_client_reports_the_use_of_random_numbers() {
    let plain = Program::sequential_reads(4096, 2);
    let drawn = |program: Program| {
        let mut c = client(program);
        let before = c.has_drawn();
        burst(&mut c, us(0));
        (before, c.has_drawn())
    };
    let even = Arrival::Even {
        interval: Span::from_micros(10),
    };
    let sync = SyncMode::Fdatasync(1);
    for program in [
        plain,
        Program {
            writes: 100,
            sync,
            ..plain
        },
        Program {
            arrival: even,
            files: 3,
            ..plain
        },
    ] {
        assert_eq!(drawn(program), (false, false), "{program:?}");
    }
    let (min, max, step) = (4096, 8192, 4096);
    for program in [
        Program::random_reads(4096, 1),
        Program {
            pattern: Pattern::Shuffled,
            ..plain
        },
        Program {
            pattern: Pattern::Skewed(Skew {
                law: Law::Zipf(1_100_000),
                center: None,
            }),
            ..plain
        },
        Program {
            writes: 50,
            ..plain
        },
        Program {
            size: Size::Range { min, max, step },
            ..plain
        },
    ] {
        assert_eq!(drawn(program), (false, true), "{program:?}");
    }
    // These programs use a random number before anything is issued.
    let interval = Span::from_micros(10);
    for program in [
        Program {
            arrival: Arrival::Poisson { interval },
            ..plain
        },
        Program {
            start_spread: interval,
            ..plain
        },
    ] {
        assert_eq!(drawn(program), (true, true), "{program:?}");
    }
}

/// Plays one request after the other, each answered after `each`, either step by step or in
/// streaks. Returns the reads, and the final state of the client.
fn looped(program: &Program, each: Span, streaks: bool) -> (Vec<(Instant, u64)>, String) {
    let mut c = client(*program);
    let (mut now, mut read) = (us(0), Vec::new());
    while read.len() < 600 {
        let streak = c.streak(now, each).filter(|_| streaks);
        let count = streak.map_or(0, |s| s.count.min(7));
        if count > 0 {
            let first = streak.expect("it has requests").offset;
            for n in 0..count {
                read.push((now, first + n * 4096));
                now += each;
            }
            c.read_streak(count, now);
            continue;
        }
        match c.next(now) {
            Step::Issue(io) => {
                read.push((now, io.offset));
                now += each;
                c.completed(now);
            }
            Step::WaitUntil(at) => now = at,
            Step::WaitForCompletion | Step::Finished => break,
        }
    }
    (read, std::format!("{c:?}"))
}

#[test]
fn a_streak_equals_requests_issued_one_by_one() {
    let mut rng = Rng::new(4);
    let mut all = 0;
    for _ in 0..500 {
        let time = |rng: &mut Rng| Span::from_nanos(rng.range(1, 300_000));
        let program = Program {
            activity: (rng.range(0, 1) == 0).then(|| Activity {
                on: time(&mut rng),
                off: time(&mut rng),
            }),
            think_every: rng.range(1, 5) as u32,
            start: time(&mut rng),
            stop: (rng.range(0, 1) == 0).then(|| Span::from_nanos(rng.range(0, 3_000_000))),
            requests: (rng.range(0, 1) == 0).then(|| rng.range(0, 590)),
            ..Program::sequential_reads(4096, 1)
        };
        let each = time(&mut rng);
        let (read, _) = looped(&program, each, false);
        all += read.len();
        // The last streak can extend beyond the end of the test.
        let (streaks, state) = looped(&program, each, true);
        assert_eq!(streaks[..read.len().min(600)], read, "{program:?} {each:?}");
        if read.len() < 600 {
            assert_eq!(state, looped(&program, each, false).1);
        }
    }
    assert!(all > 50_000, "{all} requests");
    let others = [
        Program::random_reads(4096, 1),
        Program {
            writes: 1,
            ..Program::sequential_reads(4096, 1)
        },
        Program {
            arrival: Arrival::Closed {
                think: us(1).since(us(0)),
            },
            ..Program::sequential_reads(4096, 1)
        },
    ];
    assert!(
        others
            .iter()
            .all(|other| client(*other).streak(us(0), Span::from_nanos(1)).is_none())
    );
}
