//! Tests that a recorded run is replayed byte for byte, and can be audited afterwards.

use weir_core::record::{Call, Reader, Recorder, ReplayError};
use weir_core::{Span, Wake};
use weir_verify::audit::random::{RandomDecisions, record};
use weir_verify::audit::recording;

#[test]
fn recorded_runs_are_replayed_to_the_byte_and_audited() {
    let mut seeds = RandomDecisions::new(4);
    for _ in 0..60 {
        let seed = seeds.bits();
        let record = record(seed, 1_000);
        let (replayed, found) = recording(&record).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(replayed.calls > 500, "seed {seed}: {replayed:?}");
        assert_eq!(found.violations(), [], "seed {seed}");
    }
}

/// Returns the record with every wake-up later, or `None` if there is no wake-up in it.
fn forged(record: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new();
    reader.feed(record);
    let mut forged = Recorder::new(reader.config().unwrap().unwrap());
    let mut later = false;
    while let Some(frame) = reader.next().unwrap() {
        match frame.call {
            Call::Poll {
                outputs,
                wake: Some(wake),
            } => {
                // The smallest possible difference.
                let at = wake.at + Span::from_nanos(1);
                let wake = Some(Wake { at, ..wake });
                forged.append(frame.now, &Call::Poll { outputs, wake });
                later = true;
            }
            call => forged.append(frame.now, &call),
        }
    }
    later.then(|| forged.bytes().to_vec())
}

#[test]
fn a_record_of_another_run_diverges() {
    let mut records = (5..50).filter_map(|seed| forged(&record(seed, 500)));
    let forged = records.next().expect("some elevator asks for a wake");
    assert!(
        matches!(recording(&forged), Err(ReplayError::Divergence(d)) if d.what == "the wake of poll")
    );
}
