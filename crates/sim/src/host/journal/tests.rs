//! Tests of the order of commits: step by step, and with random events against a second
//! implementation of the rules.

use super::*;
use weir_core::random::Rng;
use weir_model::load::Region;

/// The beginning of the region, in pages.
const START: u64 = 10_000;

/// A file system without a layer: the test sends the commands of processes, and completes those of
/// the file system.
struct LoneJournal {
    journal: FilesystemJournal,
    now: Instant,
}

impl LoneJournal {
    fn new(kind: FilesystemKind) -> Self {
        let region = Region::new(START * PAGE, kind.room());
        Self {
            journal: FilesystemJournal::new(Filesystem { kind, region }),
            now: Instant::ZERO,
        }
    }

    /// Sends a write of `pages` pages from `page` on, and returns the page to which it goes.
    fn write(&mut self, client: u32, number: u64, page: u64, pages: u64) -> u64 {
        let mut command = command(Op::Write, number, page, pages);
        assert!(!self.journal.intercept(self.now, client, &mut command));
        command.offset / PAGE
    }

    /// Sends the sync of a process. Returns true if it waits for a commit.
    fn sync(&mut self, client: u32, number: u64) -> bool {
        let mut command = command(Op::Flush, number, 0, 0);
        self.journal.intercept(self.now, client, &mut command)
    }

    /// Runs the file system and returns its commands, in pages of its region.
    fn run(&mut self) -> String {
        let mut commands = Vec::new();
        self.journal.run(self.now, &mut commands);
        let line = commands.iter().map(|c| {
            let pages = u64::from(c.length) / PAGE;
            match (c.op, c.flags.has(Flags::FUA)) {
                (Op::Flush, _) => "flush".to_owned(),
                (_, fua) => {
                    let fua = if fua { " fua" } else { "" };
                    format!("write{fua} {}+{pages}", c.offset / PAGE - START)
                }
            }
        });
        line.collect::<Vec<_>>().join(", ")
    }

    /// Completes the file system's command. Returns the flushes that are answered, and its next
    /// commands.
    fn answer(&mut self) -> (Vec<(u32, u64)>, String) {
        (self.journal.on_answer(true), self.run())
    }
}

fn command(op: Op, number: u64, page: u64, pages: u64) -> ProcessCommand {
    ProcessCommand {
        number,
        op,
        flags: Flags::SYNC,
        offset: page * PAGE,
        length: (pages * PAGE) as u32,
    }
}

#[test]
fn a_commit_of_ext4_with_two_files_waits_for_the_data_of_both() {
    let mut ext4 = LoneJournal::new(FilesystemKind::Ext4);
    assert_eq!([ext4.write(0, 0, 0, 4), ext4.write(1, 0, 100, 1)], [0, 100]);
    assert_eq!(ext4.run(), "");
    assert!(!ext4.journal.on_data_written(1, 0), "nothing commits");
    assert!(ext4.sync(1, 1));
    assert_eq!(ext4.run(), "", "the other's data are on their way");
    // Blocks that are allocated from now on belong to the next transaction.
    ext4.write(2, 0, 200, 1);
    assert!(ext4.journal.on_data_written(0, 0));
    // Four blocks: a descriptor, a bitmap, the descriptor of its group, and one block of inodes for
    // both files.
    assert_eq!(ext4.run(), "write 1+4");
    assert!(ext4.sync(0, 1), "it joins the commit");
    let none = Vec::new();
    assert_eq!(ext4.answer(), (none.clone(), "flush".to_owned()));
    assert_eq!(ext4.answer(), (none, "write fua 5+1".to_owned()));
    assert_eq!(ext4.answer(), (vec![(1, 1), (0, 1)], String::new()));
    ext4.write(0, 2, 0, 4);
    assert!(!ext4.sync(0, 3), "its blocks are there");
    // No process syncs, so the transaction commits when it is 5 s old.
    ext4.journal.on_data_written(2, 0);
    ext4.now += PERIOD;
    assert_eq!(ext4.run(), "write 6+4");
}

#[test]
fn a_btrfs_log_waits_only_for_its_own_data_and_the_next_log_serves_all_waiting() {
    let mut btrfs = LoneJournal::new(FilesystemKind::Btrfs);
    let data = START + LOG / PAGE;
    let places =
        [(0, 0, 0, 4), (1, 0, 100, 1), (2, 0, 0, 1)].map(|w| btrfs.write(w.0, w.1, w.2, w.3));
    assert_eq!(places, [data, data + 4, data + 5]);
    assert!(btrfs.sync(1, 1));
    // Eight blocks: two nodes of four pages, a leaf and the root of logs.
    assert_eq!(btrfs.run(), "write 1+8");
    assert!(btrfs.sync(0, 1) && btrfs.sync(2, 1));
    let none = Vec::new();
    assert_eq!(btrfs.answer(), (none.clone(), "flush".to_owned()));
    assert_eq!(btrfs.answer(), (none, "write fua 0+1".to_owned()));
    assert_eq!(btrfs.answer(), (vec![(1, 1)], "write 9+8".to_owned()));
    assert_eq!(
        btrfs.journal.on_answer(false),
        [(0, 1), (2, 1)],
        "it failed"
    );
    assert_eq!(btrfs.run(), "");
}

/// The rules that hold for any order of events, checked with state of its own.
struct Shadow {
    alone: LoneJournal,
    /// The writes in flight, by client and number.
    writes: BTreeSet<(u32, u64)>,
    /// The writes that were in flight when each client wrote last.
    beside: BTreeMap<u32, BTreeSet<(u32, u64)>>,
    /// The flushes that wait for a commit, with the writes that must have completed before each is
    /// answered.
    kept: BTreeMap<(u32, u64), BTreeSet<(u32, u64)>>,
    /// True while the file system's command is in flight.
    busy: bool,
}

impl Shadow {
    fn run(&mut self) {
        let line = self.alone.run();
        assert!(!self.busy || line.is_empty(), "one command at a time");
        self.busy |= !line.is_empty();
    }

    fn answer(&mut self) {
        if !std::mem::take(&mut self.busy) {
            return;
        }
        for over in self.alone.journal.on_answer(true) {
            let before = self.kept.remove(&over).expect("it was kept, and once");
            assert!(before.is_disjoint(&self.writes), "data are not there");
        }
    }

    fn complete(&mut self) {
        if let Some((client, number)) = self.writes.pop_first() {
            self.alone.journal.on_data_written(client, number);
        }
    }

    fn leave(&mut self, client: u32) {
        self.alone.journal.on_client_left(client);
        self.writes.retain(|w| w.0 != client);
        self.kept.retain(|k, _| k.0 != client);
        self.beside.remove(&client);
    }
}

#[test]
fn every_flush_is_answered_once_and_after_the_data_that_it_stands_for() {
    for (seed, kind) in
        (0..200).flat_map(|s| [(s, FilesystemKind::Ext4), (s, FilesystemKind::Btrfs)])
    {
        let mut rng = Rng::new(seed);
        let mut shadow = Shadow {
            alone: LoneJournal::new(kind),
            writes: BTreeSet::new(),
            beside: BTreeMap::new(),
            kept: BTreeMap::new(),
            busy: false,
        };
        for number in 0..300 {
            let client = rng.range(0, 3) as u32;
            match rng.range(0, 9) {
                // Each write goes to new blocks, so that each belongs to a transaction.
                0..3 if !shadow.kept.keys().any(|k| k.0 == client) => {
                    shadow
                        .alone
                        .write(client, number, number * 8, rng.range(1, 8));
                    shadow.writes.insert((client, number));
                    let all = shadow.writes.iter().copied();
                    // ext4 waits for the data of all files in the transaction (`data=ordered`),
                    // btrfs only for those of the client's own file.
                    let counts = |w: &(u32, u64)| kind == FilesystemKind::Ext4 || w.0 == client;
                    shadow.beside.insert(client, all.filter(counts).collect());
                }
                3..5 if !shadow.writes.iter().any(|w| w.0 == client) => {
                    let beside = shadow.beside.remove(&client);
                    if shadow.alone.sync(client, number) {
                        shadow
                            .kept
                            .insert((client, number), beside.expect("it wrote"));
                    }
                }
                5 if number % 16 == 0 => shadow.leave(client),
                6 | 7 => shadow.complete(),
                _ => shadow.answer(),
            }
            shadow.alone.now += Span::from_millis(rng.range(0, 200));
            shadow.run();
        }
        // All remaining writes and commits complete, so no flush may be left.
        for _ in 0..1000 {
            shadow.complete();
            shadow.answer();
            shadow.run();
        }
        assert!(shadow.kept.is_empty(), "{kind:?}, seed {seed}");
    }
}
