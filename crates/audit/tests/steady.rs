//! Shares, waits and promises hold in drawn scenes. More of them: `cargo run --release -p weir-audit --example steady`.

use weir_audit::random::Random;
use weir_audit::steady::{Kind, run};

#[test]
fn drawn_scenes_keep_their_bounds() {
    for kind in Kind::ALL {
        let mut seeds = Random::new(7);
        for _ in 0..3 {
            let outcome =
                run(kind, seeds.bits()).unwrap_or_else(|failure| panic!("{kind:?}: {failure}"));
            assert!(outcome.done > 1_000, "{kind:?}: {outcome:?}");
        }
    }
}
