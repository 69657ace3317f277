//! Reports the parts of contracts that a policy does not keep, before results are shown.

use crate::output;
use weir_config::Policy;
use weir_sim::Scenario;

/// Prints a line for each part of the contracts that a policy does not keep, and for each I/O
/// priority without a class under a policy with classes. A line is printed once, even if it applies
/// to several clients.
pub(crate) fn print_notes(played: impl IntoIterator<Item = (Scenario, Policy)>) {
    for line in lines(played) {
        output::print_message(&line);
    }
}

fn lines(played: impl IntoIterator<Item = (Scenario, Policy)>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // Several clients and scenarios can lead to the same line.
    let mut say = |line| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    for (scenario, policy) in played {
        let groups = scenario.groups.iter();
        for part in groups.flat_map(|g| policy.unkept(&g.contract, g.knobs)) {
            let (name, key, does) = (&policy.name, part.key, part.does);
            say(format!("note: {name} does not enforce {key}: it {does}"));
        }
        if policy.uses_classes() {
            let remarks = scenario.unclassed.iter();
            remarks.for_each(|remark| say(format!("note: {remark}")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::policy::find;
    use weir_config::scenario::{Choice, parse};

    #[test]
    fn each_part_that_a_policy_does_not_keep_has_one_line() {
        let text = "[[client]]\nname = \"a\"\nnumjobs = 2\nsize = \"1MiB\"\nmin = \"1MB/s\"\nionice = \"idle\"\n\n\
                    [[client]]\nname = \"b\"\nsize = \"1MiB\"\nshare = 400\n";
        let drive =
            weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
        let choice = Choice::new(&drive, None, "");
        let scenario = parse(text, "x.toml").unwrap().scenario(&choice).unwrap();
        // Both clients of `a` have a min, but each note is printed once.
        let played = ["none", "bfq", "contract"].map(|p| (scenario.clone(), find(p).unwrap()));
        assert_eq!(
            lines(played),
            [
                "note: none does not enforce min: it serves first come, first served",
                "note: none does not enforce share: it serves first come, first served",
                "note: bfq does not enforce min: it uses it as a weight only",
                "note: x.toml:6:10: client[0].ionice: has no effect under policies with classes, such as contract: an idle client cannot have a min, \
                 and the min takes precedence\n  help: set class = \"best-effort\", or remove the min",
            ]
        );
    }
}
