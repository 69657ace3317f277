//! The looks of policies: a colour and a line pattern for each.

use crate::report::svg::{DASHES, Ink};

/// The policies that have a colour of their own on every page. They include policies of Linux that
/// Weir does not have yet, so that a new one needs no new colour.
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

/// The looks of all policies of a page. No two policies share a colour while there are colours
/// left.
///
/// A policy that a user composes or writes gets one of the spare colours. The colour follows from
/// its name, unless another policy of the page has it. When the spare colours are used up, it gets
/// a colour whose owner is not on the page. Two policies with the same colour have different line
/// patterns.
#[derive(Debug, Clone, Default)]
pub struct Looks(Vec<(String, usize, usize)>);

impl Looks {
    /// Assigns looks to these policies.
    pub fn of<'a>(policies: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for name in policies {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut looks = Self::default();
        // Policies with a colour of their own come first, so that no other policy takes it.
        names.sort_by_key(|name| place(name).is_none());
        for name in names {
            let (ink, dash) = looks.look(name);
            looks.0.push((name.to_owned(), ink, dash));
        }
        looks
    }

    /// Returns the colour of a policy.
    pub fn ink(&self, policy: &str) -> Ink {
        Ink::policy(self.look(policy).0)
    }

    /// Returns the line pattern of a policy, for plots in which lines may overlap.
    pub(crate) fn dash(&self, policy: &str) -> usize {
        self.look(policy).1
    }

    /// Returns the indices of a policy's colour and pattern.
    fn look(&self, policy: &str) -> (usize, usize) {
        let found = self.0.iter().find(|(name, ..)| name == policy);
        let found = found.map(|(_, ink, dash)| (*ink, *dash));
        let own = || place(policy).map(|place| (place, place % DASHES));
        found.or_else(own).unwrap_or_else(|| self.free(policy))
    }

    /// Returns a look that no other policy of the page has.
    fn free(&self, policy: &str) -> (usize, usize) {
        let sum = checksum(policy);
        let spare = Ink::POLICIES - NAMES.len();
        // The search begins at a colour that depends on the name, so that a policy tends to keep
        // its colour across pages.
        let inks = (0..spare).map(|i| NAMES.len() + (sum + i) % spare);
        let inks: Vec<usize> = inks.chain(0..NAMES.len()).collect();
        let is_free = |ink: &usize| self.0.iter().all(|(_, taken, _)| taken != ink);
        if let Some(ink) = inks.iter().copied().find(is_free) {
            return (ink, sum / spare % DASHES);
        }
        let looks =
            (0..DASHES).flat_map(|i| inks.iter().map(move |ink| (*ink, (sum + i) % DASHES)));
        let mut looks = looks.filter(|look| self.0.iter().all(|(_, i, d)| (*i, *d) != *look));
        looks.next().unwrap_or((inks[0], sum % DASHES))
    }
}

fn place(policy: &str) -> Option<usize> {
    NAMES.iter().position(|name| *name == policy)
}

/// Returns a checksum of a text (FNV-1a), which is the same on every machine.
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
    fn each_policy_has_an_ink_of_its_own() {
        let looks = Looks::of(NAMES.into_iter().chain(["another"]));
        let mut inks: Vec<&str> = NAMES.iter().map(|name| looks.ink(name).class()).collect();
        inks.push(looks.ink("another").class());
        inks.extend(Ink::PARTS.map(Ink::class));
        inks.push(Ink::STRONG.class());
        let all = inks.len();
        inks.sort_unstable();
        inks.dedup();
        assert_eq!(inks.len(), all);
        let dash = |i: usize| looks.dash(NAMES[i]);
        assert!((1..NAMES.len()).all(|i| dash(i) != dash(i - 1)));
    }

    #[test]
    fn composed_policies_of_a_page_have_colours_of_their_own() {
        let parts = ["none", "bfq", "mq-deadline", "kyber"];
        let over = ["io.latency", "io.cost", "io.max", "io.low"];
        let composed = parts
            .iter()
            .flat_map(|part| over.iter().map(move |over| format!("{part} + {over}")));
        let mut names: Vec<String> = composed.take(10).collect();
        names.extend(["none", "bfq", "contract"].map(str::to_owned));
        let looks = Looks::of(names.iter().map(String::as_str));
        let mut inks: Vec<&str> = names.iter().map(|name| looks.ink(name).class()).collect();
        inks.sort_unstable();
        inks.dedup();
        assert_eq!(inks.len(), names.len());
        assert_eq!(looks.ink("bfq"), Looks::of(["bfq"]).ink("bfq"));
    }

    #[test]
    fn policies_that_share_a_colour_differ_in_pattern() {
        // 60 policies and 16 colours: some must share a colour.
        let names: Vec<String> = (0..60).map(|n| format!("./mine-{n}.toml")).collect();
        let page = Looks::of(names.iter().map(String::as_str));
        let mut looks: Vec<_> = names.iter().map(|name| page.look(name)).collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), names.len());
    }
}
