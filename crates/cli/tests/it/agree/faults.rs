//! What does not agree.

use std::fmt::Debug;

/// Everything that does not agree in a comparison.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    head: Vec<String>,
    pub(crate) all: Vec<String>,
}

impl Faults {
    /// Checks within a part of what is shown, which has a name.
    pub(crate) fn within<T>(&mut self, head: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        self.head.push(head.to_owned());
        let result = check(self);
        self.head.pop();
        result
    }

    /// It is to hold; otherwise `rule` says what does not.
    pub(crate) fn check(&mut self, holds: bool, rule: impl FnOnce() -> String) {
        if !holds {
            self.all
                .push(format!("{}: {}", self.head.join(": "), rule()));
        }
    }

    /// What is shown is to be this.
    pub(crate) fn same<T: PartialEq + Debug>(&mut self, what: &str, shown: T, wanted: T) {
        let both = [shown, wanted];
        let said = || format!("{what}: {:?}, not {:?}", both[0], both[1]);
        self.check(both[0] == both[1], said);
    }
}
