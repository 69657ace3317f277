//! The text of a job file before it is parsed, with included files, variables and properties of the
//! machine.

use crate::file;
use crate::problem::Problem;
use crate::scenario::PAGE;
use std::path::Path;

/// The maximum nesting of included files. It ends a file that includes itself.
const DEEPEST: usize = 16;

/// The text of a job file, with the text of included files in their places.
#[derive(Clone, Debug, Default)]
pub(super) struct JobFileText {
    pub(super) text: String,
    /// The name of each file, beginning with the job file.
    files: Vec<String>,
    /// The file and the line in that file, counted from 1, for each line of the text.
    lines: Vec<(usize, u32)>,
    /// Notes on words that were replaced.
    notes: Vec<Problem>,
    problems: Vec<Problem>,
}

/// The source of values for variables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variables {
    /// The environment of this process.
    Environment,
    /// No source, because the text did not come from a file of this machine.
    None,
}

impl JobFileText {
    /// Creates the text of a job file without its included files.
    pub(super) fn alone(text: &str, name: &str) -> Self {
        let mut whole = Self::named(name);
        for (line, number) in text.split_inclusive('\n').zip(1..) {
            whole.add(line, (0, number), Variables::None);
        }
        whole
    }

    /// Reads a job file with its included files.
    ///
    /// # Errors
    /// The job file or an included file cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self, Vec<Problem>> {
        let (name, text) = file::text(path)?;
        let mut whole = Self::named(&name);
        whole.include(&text, 0, path, 0);
        if whole.problems.is_empty() {
            Ok(whole)
        } else {
            Err(whole.problems)
        }
    }

    fn named(name: &str) -> Self {
        Self {
            files: vec![name.to_owned()],
            ..Self::default()
        }
    }

    /// Returns the name of the job file.
    pub(super) fn name(&self) -> &str {
        &self.files[0]
    }

    /// Returns the notes on words that were replaced.
    pub(super) fn notes(&self) -> &[Problem] {
        &self.notes
    }

    /// Moves problems of the text to the original files and lines.
    pub(super) fn placed(&self, mut problems: Vec<Problem>) -> Vec<Problem> {
        for problem in &mut problems {
            let at = (problem.line as usize).checked_sub(1);
            if let Some(&(file, line)) = at.and_then(|at| self.lines.get(at)) {
                problem.file.clone_from(&self.files[file]);
                problem.line = line;
            }
        }
        problems
    }

    /// Adds the text of the file with index `file`, whose path is `path`.
    fn include(&mut self, text: &str, file: usize, path: &Path, depth: usize) {
        for (line, number) in text.split_inclusive('\n').zip(1..) {
            let Some(other) = line.trim().strip_prefix("include ").map(str::trim) else {
                self.add(line, (file, number), Variables::Environment);
                continue;
            };
            if depth == DEEPEST {
                let help = "reduce the nesting of include";
                let what = format!("include files are nested more than {DEEPEST} deep");
                self.problem((file, number), "include", what, help);
                return;
            }
            let other = file::beside(other, path, Path::exists);
            match file::text(&other) {
                Ok((name, text)) => {
                    self.files.push(name);
                    let file = self.files.len() - 1;
                    self.include(&text, file, &other, depth + 1);
                    // The last line of an included file can lack its end, and must not join the
                    // next line.
                    if !self.text.ends_with('\n') {
                        self.text.push('\n');
                    }
                }
                Err(problems) => {
                    let first = problems.first().map(Problem::located);
                    let help = "write a path relative to this directory or to the job file";
                    self.problem((file, number), "include", first.unwrap_or_default(), help);
                }
            }
            // The parser reports the excessive length. Further files would only take memory.
            if self.text.len() > super::FILE_MAX {
                return;
            }
        }
    }

    fn add(&mut self, line: &str, place: (usize, u32), variables: Variables) {
        self.lines.push(place);
        // A note about a replacement in a comment would confuse users.
        let comment = line.trim_start().starts_with(['#', ';']);
        match line
            .split_once('=')
            .filter(|(_, v)| !comment && v.contains('$'))
        {
            None => self.text += line,
            Some((name, value)) => {
                let value = self.expand(name.trim(), value, place, variables);
                self.text += name;
                self.text.push('=');
                self.text += &value;
            }
        }
    }

    /// Returns the value of an option with its variables and machine words replaced.
    fn expand(
        &mut self,
        name: &str,
        value: &str,
        place: (usize, u32),
        variables: Variables,
    ) -> String {
        let mut expanded = match variables {
            Variables::Environment => from_environment(value),
            Variables::None => value.to_owned(),
        };
        let before = expanded.clone();
        for (word, number) in machine() {
            if expanded.contains(word) {
                expanded = expanded.replace(word, &number.to_string());
            }
        }
        if expanded != before {
            // The line break at the end must remain.
            let end = &expanded[expanded.trim_end().len()..];
            // An expression is evaluated only if such a word was replaced, as in `$ncpus*2`.
            if let Some(result) = calculated(&expanded) {
                expanded = format!("{result}{end}");
            }
            let what = format!(
                "{} is set to {} on this machine",
                before.trim(),
                expanded.trim()
            );
            let note = self.said(place, name, what, "");
            self.notes.push(note);
        }
        expanded
    }

    fn problem(&mut self, place: (usize, u32), key: &str, what: String, help: &str) {
        let problem = self.said(place, key, what, help);
        self.problems.push(problem);
    }

    fn said(&self, (file, line): (usize, u32), key: &str, message: String, help: &str) -> Problem {
        Problem::new(&self.files[file], (line, 1), key, message, help)
    }
}

/// Replaces variables of the environment in a value. A variable that is not set stays, and causes a
/// problem when the value is read.
fn from_environment(value: &str) -> String {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some((head, variable)) = rest.split_once("${") {
        expanded += head;
        let known = variable
            .split_once('}')
            .map(|(name, tail)| (std::env::var(name), tail));
        if let Some((Ok(set), tail)) = known {
            expanded += &set;
            rest = tail;
        } else {
            expanded += "${";
            rest = variable;
        }
    }
    expanded + rest
}

/// Returns the words of `fio` for properties of the machine, with their values: the page size, the
/// number of processors, and the memory in MiB if it is known.
fn machine() -> Vec<(&'static str, u64)> {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mut words = vec![("$pagesize", PAGE), ("$ncpus", processors)];
    // If the memory is not known, the word stays in the value, which is then reported as wrong.
    let known = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = known.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = total.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    words.extend(kib.map(|kib| ("$mb_memory", kib >> 10)));
    words
}

/// Evaluates sums and products of whole numbers from left to right. `None` if the text is not such
/// an expression.
fn calculated(text: &str) -> Option<u64> {
    let mut sum: i128 = 0;
    let mut sign = 1;
    let mut rest = text.trim();
    loop {
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        sum = sum.checked_add(product(&rest[..end])?.checked_mul(sign)?)?;
        let Some(next) = rest[end..].chars().next() else {
            return u64::try_from(sum).ok();
        };
        sign = if next == '-' { -1 } else { 1 };
        rest = &rest[end + 1..];
    }
}

fn product(text: &str) -> Option<i128> {
    let end = text.find(['*', '/']).unwrap_or(text.len());
    let number = |t: &str| t.trim().parse::<u64>().ok().map(i128::from);
    let mut all = number(&text[..end])?;
    let mut rest = &text[end..];
    while let Some(operation) = rest.chars().next() {
        let behind = &rest[1..];
        let end = behind.find(['*', '/']).unwrap_or(behind.len());
        let next = number(&behind[..end])?;
        all = match operation {
            '*' => all.checked_mul(next)?,
            _ => all.checked_div(next)?,
        };
        rest = &behind[end..];
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::calculated;

    #[test]
    fn sums_of_products_are_calculated() {
        let of = |text| calculated(text);
        assert_eq!(of(" 8*1024 "), Some(8192));
        assert_eq!(of("2+3*4-1"), Some(13));
        assert_eq!(of("100/8/2"), Some(6));
        assert_eq!(["", "4k", "1/0", "1-2", "*3", "2*(3)"].map(of), [None; 6]);
    }
}
