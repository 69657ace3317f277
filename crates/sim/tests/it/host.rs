//! Processes with a page cache, on drives with and without positions.

use std::collections::{BTreeMap, BTreeSet};
use weir_core::record::{Call, Recorder};
use weir_core::{Contract, Cookie, Instant, Layer, Op, Output, Span, StreamId};
use weir_model::drive::{DriveConfig, null, ssd};
use weir_model::load::{Program, SyncMode};
use weir_sim::scenario::{COMPARED, Interferers, TargetReads, compared, latency};
use weir_sim::{Buffered, Observer, Policy, Results, Scenario, SimRun};
use weir_verify::audit::Auditors;

const MIB: u64 = 1 << 20;
const FILE: u64 = 64 * MIB;

fn drives() -> [DriveConfig; 4] {
    let nvme = ssd::SsdConfig {
        queues: 8,
        tags: 64,
        duplex: true,
        link: 3_500_000_000,
        ..ssd::SsdConfig::generic()
    };
    [
        DriveConfig::Null(null::NullConfig::demo()),
        DriveConfig::Ssd(nvme),
        DriveConfig::Ssd(ssd::SsdConfig::generic()),
        DriveConfig::Hdd(weir_model::drive::hdd::HddConfig::generic()),
    ]
}

/// All combinations of drive, interferers and control, for half a second with a target that reads
/// continuously.
fn cases() -> Vec<(Scenario, &'static str)> {
    let mut cases = Vec::new();
    for drive in drives() {
        for interferers in Interferers::ALL {
            for control in COMPARED {
                let reads = TargetReads::Continuous;
                let mut scenario = latency(&drive, interferers, control, reads, FILE);
                scenario.duration = Span::from_millis(500);
                scenario.clients[0].program.stop = Some(scenario.warm_up + scenario.duration);
                cases.push((scenario, control));
            }
        }
    }
    cases
}

fn watched<'a>(
    scenario: &'a Scenario,
    control: &str,
    observers: Vec<&'a mut dyn Observer>,
) -> Results {
    let run = SimRun::observed(scenario, &compared(control), 0, observers).unwrap();
    run.run(|_| {}).unwrap()
}

/// An observer of each stream's outstanding requests and of the pages that it has read.
#[derive(Default)]
struct ProcessWatch {
    outstanding: BTreeMap<(StreamId, Cookie), Op>,
    /// The number of writes of each stream that have completed since its last flush.
    unsafe_writes: BTreeMap<StreamId, u32>,
    read: BTreeSet<(StreamId, u64)>,
    twice: u64,
    most: usize,
    flushes: u64,
}

impl ProcessWatch {
    fn asked(&mut self, stream: StreamId, op: Op, cookie: Cookie, offset: u64, length: u32) {
        let of_stream = (self.outstanding.iter()).filter(|((s, _), _)| *s == stream);
        let writing = of_stream.filter(|(_, o)| **o != Op::Read).count();
        match op {
            Op::Read => {
                for page in 0..u64::from(length) / 4096 {
                    let new = self.read.insert((stream, offset / 4096 + page));
                    self.twice += u64::from(!new);
                }
            }
            Op::Write => {
                assert_eq!(writing, 0, "the flush before has been answered");
                let unsafe_writes = self.unsafe_writes.get(&stream).copied();
                assert_eq!(unsafe_writes.unwrap_or(0), 0, "and there was one");
            }
            _ => {
                assert_eq!(writing, 0, "the data have been written before the flush");
                self.flushes += 1;
            }
        }
        let before = self.outstanding.insert((stream, cookie), op);
        assert_eq!(before, None);
        self.most = self.most.max(self.outstanding.len());
    }

    fn answered(&mut self, stream: StreamId, cookie: Cookie) {
        let unsafe_writes = self.unsafe_writes.entry(stream).or_default();
        match self.outstanding.remove(&(stream, cookie)) {
            Some(Op::Write) => *unsafe_writes += 1,
            Some(Op::Flush) => *unsafe_writes = 0,
            Some(_) => {}
            None => panic!("answered twice"),
        }
    }
}

impl Observer for ProcessWatch {
    fn call(&mut self, _now: Instant, call: &Call<'_>, _layer: &mut Layer) {
        match call {
            Call::Submit { batch, result } => {
                assert!(result.is_ok(), "there is room for all that processes ask");
                for r in *batch {
                    self.asked(r.stream, r.op, r.cookie, r.offset, r.length);
                }
            }
            Call::Poll { outputs, .. } => {
                for output in *outputs {
                    if let Output::Done(done) = output {
                        self.answered(done.stream, done.cookie);
                    }
                }
            }
            _ => {}
        }
    }
}

#[test]
fn every_request_completes_once_and_fdatasync_writes_then_flushes() {
    for (scenario, control) in cases() {
        let what = format!("{} {} {control:?}", scenario.drive.name(), scenario.case);
        let (mut watch, mut auditors) = (ProcessWatch::default(), Auditors::new());
        let results = watched(&scenario, control, vec![&mut watch, &mut auditors]);
        let found = auditors.end(false);
        assert!(found.is_empty(), "{what}: {:?}", found.violations());
        let counters = results.counters;
        let live = watch.outstanding.len() as u64;
        assert_eq!(counters.accepted, counters.done + live, "{what}");
        assert_eq!((counters.rejected, counters.stray), (0, 0), "{what}");
        let most = scenario.sizes(&Policy::none()).requests as usize;
        assert!(watch.most <= most, "{what}: {} of {most}", watch.most);
        assert_eq!(watch.flushes > 0, scenario.case == "writers", "{what}");
        for client in &results.clients {
            assert_eq!(client.meter.failures(), 0, "{what}");
        }
    }
}

#[test]
fn a_process_is_always_in_one_call() {
    for (scenario, control) in cases() {
        let results = watched(&scenario, control, Vec::new());
        for client in &results.clients {
            // The sum of the times of a process's calls is the elapsed time: Little's law for a
            // queue depth of 1.
            let (sum, longest) = (
                client.meter.latency().sum(),
                u128::from(client.meter.latency().max()),
            );
            let whole = u128::from(client.meter.length_ns());
            // The tolerance for processes that run ahead of virtual time.
            let ahead = 2_000_000;
            // A call can begin before the measurement or end after it. Writers that starve never
            // complete one.
            let what = format!("{} {control:?} {}", scenario.drive.name(), client.name);
            assert!(sum <= whole + longest + ahead, "{what}: {sum} of {whole}");
            if client.name == "target" {
                let think = u128::from(scenario.warm_up.as_nanos());
                assert!(sum + longest + think >= whole, "{what}: {sum} of {whole}");
            }
        }
    }
}

#[test]
fn a_file_that_is_read_in_sequence_is_fetched_once_and_the_readers_fill_the_drive() {
    let drive = DriveConfig::Null(null::NullConfig::demo());
    let mut scenario = Scenario::new("once", drive, Span::from_secs(2));
    for name in ["one", "other"] {
        let mut program = Program::sequential_reads(4096, 1);
        program.requests = Some(16 * MIB / 4096);
        let client = scenario.add_client_with_group(name, Contract::DEFAULT, 16 * MIB, program);
        client.buffered = Some(Buffered::default());
    }
    let mut watch = ProcessWatch::default();
    let results = watched(&scenario, "none", vec![&mut watch]);
    assert_eq!((watch.read.len(), watch.twice), (2 * 16 * 256, 0));
    // 16 MiB in windows of 128 KiB, and the smaller windows at the beginning.
    assert_eq!(results.counters.done, 2 * (128 + 3));
    assert_eq!(results.total.requests(), 2 * 16 * 256);
    // Read-ahead keeps the link busy while the process copies.
    let time = u128::from(results.total.length_ns());
    let link = 32 * u128::from(MIB) * 1_000_000_000 / 250_000_000;
    assert!(100 * time < 101 * link, "{time} for {link}");
}

#[test]
fn the_read_outstanding_at_the_end_is_waited_for_and_counted() {
    let drive = DriveConfig::Hdd(weir_model::drive::hdd::HddConfig::generic());
    let scenario = latency(
        &drive,
        Interferers::Readers,
        "none",
        TargetReads::Continuous,
        FILE,
    );
    let results = watched(&scenario, "none", Vec::new());
    let target = &results.clients[0];
    assert_eq!(target.issued, target.meter.requests());
    let over = scenario.warm_up + scenario.duration;
    assert!(
        target.meter.end_ns() > over.as_nanos(),
        "it took longer than that"
    );
    assert_eq!(results.total.end_ns(), target.meter.end_ns());
    // It is not the last request of the run, because the interferers still wait for theirs.
    assert_eq!(results.unanswered, 15);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for (mut scenario, control) in cases() {
        scenario.duration = Span::from_millis(100);
        let bytes = [0, 0, 1].map(|repetition| {
            let config = SimRun::config(&scenario, &compared(control));
            let mut recorder = Recorder::new(&config);
            let observers: Vec<&mut dyn Observer> = vec![&mut recorder];
            let run =
                SimRun::observed(&scenario, &compared(control), repetition, observers).unwrap();
            run.run(|_| {}).unwrap();
            recorder.bytes().to_vec()
        });
        assert!(bytes[0] == bytes[1]);
        assert!(bytes[0] != bytes[2], "another repetition");
    }
}

#[test]
fn bfq_lowers_latency_on_flash_and_disk() {
    let mean = |drive: &DriveConfig, interferers, control| {
        let scenario = latency(
            drive,
            interferers,
            control,
            TargetReads::Continuous,
            512 * MIB,
        );
        let results = watched(&scenario, control, Vec::new());
        let latency = results.clients[0].meter.latency().clone();
        (latency.sum() / u128::from(latency.count())) as u64 / 1_000
    };
    let flash = DriveConfig::Ssd(ssd::SsdConfig::generic());
    // 1 MiB of each stream may overtake a read, 15 MiB together. At the link's speed, that takes 30
    // ms, in addition to the commands in the drive.
    let none = mean(&flash, Interferers::Readers, "none");
    let bfq = mean(&flash, Interferers::Readers, "bfq");
    assert!((29_000..80_000).contains(&none), "{none} us");
    assert!(none > 50 * bfq, "{none} us and {bfq} us");
    // For each waiting stream, 30 ms may pass until a read of the disk is overdue, 480 ms together.
    let disk = DriveConfig::Hdd(weir_model::drive::hdd::HddConfig::generic());
    let none = mean(&disk, Interferers::Readers, "none");
    let bfq = mean(&disk, Interferers::Readers, "bfq");
    assert!((300_000..800_000).contains(&none), "{none} us");
    assert!(none > 20 * bfq, "{none} us and {bfq} us");
}

#[test]
fn tags_follow_the_drive_and_the_elevator() {
    let drive = DriveConfig::Ssd(ssd::SsdConfig::generic());
    let tags = |control: &str| {
        let scenario = latency(
            &drive,
            Interferers::Readers,
            control,
            TargetReads::Continuous,
            FILE,
        );
        let config = SimRun::config(&scenario, &compared(control));
        config.sizes.scheduler_tags
    };
    assert_eq!((tags("none"), tags("bfq")), (32, 64));
    let adapters = drives().map(|drive| {
        let control = "none";
        let scenario = latency(
            &drive,
            Interferers::Writers,
            control,
            TargetReads::Continuous,
            FILE,
        );
        assert_eq!(scenario.bases().len(), 1, "one space, whatever the queues");
        (scenario.adapter.ata, drive.shape().queues)
    });
    // Flushes are alone in an ATA drive. In the other drive, each queue can have one.
    assert_eq!(adapters, [(true, 1), (false, 8), (true, 1), (true, 1)]);
}

#[test]
fn calls_that_write_more_than_a_command_takes_have_room_for_all_their_commands() {
    let drive = DriveConfig::Null(null::NullConfig::demo());
    let transfer = drive.shape().max_transfer;
    let mut scenario = Scenario::new("large", drive, Span::from_secs(2));
    let mut program = Program::random_reads(1 << 20, 1);
    (program.writes, program.sync) = (100, SyncMode::Fdatasync(64));
    let client = scenario.add_client_with_group("one", Contract::DEFAULT, 1 << 30, program);
    client.buffered = Some(Buffered::default());
    // The process needs 64 times as many commands as one call, and additional ones for reads and
    // the flush.
    assert!(client.outstanding(transfer) > 64 * (1 << 20) / transfer);
    let run = SimRun::new(&scenario, &Policy::none(), 0).unwrap();
    let results = run.run(|_| {}).unwrap();
    assert!(results.clients[0].meter.bytes() > 256 << 20);
}
