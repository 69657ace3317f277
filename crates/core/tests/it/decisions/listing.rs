//! Decisions in the form of text.

use std::fmt::Write;

use weir_core::{Layer, Op, Sample, SampleMask, Span};

use crate::decisions::host::{Decision, Scene};

/// The milliseconds of the shortest line, the maximum number of lines in a golden table, and the
/// width of the list of dispatched pieces.
const LINE: u64 = 20;
const LINES: u64 = 25;
const WIDTH: usize = 110;

/// Returns a table of at most 25 lines. Each has the dispatched pieces (client, operation, KiB,
/// number of equal ones in a row), and a digest of all decisions in its time with their clients,
/// exact times and offsets, and of the samples. The results of each client follow.
pub(crate) fn of(scene: &Scene, decisions: &[Decision]) -> String {
    table(scene, decisions, scene.millis.div_ceil(LINE * LINES) * LINE)
}

/// Returns the same table with one line for every 20 ms.
pub(crate) fn whole(scene: &Scene, decisions: &[Decision]) -> String {
    table(scene, decisions, LINE)
}

fn table(scene: &Scene, decisions: &[Decision], line: u64) -> String {
    let mut text = String::from("\n  ms  digest    sent\n");
    let mut at = 0;
    for ms in (0..scene.millis).step_by(line as usize) {
        let from = at;
        let end = (ms + line) * 1_000_000;
        while decisions.get(at).is_some_and(|d| when(d) < end) {
            at += 1;
        }
        let window = &decisions[from..at];
        let line = format!("{ms:4}  {:08x}  {}", digest(window), sent(window));
        text += line.trim_end();
        text.push('\n');
    }
    text += "\nclient  requests       KiB  longest us  mean us\n";
    for client in 0..scene.clients.len() {
        text += &total(decisions, client);
    }
    text
}

fn when(decision: &Decision) -> u64 {
    match decision {
        Decision::Sent(at, ..) | Decision::Answered(at, ..) | Decision::Sampled(at, _) => *at,
    }
}

fn letter(client: usize) -> char {
    (b'a' + client as u8) as char
}

fn sent(window: &[Decision]) -> String {
    let mut runs: Vec<(String, u32)> = Vec::new();
    for decision in window {
        let Decision::Sent(_, client, piece) = decision else {
            continue;
        };
        let op = match piece.op {
            Op::Read => 'r',
            Op::Write => 'w',
            Op::Flush => 'f',
            _ => '?',
        };
        let word = format!("{}{op}{}", letter(*client), piece.length >> 10);
        match runs.last_mut() {
            Some((last, count)) if *last == word => *count += 1,
            _ => runs.push((word, 1)),
        }
    }
    let mut text = String::new();
    for (word, count) in runs {
        let word = if count > 1 {
            format!("{word}*{count}")
        } else {
            word
        };
        if text.len() + word.len() > WIDTH {
            return text + "…";
        }
        write!(text, "{word} ").unwrap();
    }
    text
}

/// The hash FNV-1a over numbers, folded to 32 bits.
pub(crate) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(crate) fn add(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn all<const N: usize>(&mut self, numbers: [u64; N]) {
        for number in numbers {
            self.add(number);
        }
    }

    pub(crate) fn value(&self) -> u32 {
        (self.0 ^ self.0 >> 32) as u32
    }
}

/// Returns the numbers of samples from an elevator that divides time.
fn of_slices(sample: &Sample) -> Vec<u64> {
    match *sample {
        Sample::Slice {
            stream,
            served,
            used,
            left,
        } => vec![
            stream.slot().into(),
            served,
            used.as_nanos(),
            left.as_nanos(),
        ],
        Sample::Used {
            group,
            part,
            lead,
            queues,
        } => vec![group.0.into(), part.into(), lead.as_nanos(), queues.into()],
        _ => Vec::new(),
    }
}

/// Returns all samples as numbers.
pub(crate) fn sampled(layer: &Layer) -> Vec<u64> {
    let mut numbers = Vec::new();
    layer.sample(SampleMask::ALL, &mut |sample| match sample {
        Sample::Serving {
            stream,
            served,
            left,
        } => numbers.extend([stream.slot().into(), served, left]),
        Sample::Slice { .. } | Sample::Used { .. } => numbers.extend(of_slices(&sample)),
        Sample::Idling { stream } => numbers.push(stream.slot().into()),
        Sample::Drive {
            read,
            write,
            away,
            delay,
            hidden,
        } => numbers.extend([read, write, away, delay, hidden].map(Span::as_nanos)),
        Sample::Peak { rate } => numbers.push(rate),
        Sample::Cookie { group, lowered } => numbers.extend([group.0, lowered].map(u64::from)),
        Sample::Low { limited, scale } => numbers.extend([u64::from(limited), scale.into()]),
        Sample::Tokens {
            depth, in_flight, ..
        } => numbers.extend([depth, in_flight].map(u64::from)),
        Sample::Held {
            group, requests, ..
        } => numbers.extend([group.0, requests].map(u64::from)),
        Sample::Depth {
            group,
            depth,
            in_flight,
        } => numbers.extend([group.0, depth.unwrap_or(0), in_flight].map(u64::from)),
        Sample::Weight {
            stream,
            weight,
            raised,
        } => numbers.extend([stream.slot(), weight, raised].map(u64::from)),
        Sample::Rate {
            vrate,
            busy_level,
            lagging,
            period,
        } => numbers.extend([
            vrate.into(),
            u64::from(busy_level.cast_unsigned()),
            lagging.into(),
            period.as_nanos(),
        ]),
        Sample::Spends {
            group,
            active,
            inuse,
            lead,
            debt,
            delay,
        } => numbers.extend([
            group.0.into(),
            active.into(),
            inuse.into(),
            lead.unwrap_or(1).cast_unsigned(),
            debt.as_nanos(),
            delay.as_nanos(),
        ]),
        _ => numbers.push(1),
    });
    numbers
}

/// Returns the digest of these decisions.
pub(crate) fn digest(window: &[Decision]) -> u32 {
    let mut digest = Digest::default();
    for decision in window {
        let numbers = match decision {
            Decision::Sampled(_, numbers) => {
                for number in numbers {
                    digest.add(*number);
                }
                continue;
            }
            Decision::Sent(at, client, piece) => {
                [*at, *client as u64, piece.offset, u64::from(piece.length)]
            }
            Decision::Answered(at, client, done) => {
                let waits = done.waits;
                [
                    *at,
                    *client as u64,
                    waits.limit.as_nanos(),
                    waits.elevator.as_nanos(),
                ]
            }
        };
        digest.all(numbers);
    }
    digest.value()
}

/// Returns the digest of a table.
pub(crate) fn of_text(text: &str) -> String {
    let mut digest = Digest::default();
    text.bytes().for_each(|byte| digest.add(byte.into()));
    format!("{:08x}", digest.value())
}

fn total(decisions: &[Decision], client: usize) -> String {
    let (mut requests, mut bytes, mut longest, mut sum) = (0, 0, 0, 0);
    for decision in decisions {
        match decision {
            Decision::Sent(_, of, piece) if *of == client => bytes += u64::from(piece.length),
            Decision::Answered(_, of, done) if *of == client => {
                let w = done.waits;
                let took =
                    (w.limit.as_nanos() + w.elevator.as_nanos() + w.drive.as_nanos()) / 1_000;
                requests += 1;
                longest = longest.max(took);
                sum += took;
            }
            _ => {}
        }
    }
    let mean = sum / requests.max(1);
    let client = letter(client);
    format!(
        "{client:6}  {requests:8}  {:8}  {longest:10}  {mean:7}\n",
        bytes >> 10
    )
}
