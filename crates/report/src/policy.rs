//! The look of policies: one colour and one line pattern for each, on every page, and used for nothing else.

use crate::svg::Ink;

/// The policies with a look of their own; all others share one.
const NAMES: [&str; 6] = [
    "none",
    "io.latency",
    "bfq-linux",
    "bfq",
    "contract",
    "mq-deadline",
];

/// The colour of a policy.
pub fn ink(policy: &str) -> Ink {
    Ink::policy(place(policy))
}

/// The line pattern of a policy, for plots in which lines may overlap.
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
