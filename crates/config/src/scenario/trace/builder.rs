//! Collection of the requests of a recorded load, with the checks that both formats share.

use super::{TraceKind, TraceOptions};
use crate::key::{FILE_MOST, REQUEST_MOST};
use crate::problem::Problem;
use crate::scenario::PAGE;
use crate::scenario::host::SECTOR;
use crate::units::ByteSize as Bytes;
use std::collections::BTreeMap;
use weir_core::{Op, Span};
use weir_model::load::{Trace, TraceTiming, TracedRequest};

/// The requests that were read so far.
#[derive(Debug)]
pub(super) struct TraceBuilder {
    options: TraceOptions,
    /// The name of the file that is being read.
    pub(super) file: String,
    requests: Vec<TracedRequest>,
    /// The number of the file or device of each request.
    owners: Vec<u16>,
    /// The end of the last range of each file or device.
    ends: Vec<u64>,
    /// The number of each device of the trace.
    devices: BTreeMap<u32, u16>,
    /// True if times count from the start of the recording and not from the first request.
    pub(super) is_absolute: bool,
}

impl TraceBuilder {
    /// The maximum number of files or devices in a recorded load.
    pub(super) const FILES: usize = 1024;

    pub(super) fn new(options: &TraceOptions) -> Self {
        Self {
            options: options.clone(),
            file: String::new(),
            requests: Vec::new(),
            owners: Vec::new(),
            ends: Vec::new(),
            devices: BTreeMap::new(),
            is_absolute: false,
        }
    }

    /// Returns the number of a device, which is new if the device has no number yet.
    ///
    /// # Errors
    /// A message and the advice, if there are too many devices.
    pub(super) fn device(&mut self, device: u32) -> Result<u16, (String, &'static str)> {
        let next = self.devices.len();
        if next == Self::FILES && !self.devices.contains_key(&device) {
            let what = format!("has more than {} devices, the maximum", Self::FILES);
            return Err((what, "record a load of fewer devices"));
        }
        Ok(*self.devices.entry(device).or_insert(next as u16))
    }

    /// Returns a problem at a line of the file, counted from 1. Line 0 stands for the whole file.
    pub(super) fn problem(&self, line: u32, what: &str, help: &str) -> Problem {
        let place = (line, u32::from(line > 0));
        Problem::new(&self.file, place, "", what.to_owned(), help)
    }

    /// Adds a request on the file or device with this number, unless its kind is skipped.
    ///
    /// # Errors
    /// A message and the advice, if the request is not one that a drive could have served or if
    /// there are too many of them.
    pub(super) fn add(
        &mut self,
        owner: u16,
        length: u64,
        request: TracedRequest,
    ) -> Result<(), (String, &'static str)> {
        const DAMAGED: &str = "record the load again; the file is damaged";
        if self.is_skipped(request.op) {
            return Ok(());
        }
        if self.requests.len() == Trace::MOST {
            let what = format!("has more than {} requests, the maximum", Trace::MOST);
            return Err((
                what,
                "record a shorter time, or leave out kinds with replay_skip",
            ));
        }
        let owner = if self.options.together { 0 } else { owner };
        let mut request = request;
        if request.op != Op::Flush {
            let most = if request.op.moves_data() {
                REQUEST_MOST
            } else {
                u64::from(u32::MAX) / SECTOR * SECTOR
            };
            if !(1..=most).contains(&length) {
                let what = format!("a length must be 1B to {}, not {length}B", Bytes(most));
                return Err((what, DAMAGED));
            }
            request.length = length as u32;
            // `fio` divides first and then aligns.
            request.offset =
                request.offset / self.options.scale / self.options.align * self.options.align;
            if !request.offset.is_multiple_of(SECTOR) || !length.is_multiple_of(SECTOR) {
                let what = "is not a range of whole sectors of 512B, as direct I/O requires";
                let help = "set replay_align to 512 or more, or record a load with direct=1";
                return Err((what.to_owned(), help));
            }
            let end = request.offset.saturating_add(length);
            if end > FILE_MOST {
                return Err((
                    format!("ends after {}, the maximum", Bytes(FILE_MOST)),
                    DAMAGED,
                ));
            }
            let place = usize::from(owner);
            self.ends.resize(self.ends.len().max(place + 1), 0);
            self.ends[place] = self.ends[place].max(end);
        }
        self.requests.push(request);
        self.owners.push(owner);
        Ok(())
    }

    fn is_skipped(&self, op: Op) -> bool {
        self.options
            .skip
            .iter()
            .any(|kind: &TraceKind| kind.op() == op)
    }

    /// Returns the recorded load, whose files and devices follow each other.
    ///
    /// # Errors
    /// There is no request, or the files together are too long.
    pub(super) fn finish(mut self) -> Result<Trace, Problem> {
        let mut bases = Vec::new();
        let mut next = 0u64;
        for end in &self.ends {
            bases.push(next);
            next = next.saturating_add(end.next_multiple_of(PAGE));
        }
        if next > FILE_MOST {
            let what = format!("its files together are longer than {}", Bytes(FILE_MOST));
            let help = "set replay_redirect, or divide offsets with replay_scale";
            return Err(self.problem(0, &what, help));
        }
        let first = self.requests.iter().map(|r| r.at).min();
        let last = self.requests.iter().map(|r| r.at).max();
        let begin = first.filter(|_| self.is_absolute).unwrap_or_default();
        for (request, owner) in self.requests.iter_mut().zip(&self.owners) {
            if request.op != Op::Flush {
                request.offset += bases[usize::from(*owner)];
            }
            let at = request.at.saturating_sub(begin).as_nanos();
            let scaled = u128::from(at) * 100 / u128::from(self.options.speed);
            request.at = Span::from_nanos(u64::try_from(scaled).unwrap_or(u64::MAX));
        }
        // Without recorded times, all requests would be due at once, and the latency of each would
        // count from then.
        let timing = if self.options.fast || first == last {
            TraceTiming::Fast
        } else {
            TraceTiming::Recorded
        };
        let requests = std::mem::take(&mut self.requests);
        Trace::new(requests, timing).ok_or_else(|| {
            let help = "record a load, for blktrace with its action queue, or change replay_skip";
            self.problem(0, "has no request that can be played", help)
        })
    }
}
