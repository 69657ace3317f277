//! A ledger of the promises made to clients. It is written by the clients and independent of the
//! server.
//!
//! Every write fills its sectors with its own number. A write is *promised* if it was acknowledged
//! with FUA, or if it was acknowledged before a flush was sent and the flush was acknowledged, on
//! any connection. After a cut, a sector must hold a write that was sent. It must not hold a write
//! that had completed before a promised write to the same sector began.
//!
//! Times are positions in the clients' order of events. A request is recorded as sent before the
//! server can know of it, and as acknowledged after the server has answered it.

use std::collections::BTreeMap;
use std::ops::Range;

/// The size of a sector in bytes.
pub(crate) const SECTOR: usize = 512;

/// All writes and flushes, with their answers. Sectors are numbered within the volume.
#[derive(Debug, Default)]
pub(crate) struct PromiseLedger {
    now: u64,
    writes: Vec<LedgerWrite>,
    /// The writes to each sector that a cut can leave there, in the order in which they were sent.
    sectors: BTreeMap<u64, Vec<usize>>,
    flushes: BTreeMap<u64, Vec<usize>>,
}

#[derive(Debug)]
struct LedgerWrite {
    sent: u64,
    acknowledged: Option<u64>,
    promised: bool,
    fua: bool,
}

/// A sector that violates a promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LostSector {
    pub(crate) sector: u64,
    pub(crate) what: String,
}

impl PromiseLedger {
    /// Records that a write of whole sectors is sent. Returns its number.
    pub(crate) fn write(&mut self, sectors: Range<u64>, fua: bool) -> usize {
        let number = self.writes.len() + 1;
        self.now += 1;
        self.writes.push(LedgerWrite {
            sent: self.now,
            acknowledged: None,
            promised: false,
            fua,
        });
        for sector in sectors {
            self.sectors.entry(sector).or_default().push(number);
        }
        number
    }

    /// Returns the data of write `number` to `sectors`.
    pub(crate) fn bytes(number: usize, sectors: &Range<u64>) -> Vec<u8> {
        // The sector's number reveals data that was written to a wrong place.
        let one = |sector: u64| {
            let stamp = [(number as u64).to_le_bytes(), sector.to_le_bytes()].concat();
            stamp.repeat(SECTOR / 16)
        };
        sectors.clone().flat_map(one).collect()
    }

    /// Records that a write was acknowledged.
    pub(crate) fn written(&mut self, number: usize) {
        self.now += 1;
        let write = &mut self.writes[number - 1];
        write.acknowledged = Some(self.now);
        write.promised |= write.fua;
    }

    /// Records that a flush is sent. Returns its number.
    pub(crate) fn flush(&mut self) -> u64 {
        self.now += 1;
        let writes = self.writes.iter().enumerate();
        let covered = writes.filter(|(_, w)| w.acknowledged.is_some() && !w.promised);
        self.flushes
            .insert(self.now, covered.map(|(n, _)| n).collect());
        self.now
    }

    /// Records that a flush was acknowledged.
    pub(crate) fn flushed(&mut self, number: u64) {
        for write in self.flushes.remove(&number).into_iter().flatten() {
            self.writes[write].promised = true;
        }
    }

    /// Returns the number of promised writes.
    pub(crate) fn promised(&self) -> usize {
        self.writes.iter().filter(|w| w.promised).count()
    }

    /// Compares the remaining content of a sector with the promises.
    pub(crate) fn check(&self, sector: u64, bytes: &[u8]) -> Result<(), LostSector> {
        let lost = |what: String| LostSector { sector, what };
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let found = number(0) as usize;
        // All stamps of a sector are equal, because the disk writes sectors atomically.
        if bytes.chunks(16).any(|stamp| stamp != &bytes[..16]) {
            return Err(lost("it is torn".into()));
        }
        let here = self.sectors.get(&sector).map_or(&[][..], Vec::as_slice);
        if found == 0 && number(8) == 0 {
            // The sector was never written, so there must be no promised write to it.
            let promised = here.iter().find(|n| self.writes[**n - 1].promised);
            return promised.map_or(Ok(()), |n| {
                Err(lost(format!(
                    "write {n} was promised, and nothing is there"
                )))
            });
        }
        if number(8) != sector || !here.contains(&found) {
            return Err(lost(format!("{found} was never written there")));
        }
        let Some(over) = self.writes[found - 1].acknowledged else {
            // An unacknowledged write may have completed at any time, even after all later ones.
            return Ok(());
        };
        let later = |n: &&usize| self.writes[**n - 1].promised && self.writes[**n - 1].sent > over;
        match here.iter().find(later) {
            Some(later) => Err(lost(format!(
                "write {later} was promised, and {found} is there, which was over before"
            ))),
            None => Ok(()),
        }
    }

    /// Compares a whole volume. Returns the sectors that violate a promise.
    pub(crate) fn check_all(&self, volume: &[u8]) -> Vec<LostSector> {
        let sectors = (0u64..).zip(volume.chunks(SECTOR));
        sectors
            .filter_map(|(sector, bytes)| self.check(sector, bytes).err())
            .collect()
    }
}
