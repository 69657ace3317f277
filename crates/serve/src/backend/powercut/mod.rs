//! A volume in memory that can lose its power, for tests of what clients were promised.
//!
//! What was written is in the drive's cache until a flush, or FUA, makes it durable; reads see the cache. [`Power::cut`] loses any
//! part of the cache: whole writes, or single sectors of them. As every sector may or may not have reached the medium, and with
//! any of the contents it had since it was last durable, the order in which a drive writes its cache back is any order, too.
//! A sector never falls back behind what was made durable.
//!
//! The promises are kept to the letter: a flush makes durable what was *completed* before it was submitted and not a byte more,
//! and takes its time.

#[cfg(test)]
mod ledger;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_core::{Flags, Instant, Op, Span, StreamId, Tag, mutant};
use weir_random::Rng;
use weir_uring::{Completion, Ring};

use super::workers::Workers;
use super::{Allocation, Backend, Context, Data, Job, Memory, Prepare, Traits};
use crate::errno::{EIO, EPERM};

/// What is written whole or not at all, bytes.
const SECTOR: u64 = 512;
/// The longest an operation takes.
const LONGEST: Span = Span::from_micros(200);

/// The drives that there have been in this process, by name: they outlive servers.
static DRIVES: Mutex<BTreeMap<String, Power>> = Mutex::new(BTreeMap::new());

/// A volume whose power can be cut, before it belongs to a shard.
#[derive(Debug)]
pub struct PowerCut {
    power: Power,
    size: u64,
    read_only: bool,
}

impl PowerCut {
    /// Turns a drive on: the one of that name, with what is left on it, or a new one full of zeroes of `size` bytes, a multiple of
    /// 512. `seed` draws what a new drive's cuts lose and how long its operations take. The owner before gets errors
    /// from now on.
    ///
    /// # Errors
    /// The size is not a multiple of 512, or not the size of the drive of that name.
    pub fn open(name: &str, size: u64, read_only: bool, seed: u64) -> io::Result<Self> {
        whole_sectors(size)?;
        let mut drives = DRIVES.lock().unwrap_or_else(PoisonError::into_inner);
        let power = drives
            .entry(name.into())
            .or_insert_with(|| Power::new(size, seed));
        let mut state = power.state();
        if state.size != size {
            return Err(invalid(format!(
                "it had {} bytes before and cannot have {size} now",
                state.size
            )));
        }
        state.on = true;
        state.owner += 1;
        drop(state);
        Ok(Self {
            power: power.clone(),
            size,
            read_only,
        })
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn whole_sectors(size: u64) -> io::Result<()> {
    if size.is_multiple_of(SECTOR) {
        return Ok(());
    }
    Err(invalid(format!(
        "a volume for power cuts has a multiple of 512 bytes, not {size}"
    )))
}

impl Prepare for PowerCut {
    fn size(&self) -> u64 {
        self.size
    }

    fn traits(&self) -> Traits {
        Traits {
            guest: false,
            align: 1,
            preferred: 4096,
            read_only: self.read_only,
            trim: true,
            fast_zero: true,
            allocation: false,
            multi_connection: true,
        }
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>> {
        Ok(Box::new(Drive {
            alarm: Some(Workers::new()),
            ..self.drive()
        }))
    }
}

impl PowerCut {
    /// The drive, which does not look at the time by itself.
    fn drive(self) -> Drive {
        let owner = self.power.state().owner;
        Drive {
            power: self.power,
            owner,
            read_only: self.read_only,
            running: BTreeMap::new(),
            started: 0,
            alarm: None,
            waiting: false,
        }
    }
}

/// The switch of a drive, for tests; clones switch the same one.
#[derive(Clone, Debug)]
pub struct Power(Arc<Mutex<State>>);

impl Power {
    fn new(size: u64, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            size,
            on: false,
            owner: 0,
            random: Rng::new(seed),
            medium: Memory::new(size, false),
            versions: vec![0; (size / SECTOR) as usize],
            cache: Memory::new(size, false),
            unflushed: BTreeMap::new(),
            written: 0,
        })))
    }

    /// The switch of the drive of that name, if there has been one in this process.
    pub fn of(name: &str) -> Option<Self> {
        let drives = DRIVES.lock().unwrap_or_else(PoisonError::into_inner);
        drives.get(name).cloned()
    }

    /// Cuts the power: of what was not made durable any part is lost. What runs, and what comes, fails with EIO until the volume
    /// is opened again.
    pub fn cut(&self) {
        self.state().cut();
    }

    /// Puts the bytes from `offset` on into `into`, as a client would read them; after a cut, what is left. The range must lie
    /// within the volume.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        self.state().cache.read(offset, into);
    }

    /// How many writes a cut could lose now.
    pub fn unflushed(&self) -> usize {
        self.state().unflushed.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct State {
    size: u64,
    on: bool,
    /// Counts the owners that opened the drive: only the last has it.
    owner: u64,
    random: Rng,
    /// What a cut leaves, and the number of the write that each sector of it comes from.
    medium: Memory,
    versions: Vec<u64>,
    /// What reads see.
    cache: Memory,
    /// Writes that are not durable, by number.
    unflushed: BTreeMap<u64, Write>,
    written: u64,
}

/// Whole sectors, as they were in the cache after a write.
#[derive(Debug)]
struct Write {
    first: u64,
    bytes: Vec<u8>,
    stream: StreamId,
    completed: bool,
}

impl State {
    fn below(&mut self, below: u64) -> u64 {
        self.random.range(0, below - 1)
    }

    /// How long an operation takes.
    fn duration(&mut self) -> Span {
        Span::from_nanos(self.below(LONGEST.as_nanos() + 1))
    }

    /// The drive has `size` bytes from now on, zeroes where there were none.
    fn grow(&mut self, size: u64) {
        self.size = size;
        self.medium.grow(size);
        self.cache.grow(size);
        self.versions.resize((size / SECTOR) as usize, 0);
    }

    /// Takes a write into the cache; gives its number.
    fn write(&mut self, job: &Job) -> u64 {
        let range = job.offset..job.offset + u64::from(job.length);
        if job.op == Op::Write {
            let cache = &mut self.cache;
            job.data
                .each_source(|at, bytes| cache.write(range.start + at as u64, bytes));
        } else {
            self.cache.write(range.start, &vec![0; job.length as usize]);
        }
        let first = range.start / SECTOR;
        let sectors = range.end.div_ceil(SECTOR) - first;
        let mut bytes = vec![0; (sectors * SECTOR) as usize];
        self.cache.read(first * SECTOR, &mut bytes);
        self.written += 1;
        let write = Write {
            first,
            bytes,
            stream: job.stream,
            completed: false,
        };
        self.unflushed.insert(self.written, write);
        self.written
    }

    /// What a flush that is submitted now covers.
    fn covered(&self, stream: StreamId) -> Vec<u64> {
        let own = mutant::is(mutant::FLUSH_OWN_CONNECTION);
        let writes = self.unflushed.iter();
        writes
            .filter(|(_, write)| write.completed && (!own || write.stream == stream))
            .map(|(number, _)| *number)
            .collect()
    }

    /// Brings sectors of a write to the medium: those for which `keep` says so and that are not newer there.
    fn harden(&mut self, number: u64, write: &Write, mut keep: impl FnMut() -> bool) {
        let sectors = (write.first..).zip(write.bytes.chunks_exact(SECTOR as usize));
        for (sector, bytes) in sectors {
            let version = &mut self.versions[sector as usize];
            if *version < number && keep() {
                *version = number;
                self.medium.write(sector * SECTOR, bytes);
            }
        }
    }

    /// Makes a write durable.
    fn sync(&mut self, number: u64) {
        if let Some(write) = self.unflushed.remove(&number) {
            self.harden(number, &write, || true);
        }
    }

    fn cut(&mut self) {
        self.on = false;
        // From a cut that loses all to one that loses nothing.
        let kept = self.below(5);
        let mut random = Rng::new(self.random.next_u64());
        let mut chance = |of: u64| random.range(0, of - 1);
        for (number, write) in std::mem::take(&mut self.unflushed) {
            let torn = chance(3) == 0;
            let keep = chance(4) < kept;
            self.harden(number, &write, || if torn { chance(2) == 0 } else { keep });
        }
        let mut chunk = vec![0; 64 << 10];
        for offset in (0..self.size).step_by(chunk.len()) {
            let length = (self.size - offset).min(chunk.len() as u64) as usize;
            self.medium.read(offset, &mut chunk[..length]);
            self.cache.write(offset, &chunk[..length]);
        }
    }
}

/// The drive as a shard sees it.
#[derive(Debug)]
struct Drive {
    power: Power,
    owner: u64,
    read_only: bool,
    /// What is under way, by its end.
    running: BTreeMap<(Instant, u64), Running>,
    started: u64,
    /// Sleeps until the next end and wakes the shard; not there in virtual time.
    alarm: Option<Workers<()>>,
    /// It sleeps.
    waiting: bool,
}

#[derive(Debug)]
struct Running {
    /// `None`: it was answered already.
    tag: Option<Tag>,
    data: Data,
    effect: Effect,
}

/// What happens at the end of an operation.
#[derive(Debug)]
enum Effect {
    None,
    /// A write is completed, and durable if so.
    Complete {
        number: u64,
        durable: bool,
    },
    /// These writes are durable.
    Sync(Vec<u64>),
}

impl Drive {
    /// The drive's state, if the power is on and the drive still ours.
    fn on(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.power.state();
        (state.on && state.owner == self.owner).then_some(state)
    }

    /// What a job does at once, what it does when it ends, and when that is.
    fn begin(&self, job: &mut Job, now: Instant) -> Result<(Effect, Instant), u16> {
        let mut state = self.on().ok_or(EIO)?;
        let offset = job.offset;
        let effect = match job.op {
            Op::Read => {
                job.data
                    .each_target(|at, bytes| state.cache.read(offset + at as u64, bytes));
                Effect::None
            }
            Op::Extents => {
                let mut extents = job.extents();
                extents.push(u64::from(job.length), Allocation::Data);
                job.data = Data::Extents(extents);
                Effect::None
            }
            Op::Flush => Effect::Sync(state.covered(job.stream)),
            Op::Write | Op::Discard | Op::WriteZeroes if self.read_only => return Err(EPERM),
            Op::Write | Op::Discard | Op::WriteZeroes => Effect::Complete {
                number: state.write(job),
                durable: job.flags.has(Flags::FUA),
            },
        };
        Ok((effect, now + state.duration()))
    }

    /// When the next operation ends.
    fn next_end(&self) -> Option<Instant> {
        self.running.keys().next().map(|(end, _)| *end)
    }

    /// Ends what is over.
    fn expire(&mut self, cx: &mut Context<'_>) {
        while let Some(entry) = self.running.first_entry()
            && entry.key().0 <= cx.now
        {
            let running = entry.remove();
            let result = self.end(running.effect);
            if let Some(tag) = running.tag {
                cx.finish(tag, result, running.data);
            }
        }
    }

    /// Has the shard woken when the next operation ends, or somewhat later if one that ends before has begun meanwhile.
    fn wait(&mut self, cx: &mut Context<'_>) {
        if let (Some(end), Some(alarm), false) = (self.next_end(), &self.alarm, self.waiting) {
            let left = Duration::from_nanos(end.since(cx.now).as_nanos());
            self.waiting = alarm.submit(&cx.ring.waker(), move || std::thread::sleep(left));
        }
    }

    /// An operation ends.
    fn end(&self, effect: Effect) -> Result<(), u16> {
        let mut state = self.on().ok_or(EIO)?;
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
            Effect::Sync(numbers) => {
                for number in numbers {
                    state.sync(number);
                }
            }
        }
        Ok(())
    }
}

impl Backend for Drive {
    fn size(&self, wanted: Option<u64>) -> io::Result<u64> {
        let size = wanted.unwrap_or(self.power.state().size);
        whole_sectors(size)?;
        Ok(size)
    }

    fn resize(&mut self, size: u64) {
        self.power.state().grow(size);
    }

    fn submit(&mut self, mut job: Job, cx: &mut Context<'_>) {
        let (effect, end) = match self.begin(&mut job, cx.now) {
            Ok(begun) => begun,
            Err(errno) => return cx.finish(job.tag, Err(errno), job.data),
        };
        let mut running = Running {
            tag: Some(job.tag),
            data: job.data,
            effect,
        };
        if job.op == Op::Flush && mutant::is(mutant::ANSWER_BEFORE_SYNC) {
            running.tag = None;
            cx.finish(job.tag, Ok(()), Data::None);
        }
        self.started += 1;
        self.running.insert((end, self.started), running);
        self.wait(cx);
    }

    fn completed(&mut self, _op: u32, _completion: Completion, _cx: &mut Context<'_>) {}

    fn woken(&mut self, cx: &mut Context<'_>) {
        let alarm = self.alarm.as_ref();
        if alarm.is_some_and(|alarm| alarm.next().is_some()) {
            self.waiting = false;
        }
        self.expire(cx);
        self.wait(cx);
    }
}
