//! Traces of `blktrace`, version 7: the files for each processor, or one file that
//! `blkparse -d` has merged.
//!
//! Facts about the format are from `include/uapi/linux/blktrace_api.h` of Linux: an event is a
//! header of 48 bytes, followed by further data whose length is in the header.

use super::builder::TraceBuilder;
use super::failure;
use crate::problem::Problem;
use std::io::{BufRead, Read};
use weir_core::{Flags, Op, Span};
use weir_model::load::TracedRequest;

/// The number at the beginning of each event, without the version in its lowest byte.
const MAGIC: u32 = 0x6561_7400;
/// The version that Linux has written since 2006.
const VERSION: u32 = 7;
/// The length of the header of an event in bytes.
const HEADER: usize = 48;
/// The length of a sector in the units of the format.
const SECTOR: u64 = 512;

/// The action of a request that enters the block layer (Q). The same request causes further events
/// on its way to the drive.
const QUEUE: u32 = 1;

// The categories of an event, in the upper half of its action.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
/// A command that is not a request for data, for example of a tool.
const PASSTHROUGH: u32 = 1 << 9;
/// A message about a process or the time, which is not a request.
const NOTIFY: u32 = 1 << 10;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

/// The byte order of a trace, which is that of the machine that recorded it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// Returns the byte order of a trace from its first bytes. `None` if they are not those of a trace.
pub(super) fn order(first: &[u8]) -> Option<ByteOrder> {
    let magic: [u8; 4] = first.get(..4)?.try_into().ok()?;
    let is_trace = |magic: u32| magic & !0xff == MAGIC;
    if is_trace(u32::from_le_bytes(magic)) {
        Some(ByteOrder::Little)
    } else if is_trace(u32::from_be_bytes(magic)) {
        Some(ByteOrder::Big)
    } else {
        None
    }
}

/// The header of an event, as far as it is used.
#[derive(Clone, Copy)]
struct TracedEvent {
    magic: u32,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
    further: u16,
}

impl ByteOrder {
    fn u32(self, bytes: &[u8]) -> u32 {
        let bytes = bytes.try_into().expect("four bytes");
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64(self, bytes: &[u8]) -> u64 {
        let (first, second) = (self.u32(&bytes[..4]), self.u32(&bytes[4..]));
        let (low, high) = match self {
            Self::Little => (first, second),
            Self::Big => (second, first),
        };
        u64::from(high) << 32 | u64::from(low)
    }

    fn event(self, header: &[u8; HEADER]) -> TracedEvent {
        let further = [header[46], header[47]];
        TracedEvent {
            magic: self.u32(&header[..4]),
            time: self.u64(&header[8..16]),
            sector: self.u64(&header[16..24]),
            bytes: self.u32(&header[24..28]),
            action: self.u32(&header[28..32]),
            device: self.u32(&header[36..40]),
            further: match self {
                Self::Little => u16::from_le_bytes(further),
                Self::Big => u16::from_be_bytes(further),
            },
        }
    }
}

/// Reads all events of a file.
pub(super) fn read(
    builder: &mut TraceBuilder,
    input: &mut impl BufRead,
    order: ByteOrder,
) -> Result<(), Problem> {
    builder.is_absolute = true;
    let mut place = 0u64;
    let mut header = [0; HEADER];
    while let Some(()) = next(builder, input, &mut header, place)? {
        let event = order.event(&header);
        let wrong = |what: &str, help| builder.problem(0, &format!("byte {place}: {what}"), help);
        if event.magic & !0xff != MAGIC {
            let help = "record the load again, or merge the files with blkparse -d";
            return Err(wrong(
                "an event does not begin with the number of blktrace",
                help,
            ));
        }
        if event.magic & 0xff != VERSION {
            let what = format!("version {} is not supported", event.magic & 0xff);
            return Err(wrong(&what, "record the load with blktrace 1.0 or later"));
        }
        place += HEADER as u64 + u64::from(event.further);
        let further = input.take(event.further.into());
        let skipped = std::io::copy(&mut { further }, &mut std::io::sink());
        if skipped.map_err(|error| failure(builder, &error))? < event.further.into() {
            return Err(truncated(builder, place));
        }
        let at = place - HEADER as u64 - u64::from(event.further);
        add(builder, &event)
            .map_err(|(what, help)| builder.problem(0, &format!("byte {at}: {what}"), help))?;
    }
    Ok(())
}

/// Reads the header of the next event. `None` at the end of the file.
fn next(
    builder: &TraceBuilder,
    input: &mut impl BufRead,
    header: &mut [u8; HEADER],
    place: u64,
) -> Result<Option<()>, Problem> {
    let mut filled = 0;
    while filled < HEADER {
        match input.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(truncated(builder, place)),
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failure(builder, &error)),
        }
    }
    Ok(Some(()))
}

fn truncated(builder: &TraceBuilder, place: u64) -> Problem {
    let what = format!("byte {place}: the file ends within an event");
    let help = "record the load again, or remove the bytes of the last event";
    builder.problem(0, &what, help)
}

/// Adds the requests of an event.
fn add(builder: &mut TraceBuilder, event: &TracedEvent) -> Result<(), (String, &'static str)> {
    let of = event.action >> 16;
    // The upper bits of the lower half are flags, for example that the event names a cgroup.
    if event.action & 0xff != QUEUE || of & (NOTIFY | PASSTHROUGH) != 0 {
        return Ok(());
    }
    let owner = builder.device(event.device)?;
    let mut flags = Flags::NONE;
    for (bit, flag) in [(SYNC, Flags::SYNC), (META, Flags::META), (FUA, Flags::FUA)] {
        if of & bit != 0 {
            flags = flags.with(flag);
        }
    }
    let Some(offset) = event.sector.checked_mul(SECTOR) else {
        let what = format!("sector {} is after the end of any drive", event.sector);
        return Err((what, "record the load again; the file is damaged"));
    };
    let request = |op, flags| TracedRequest {
        at: Span::from_nanos(event.time),
        offset: if op == Op::Flush { 0 } else { offset },
        length: 0,
        op,
        flags,
    };
    // A write with this flag is preceded by a flush of earlier writes.
    if of & FLUSH != 0 {
        builder.add(owner, 0, request(Op::Flush, Flags::NONE))?;
    }
    let op = match of {
        _ if of & DISCARD != 0 => Op::Discard,
        _ if of & WRITE != 0 => Op::Write,
        _ => Op::Read,
    };
    // A flush alone has no bytes.
    if event.bytes == 0 {
        return Ok(());
    }
    let kept = match op {
        Op::Discard => Flags::NONE,
        Op::Write => flags,
        // Only a write can be durable.
        _ => Flags::from_bits(flags.bits() & !Flags::FUA.bits()),
    };
    builder.add(owner, event.bytes.into(), request(op, kept))
}
