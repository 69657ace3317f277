//! The look of policies: a colour and a line pattern, the same on every page.

use crate::svg::{DASHES, Ink};

/// The policies with a colour of their own, those of Linux that Weir does not have yet included, so that a new one needs no new colour.
/// Whatever else somebody composes or writes has one of the colours left and any line pattern, which follow from its name.
const NAMES: [&str; 11] = [
    "none",
    "io.latency",
    "bfq-linux",
    "bfq",
    "bfq-bytes",
    "contract",
    "mq-deadline",
    "io.cost",
    "kyber",
    "cfq",
    "io.low",
];

/// The colour of a policy.
pub fn ink(policy: &str) -> Ink {
    Ink::policy(look(policy).0)
}

/// The line pattern of a policy, for plots in which lines may overlap.
pub(crate) fn dash(policy: &str) -> usize {
    look(policy).1
}

/// Places in the lists of colours and of patterns.
fn look(policy: &str) -> (usize, usize) {
    if let Some(place) = NAMES.iter().position(|name| *name == policy) {
        return (place, place % DASHES);
    }
    let sum = checksum(policy);
    let left = Ink::POLICIES - NAMES.len();
    (NAMES.len() + sum % left, sum / left % DASHES)
}

/// A sum of its bytes (FNV-1a), which is the same on every machine.
fn checksum(text: &str) -> usize {
    let sum = text.bytes().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    sum as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_policies_look_alike_nor_like_anything_else() {
        let mut inks: Vec<&str> = NAMES.iter().map(|name| ink(name).class()).collect();
        inks.push(ink("another").class());
        inks.extend(Ink::PARTS.map(Ink::class));
        inks.push(Ink::STRONG.class());
        let all = inks.len();
        inks.sort_unstable();
        inks.dedup();
        assert_eq!(inks.len(), all);
        assert!((1..NAMES.len()).all(|i| dash(NAMES[i]) != dash(NAMES[i - 1])));
    }

    #[test]
    fn policies_of_ones_own_seldom_look_alike() {
        let names: Vec<String> = (0..40).map(|n| format!("./mine-{n}.toml")).collect();
        let mut looks: Vec<_> = names.iter().map(|name| look(name)).collect();
        looks.sort_unstable();
        looks.dedup();
        assert!(looks.len() > 12, "{} looks of 21", looks.len());
    }
}
