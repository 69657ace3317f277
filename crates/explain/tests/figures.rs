//! How far explanations can be believed: a few of the runs of the example of the same name.

mod planted;

use planted::{CAUSES, is_named, off_by, plant, play, random};
use proptest::prelude::*;
use weir_explain::Journal;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn parts_add_up_to_the_measured_latency(seed in any::<u32>()) {
        // Some drawn cases cannot be played, or nothing is answered in them.
        if let Some((scenario, policy)) = random(seed.into()) {
            for journal in [planted::JOURNAL, 256 << 10] {
                let played = play(&scenario, &policy, journal);
                let off = off_by(&played).unwrap_or(0.0);
                prop_assert!(off <= 0.01, "{off}");
            }
        }
    }

    #[test]
    fn a_journal_takes_no_more_than_its_bytes(bytes in 0_usize..(1 << 20)) {
        // A few entries of each kind, however little there is.
        prop_assert!(Journal::new(bytes).bytes() <= bytes.max(16 << 10));
    }
}

#[test]
fn planted_causes_are_named() {
    let mut missed = Vec::new();
    for cause in CAUSES {
        for seed in 0..10 {
            let (scenario, policy) = plant(cause, seed);
            let played = play(&scenario, &policy, planted::JOURNAL);
            if !is_named(&played[0].1, cause) {
                missed.push((cause, seed, played[0].1.said.clone()));
            }
        }
    }
    // One in twenty may be taken for another.
    assert!(missed.len() <= 2, "{missed:#?}");
}
