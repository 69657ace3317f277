//! Tests of errors in records, and of observers.

use weir_core::record::{
    Call, Divergence, FRAME_MAX, Malformed, ObservedLayer, Observer, Reader, Recorder, Replay,
    ReplayError, replay,
};
use weir_core::testing::spec;
use weir_core::tunable::Allowed;
use weir_core::{Completion, Config, ConfigError, Instant, Layer, ROOT, Tag, elevator};

fn config() -> Config {
    Config::of(elevator::Config::None)
}

const POLL: Call<'static> = Call::Poll {
    outputs: &[],
    wake: None,
};

/// Returns a record of `calls` polls.
fn record(calls: u64) -> Recorder {
    let mut recorder = Recorder::new(&config());
    for call in 0..calls {
        recorder.append(Instant::from_nanos(call), &POLL);
    }
    recorder
}

/// Feeds a record in pieces and returns the numbers of its calls and the result.
fn read(bytes: &[u8], piece: usize) -> (Vec<u64>, Result<(), Malformed>) {
    let mut reader = Reader::new();
    let mut numbers = Vec::new();
    for bytes in bytes.chunks(piece) {
        reader.feed(bytes);
        loop {
            match reader.next() {
                Ok(Some(frame)) => numbers.push(frame.number),
                Ok(None) => break,
                Err(error) => return (numbers, Err(error)),
            }
        }
    }
    let end = reader.end();
    (numbers, end)
}

/// Returns the offset of an error and the description of the bytes that were expected there.
fn position(error: &Malformed) -> (u64, &'static str) {
    match error {
        Malformed::At { offset, expected } => (*offset, expected),
        Malformed::Version(_) => panic!("{error}"),
    }
}

#[test]
fn an_error_has_the_same_offset_however_a_record_is_cut_up() {
    let mut recorder = record(3);
    let calls = recorder.bytes().to_vec();
    recorder.end();
    let ended = recorder.bytes().to_vec();
    let last = calls.len() as u64 - 1;
    for piece in [1, 5, ended.len() + 8] {
        assert_eq!(read(&calls, piece), (vec![0, 1, 2], Ok(())));
        assert_eq!(read(&ended, piece), (vec![0, 1, 2], Ok(())));
        let wrong = |bytes: &[u8]| {
            let (numbers, result) = read(bytes, piece);
            let (offset, expected) = position(&result.unwrap_err());
            (numbers.len(), offset, expected)
        };
        let cut = &calls[..calls.len() - 1];
        // The frame of the last call misses one byte.
        assert_eq!(wrong(cut), (2, last, "more data: the recording is cut off"));
        let more = [&ended[..], &[1, 2, 3, 4, 5]].concat();
        assert_eq!(
            wrong(&more),
            (3, ended.len() as u64, "no data after the end")
        );
        // A length of zero stands for a call that did not fit into a frame.
        let empty = [&calls[..], &[0; 4]].concat();
        assert_eq!(wrong(&empty), (3, last + 1, "a frame of 1 byte to 16 MiB"));
    }
}

/// Returns a record with one frame, which has this body.
fn framed(body: &[u8]) -> Vec<u8> {
    let mut bytes = record(0).bytes().to_vec();
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn numbers_are_written_in_one_way_and_have_64_bits() {
    // The body of a poll has its code, the time since the previous call, the outputs and the
    // wake-up.
    let good = record(1).bytes()[record(0).bytes().len() + 4..].to_vec();
    let with_time = |time: &[u8]| {
        let body = [&good[..1], time, &good[2..]].concat();
        let (numbers, result) = read(&framed(&body), usize::MAX);
        (numbers.len(), result.map_err(|error| position(&error).1))
    };
    let varint = Err("a varint of 64 bits");
    assert_eq!(with_time(&[0]), (1, Ok(())));
    assert_eq!(with_time(&[0x80, 0x01]), (1, Ok(())));
    // 0x80 0x00 is a longer form of zero, which is not accepted.
    assert_eq!(with_time(&[0x80, 0x00]), (0, varint));
    // The tenth byte of a varint has room for one bit only.
    let mut most = [0xff; 10];
    most[9] = 1;
    assert_eq!(with_time(&most), (1, Ok(())));
    most[9] = 2;
    assert_eq!(with_time(&most), (0, varint));
    most[9] = 3;
    assert_eq!(with_time(&most), (0, varint));
    // One byte after the end of the call.
    let (numbers, result) = read(&framed(&[&good[..], &[0]].concat()), usize::MAX);
    assert!(numbers.is_empty() && result.is_err());
}

#[test]
fn a_recorder_can_clear_its_written_bytes() {
    let mut recorder = record(1);
    let first = recorder.bytes().to_vec();
    recorder.clear();
    assert!(recorder.bytes().is_empty());
    recorder.append(Instant::from_nanos(1), &POLL);
    let both = [first, recorder.bytes().to_vec()].concat();
    assert_eq!(both, record(2).bytes());
    assert_eq!(recorder.overflowed(), 0);
}

#[test]
fn a_call_that_fits_no_frame_leaves_an_empty_one() {
    let mut recorder = record(1);
    let before = recorder.bytes().to_vec();
    let batch = vec![Completion::ok(Tag(u32::MAX)); FRAME_MAX / 4];
    recorder.append(Instant::ZERO, &Call::Complete { batch: &batch });
    // An empty frame marks the missing call.
    assert_eq!(recorder.bytes(), [&before[..], &[0; 4]].concat());
}

#[test]
fn a_replayed_layer_exists_after_the_header() {
    let recorder = record(1);
    let mut replay = Replay::new();
    replay.feed(&recorder.bytes()[..8]).unwrap();
    assert!(replay.layer().is_none());
    replay.feed(&recorder.bytes()[8..]).unwrap();
    assert_eq!(replay.layer().unwrap().config(), &config());
}

#[derive(Debug, Default)]
struct Count(u32);

impl Observer for Count {
    fn call(&mut self, _: Instant, _: &Call<'_>, _: &mut Layer) {
        self.0 += 1;
    }
}

#[test]
fn every_observer_receives_each_call() {
    let (mut a, mut b) = (Count::default(), Count::default());
    let layer = Layer::new(config()).unwrap();
    let mut observed = ObservedLayer::new(layer, vec![&mut a, &mut b]);
    let spec = spec(ROOT);
    let now = Instant::ZERO;
    let stream = observed.open(now, spec).unwrap();
    observed.close(now, stream);
    assert_eq!(
        observed.layer().gauges(stream),
        None,
        "the layer was called, too"
    );
    observed.poll(now, &mut Vec::new());
    assert_eq!((a.0, b.0), (3, 3));
}

#[test]
fn errors_are_printed_with_their_position() {
    let malformed = Malformed::At {
        offset: 7,
        expected: "a number",
    };
    assert_eq!(malformed.to_string(), "byte 7: expected a number");
    let error = ReplayError::from(malformed);
    assert_eq!(
        error.to_string(),
        "not a recording: byte 7: expected a number"
    );
    let error = ReplayError::Config(ConfigError {
        field: "drive.tags",
        allowed: Allowed::Words("at least 1"),
    });
    assert_eq!(
        error.to_string(),
        "the header of the recording is invalid: drive.tags must be at least 1"
    );
    let divergence = Divergence {
        frame: 3,
        now: Instant::from_nanos(9),
        what: "output 0 of poll".into(),
        expected: "this".into(),
        got: "that".into(),
    };
    assert_eq!(
        ReplayError::Divergence(divergence).to_string(),
        "call 3 at 9ns: output 0 of poll differs\n  recorded this\n  replayed that"
    );
}

#[test]
fn a_wake_that_differs_is_named() {
    let mut recorder = record(0);
    let wake = weir_core::Wake {
        at: Instant::from_nanos(5),
        reason: weir_core::Reason::Limit,
    };
    let forged = Call::Poll {
        outputs: &[],
        wake: Some(wake),
    };
    recorder.append(Instant::ZERO, &forged);
    let Err(ReplayError::Divergence(divergence)) = replay(recorder.bytes()) else {
        panic!("a divergence")
    };
    assert_eq!(
        (divergence.frame, &divergence.what[..]),
        (0, "the wake of poll")
    );
}
