//! Collects disagreements between the outputs of a comparison.

use std::fmt::Debug;

/// All disagreements in one comparison.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    head: Vec<String>,
    pub(crate) all: Vec<String>,
}

impl Faults {
    /// Runs checks within a named part of the output.
    pub(crate) fn within<T>(&mut self, head: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        self.head.push(head.to_owned());
        let result = check(self);
        self.head.pop();
        result
    }

    /// Adds the disagreement that `rule` describes, unless `holds` is true.
    pub(crate) fn check(&mut self, holds: bool, rule: impl FnOnce() -> String) {
        if !holds {
            self.all
                .push(format!("{}: {}", self.head.join(": "), rule()));
        }
    }

    /// Adds a disagreement if the shown value is not the wanted one.
    pub(crate) fn same<T: PartialEq + Debug>(&mut self, what: &str, shown: T, wanted: T) {
        let both = [shown, wanted];
        let said = || format!("{what}: {:?}, not {:?}", both[0], both[1]);
        self.check(both[0] == both[1], said);
    }
}
