//! Findings of searches, each as a small case: the promises, and the cost to the others and to the drive.
//!
//! A case is a line that `cargo run --release -p weir-search --example promises -- --case '...' --seconds` runs as well.

use weir_measure::promise::Rate;
use weir_search::case::{Case, KINDS};
use weir_search::judge::Judged;
use weir_search::trial::{self, Outcome, Played, Trial};

/// The idle class waits at most 200 ms and a request; the tests allow twice that.
const IDLE_MS: f64 = 400.0;

/// All runs of a case, `contract` with every auditor.
struct Tried {
    case: Case,
    trial: Trial,
    outcome: Outcome,
}

fn tried(drive: &str, seconds: u64, capacity: &str, parts: &str) -> Tried {
    let text =
        format!("case name=found seconds={seconds} drive={drive} capacity={capacity}; {parts}");
    let case: Case = text.parse().unwrap_or_else(|e| panic!("{e}: {text}"));
    let trial = trial::trial(&case, true).unwrap_or_else(|e| panic!("{e}: {text}"));
    let outcome = trial.outcome(&case);
    assert_eq!(outcome.findings, (0, String::new()), "{text}");
    assert_eq!(trial.contract.refusals, 0, "{text}");
    Tried {
        case,
        trial,
        outcome,
    }
}

impl Tried {
    /// Asserts that the promises are feasible and kept in every judged second.
    fn keeps(&self) {
        assert!(self.outcome.feasible, "{}", self.case);
        assert!(!self.trial.judged.is_empty(), "{}", self.case);
        let broken: Vec<&Judged> = self.trial.judged.iter().filter(|j| !j.is_kept()).collect();
        assert!(broken.is_empty(), "{broken:#?}\n{}", self.case);
    }

    /// Asserts that a client gets this much in every second. A promise owes nothing while only flushes wait, so that a client that
    /// syncs could starve with its promise kept.
    fn gets(&self, client: usize, rate: u64) {
        let least = self.least(client);
        let short = Rate::new(rate, 0).is_some_and(|r| r.exceeds(least as f64));
        assert!(!short, "{least} of {rate}\n{}", self.case);
    }

    /// Asserts that clients get nearly as much as under `none`, each relative to its bandwidth alone.
    fn wastes_nothing(&self) {
        let [null, ssd, hdd] = [0.95, 0.9, 0.8];
        let least = [null, ssd, hdd][self.case.kind()];
        let total = self.outcome.total.expect("somebody got something");
        let kind = KINDS[self.case.kind()];
        assert!(total >= least, "{kind}: {total:.3} of none\n{}", self.case);
    }

    /// Bytes per second of one client under `contract`.
    fn rate(&self, client: usize) -> u64 {
        self.rate_in(&self.trial.contract, client)
    }

    fn rate_in(&self, played: &Played, client: usize) -> u64 {
        played.clients[client].bytes / self.case.seconds
    }

    /// Bytes of the client's worst second under `contract`.
    fn least(&self, client: usize) -> u64 {
        let seconds = &self.trial.contract.clients[client].seconds;
        assert_eq!(seconds.len() as u64, self.case.seconds);
        *seconds.iter().min().expect("there was a second")
    }

    /// Bytes per second of all clients together.
    fn all_in(&self, played: &Played) -> u64 {
        let clients = 0..self.case.clients.len();
        clients.map(|c| self.rate_in(played, c)).sum()
    }
}

fn beside_realtime() -> Tried {
    tried(
        "null:service=200000,tags=128,queues=1,link=1000000000,tick=0,wake=0",
        3,
        "1GB/s,1GB/s,100000",
        "group max=25MB/s class=realtime; group iops=495; client group=1 size=4KiB depth=4; \
         client group=2 at=sequential size=128KiB",
    )
}

#[test]
#[ignore = "clients get 0.71 of what none gives, each by what it gets alone"]
fn a_realtime_client_leaves_the_drive_as_busy() {
    beside_realtime().wastes_nothing();
}

#[test]
fn a_realtime_client_starves_nobody() {
    let tried = beside_realtime();
    tried.keeps();
    assert!(tried.least(0) >= 24_750_000, "{}", tried.least(0));
}

#[test]
fn a_realtime_client_gets_its_max_at_nearly_the_latency_that_it_has_alone() {
    let tried = tried(
        "demo",
        3,
        "250MB/s,250MB/s,0",
        "group max=60MB/s class=realtime; group; group; client group=1 size=4KiB depth=4; \
         client group=2 at=sequential size=128KiB depth=4; client group=3 size=64KiB depth=4",
    );
    assert!(tried.least(0) >= 58_800_000, "{}", tried.least(0));
    let [ratio] = tried.outcome.latency[..] else {
        panic!("one realtime client");
    };
    assert!(ratio <= 2.0, "{ratio:.2}");
    let (all, none) = (
        tried.all_in(&tried.trial.contract),
        tried.all_in(&tried.trial.none),
    );
    assert!(all * 100 >= none * 95, "{all} of {none}");
}

/// A client that reads a page every millisecond or two, far less than its share; BFQ idles for it, at the cost of a quarter of the
/// total.
#[test]
fn the_idle_class_takes_nobodys_turn() {
    let tried = tried(
        "demo",
        4,
        "250MB/s,250MB/s,0",
        "group share=1000; group share=1000; group share=1 class=idle; group; \
         client group=1 at=sequential size=128KiB depth=16; client group=2 at=sequential size=128KiB depth=16; \
         client group=3 at=sequential size=128KiB depth=4; client group=4 size=4KiB think=1ms",
    );
    let bfq = tried.rate_in(&tried.trial.bfq, 3);
    assert!(tried.least(3) * 4 >= bfq, "{} beside {bfq}", tried.least(3));
    let wait = tried.outcome.idle_wait.expect("there is one of that class");
    assert!(wait <= IDLE_MS, "{wait} ms");
    tried.wastes_nothing();
}

#[test]
fn a_promise_is_kept_on_a_drive_that_runs_dry_all_the_time() {
    let tried = tried(
        "null:service=0,tags=32,queues=1,link=1000000000,tick=0,wake=0",
        3,
        "1GB/s,1GB/s,0",
        "group min=200MB/s; group; client group=1 writes=100 size=4KiB depth=2 fdatasync=1; client group=2 writes=100 size=64KiB",
    );
    tried.keeps();
    tried.gets(0, 200_000_000);
    tried.wastes_nothing();
}

/// Flash of 2012 without a write buffer.
const SLOW_FLASH: &str = "ssd:size=16000000000,tags=32,queues=1,link=515000000,duplex=0,overhead=51600,command=22800,channels=8,dies=4,\
     channel=166000000,page=8192,read=71100,program=1300000,erase=3000000,suspend=100000,block=256,read_ahead=262144,window=500000,\
     favour=12400000,write_buffer=0,flush=2620000,protected=0,spare=70,filled=50";

#[test]
#[ignore = "the promises are kept, and clients get 0.87 of what none gives, not 0.9"]
fn reads_and_writes_on_flash_that_programs_slowly_keep_their_promises() {
    let tried = tried(
        SLOW_FLASH,
        3,
        "100MB/s,100MB/s,0",
        "group min=5500kB/s; group min=10400kB/s; group; client group=1 size=4KiB; \
         client group=2 writes=100 size=128KiB depth=32; client group=3 size=64KiB",
    );
    tried.keeps();
    tried.wastes_nothing();
}

const HITACHI: (&str, &str) = ("hitachi-hts72755", "115MB/s,115MB/s,100");

#[test]
fn two_streams_on_a_disk_take_turns() {
    let tried = tried(
        HITACHI.0,
        4,
        HITACHI.1,
        "group min=20MB/s; group; client group=1 at=sequential size=64KiB; client group=2 at=sequential size=64KiB",
    );
    tried.keeps();
    let alone = tried.trial.alone[0].expect("it was played") as u64;
    let all = tried.all_in(&tried.trial.contract);
    assert!(all * 10 >= alone * 8, "{all} of {alone}");
    assert!(tried.least(1) * 8 >= alone, "{} of {alone}", tried.least(1));
}

fn stream_beside_random_reads() -> Tried {
    tried(
        "seagate-st3808110as",
        4,
        "70MB/s,70MB/s,0",
        "group min=12MB/s; group; client group=1 at=sequential size=64KiB; client group=2 size=4KiB depth=8",
    )
}

#[test]
fn a_stream_keeps_its_promise_beside_random_reads_on_a_disk() {
    let tried = stream_beside_random_reads();
    tried.keeps();
    assert!(tried.least(1) > 0);
}

#[test]
#[ignore = "clients get 0.68 of what none gives, each by what it gets alone"]
fn a_stream_beside_random_reads_leaves_the_disk_as_busy() {
    stream_beside_random_reads().wastes_nothing();
}

#[test]
fn eight_streams_on_a_disk_all_get_on() {
    let groups = ["group"; 8].join("; ");
    let client = |n: u32| format!("client group={n} at=sequential size=64KiB depth=4");
    let clients: Vec<String> = (1..=8).map(client).collect();
    let tried = tried(
        HITACHI.0,
        4,
        HITACHI.1,
        &format!("{groups}; {}", clients.join("; ")),
    );
    let (all, bfq) = (
        tried.all_in(&tried.trial.contract),
        tried.all_in(&tried.trial.bfq),
    );
    assert!(all >= bfq, "{all} beside {bfq}");
    let rates: Vec<u64> = (0..8).map(|c| tried.rate(c)).collect();
    let least = rates.iter().min().expect("eight");
    assert!(least * 16 >= all, "{rates:?}");
}

/// A random reader beside fifteen readers of files, as in the comparison of BFQ and io.latency.
fn beside_fifteen_files(min: &str) -> Tried {
    let groups = ["group"; 15].join("; ");
    let client = |n: u32| format!("client group={n} at=sequential size=4KiB buffered");
    let clients: Vec<String> = (2..=16).map(client).collect();
    let parts = format!(
        "group min={min}; {groups}; client group=1 size=4KiB; {}",
        clients.join("; ")
    );
    tried(HITACHI.0, 4, HITACHI.1, &parts)
}

#[test]
fn what_a_promise_of_random_reads_leaves_of_a_disk_grows_as_it_shrinks() {
    let [more, less] = ["400kB/s", "200kB/s"].map(beside_fifteen_files);
    more.keeps();
    less.keeps();
    let others = |t: &Tried| t.all_in(&t.trial.contract) - t.rate(0);
    assert!(
        others(&less) * 2 >= others(&more) * 3,
        "{} {}",
        others(&less),
        others(&more)
    );
    assert!((1..16).all(|c| less.rate(c) > 0));
}

#[test]
fn writes_in_a_disks_cache_do_not_break_a_promise_of_reads() {
    let tried = tried(
        HITACHI.0,
        4,
        HITACHI.1,
        "group iops=20; group; client group=1 size=4KiB; client group=2 writes=100 size=128KiB depth=4",
    );
    tried.keeps();
    tried.wastes_nothing();
}

#[test]
fn durable_writes_keep_their_promise_beside_writes_into_the_buffer() {
    let tried = tried(
        "plextor-px-256m5s",
        3,
        "400MB/s,200MB/s,1000",
        "group iops=159; group; client group=1 writes=100 size=4KiB fua; client group=2 at=sequential writes=100 size=128KiB depth=4",
    );
    tried.keeps();
    tried.wastes_nothing();
}

#[test]
fn promises_that_are_exceeded_cost_nothing() {
    let deep = tried(
        "samsung-970-pro",
        2,
        "3500MB/s,2GB/s,0",
        "group min=700MB/s; group min=490MB/s; client group=1 size=8KiB depth=16; client group=2 size=128KiB depth=2",
    );
    let thinks = tried(
        "plextor-px-256m5s",
        3,
        "400MB/s,200MB/s,0",
        "group min=11500kB/s; group; client group=1 size=64KiB think=1ms; client group=2 at=sequential size=128KiB depth=16",
    );
    for tried in [deep, thinks] {
        tried.keeps();
        tried.wastes_nothing();
        let (all, none) = (
            tried.all_in(&tried.trial.contract),
            tried.all_in(&tried.trial.none),
        );
        assert!(all * 10 >= none * 9, "{all} of {none}");
    }
}

/// The promise leaves 150 MB/s; the tenant's share is an eleventh of these, all of it due to the member without a promise.
#[test]
fn a_member_has_what_the_tenants_share_leaves_it_beside_a_promised_one() {
    let tried = tried(
        "demo",
        3,
        "250MB/s,250MB/s,0",
        "group share=100; group parent=1 min=100MB/s; group parent=1; group share=1000; \
         client group=2 at=sequential size=64KiB depth=16; client group=3 at=sequential size=64KiB depth=16; \
         client group=4 at=sequential size=64KiB depth=16",
    );
    tried.keeps();
    tried.wastes_nothing();
    let due = 150_000_000 / 11;
    assert!(tried.least(1) * 2 >= due, "{} of {due}", tried.least(1));
}

#[test]
fn an_idle_member_waits_no_longer_than_any_of_the_idle_class() {
    let clients = "client group=2 at=sequential size=64KiB depth=16; client group=3 at=sequential size=64KiB depth=4; \
                   client group=4 at=sequential size=64KiB depth=16";
    for groups in [
        "group; group parent=1; group parent=1 class=idle; group min=100MB/s",
        "group min=100MB/s; group parent=1; group parent=1 class=idle; group share=1000",
    ] {
        let tried = tried(
            "demo",
            3,
            "250MB/s,250MB/s,0",
            &format!("{groups}; {clients}"),
        );
        tried.keeps();
        let wait = tried.outcome.idle_wait.expect("there is one of that class");
        assert!(wait <= IDLE_MS, "{wait} ms\n{}", tried.case);
    }
}

#[test]
fn who_syncs_does_not_pay_for_what_others_wrote() {
    let tried = tried(
        HITACHI.0,
        6,
        HITACHI.1,
        "group; group; group; client group=1 writes=100 size=4KiB fdatasync=8; \
         client group=2 writes=100 size=64KiB depth=4; client group=3 writes=100 size=64KiB depth=4",
    );
    let none = tried.rate_in(&tried.trial.none, 0);
    assert!(
        tried.rate(0) * 10 >= none * 9,
        "{} beside {none}",
        tried.rate(0)
    );
    tried.wastes_nothing();
}

#[test]
#[ignore = "7.2 MB/s, 115 under bfq: nobody is held for a client with one request at a time where going elsewhere costs nothing"]
fn a_shallow_client_of_a_large_share_gets_it_beside_a_deep_one() {
    let tried = tried(
        "demo",
        3,
        "250MB/s,250MB/s,0",
        "group share=400; group share=100; client group=1 at=sequential size=8KiB; client group=2 at=sequential size=1MiB depth=64",
    );
    let bfq = |client| tried.rate_in(&tried.trial.bfq, client);
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

/// First in five, seven and twenty seconds: the second after a freeze is judged like any other.
#[test]
fn promises_are_kept_again_in_the_first_second_after_a_freeze() {
    let flash = "group min=10MB/s; group; client group=1 size=4KiB depth=4; client group=2 at=sequential size=128KiB depth=16";
    let disk = "group min=20MB/s; group; client group=1 at=sequential size=64KiB; client group=2 at=sequential size=64KiB";
    for (drive, capacity, parts) in [
        ("plextor-px-256m5s", "400MB/s,200MB/s,0", flash),
        (HITACHI.0, HITACHI.1, disk),
    ] {
        for (freeze, seconds, after) in
            [("1s,1s,5s", 8, 2), ("1s,3s,7s", 6, 4), ("1s,8s,20s", 11, 9)]
        {
            let capacity = format!("{capacity} freeze={freeze}");
            let tried = tried(drive, seconds, &capacity, parts);
            tried.keeps();
            assert!(tried.trial.judged.iter().any(|j| j.second == after));
        }
    }
}

#[test]
fn a_drive_that_is_only_slow_to_answer_has_no_turns() {
    let clients = (1..=3)
        .map(|g| format!("client group={g} at=random writes=30 size=8KiB depth=1 space=1GiB"));
    let tried = tried(
        "null:service=1195000,tags=61,queues=2,link=0,tick=0,wake=1183000",
        5,
        "206252KiB/s,206252KiB/s,51563",
        &format!(
            "group share=98; group min=2069749B/s share=159; group share=909; {}",
            clients.collect::<Vec<_>>().join("; ")
        ),
    );
    tried.keeps();
    tried.wastes_nothing();
}

#[test]
fn pieces_are_not_cut_where_that_makes_the_drive_do_less() {
    // A request takes 6.6 ms whatever its length, with 62 in parallel.
    let tried = tried(
        "null:service=6608000,tags=62,queues=1,link=0,tick=0,wake=0",
        5,
        "111906361B/s,111906361B/s,0",
        "group; group; group min=50357862B/s; \
         client group=1 at=random size=1MiB depth=4 think=128us space=4GiB; \
         client group=2 at=random size=1MiB depth=4 think=128us space=4GiB; \
         client group=3 at=sequential writes=50 size=256KiB depth=3 poisson=3.61ms space=4GiB",
    );
    tried.keeps();
    // Split into 32 KiB it was a third.
    let total = tried.outcome.total.expect("somebody got something");
    assert!(total >= 0.8, "{total:.3} of none");
}

#[test]
fn a_promised_write_is_not_cut_into_two_that_take_as_long_each() {
    // Flash without a write buffer.
    let tried = tried(
        "ssd:size=64424509440,tags=31,queues=1,link=600000000,duplex=0,overhead=27000,command=7000,channels=5,dies=4,\
         channel=412000000,page=16384,read=31000,program=552000,erase=4687000,suspend=161000,block=361,read_ahead=65536,\
         window=441000,favour=524288,write_buffer=0,flush=1375000,protected=0,spare=278,filled=100",
        5,
        "205825856B/s,205825856B/s,0",
        "group min=80023388B/s; group max=12598247B/s burst=10ms class=realtime; group class=idle; \
         client group=1 at=zipf writes=100 size=64KiB depth=1 space=3.75GiB; \
         client group=2 at=sequential size=64KiB depth=4 poisson=8231002ns space=3.75GiB; \
         client group=3 at=random size=32KiB depth=3 space=3.75GiB",
    );
    tried.keeps();
}

/// Its first request takes the head there, far longer than its min gives it; the others go on where that one ended.
#[test]
fn a_stream_of_small_requests_is_waited_for_before_anything_is_known_of_the_disk() {
    let tried = tried(
        "seagate-st3808110as",
        2,
        "10MB/s,10MB/s,9098",
        "group; group iops=4094; client group=1 at=random writes=50 size=256KiB space=1GiB; \
         client group=2 at=sequential size=4KiB space=1GiB",
    );
    tried.keeps();
}

/// Its flushes wait for what the other has put into the drive's buffer: 3 % of the min when nothing bounds that.
#[test]
fn others_writes_leave_a_promised_client_short_flushes() {
    let tried = tried(
        "ssd:size=6442450944,tags=256,queues=4,link=375000000,duplex=1,overhead=47000,command=26000,channels=1,dies=2,\
         channel=282000000,page=32768,read=130000,program=401000,erase=1152000,suspend=131000,block=192,read_ahead=524288,\
         window=135000,favour=131072,write_buffer=8388608,flush=0,protected=0,spare=194,filled=100",
        2,
        "130484796B/s,130484796B/s,0",
        "group; group min=20MB/s; client group=1 at=random writes=100 size=32KiB space=323MiB; \
         client group=2 at=random writes=100 size=16KiB fdatasync=6 space=323MiB",
    );
    tried.keeps();
    tried.gets(1, 20_000_000);
}

/// Both were behind by as much, so that each piece of one was followed by one of the other: 0.77 of the min, and a sixth of the total.
#[test]
fn two_promised_streams_on_a_disk_take_turns_while_both_are_behind() {
    let tried = tried(
        "hdd:outer.bytes=490700013568,outer.rate=198000000,middle.bytes=490700013568,middle.rate=158400000,\
         inner.bytes=490700013568,inner.rate=108900000,rpm=15000,seek.track=614000,seek.average=11344000,seek.full=22688000,\
         settle=81000,tags=1,ageing=3542000000,overhead=212000,link=300000000,segments=7,segment=1048576,\
         write_cache=16777216,flush=12212000",
        3,
        "133841114B/s,133841114B/s,0",
        "group min=20MB/s; group min=20MB/s; client group=1 at=sequential size=128KiB depth=64 space=1GiB; \
         client group=2 at=sequential size=128KiB depth=64 space=1GiB",
    );
    tried.keeps();
}

/// Most requests go on where the one before ended, and the few that do not are dear: taken together they cost so little that there are no
/// turns, and without turns it is never seen which of them are dear.
#[test]
#[ignore = "0.16 of the min in the worst second; telling near from far in the beginning keeps it, and makes slow drives turn that do not"]
fn that_going_elsewhere_is_dear_is_learned_where_few_go_elsewhere() {
    let tried = tried(
        "hdd:outer.bytes=96636764160,outer.rate=150000000,middle.bytes=96636764160,middle.rate=120000000,\
         inner.bytes=96636764160,inner.rate=82500000,rpm=5400,seek.track=1346000,seek.average=11694000,seek.full=23388000,\
         settle=461000,tags=4,ageing=25000000,overhead=82000,link=300000000,segments=13,segment=131072,\
         write_cache=1048576,flush=28642000",
        3,
        "127672883B/s,127672883B/s,0",
        "group min=2198863B/s; group min=55253934B/s; group class=idle; \
         client group=1 at=zipf size=256KiB depth=6 poisson=111111us space=1GiB; \
         client group=2 at=sequential size=4KiB depth=17 space=1GiB; \
         client group=3 at=sequential writes=50 size=128KiB depth=20 think=86us fdatasync=6 fua space=1GiB",
    );
    tried.keeps();
}
