//! Rules that the fields of a configuration must follow, checked in one way everywhere.

/// Whether a rule holds, the field that it is about, the field's value, and what is allowed.
pub type Rule = (bool, &'static str, u64, &'static str);

/// A field that breaks its rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The field.
    pub field: &'static str,
    /// What it was set to, in the unit of `allowed`.
    pub value: u64,
    /// What is allowed, with the unit.
    pub allowed: &'static str,
}

/// Checks rules in their order.
///
/// # Errors
/// The first that does not hold.
pub fn check(rules: impl IntoIterator<Item = Rule>) -> Result<(), Broken> {
    let mut rules = rules.into_iter();
    match rules.find(|(holds, ..)| !holds) {
        Some((_, field, value, allowed)) => Err(Broken {
            field,
            value,
            allowed,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_is_broken_is_named() {
        let rules = |one, two| [(one, "one", 1, "2"), (two, "two", 3, "4")];
        assert_eq!(check(rules(true, true)), Ok(()));
        assert_eq!(check(rules(true, false)).unwrap_err().field, "two");
        let broken = check(rules(false, false)).unwrap_err();
        assert_eq!(
            (broken.field, broken.value, broken.allowed),
            ("one", 1, "2")
        );
    }
}
