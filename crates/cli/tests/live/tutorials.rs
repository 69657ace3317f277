//! Checks that the tutorials work when they are pasted. Each command of a page runs in a shell in a
//! scratch directory, with the built program first in `PATH`. Each must exit with status 0, and the
//! first words of the output that the page shows must appear in the command's output.
//!
//! A block that follows a sentence that ends with "Write this to `FILE`:" is written to that file.
//! A command that ends with `&` runs in the background, so its output is not checked. The directory
//! `/tmp/weir-tutorial` of the pages is replaced by the scratch directory, and the path of a script
//! of the sources by its absolute path.
//!
//! `docs/tutorials/kubernetes.md` is not run, because it needs a cluster.

use crate::common::{Scratch, root, shell, works};
use std::fmt::Write as _;
use std::fs;

/// The directory that the pages name.
const DIRECTORY: &str = "/tmp/weir-tutorial";

/// The number of output words that are compared.
const WORDS: usize = 3;

/// A step of a page.
#[derive(Debug)]
enum TutorialStep {
    /// A command and the first line of its output, which is empty if the page shows none.
    Run(String, String),
    /// A file's name and its text.
    Write(String, String),
}

/// Returns the steps of a page, in order.
fn steps(page: &str) -> Vec<TutorialStep> {
    let mut steps = Vec::new();
    let mut lines = page.lines().peekable();
    // The file that the next block is written to.
    let mut file: Option<String> = None;
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("    ") else {
            if let Some((_, name)) = line.split_once("Write this to `") {
                file = name.strip_suffix("`:").map(str::to_owned);
            }
            continue;
        };
        if let Some(name) = file.take() {
            let mut text = format!("{first}\n");
            // Empty lines belong to the file. Those after it do no harm.
            while let Some(line) = lines.next_if(|l| l.is_empty() || l.starts_with("    ")) {
                text += line.strip_prefix("    ").unwrap_or("");
                text.push('\n');
            }
            steps.push(TutorialStep::Write(name, text));
        } else if let Some(command) = first.strip_prefix("$ ") {
            let shown = lines.next_if(|l| l.starts_with("    ") && !l.starts_with("    $ "));
            let shown = shown.map_or("", str::trim);
            steps.push(TutorialStep::Run(command.to_owned(), shown.to_owned()));
        }
    }
    steps
}

/// Returns the words of a text, separated by single spaces.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the script that runs the steps, writes the output of step N to `out.N`, and stops at the
/// first failure. Servers that still run at the end are stopped.
fn script(scratch: &Scratch, steps: &[TutorialStep]) -> String {
    let mut script = String::from("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for (number, step) in steps.iter().enumerate() {
        match step {
            TutorialStep::Write(name, text) => {
                let source = scratch.file(&format!("file.{number}"), &local(scratch, text));
                writeln!(script, "cp {} {name}", source.display())
            }
            TutorialStep::Run(command, _) => {
                let command = local(scratch, command);
                let out = scratch.path(&format!("out.{number}"));
                let out = out.display();
                match command.strip_suffix('&') {
                    // A server in the background writes its log to the same file.
                    Some(command) => writeln!(script, "{command} >{out} 2>&1 &"),
                    None => writeln!(script, "{{ {command}; }} >{out}"),
                }
            }
        }
        .expect("memory takes every byte");
    }
    script
}

/// Returns the text with the scratch directory in place of the directory of the pages.
fn local(scratch: &Scratch, text: &str) -> String {
    let examples = root().join("packaging/examples").display().to_string();
    text.replace(DIRECTORY, &scratch.at("work"))
        .replace("packaging/examples", &examples)
}

/// Runs the commands of a page and checks the output.
fn follow(name: &str) {
    let page = root().join("docs/tutorials");
    let page = fs::read_to_string(page.join(name)).expect("the page exists");
    let steps = steps(&page);
    let scratch = Scratch::new();
    let work = scratch.path("work");
    fs::create_dir_all(&work).expect("there is room for a directory");
    let output = shell(&work, &script(&scratch, &steps))
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{name}: {:?}\n{said}",
        output.status
    );
    let mut commands = 0;
    for (number, step) in steps.iter().enumerate() {
        let TutorialStep::Run(command, shown) = step else {
            continue;
        };
        commands += 1;
        if shown.is_empty() || command.ends_with('&') {
            continue;
        }
        let printed = scratch.read(&format!("out.{number}"));
        let words: Vec<&str> = shown.split_whitespace().take(WORDS).collect();
        let words = words.join(" ");
        assert!(
            squeezed(&printed).contains(&words),
            "{name}: `{command}` does not print {words:?}:\n{printed}"
        );
    }
    // If the form of the page changed, no command would be found and nothing would be tested.
    assert!(commands >= 2, "{name}: its commands are found");
}

#[test]
fn the_tutorials_in_virtual_time_can_be_pasted() {
    follow("demo.md");
    follow("compare.md");
}

#[test]
fn the_tutorial_with_tls_can_be_pasted() {
    for (program, argument) in [("openssl", "version"), ("nbdcopy", "--version")] {
        if !works(program, &[argument]) {
            return;
        }
    }
    follow("tls.md");
}

#[test]
fn the_tutorials_with_a_server_can_be_pasted() {
    if !works("fio", &["--enghelp=nbd"]) {
        return;
    }
    follow("serve.md");
    follow("record.md");
}
