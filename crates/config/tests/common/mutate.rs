//! Mutants of valid texts, and the properties of their problems.

use super::random::RandomSource;
use weir_config::Problem;

/// Values that are valid for some keys and wrong for others.
const WORDS: &[&str] = &[
    "-1",
    "0",
    "1",
    "65536",
    "99999999999999999999",
    "1e3",
    "0x10",
    "true",
    "\"\"",
    "\"0s\"",
    "\"1ns\"",
    "\"9h\"",
    "\"16EiB\"",
    "\"18446744073709551615B\"",
    "\"1B/s\"",
    "[]",
    "{}",
    "[\"demo\"]",
    "{ kind = \"null\" }",
    "\"stripe\"",
    "\"linear\"",
    "\"hdd\"",
    "\"ssd\"",
    "\"\"\"",
    "\u{e9}",
];

/// Reads mutants of the texts, and checks that no text causes a panic and that each problem has a
/// place and a message. More than one in `accepted_in` mutants, and less than half of them, must be
/// accepted. `WEIR_FUZZ_STEPS` and `WEIR_FUZZ_SEED` select a longer or different sequence.
pub(crate) fn walk(
    all: &[String],
    steps: u64,
    accepted_in: u64,
    mut read: impl FnMut(&str) -> Result<(), Vec<Problem>>,
) {
    let number = |name, or| std::env::var(name).map_or(or, |n| n.parse().expect("a number"));
    let mut random = RandomSource::new(number("WEIR_FUZZ_SEED", 1));
    let (steps, mut accepted) = (number("WEIR_FUZZ_STEPS", steps), 0);
    for _ in 0..steps {
        let text = mutate(&mut random, all);
        match read(&text) {
            Ok(()) => accepted += 1,
            Err(problems) => located(&text, &problems),
        }
    }
    // If too few mutants are accepted, or too many, they no longer test the bounds between valid
    // and wrong files.
    assert!(
        accepted > steps / accepted_in && accepted < steps / 2,
        "{accepted} of {steps}"
    );
}

/// Changes a value, a letter or two lines, or removes, repeats or inserts a line.
fn mutate(random: &mut RandomSource, all: &[String]) -> String {
    let mut lines: Vec<String> = all[random.below(all.len())]
        .lines()
        .map(str::to_owned)
        .collect();
    for _ in 0..=random.below(3) {
        let other: Vec<&str> = all[random.below(all.len())].lines().collect();
        let at = random.below(lines.len());
        match random.below(6) {
            0 => {
                let key = lines[at].split('=').next().unwrap_or_default().to_owned();
                lines[at] = format!("{key}= {}", WORDS[random.below(WORDS.len())]);
            }
            1 => {
                let mut letters: Vec<char> = lines[at].chars().collect();
                if !letters.is_empty() {
                    let letter = random.below(letters.len());
                    letters[letter] = ['x', '=', '"', '.', '{', '\n', '\u{e9}'][random.below(7)];
                }
                lines[at] = letters.into_iter().collect();
            }
            2 if lines.len() > 1 => drop(lines.remove(at)),
            3 => lines.insert(at, lines[at].clone()),
            4 => {
                let to = random.below(lines.len());
                lines.swap(at, to);
            }
            _ => lines.insert(at, other[random.below(other.len())].to_owned()),
        }
    }
    lines.join("\n")
}

/// Checks that each problem has a place in the text and a message.
pub(crate) fn located(text: &str, problems: &[Problem]) {
    assert!(!problems.is_empty(), "refused without a reason:\n{text}");
    // The end of the text is on a line of its own after the last line break.
    let lines = text.lines().count() + 1;
    for problem in problems {
        let Problem { line, column, .. } = *problem;
        let inside = (1..=lines as u32).contains(&line) && column >= 1;
        // The count of further problems has no place.
        assert!(
            inside || problem.message.ends_with("are not shown"),
            "{problem:?}"
        );
        assert!(!problem.message.is_empty() && !problem.file.is_empty());
    }
}
