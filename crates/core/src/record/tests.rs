//! Tests of writing, reading and replaying records.

use super::code::{Code, Input};
use super::*;
use crate::random::Rng;
use crate::testing::{group, iops, limit, request, space, spec};
use crate::{
    Capacity, Completion, Config, DriveShape, Edit, Flags, GroupId, Instant, Knobs, Layer,
    LowKnobs, MaxDebt, Op, Output, PromiseSums, Sizes, SpaceId, Span, StreamId, elevator,
};
use std::format;
use std::string::ToString;
use std::vec::Vec;

fn config() -> Config {
    Config::of(elevator::Config::None)
        .sizes(
            Sizes::default()
                .requests(64)
                .streams(8)
                .groups(4)
                .spaces(2)
                .per_stream(16)
                .stalled(12),
        )
        .drive(
            DriveShape::default()
                .tags(4)
                .max_transfer(8192)
                .capacity(Some(Capacity {
                    read: 1 << 30,
                    write: 1 << 29,
                    iops: 0,
                    read_iops: 40_000,
                    write_iops: 300,
                })),
        )
}

/// Creates groups, spaces and two streams, with some calls that are refused.
fn set_up(layer: &mut RecordedLayer) -> [StreamId; 2] {
    let at = Instant::from_nanos;
    let contract = limit(iops(6_000));
    let edits = [
        space(1, 1 << 30),
        group(1, contract),
        group(2, contract.min(1000)),
        Edit::SetCapacity(None),
    ];
    layer.change(at(0), &edits[..3]).unwrap();
    layer.change(at(1), &edits).unwrap_err();
    let spec = |g| spec(GroupId(g));
    layer.open(at(1), spec(3)).unwrap_err();
    [
        layer.open(at(2), spec(1)).unwrap(),
        layer.open(at(2), spec(2)).unwrap(),
    ]
}

/// Runs a layer with every kind of call, some of which are refused, and returns its record.
fn run(steps: u64) -> Vec<u8> {
    let recorder = Recorder::new(&config());
    let mut layer = RecordedLayer::new(Layer::new(config()).unwrap(), Some(recorder));
    let at = Instant::from_nanos;
    let streams = set_up(&mut layer);
    let (mut out, mut rng, mut flying) = (Vec::new(), Rng::new(5), Vec::new());
    for step in 1..=steps {
        let state = rng.next_u64();
        // In 1 of 16 steps, time goes back.
        let now = at((step * 300_000).saturating_sub(u64::from(state >> 60 == 9) * 2_000_000));
        let op = Op::ALL[(state >> 45) as usize % 5];
        let request = |cookie: u64| {
            request(
                streams[(state >> 40) as usize % 2],
                op,
                cookie << 60 | step,
                (1 + (state >> 33) as u32 % 30_000) * u32::from(op != Op::Flush),
            )
            .space(SpaceId(u32::from(!state.is_multiple_of(9))))
            .flags(Flags::from_bits((state >> 48) as u8))
            .offset((state >> 20) % (1 << 29) * u64::from(op != Op::Flush))
        };
        // About every fifth step, the owner of the record writes a note.
        if state.is_multiple_of(5) {
            let bytes = &state.to_le_bytes()[..(state >> 3) as usize % 9];
            let recorder = layer.observer_mut().as_mut().unwrap();
            recorder.append(now, &Call::Note { bytes });
        }
        match (state >> 56) % 8 {
            0..3 => drop(layer.submit(now, &[request(0), request(1), request(2)])),
            3 => drop(layer.cancel(now, streams[0], step - 1)),
            4 => layer.hold(now, streams[1], state >> 63 == 0),
            5 if state.is_multiple_of(7) => {
                layer.stall(now, SpaceId(1));
            }
            _ => layer.complete(now, &core::mem::take(&mut flying)),
        }
        out.clear();
        layer.poll(now, &mut out);
        // Some commands are returned as busy, those with tag 2 fail, and all others succeed.
        flying.extend(out.iter().filter_map(|o| match o {
            Output::Dispatch(d) if state >> 61 == d.tag.0.into() => Some(Completion::busy(d.tag)),
            Output::Dispatch(d) if d.tag.0 == 2 => Some(Completion::error(d.tag, 5)),
            Output::Dispatch(d) => Some(Completion::ok(d.tag)),
            _ => None,
        }));
    }
    layer.close(at(steps * 300_000), streams[0]);
    let counters = layer.layer().counters();
    let done_enough = counters.done > steps / 10;
    assert!(
        steps < 300 || done_enough && counters.rejected > 0 && counters.clamped > 0,
        "{counters:?}"
    );
    let recorder = layer.into_observer();
    recorder.unwrap().bytes().to_vec()
}

#[test]
fn a_record_is_replayed_to_the_byte_however_it_is_cut_up() {
    let record = run(2_000);
    let whole = replay(&record).unwrap();
    assert!(whole.calls >= 4_000 && whole.outputs > 1_000);
    // Sizes that cut frames at all places, and one that contains several frames.
    for size in [1, 7, 64, 4096] {
        let mut parts = Replay::new();
        record.chunks(size).for_each(|c| parts.feed(c).unwrap());
        assert_eq!(parts.end(), Ok(whole));
    }
}

#[test]
fn a_record_that_is_read_and_rewritten_has_the_same_bytes() {
    let record = run(500);
    let mut reader = Reader::new();
    reader.feed(&record);
    let mut again = Recorder::new(reader.config().unwrap().unwrap());
    while let Some(frame) = reader.next().unwrap() {
        again.append(frame.now, &frame.call);
    }
    reader.end().unwrap();
    assert_eq!(again.bytes(), record);
}

#[test]
fn knobs_of_every_kind_are_read_as_they_were_written() {
    // `Span::MAX` is the mark of the longer form, so a latency of that value must be written in it.
    let latencies = [Span::ZERO, Span::from_millis(3), Span::MAX];
    let lows = [
        LowKnobs::NONE,
        LowKnobs {
            read_bandwidth: 1,
            write_bandwidth: 2,
            read_iops: 3,
            write_iops: 4,
            idle: Span::from_micros(5),
            latency: Span::from_micros(6),
        },
    ];
    let id = GroupId(1);
    let knobs = latencies
        .into_iter()
        .flat_map(|latency| lows.map(|low| Knobs { latency, low }));
    let edits: Vec<_> = knobs.map(|knobs| Edit::SetKnobs { id, knobs }).collect();
    assert_edits_are_read(&edits);
}

#[test]
fn a_debt_is_read_as_it_was_written() {
    let debt = MaxDebt {
        bandwidth: Span::from_nanos(1),
        read_bandwidth: Span::from_nanos(2),
        write_bandwidth: Span::from_nanos(3),
        iops: Span::from_nanos(4),
        read_iops: Span::from_nanos(5),
        write_iops: Span::MAX,
    };
    let id = GroupId(7);
    assert_edits_are_read(&[Edit::SetDebt { id, debt }]);
}

fn assert_edits_are_read(edits: &[Edit]) {
    let mut recorder = Recorder::new(&config());
    let result = Ok(PromiseSums::default());
    recorder.append(Instant::ZERO, &Call::Change { edits, result });
    let mut reader = Reader::new();
    reader.feed(recorder.bytes());
    reader.config().unwrap().unwrap();
    let frame = reader.next().unwrap().unwrap();
    assert_eq!(frame.call, Call::Change { edits, result });
}

#[test]
fn the_first_difference_is_named() {
    let record = run(300);
    let mut reader = Reader::new();
    reader.feed(&record);
    let mut forged = Recorder::new(reader.config().unwrap().unwrap());
    let mut at = None;
    while let Some(frame) = reader.next().unwrap() {
        // One output of the first poll that dispatches is forged.
        match frame.call {
            Call::Poll {
                outputs: [Output::Dispatch(first), rest @ ..],
                wake,
            } if at.is_none() => {
                let mut outputs = std::vec![Output::Dispatch(crate::Dispatch {
                    length: first.length + 1,
                    ..*first
                })];
                outputs.extend_from_slice(rest);
                forged.append(
                    frame.now,
                    &Call::Poll {
                        outputs: &outputs,
                        wake,
                    },
                );
                at = Some((frame.number, frame.now));
            }
            call => forged.append(frame.now, &call),
        }
    }
    let Err(ReplayError::Divergence(d)) = replay(forged.bytes()) else {
        panic!("a divergence")
    };
    assert_eq!(Some((d.frame, d.now)), at);
    assert_eq!(d.what, "output 0 of poll");
    assert_ne!(d.expected, d.got);
}

#[test]
fn a_record_that_is_cut_off_at_any_byte_is_replayed_up_to_the_call_before() {
    let record = run(20);
    let mut before: Option<ReplayTotals> = None;
    for end in 0..record.len() {
        match (replay(&record[..end]), before) {
            // Within the header, the bytes are not a record yet.
            (Err(ReplayError::Malformed(_)), None) => {}
            (Ok(cut), None) => {
                assert_eq!((cut.calls, cut.bytes), (0, end as u64));
                before = Some(cut);
            }
            (Ok(cut), Some(last)) => {
                let another = cut.calls == last.calls + 1 && cut.bytes == end as u64;
                assert!(!cut.whole && (cut == last || another), "{cut:?}, {last:?}");
                before = Some(cut);
            }
            (other, _) => panic!("{other:?} at byte {end}"),
        }
    }
    let calls = replay(&record).unwrap().calls;
    assert_eq!(before.map(|b| b.calls + 1), Some(calls));
}

#[test]
fn a_record_is_whole_with_its_end_and_data_after_the_end_is_refused() {
    let mut recorder = Recorder::new(&config());
    recorder.append(
        Instant::ZERO,
        &Call::Poll {
            outputs: &[],
            wake: None,
        },
    );
    let cut = replay(recorder.bytes()).unwrap();
    assert!(cut.calls == 1 && !cut.whole, "{cut:?}");
    recorder.end();
    let whole = replay(recorder.bytes()).unwrap();
    assert!(whole.calls == 1 && whole.whole, "{whole:?}");
    recorder.end();
    let more = replay(recorder.bytes());
    assert!(matches!(more, Err(ReplayError::Malformed(_))), "{more:?}");
}

#[test]
fn changed_bytes_never_panic_and_never_take_much_memory() {
    let record = run(60);
    let mut rng = Rng::new(11);
    for _ in 0..20_000 {
        let state = rng.next_u64();
        let mut bytes = record.clone();
        for i in 0..=(state >> 62) {
            let place = (state >> (20 + i)) as usize % bytes.len();
            bytes[place] = (state >> 48) as u8;
        }
        let mut reader = Reader::new();
        reader.feed(&bytes);
        while let Ok(Some(_)) = reader.next() {}
    }
}

#[test]
fn a_header_of_another_version_or_with_other_settings_is_refused() {
    let good = run(1);
    let [mut older, mut newer] = [good.clone(), good.clone()];
    // Byte 8 is the first byte of the version.
    older[8] -= 1;
    newer[8] += 1;
    let mut settings = good.clone();
    // The fields before it are the magic (8 bytes), the version (4), the length of the frame (4)
    // and the number of parts of the configuration (1). This byte is the number of fields of the
    // sizes.
    settings[8 + 4 + 4 + 1] += 2;
    let mut magic = good.clone();
    magic[0] = b'w';
    for (bytes, found) in [(older, VERSION - 1), (newer, VERSION + 1)] {
        let error = replay(&bytes).unwrap_err();
        assert_eq!(error, ReplayError::Malformed(Malformed::Version(found)));
        let both = format!(
            "the recording has version {found}, but this program supports version {VERSION}"
        );
        assert_eq!(error.to_string(), both);
    }
    for (bytes, at) in [(settings, 18), (magic, 0)] {
        let Err(ReplayError::Malformed(Malformed::At { offset, expected })) = replay(&bytes) else {
            panic!("malformed")
        };
        assert_eq!(offset, at, "{expected}");
    }
    assert!(matches!(
        replay(b"not a record at all"),
        Err(ReplayError::Malformed(_))
    ));
}

#[test]
fn a_call_that_fits_no_frame_is_counted_and_stops_the_reader() {
    let mut recorder = Recorder::new(&config());
    // Each completion takes 7 bytes (5 for the tag and 2 for the outcome), but only 4 bytes for
    // each would fit.
    let batch = std::vec![Completion::ok(crate::Tag(u32::MAX)); FRAME_MAX / 4];
    recorder.append(Instant::ZERO, &Call::Complete { batch: &batch });
    assert_eq!(recorder.overflowed(), 1);
    assert!(matches!(
        replay(recorder.bytes()),
        Err(ReplayError::Malformed(_))
    ));
}

/// Checks the encoding of all combinations of controllers and merging.
#[test]
fn every_set_of_controllers_is_read_as_it_was_written() {
    for bits in 0..64_u32 {
        let has = |bit: u32| bits >> bit & 1 > 0;
        let controllers = crate::control::Config {
            max: has(0),
            latency: has(1),
            cost: has(2).then(Default::default),
            low: has(3).then(Default::default),
            slices: has(4).then(Default::default),
        };
        let merge = if has(5) {
            crate::merge::Config::LINUX
        } else {
            crate::merge::Config::OFF
        };
        let written = config().controllers(controllers).merge(merge);
        let mut bytes = Vec::new();
        written.put(&mut bytes);
        assert_eq!(Config::take(&mut Input::new(&bytes, 0)).unwrap(), written);
    }
}

/// Checks that a record from before a controller had its last tunable gets the default of that
/// tunable, and that a record with too many tunables is refused.
#[test]
fn tunables_that_a_record_does_not_have_are_the_defaults() {
    use crate::control::slices;
    let slices = slices::Config::default().tick(Span::from_millis(1));
    let controllers = crate::control::Config::default().slices(Some(slices));
    let mut bytes = Vec::new();
    controllers.put(&mut bytes);
    let read = |bytes: &[u8]| crate::control::Config::take(&mut Input::new(bytes, 0));
    assert_eq!(read(&bytes).unwrap(), controllers);
    // The last bytes are the number of tunables, the value of the first one, and the tick.
    let mut tick = Vec::new();
    slices.tick.as_nanos().put(&mut tick);
    // One byte for the number of tunables, and one for the first of them.
    let count = bytes.len() - tick.len() - 2;
    assert_eq!(bytes[count..count + 2], [2, 0]);
    let mut fewer = bytes[..count + 2].to_vec();
    fewer[count] = 1;
    let default = slices::Config::default();
    assert_eq!(read(&fewer).unwrap().slices, Some(default));
    bytes[count] = 3;
    assert!(read(&bytes).is_err());
}
