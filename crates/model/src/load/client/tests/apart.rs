//! Reads and writes with arrivals of their own.

use super::*;

/// The numbers of reads and of writes that a client issues within 100 ms, if each request is
/// answered after `each` microseconds.
fn of_both(arrival: Arrival, depth: u32, each: u64) -> [usize; 2] {
    let mut c = client(Program {
        writes: 25,
        arrival,
        ..Program::random_reads(4096, depth)
    });
    let mut counts = [0; 2];
    let mut answers = std::collections::VecDeque::new();
    for now in (0..100_000).step_by(10) {
        while answers.front().is_some_and(|at| *at <= now) {
            answers.pop_front();
            c.completed(us(now));
        }
        for io in burst(&mut c, us(now)).0 {
            counts[usize::from(io.op == Op::Write)] += 1;
            answers.push_back(now + each);
        }
    }
    counts
}

/// As with `fio`: one `rate_iops` for both kinds of a mixed job, one for each kind, and one for
/// reads only, whatever the percentage of writes.
#[test]
fn reads_and_writes_arrive_apart() {
    let apart = |reads, writes| Arrival::Apart {
        reads,
        writes,
        poisson: false,
    };
    let every = |n| Some(Span::from_micros(n));
    assert_eq!(
        of_both(apart(every(1_000), every(1_000)), 4, 50),
        [100, 100]
    );
    assert_eq!(of_both(apart(every(500), every(2_000)), 4, 50), [200, 50]);
    // Writes use the depth that reads leave.
    let [reads, writes] = of_both(apart(every(1_000), None), 2, 100);
    assert!(
        (98..=100).contains(&reads) && writes > 1_500,
        "{reads} {writes}"
    );
    // Neither rate can be reached, so the percentage decides.
    let [reads, writes] = of_both(apart(every(10), every(10)), 1, 100);
    assert!((1..=5).contains(&(reads / writes)), "{reads} {writes}");
    let poisson = Arrival::Apart {
        reads: every(100),
        writes: every(400),
        poisson: true,
    };
    let [reads, writes] = of_both(poisson, 16, 50);
    assert!(
        (800..1_200).contains(&reads) && (180..320).contains(&writes),
        "{reads} {writes}"
    );
}

#[test]
fn a_request_that_is_late_counts_from_when_its_kind_was_due() {
    let every = Some(Span::from_micros(100));
    let mut c = client(Program {
        writes: 50,
        arrival: Arrival::Apart {
            reads: every,
            writes: every,
            poisson: false,
        },
        ..Program::random_reads(4096, 1)
    });
    let (issued, then) = burst(&mut c, us(0));
    assert_eq!((issued.len(), then), (1, Step::WaitForCompletion));
    c.completed(us(250));
    // A read and a write were due at the beginning, at 100 us and at 200 us, and one of the six was
    // issued.
    assert_eq!(c.overdue(us(250)), 5);
    let (issued, _) = burst(&mut c, us(250));
    assert!(issued[0].due <= us(100), "{issued:?}");
}
