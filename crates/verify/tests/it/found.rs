//! Findings of searches, each reduced to a small case: promises that were broken, and the cost to
//! other clients and to the drive.
//!
//! Each case is a scenario in `tests/found/`. `weir compare FILE` runs it, and `cargo run --release
//! -p weir-verify --example promises -- --case FILE --seconds` judges it.

use weir_core::Span;
use weir_measure::promise::PromisedRate;
use weir_model::drive::Freeze;
use weir_verify::search::case::{KINDS, SearchCase};
use weir_verify::search::judge::JudgedSecond;
use weir_verify::search::trial::{self, ClientService, Trial, TrialOutcome};

/// The longest permitted wait of the idle class in milliseconds. It waits for at most 200 ms and a
/// request, and the tests allow twice that.
const IDLE_MS: f64 = 400.0;

/// The results of all runs of a case. The run under `contract` has every auditor.
struct AuditedTrial {
    case: SearchCase,
    trial: Trial,
    outcome: TrialOutcome,
}

/// Reads a case of `tests/found/`.
fn found(name: &str) -> SearchCase {
    let file = format!("{}/tests/found/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    SearchCase::read(&text, &file).unwrap_or_else(|e| panic!("{e}"))
}

fn run_found(name: &str) -> AuditedTrial {
    played(found(name))
}

fn played(case: SearchCase) -> AuditedTrial {
    let trial = trial::trial(&case, true).unwrap_or_else(|e| panic!("{e}\n{case}"));
    let outcome = trial.outcome(&case);
    // Every case is audited as well.
    assert_eq!(outcome.findings, (0, String::new()), "{case}");
    assert_eq!(trial.contract.refusals, 0, "{case}");
    AuditedTrial {
        case,
        trial,
        outcome,
    }
}

impl AuditedTrial {
    /// Asserts that the promises are feasible, and kept in every judged second.
    fn assert_kept(&self) {
        assert!(self.outcome.feasible, "{}", self.case);
        assert!(!self.trial.judged.is_empty(), "{}", self.case);
        let broken: Vec<&JudgedSecond> =
            self.trial.judged.iter().filter(|j| !j.is_kept()).collect();
        assert!(broken.is_empty(), "{broken:#?}\n{}", self.case);
    }

    /// Asserts that a client gets this rate in every second. A promise owes nothing while only
    /// flushes wait, so that a client that syncs could starve although its promise is kept.
    fn assert_rate(&self, client: usize, rate: u64) {
        let least = self.least(client);
        let short = PromisedRate::new(rate, 0).is_some_and(|r| r.exceeds(least as f64));
        assert!(!short, "{least} of {rate}\n{}", self.case);
    }

    /// Asserts that clients get nearly as much as under `none`, each relative to its bandwidth
    /// alone.
    fn assert_total(&self) {
        // The permitted total depends on the kind of drive: promises cost most on a disk.
        let [null, ssd, hdd] = [0.95, 0.9, 0.8];
        let least = [null, ssd, hdd][self.case.kind()];
        let total = self.outcome.total.expect("somebody got something");
        let kind = KINDS[self.case.kind()];
        assert!(total >= least, "{kind}: {total:.3} of none\n{}", self.case);
    }

    /// Returns the bytes per second of one client under `contract`.
    fn rate(&self, client: usize) -> u64 {
        self.rate_in(&self.trial.contract.clients, client)
    }

    fn rate_in(&self, played: &[ClientService], client: usize) -> u64 {
        played[client].bytes / self.case.seconds()
    }

    /// Returns the bytes of the client's worst second under `contract`.
    fn least(&self, client: usize) -> u64 {
        let seconds = &self.trial.contract.clients[client].seconds;
        assert_eq!(seconds.len() as u64, self.case.seconds());
        *seconds.iter().min().expect("there was a second")
    }

    /// Returns the bytes per second of all clients under `contract`.
    fn all(&self) -> u64 {
        self.all_in(&self.trial.contract.clients)
    }

    /// Returns the bytes per second of all clients under `none`.
    fn all_under_none(&self) -> u64 {
        self.all_in(&self.trial.reference.none)
    }

    /// Returns the bytes per second of all clients together.
    fn all_in(&self, played: &[ClientService]) -> u64 {
        let clients = 0..self.case.scenario.clients.len();
        clients.map(|c| self.rate_in(played, c)).sum()
    }
}

fn beside_realtime() -> AuditedTrial {
    run_found("beside-realtime")
}

#[test]
#[ignore = "clients get 0.71 of what none gives, each by what it gets alone"]
fn a_realtime_client_leaves_the_drive_as_busy() {
    beside_realtime().assert_total();
}

#[test]
fn a_realtime_client_starves_no_other_client() {
    let tried = beside_realtime();
    tried.assert_kept();
    // The max of the realtime client is 25 MB/s, of which a second may lack 1 %.
    assert!(tried.least(0) >= 24_750_000, "{}", tried.least(0));
}

#[test]
fn a_realtime_client_gets_its_max_at_nearly_the_latency_that_it_has_alone() {
    let tried = run_found("realtime-latency");
    // The max is 60 MB/s. The random reads of 64 KiB are not cut, because another drive would read
    // ahead for their parts, and a realtime client may lack 2 % for that. The first second contains
    // the rounds in which the drive is learned, and no request of another client is cut in them.
    let seconds = &tried.trial.contract.clients[0].seconds;
    assert!(seconds[0] >= 57_600_000, "{seconds:?}");
    assert!(seconds[1..].iter().all(|&s| s >= 58_800_000), "{seconds:?}");
    let [ratio] = tried.outcome.latency[..] else {
        panic!("one realtime client");
    };
    // The tail latency may at most double.
    assert!(ratio <= 2.0, "{ratio:.2}");
    let (all, none) = (tried.all(), tried.all_under_none());
    // The total may lose at most 5 %.
    assert!(all * 100 >= none * 95, "{all} of {none}");
}

/// Client 3 reads a page every millisecond or two, which is far less than its share. BFQ idles for
/// that client, at the cost of a quarter of the total.
#[test]
fn the_idle_class_does_not_delay_a_sporadic_reader() {
    let tried = run_found("idle-class");
    let bfq = tried.rate_in(&tried.trial.reference.bfq, 3);
    // In its worst second, the client must get a quarter of what BFQ gives it on average.
    assert!(tried.least(3) * 4 >= bfq, "{} beside {bfq}", tried.least(3));
    let wait = tried.outcome.idle_wait.expect("there is one of that class");
    assert!(wait <= IDLE_MS, "{wait} ms");
    tried.assert_total();
}

#[test]
fn a_promise_is_kept_on_a_drive_that_runs_dry_all_the_time() {
    let tried = run_found("runs-dry");
    tried.assert_kept();
    tried.assert_rate(0, 200_000_000);
    tried.assert_total();
}

#[test]
#[ignore = "the promises are kept, and clients get 0.87 of what none gives, not 0.9"]
fn reads_and_writes_on_flash_that_programs_slowly_keep_their_promises() {
    let tried = run_found("slow-flash");
    tried.assert_kept();
    tried.assert_total();
}

#[test]
fn two_streams_on_a_disk_take_turns() {
    let tried = run_found("two-streams");
    tried.assert_kept();
    let alone = tried.trial.reference.alone[0].expect("it was played") as u64;
    let all = tried.all();
    // Together they must reach 80 % of a single stream, and the one without a promise an eighth.
    assert!(all * 10 >= alone * 8, "{all} of {alone}");
    assert!(tried.least(1) * 8 >= alone, "{} of {alone}", tried.least(1));
}

fn stream_beside_random_reads() -> AuditedTrial {
    run_found("stream-beside-random-reads")
}

#[test]
fn a_stream_keeps_its_promise_beside_random_reads_on_a_disk() {
    let tried = stream_beside_random_reads();
    tried.assert_kept();
    assert!(tried.least(1) > 0);
}

#[test]
#[ignore = "clients get 0.68 of what none gives, each by what it gets alone"]
fn a_stream_beside_random_reads_leaves_the_disk_as_busy() {
    stream_beside_random_reads().assert_total();
}

#[test]
fn eight_streams_on_a_disk_are_all_served() {
    let tried = run_found("eight-streams");
    let (all, bfq) = (tried.all(), tried.all_in(&tried.trial.reference.bfq));
    // The total must reach that of BFQ.
    assert!(all >= bfq, "{all} beside {bfq}");
    let rates: Vec<u64> = (0..8).map(|c| tried.rate(c)).collect();
    let least = rates.iter().min().expect("eight");
    // An even division would give each an eighth. A stream must get at least half of that.
    assert!(least * 16 >= all, "{rates:?}");
}

/// Runs a random reader next to fifteen readers of files, as in the comparison of BFQ and
/// io.latency.
fn beside_fifteen_files(min: u64) -> AuditedTrial {
    let mut case = found("beside-fifteen-files");
    case.scenario.groups[0].contract.min = min;
    played(case)
}

#[test]
fn a_smaller_promise_of_random_reads_leaves_more_of_a_disk() {
    let [more, less] = [400_000, 200_000].map(beside_fifteen_files);
    more.assert_kept();
    less.assert_kept();
    // Half of the promise must leave the others at least 1.5 times as much.
    let others = |t: &AuditedTrial| t.all() - t.rate(0);
    assert!(
        others(&less) * 2 >= others(&more) * 3,
        "{} {}",
        others(&less),
        others(&more)
    );
    // None of the fifteen other clients starves.
    assert!((1..16).all(|c| less.rate(c) > 0));
}

#[test]
fn writes_in_a_disks_cache_do_not_break_a_promise_of_reads() {
    let tried = run_found("writes-in-cache");
    tried.assert_kept();
    tried.assert_total();
}

#[test]
fn durable_writes_keep_their_promise_beside_writes_into_the_buffer() {
    let tried = run_found("durable-writes");
    tried.assert_kept();
    tried.assert_total();
}

#[test]
fn promises_that_are_exceeded_cost_nothing() {
    let deep = run_found("exceeded-deep");
    let thinks = run_found("exceeded-thinking");
    for tried in [deep, thinks] {
        tried.assert_kept();
        tried.assert_total();
        let (all, none) = (tried.all(), tried.all_under_none());
        // The total may lose at most 10 %.
        assert!(all * 10 >= none * 9, "{all} of {none}");
    }
}

/// The promise leaves 150 MB/s. The tenant's share is an eleventh of these, all of which is due to
/// the member without a promise.
#[test]
fn a_member_gets_the_share_of_its_tenant_beside_a_promised_member() {
    let tried = run_found("member-beside-promised");
    tried.assert_kept();
    tried.assert_total();
    let due = 150_000_000 / 11;
    // In its worst second, the member must get half of the amount due.
    assert!(tried.least(1) * 2 >= due, "{} of {due}", tried.least(1));
}

#[test]
fn an_idle_member_waits_no_longer_than_any_of_the_idle_class() {
    for name in ["idle-member-promise-beside", "idle-member-promise-above"] {
        let tried = run_found(name);
        tried.assert_kept();
        let wait = tried.outcome.idle_wait.expect("there is one of that class");
        assert!(wait <= IDLE_MS, "{wait} ms\n{}", tried.case);
    }
}

#[test]
fn a_member_beside_a_promised_member_is_served_on_a_disk() {
    let tried = run_found("member-past-its-part");
    tried.assert_kept();
    assert!(tried.rate(1) >= 10_000_000, "{}", tried.rate(1));
}

#[test]
fn a_client_that_syncs_gets_its_min_beside_writes_of_others() {
    let tried = run_found("writes-before-a-flush");
    tried.assert_kept();
    tried.assert_rate(0, 100_000);
}

#[test]
fn a_client_that_syncs_does_not_pay_for_others_writes() {
    let tried = run_found("syncs");
    let none = tried.rate_in(&tried.trial.reference.none, 0);
    assert!(
        tried.rate(0) * 10 >= none * 9,
        "{} beside {none}",
        tried.rate(0)
    );
    tried.assert_total();
}

#[test]
#[ignore = "7.2 MB/s, 115 under bfq: nobody is held for a client with one request at a time where going elsewhere costs nothing"]
fn a_shallow_client_of_a_large_share_gets_it_beside_a_deep_one() {
    let tried = run_found("shallow-of-large-share");
    let bfq = |client| tried.rate_in(&tried.trial.reference.bfq, client);
    assert!(
        tried.least(0) * 10 >= bfq(0) * 9,
        "{} beside {}",
        tried.least(0),
        bfq(0)
    );
    assert!(
        tried.rate(1) >= bfq(1),
        "{} beside {}",
        tried.rate(1),
        bfq(1)
    );
}

/// The freezes are one second in five, three in seven, and eight in twenty. The first second after
/// a freeze is judged like any other.
#[test]
fn promises_are_kept_again_in_the_first_second_after_a_freeze() {
    for name in ["freezing-flash", "freezing-disk"] {
        for (length, every, seconds, after) in [(1, 5, 8, 2), (3, 7, 6, 4), (8, 20, 11, 9)] {
            let mut case = found(name);
            case.scenario.duration = Span::from_secs(seconds);
            case.scenario.freeze = Some(Freeze {
                first: Span::from_secs(1),
                length: Span::from_secs(length),
                every: Span::from_secs(every),
                seed: None,
            });
            let tried = played(case);
            tried.assert_kept();
            assert!(tried.trial.judged.iter().any(|j| j.second == after));
        }
    }
}

#[test]
fn a_drive_that_is_only_slow_to_answer_has_no_turns() {
    let tried = run_found("slow-to-answer");
    tried.assert_kept();
    tried.assert_total();
}

#[test]
fn pieces_are_not_cut_where_that_makes_the_drive_do_less() {
    let tried = run_found("pieces-not-cut");
    tried.assert_kept();
    // With pieces of 32 KiB it was a third.
    let total = tried.outcome.total.expect("somebody got something");
    assert!(total >= 0.8, "{total:.3} of none");
}

#[test]
fn random_reads_are_not_cut_into_what_looks_sequential_to_the_drive() {
    let tried = run_found("random-reads-not-cut");
    tried.assert_kept();
    tried.assert_total();
}

#[test]
fn a_promised_write_is_not_split_without_a_gain() {
    run_found("write-not-cut").assert_kept();
}

/// The first request seeks, which takes far longer than the min allows. The following ones continue
/// sequentially.
#[test]
fn a_stream_of_small_requests_is_waited_for_before_anything_is_known_of_the_disk() {
    run_found("small-requests-first").assert_kept();
}

/// The flushes of this client wait for the data that the other one has put into the drive's buffer.
/// Without a bound on that data, it got 3 % of its min.
#[test]
fn writes_of_others_leave_a_promised_client_short_flushes() {
    let tried = run_found("short-flushes");
    tried.assert_kept();
    tried.assert_rate(1, 20_000_000);
}

/// Both clients were behind by the same amount, so that each piece of one was followed by one of
/// the other. They got 0.77 of their min, and a sixth of the total.
#[test]
fn two_promised_streams_on_a_disk_take_turns_while_both_are_behind() {
    run_found("both-behind").assert_kept();
}

/// Most requests continue where the previous one ended, and the few that do not are expensive.
/// Taken together, seeks cost so little that there are no turns, and without turns it is never
/// learned which requests are expensive.
#[test]
#[ignore = "0.16 of the min in the worst second; telling near from far in the beginning keeps it, and makes slow drives turn that do not"]
fn seek_cost_is_learned_when_seeks_are_rare() {
    run_found("few-go-elsewhere").assert_kept();
}
