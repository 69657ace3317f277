//! A disk in memory that loses data when its power is cut.
//!
//! Written data is in the disk's cache until a flush or FUA makes it durable. Reads see the cache.
//! [`Power::cut`] loses any part of the cache, either whole writes or single sectors of them. Each
//! sector keeps any of the contents that it had since it was last durable, which covers every order
//! in which a disk can write its cache back. A sector never returns to a content from before that.
//!
//! The disk does no more than it must: a flush takes time, and makes durable exactly those writes
//! that had *completed* before it was submitted.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_config::Volume;
use weir_core::random::Rng;
use weir_core::{Flags, Instant, Op, Span, Tag};
use weir_serve::backend::{Backend, BackendJob, Context, Data, Prepare, Traits};
use weir_uring::RingCompletion;

use super::ledger::SECTOR;

/// The longest time of an operation, in nanoseconds.
const LONGEST: u64 = 200_000;
/// The error number EIO of Linux.
const EIO: u16 = 5;

/// The disks of this process by the name of their volume. They outlive the servers.
static DISKS: Mutex<BTreeMap<String, Power>> = Mutex::new(BTreeMap::new());

/// The power switch of a disk. Clones belong to the same disk.
#[derive(Clone, Debug)]
pub(crate) struct Power(Arc<Mutex<DiskState>>);

impl Power {
    /// Creates a disk of zeroes for the volume `name`. `seed` determines the losses of its cuts and
    /// the times of its operations.
    pub(crate) fn new(name: &str, size: usize, seed: u64) -> Self {
        let power = Self(Arc::new(Mutex::new(DiskState {
            on: false,
            random: Rng::new(seed),
            medium: vec![0; size],
            versions: vec![0; size / SECTOR],
            cache: vec![0; size],
            unflushed: BTreeMap::new(),
            written: 0,
        })));
        let mut disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
        disks.insert(name.into(), power.clone());
        power
    }

    /// Cuts the power, which loses any part of the data that is not durable. Operations fail with
    /// EIO until the volume is opened again. Returns true if data was lost.
    pub(crate) fn cut(&self) -> bool {
        self.state().cut()
    }

    /// Returns the contents that a client would read. After a cut, this is the remaining data.
    pub(crate) fn contents(&self) -> Vec<u8> {
        self.state().cache.clone()
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns on the disk of a volume, with the data that remains on it.
pub(crate) fn open(volume: &Volume) -> io::Result<Box<dyn Prepare>> {
    let disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    let power = disks.get(&volume.name).cloned();
    let power = power.ok_or(io::ErrorKind::NotFound)?;
    power.state().on = true;
    Ok(Box::new(power))
}

impl Prepare for Power {
    fn size(&self) -> u64 {
        self.state().cache.len() as u64
    }

    fn traits(&self) -> Traits {
        Traits {
            guest: false,
            align: 1,
            preferred: 4096,
            read_only: false,
            trim: false,
            fast_zero: false,
            allocation: false,
        }
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>> {
        Ok(Box::new(PowerLossDisk {
            power: *self,
            running: BTreeMap::new(),
            started: 0,
            waiting: Arc::default(),
        }))
    }
}

#[derive(Debug)]
struct DiskState {
    on: bool,
    random: Rng,
    /// The data that survives a cut, and for each sector the number of the write that it comes
    /// from.
    medium: Vec<u8>,
    versions: Vec<u64>,
    /// The data that reads return.
    cache: Vec<u8>,
    /// The writes that are not durable, by their number.
    unflushed: BTreeMap<u64, CachedWrite>,
    written: u64,
}

/// Whole sectors with the content that a write left in the cache.
#[derive(Debug)]
struct CachedWrite {
    first: usize,
    bytes: Vec<u8>,
    completed: bool,
}

impl DiskState {
    /// Adds a write to the cache and returns its number.
    fn write(&mut self, job: &BackendJob) -> u64 {
        let first = job.offset as usize;
        let here = &mut self.cache[first..first + job.length as usize];
        job.data
            .each_source(|at, bytes| here[at..at + bytes.len()].copy_from_slice(bytes));
        let write = CachedWrite {
            first: first / SECTOR,
            bytes: here.to_vec(),
            completed: false,
        };
        self.written += 1;
        self.unflushed.insert(self.written, write);
        self.written
    }

    /// Returns the completed writes, which a flush that is submitted now covers.
    fn covered(&self) -> Vec<u64> {
        let writes = self.unflushed.iter();
        writes
            .filter(|(_, write)| write.completed)
            .map(|(number, _)| *number)
            .collect()
    }

    /// Copies sectors of a write to the medium if `keep` returns true for them and the medium has
    /// no later version.
    fn harden(&mut self, number: u64, write: &CachedWrite, mut keep: impl FnMut() -> bool) {
        let sectors = (write.first..).zip(write.bytes.chunks_exact(SECTOR));
        for (sector, bytes) in sectors {
            let version = &mut self.versions[sector];
            if *version < number && keep() {
                *version = number;
                self.medium[sector * SECTOR..][..SECTOR].copy_from_slice(bytes);
            }
        }
    }

    /// Makes a write durable.
    fn sync(&mut self, number: u64) {
        if let Some(write) = self.unflushed.remove(&number) {
            self.harden(number, &write, || true);
        }
    }

    fn cut(&mut self) -> bool {
        self.on = false;
        // The draw ranges from a cut that loses all writes to one that loses none.
        let kept = self.random.range(0, 4);
        let mut random = Rng::new(self.random.next_u64());
        let mut chance = |of: u64| random.range(0, of - 1);
        // A third of the writes are torn, so that each of their sectors is kept or lost
        // independently.
        for (number, write) in std::mem::take(&mut self.unflushed) {
            let torn = chance(3) == 0;
            let keep = chance(4) < kept;
            self.harden(number, &write, || if torn { chance(2) == 0 } else { keep });
        }
        let lost = self.cache != self.medium;
        self.cache.clone_from(&self.medium);
        lost
    }
}

/// The backend of a disk.
#[derive(Debug)]
struct PowerLossDisk {
    power: Power,
    /// The operations in progress, by their end.
    running: BTreeMap<(Instant, u64), RunningOperation>,
    started: u64,
    /// True while a thread sleeps until the next end and then wakes the shard.
    waiting: Arc<AtomicBool>,
}

#[derive(Debug)]
struct RunningOperation {
    /// The tag of the operation.
    tag: Tag,
    data: Data,
    effect: Effect,
}

/// The effect of an operation at its end.
#[derive(Debug)]
enum Effect {
    None,
    /// A write completes, and becomes durable with FUA.
    Complete {
        number: u64,
        durable: bool,
    },
    /// These writes become durable. They are selected when the flush is submitted, because it
    /// covers only writes that completed before.
    Sync(Vec<u64>),
}

impl PowerLossDisk {
    /// Returns the state of the disk if its power is on.
    fn on(&self) -> Result<MutexGuard<'_, DiskState>, u16> {
        let state = self.power.state();
        if state.on { Ok(state) } else { Err(EIO) }
    }

    /// Performs the immediate part of a job. Returns its effect at its end, and the time of that.
    fn begin(&self, job: &mut BackendJob, now: Instant) -> Result<(Effect, Instant), u16> {
        let mut state = self.on()?;
        let effect = match job.op {
            Op::Read => {
                let here = &state.cache[job.offset as usize..];
                job.data
                    .each_target(|at, bytes| bytes.copy_from_slice(&here[at..at + bytes.len()]));
                Effect::None
            }
            Op::Flush => Effect::Sync(state.covered()),
            Op::Write => Effect::Complete {
                number: state.write(job),
                durable: job.flags.has(Flags::FUA),
            },
            other => panic!("{other:?}: clients were not told of it"),
        };
        let takes = Span::from_nanos(state.random.range(0, LONGEST));
        Ok((effect, now + takes))
    }

    /// Starts a thread that wakes the shard when the next operation ends. If an operation that ends
    /// earlier begins in the meantime, it completes somewhat late.
    fn wait(&self, cx: &Context<'_>) {
        let Some(((end, _), _)) = self.running.first_key_value() else {
            return;
        };
        if !self.waiting.swap(true, Ordering::SeqCst) {
            let left = Duration::from_nanos(end.since(cx.now).as_nanos());
            let (waiting, caller) = (Arc::clone(&self.waiting), cx.caller());
            std::thread::spawn(move || {
                std::thread::sleep(left);
                waiting.store(false, Ordering::SeqCst);
                caller.call();
            });
        }
    }

    /// Ends an operation.
    fn end(&self, effect: Effect) -> Result<(), u16> {
        // If the power was cut in the meantime, the operation fails and has no effect.
        let mut state = self.on()?;
        match effect {
            Effect::None => {}
            Effect::Complete {
                number,
                durable: true,
            } => state.sync(number),
            Effect::Complete { number, .. } => {
                if let Some(write) = state.unflushed.get_mut(&number) {
                    write.completed = true;
                }
            }
            Effect::Sync(numbers) => numbers.into_iter().for_each(|number| state.sync(number)),
        }
        Ok(())
    }
}

impl Backend for PowerLossDisk {
    fn size(&self, _wanted: Option<u64>) -> io::Result<u64> {
        Ok(self.power.size())
    }

    fn submit(&mut self, mut job: BackendJob, cx: &mut Context<'_>) {
        let (effect, end) = match self.begin(&mut job, cx.now) {
            Ok(begun) => begun,
            Err(errno) => return cx.finish(job.tag, Err(errno), job.data),
        };
        let running = RunningOperation {
            tag: job.tag,
            data: job.data,
            effect,
        };
        self.started += 1;
        self.running.insert((end, self.started), running);
        self.wait(cx);
    }

    fn completed(&mut self, _op: u32, _completion: RingCompletion, _cx: &mut Context<'_>) {}

    fn woken(&mut self, cx: &mut Context<'_>) {
        while let Some(entry) = self.running.first_entry()
            && entry.key().0 <= cx.now
        {
            let running = entry.remove();
            let result = self.end(running.effect);
            cx.finish(running.tag, result, running.data);
        }
        self.wait(cx);
    }
}
