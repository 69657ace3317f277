//! Encodes the verdict on a second as a note in a recording, so that readers of the recording have
//! the server's own verdict.

use crate::promise::{Blame, Cause, Excuse, PromiseVerdict, PromisedRate, Ruling, Units};
use weir_core::GroupId;

/// The first byte of a note that contains a verdict.
const KIND: u8 = 1;
/// The number of fields after the first byte. Each is a little-endian `u64`.
const FIELDS: usize = 11;
/// The length of a note, in bytes.
pub const NOTE_LEN: usize = 1 + 8 * FIELDS;

/// Returns the note of a verdict on a second of a group's promise.
pub fn note(group: GroupId, ruling: &Ruling) -> [u8; NOTE_LEN] {
    let (verdict, [by, cause, neighbour]) = match ruling.verdict {
        // A kept second has no shortfall, so that its field holds the flag `unasked`.
        PromiseVerdict::Kept => (0, [ruling.unasked.into(), 0, 0]),
        PromiseVerdict::Short { by, why } => {
            // 0 stands for no neighbour.
            let neighbour = why.neighbour.map_or(0, |group| u64::from(group) + 1);
            (1, [by, why.cause as u64, neighbour])
        }
        PromiseVerdict::Excused(why) => (2, [0, why as u64, 0]),
    };
    let fields: [u64; FIELDS] = [
        group.0.into(),
        ruling.ends_ns,
        ruling.rate.units as u64,
        ruling.rate.a_second,
        ruling.owed,
        ruling.got,
        ruling.waited_ns,
        verdict,
        by,
        cause,
        neighbour,
    ];
    let mut bytes = [KIND; NOTE_LEN];
    for (place, field) in bytes[1..].chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    bytes
}

/// Returns the verdict in a note, or `None` if the note contains no verdict or one of another
/// version.
pub(crate) fn ruling(note: &[u8]) -> Option<(GroupId, Ruling)> {
    let (kind, rest) = note.split_first()?;
    // A note can come from another version or be tampered with, so nothing in it is trusted.
    if *kind != KIND || note.len() != NOTE_LEN {
        return None;
    }
    let mut fields = [0_u64; FIELDS];
    for (field, bytes) in fields.iter_mut().zip(rest.chunks_exact(8)) {
        *field = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    let [
        group,
        ends_ns,
        units,
        a_second,
        owed,
        got,
        waited_ns,
        verdict,
        by,
        cause,
        neighbour,
    ] = fields;
    let place = usize::try_from(cause).ok()?;
    let verdict = match verdict {
        0 => PromiseVerdict::Kept,
        1 => PromiseVerdict::Short {
            by,
            why: Blame {
                cause: *Cause::ALL.get(place)?,
                neighbour: match neighbour.checked_sub(1) {
                    Some(group) => Some(u32::try_from(group).ok()?),
                    None => None,
                },
            },
        },
        2 => PromiseVerdict::Excused(*Excuse::ALL.get(place)?),
        _ => return None,
    };
    let units = match units {
        0 => Units::Bytes,
        1 => Units::Requests,
        _ => return None,
    };
    let ruling = Ruling {
        ends_ns,
        rate: PromisedRate { units, a_second },
        owed,
        got,
        verdict,
        waited_ns,
        unasked: verdict == PromiseVerdict::Kept && by != 0,
    };
    Some((GroupId(u32::try_from(group).ok()?), ruling))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn verdicts() -> impl Strategy<Value = PromiseVerdict> {
        let short = (
            1..u64::MAX,
            0..Cause::ALL.len(),
            prop::option::of(0..u32::MAX),
        );
        let short = short.prop_map(|(by, cause, neighbour)| PromiseVerdict::Short {
            by,
            why: Blame {
                cause: Cause::ALL[cause],
                neighbour,
            },
        });
        let excused =
            (0..Excuse::ALL.len()).prop_map(|why| PromiseVerdict::Excused(Excuse::ALL[why]));
        prop_oneof![Just(PromiseVerdict::Kept), short, excused]
    }

    proptest! {
        #[test]
        fn a_verdict_is_read_as_it_was_written(verdict in verdicts(), numbers: [u64; 5], group: u32) {
            let [ends_ns, a_second, owed, got, waited_ns] = numbers;
            let units = if got % 2 == 0 { Units::Bytes } else { Units::Requests };
            let rate = PromisedRate { units, a_second };
            let unasked = verdict == PromiseVerdict::Kept && owed % 2 == 0;
            let written = Ruling { ends_ns, rate, owed, got, verdict, waited_ns, unasked };
            prop_assert_eq!(ruling(&note(GroupId(group), &written)), Some((GroupId(group), written)));
        }

        #[test]
        fn hostile_bytes_are_no_verdict_or_survive_writing(bytes: Vec<u8>, fields: [u64; FIELDS]) {
            let mut like = vec![KIND];
            for field in fields {
                like.extend((field % 14).to_le_bytes());
            }
            for bytes in [bytes, like] {
                if let Some((group, read)) = ruling(&bytes) {
                    prop_assert_eq!(ruling(&note(group, &read)), Some((group, read)));
                }
            }
        }
    }
}
