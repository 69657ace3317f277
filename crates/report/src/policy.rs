//! How policies look: one colour and one kind of line for each, on every page, and neither for anything else.

use crate::svg::Ink;

/// The policies that have a look of their own; all others share one.
const NAMES: [&str; 5] = ["none", "io.latency", "bfq-linux", "bfq", "contract"];

/// The colour of a policy.
pub fn ink(policy: &str) -> Ink {
    Ink::policy(place(policy))
}

/// The pattern of a policy's line where those of others may lie on it.
pub(crate) fn dash(policy: &str) -> usize {
    place(policy)
}

fn place(policy: &str) -> usize {
    let place = NAMES.iter().position(|name| *name == policy);
    place.unwrap_or(NAMES.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_policies_look_alike_nor_like_anything_else() {
        let mut inks: Vec<String> = NAMES.iter().map(|name| ink(name).class()).collect();
        inks.push(ink("another").class());
        inks.extend(Ink::PARTS.map(Ink::class));
        inks.push(Ink::STRONG.class());
        let all = inks.len();
        inks.sort();
        inks.dedup();
        assert_eq!(inks.len(), all);
        assert!((1..NAMES.len()).all(|i| dash(NAMES[i]) != dash(NAMES[i - 1])));
    }
}
