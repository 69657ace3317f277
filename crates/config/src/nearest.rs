//! What may have been meant by a name that does not exist.

use crate::text::quoted;

/// The candidate that is nearest to `word`, if any is near.
pub(crate) fn name<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = folded(word);
    let length = word.chars().count();
    candidates
        .into_iter()
        // Names whose lengths differ by more than a third cannot be near: most need no further look.
        .filter(|c| c.chars().count().abs_diff(length) <= length / 3 + 1)
        .map(|c| (strsim::damerau_levenshtein(&word, &folded(c)), c))
        .filter(|(distance, _)| *distance <= (length / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// Help for a reference to something that does not exist: the nearest name, or all of a few.
pub(crate) fn help<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    const FEW: usize = 8;
    if let Some(near) = name(word, candidates.clone()) {
        return format!("did you mean {}?", quoted(near));
    }
    let mut names = candidates.into_iter();
    let few: Vec<String> = names.by_ref().take(FEW).map(quoted).collect();
    match few.len() {
        0 => "define one first".to_owned(),
        _ if names.next().is_some() => format!("use for example one of {}", few.join(", ")),
        1 => format!("use {}", few[0]),
        _ => format!("use one of {}", few.join(", ")),
    }
}

/// Case and the kind of dash do not make a name another.
fn folded(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far() {
        let keys = ["bandwidth", "read_bandwidth", "iops", "burst", "min"];
        assert_eq!(name("bandwith", keys), Some("bandwidth"));
        assert_eq!(name("Read-Bandwidth", keys), Some("read_bandwidth"));
        assert_eq!(name("ipos", keys), Some("iops"));
        assert_eq!(name("mim", keys), Some("min"));
        assert_eq!(name("weight", keys), None);
        assert_eq!(name("", keys), None);
        // Lengths are counted in characters.
        assert_eq!(
            name("rea\u{1f600}_b\u{1f600}ndwidth", keys),
            Some("read_bandwidth")
        );
    }

    #[test]
    fn help_names_the_nearest_or_a_few() {
        assert_eq!(help("fats", ["fast", "slow"]), "did you mean \"fast\"?");
        assert_eq!(help("x", ["fast", "slow"]), "use one of \"fast\", \"slow\"");
        assert_eq!(help("x", ["fast"]), "use \"fast\"");
        assert_eq!(help("x", []), "define one first");
        let many: Vec<String> = (0..20).map(|n| format!("drive{n}")).collect();
        let text = help("x", many.iter().map(String::as_str));
        assert!(
            text.starts_with("use for example one of \"drive0\", "),
            "{text}"
        );
    }
}
