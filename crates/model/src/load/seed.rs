//! The seeds of clients' random choices.

use weir_core::random::SplitMix;

/// The seed of one client in one repetition of a scenario.
///
/// It depends on nothing else, so that all policies and drives serve the same requests.
pub fn seed(scenario: &str, repetition: u32, client: u32) -> u64 {
    // FNV-1a (Fowler, Noll, Vo) hashes the name. `SplitMix64` scatters similar numbers over all
    // seeds.
    let name = scenario
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    SplitMix::new(name ^ (u64::from(repetition) << 32 | u64::from(client))).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_in_every_part() {
        let all = [
            seed("a", 0, 0),
            seed("b", 0, 0),
            seed("a", 1, 0),
            seed("a", 0, 1),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|y| x != y));
        }
        assert_eq!(seed("a", 0, 0), seed("a", 0, 0));
    }
}
