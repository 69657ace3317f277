//! The text of a job file before it is read: files that it includes, variables, and what the machine has.

use crate::file;
use crate::problem::Problem;
use crate::scenario::PAGE;
use std::path::{Path, PathBuf};

/// The deepest nesting of files that include each other.
const DEEPEST: usize = 16;

/// A job file's text with the files that it includes in their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Whole {
    pub(super) text: String,
    /// The name of each file, that of the job file first.
    files: Vec<String>,
    /// For each line of the text its file and its line there, from 1.
    lines: Vec<(usize, u32)>,
    /// What is to be said of words that were replaced.
    notes: Vec<Problem>,
    problems: Vec<Problem>,
}

/// Where variables get their values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variables {
    /// From the environment of this process.
    Environment,
    /// Nowhere: the text did not come from a file of this machine.
    None,
}

impl Whole {
    /// The text of a job file alone. A file that it includes is not read.
    pub(super) fn alone(text: &str, name: &str) -> Self {
        let mut whole = Self::named(name);
        for (line, number) in text.split_inclusive('\n').zip(1..) {
            whole.add(line, (0, number), Variables::None);
        }
        whole
    }

    /// A job file with all that it includes.
    ///
    /// # Errors
    /// The job file, or a file that it includes, cannot be read.
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

    /// The job file's own name.
    pub(super) fn name(&self) -> &str {
        &self.files[0]
    }

    /// What is to be said of words that were replaced.
    pub(super) fn notes(&self) -> &[Problem] {
        &self.notes
    }

    /// Problems of the text with the files and lines where they are.
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

    /// Adds the text of the file of number `file`, which is at `path`.
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
            let other = found(other, path);
            match file::text(&other) {
                Ok((name, text)) => {
                    self.files.push(name);
                    let file = self.files.len() - 1;
                    self.include(&text, file, &other, depth + 1);
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
            if self.text.len() > super::FILE_MAX {
                return;
            }
        }
    }

    fn add(&mut self, line: &str, place: (usize, u32), variables: Variables) {
        self.lines.push(place);
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

    /// The value of an option with the words of the machine and variables replaced.
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
            let end = &expanded[expanded.trim_end().len()..];
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

/// A value with the variables of the environment in it. One that is not set stays as it is, to be told where the value matters.
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

/// Where a file is that another includes: relative to the working directory, otherwise beside the file that includes it.
fn found(name: &str, from: &Path) -> PathBuf {
    let here = PathBuf::from(name);
    match from.parent() {
        Some(folder) if !here.exists() => folder.join(name),
        _ => here,
    }
}

/// fio's words for what a machine has: the bytes of a page, its processors, and its memory in MiB where that can be read.
fn machine() -> Vec<(&'static str, u64)> {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mut words = vec![("$pagesize", PAGE), ("$ncpus", processors)];
    let known = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = known.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = total.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    words.extend(kib.map(|kib| ("$mb_memory", kib >> 10)));
    words
}

/// The result of sums and products of whole numbers, from left to right within each. `None` if the text is anything else.
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
