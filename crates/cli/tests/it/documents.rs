//! Checks that the documents are true: their command lines, the files that they name, and their
//! links.
//!
//! A command line is a line of a block, or a span between backticks, that begins with one of
//! [`PROGRAMS`]. Words in capitals are replaced according to [`PLACEHOLDERS`]. Cheap commands of
//! `weir` are run as they are written. Of the others, the options and names are checked.
//!
//! `docs` is a book for mdBook, with the table of contents in `docs/SUMMARY.md`. Its structure is
//! checked without mdBook: every page is in the table of contents, every entry, link and anchor has
//! a target, and every picture is shown by a page.
//!
//! `compare`, `plan` and `demo --on sim` are run for one second each. `ctl`, `top` and `explain`
//! query a server that runs here. Changes are tested with `--dry-run`.
//!
//! The following commands are not run, and only their options and the drives, policies and
//! scenarios that they name are checked:
//!
//! - `calibrate` and `apply`, which need a drive or a kernel of their own
//! - `serve`, which runs until it is stopped (`tutorials.rs` and `readme.rs` run it)
//! - `explain --record` and `replay`, which need a recording (`tutorials.rs` has one)
//! - `drives fit` and `drives validation`, which take seconds
//! - `init`, which writes files
//! - `import`, which needs a file (`import.rs` follows the guide)
//! - comparisons under Linux

use crate::common::running::{RunningServer, start};
use crate::common::{CommandOutput, Scratch, files_below, root, run, run_with, weir};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const PROGRAMS: [&str; 4] = ["weir", "cargo", "./test", "./bench"];

/// The replacements of words in capitals, by the word before them.
const PLACEHOLDERS: [(&str, &str, &str); 9] = [
    ("drives", "NAME", "demo"),
    ("fit", "NAME", "demo"),
    ("policies", "NAME", "bfq"),
    ("scenarios", "NAME", "latency"),
    ("--drive", "NAME", "demo"),
    ("--drive", "D", "demo"),
    ("compare", "SCENARIO", "latency"),
    ("plan", "CONTRACTS", "services"),
    ("check", "CONFIG", "weir.toml"),
];

const CONFIG: &str = "listen.nbd = [\"127.0.0.1:0\"]\n[drive.fast]\n\
    [volume.alpha]\ndrive = \"fast\"\nmemory = true\nsize = \"1MiB\"\n";

/// A command line, and its place in a document.
struct CommandLine {
    place: String,
    words: Vec<String>,
}

/// Returns the documents in the root directory and in `docs`. The changelog is excluded, because it
/// describes the past.
fn documents() -> Vec<PathBuf> {
    let entries = fs::read_dir(root()).expect("it is there");
    let top = entries.map(|entry| entry.expect("it can be read").path());
    let top = top.filter(|path| path.extension().is_some_and(|e| e == "md"));
    let pages = files_below(&root().join("docs"), "md");
    let mut all: Vec<PathBuf> = top
        .chain(pages)
        .filter(|path| !path.ends_with("CHANGELOG.md"))
        .collect();
    all.sort();
    all
}

/// Returns the words of a command line, without variables before it and up to the first operator of
/// the shell. `None` if the text is not a command line.
fn words(text: &str) -> Option<Vec<String>> {
    let text = text.strip_prefix("$ ").unwrap_or(text);
    // A description follows a command after two spaces or after an operator.
    let text = text.split("  ").next()?;
    let mut words: Vec<String> = Vec::new();
    let mut quoted = None;
    for word in text.split_whitespace() {
        if let Some(mark) = quoted {
            let last: &mut String = words.last_mut()?;
            last.push(' ');
            last.push_str(word.trim_end_matches(mark));
            quoted = (!word.ends_with(mark)).then_some(mark);
            continue;
        }
        if ["|", "||", "&", ">", "#", "&&", "..."].contains(&word) {
            break;
        }
        let mark = word.chars().next().filter(|c| ['"', '\''].contains(c));
        let bare = word.trim_matches(['"', '\'']).to_owned();
        quoted = mark.filter(|mark| word.len() == 1 || !word.ends_with(*mark));
        // Assignments of variables in front of a command are skipped.
        let sets = words.is_empty() && bare.contains('=');
        if !sets {
            words.push(bare);
        }
    }
    PROGRAMS.contains(&words.first()?.as_str()).then_some(words)
}

/// Returns every command line of a document.
fn lines(path: &Path) -> Vec<CommandLine> {
    let text = fs::read_to_string(path).expect("it can be read");
    let name = path.file_name().expect("a file").to_string_lossy();
    let (mut found, mut paragraph, mut begins) = (Vec::new(), String::new(), 1);
    let mut fenced = false;
    let mut add = |number: usize, text: &str| {
        let place = format!("{name}:{number}: {text}");
        found.extend(words(text).map(|words| CommandLine { place, words }));
    };
    for (number, line) in (1..).zip(text.lines().chain([""])) {
        let fence = line.starts_with("```");
        // A fence begins a block or ends it.
        fenced ^= fence;
        if fence {
            continue;
        }
        if fenced {
            add(number, line);
            continue;
        }
        if let Some(block) = line.strip_prefix("    ") {
            add(number, block.trim_start());
        }
        if !line.is_empty() && !line.starts_with("    ") {
            paragraph += line.trim();
            paragraph.push(' ');
            continue;
        }
        for span in paragraph.split('`').skip(1).step_by(2) {
            add(begins, span);
        }
        paragraph.clear();
        begins = number + 1;
    }
    found
}

/// Returns the words with their placeholders replaced.
fn filled(words: &[String]) -> Vec<String> {
    let mut filled: Vec<String> = Vec::new();
    for word in words {
        // Optional arguments, which are in brackets, are tested as well.
        let word = word.trim_matches(['[', ']']);
        let before = filled.last().map_or("", String::as_str);
        let mut places = PLACEHOLDERS.iter();
        let stands = places.find(|place| (place.0, place.1) == (before, word));
        filled.push(stands.map_or(word, |p| p.2).to_owned());
    }
    filled
}

/// Returns the reason why a command line of `weir` is wrong, or `None`. `asked` has the command
/// lines that were tested already.
fn wrong_weir(
    scratch: &Scratch,
    words: &[String],
    asked: &mut BTreeSet<Vec<String>>,
) -> Option<String> {
    let words = filled(words);
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let mut ask = |arguments: &[&str], well: fn(&CommandOutput) -> bool| {
        let owned = arguments.iter().map(|a| (*a).to_owned()).collect();
        // Each command line is run once, however many documents contain it.
        if !asked.insert(owned) {
            return None;
        }
        let said = run_with(scratch, arguments);
        (!well(&said)).then(|| format!("{arguments:?}: {}", said.err))
    };
    let well = |said: &CommandOutput| said.status == Some(0);
    // With `--help` at the end, the options before it are parsed, but the command is not run.
    let help = [&arguments[..], &["--help"]].concat();
    let mut wrong = ask(&help, well);
    let of = |option: &str| {
        let mut pairs = arguments.windows(2);
        pairs.find(|pair| pair[0] == option).map(|pair| pair[1])
    };
    for (option, list) in [
        ("--drive", "drives"),
        ("--policy", "policies"),
        ("--scenario", "scenarios"),
    ] {
        // A drive in a configuration can have any name.
        let named = of(option)
            .filter(|name| !is_own_file(name) && !["init", "import"].contains(&arguments[0]));
        wrong = wrong.or_else(|| named.and_then(|name| ask(&[list, name], well)));
    }
    // The head of this file lists the commands that are not run.
    let is_long = |arguments: &[&str]| {
        let second = arguments.get(1).copied();
        matches!(second, Some("fit" | "validation" | "--reload")) || arguments == ["check"]
    };
    match &arguments[..] {
        ["compare" | "plan", name, ..] if !name.starts_with("--") && !is_own_file(name) => {
            wrong.or_else(|| ask(&["scenarios", name], well))
        }
        all @ ["policies" | "drives" | "scenarios" | "check", ..] if !is_long(all) => {
            wrong.or_else(|| ask(all, well))
        }
        _ => wrong,
    }
}

/// Returns true if the name is that of a file of the reader.
fn is_own_file(name: &str) -> bool {
    name.contains('/') || [".toml", ".fio"].iter().any(|end| name.ends_with(end))
}

/// Returns the directory of a package of the workspace.
fn package(name: &str) -> Option<PathBuf> {
    let folders = fs::read_dir(root().join("crates")).expect("it is there");
    let mut folders = folders.map(|entry| entry.expect("it can be read").path());
    folders.find(|folder| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest.contains(&format!("\nname = \"{name}\"\n"))
    })
}

fn is_placeholder(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_uppercase())
}

/// Returns true if a crate that these arguments select has a module of integration tests with this
/// name.
fn has_tests(arguments: &[&str], module: &str) -> bool {
    let selected = arguments.windows(2).filter(|pair| pair[0] == "-p");
    let mut folders = selected.filter_map(|pair| package(pair[1]));
    folders.any(|folder| {
        ["it", "live"].iter().any(|program| {
            let tests = folder.join("tests").join(program);
            tests.join(format!("{module}.rs")).exists() || tests.join(module).is_dir()
        })
    })
}

/// Returns the text of every Rust file below a directory.
fn sources(folder: &Path) -> String {
    let files = files_below(folder, "rs");
    let texts = files.iter().map(fs::read_to_string);
    texts.map(|text| text.expect("it can be read")).collect()
}

/// Returns the reason why a command line of `cargo` is wrong, or `None`: packages, tests, examples
/// or features that do not exist, or unknown arguments of the program.
fn wrong_cargo(
    scratch: &Scratch,
    words: &[String],
    asked: &mut BTreeSet<Vec<String>>,
) -> Option<String> {
    let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let mut halves = words.splitn(2, |word| *word == "--");
    let (own, told) = (halves.next()?, halves.next().unwrap_or_default());
    let value = |option: &str| {
        let mut pairs = own.windows(2);
        pairs.find(|pair| pair[0] == option).map(|pair| pair[1])
    };
    let name = value("-p").unwrap_or("weir");
    let Some(folder) = package(name) else {
        return Some(format!("there is no package {name}"));
    };
    for (option, part) in [
        ("--test", "tests"),
        ("--example", "examples"),
        ("--bin", "src/bin"),
    ] {
        let Some(target) = value(option) else {
            continue;
        };
        let file = folder.join(part).join(format!("{target}.rs"));
        let room = folder.join(part).join(target).join("main.rs");
        if !file.exists() && !room.exists() {
            return Some(format!("{name} has no {option} {target}"));
        }
    }
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("it can be read");
    if let Some(feature) = value("--features")
        && !manifest.contains(&format!("\n{feature} = ["))
    {
        return Some(format!("{name} has no feature {feature}"));
    }
    if words[0] == "run" && name == "weir" {
        let told = told.iter().map(|word| (*word).to_owned());
        let words: Vec<String> = ["weir".to_owned()].into_iter().chain(told).collect();
        return wrong_weir(scratch, &words, asked);
    }
    // A filter of tests must name a test or a module. An argument of a program must occur in the
    // sources of the program.
    let all = sources(&folder);
    let filters = own
        .iter()
        .skip_while(|word| !["--lib", "--test"].contains(word));
    let filters = filters.skip(1).filter(|word| {
        words[0] == "test" && !word.starts_with('-') && !["it", "live"].contains(word)
    });
    let of_harness = ["--nocapture", "--ignored", "--test-threads", "1"];
    let told = told.iter().filter(|word| !of_harness.contains(word));
    let told = told.filter(|word| !is_placeholder(word) && word.parse::<u64>().is_err());
    filters.chain(told).find_map(|word| {
        if let Some(module) = word.strip_suffix("::") {
            let missing = format!("{name} has no tests of {module}");
            return (!has_tests(own, module)).then_some(missing);
        }
        let last = word.rsplit("::").next().unwrap_or(word);
        let last = last.trim_start_matches("--");
        (!all.contains(last)).then(|| format!("{name} knows no {word}"))
    })
}

/// Returns the reason why a command line of a script is wrong, or `None`: a word that the script
/// does not know.
fn wrong_script(words: &[String]) -> Option<String> {
    let script = fs::read_to_string(root().join(&words[0])).expect("it is there");
    let known = |word: &&String| {
        script.contains(&format!("\nfigure_{word}()")) || script.contains(&format!(" {word})"))
    };
    let unknown = words[1..].iter().find(|word| !known(word))?;
    Some(format!("{} knows no {unknown}", words[0]))
}

#[test]
fn every_command_line_of_every_document_is_valid() {
    let scratch = Scratch::new();
    scratch.file("weir.toml", CONFIG);
    for job in ["job.fio", "jobs.fio"] {
        scratch.file(job, "[a]\nrw=randread\nsize=64m\n");
    }
    scratch.file("mine.toml", &run(&scratch, "policies bfq").out);
    let (mut counts, mut wrong) = ([0; PROGRAMS.len()], Vec::new());
    let mut asked = BTreeSet::new();
    for line in documents().iter().flat_map(|path| lines(path)) {
        let program = PROGRAMS.iter().position(|p| *p == line.words[0]);
        counts[program.expect("it was looked for")] += 1;
        let why = match program {
            Some(0) => wrong_weir(&scratch, &line.words, &mut asked),
            Some(1) => wrong_cargo(&scratch, &line.words, &mut asked),
            _ => wrong_script(&line.words),
        };
        wrong.extend(why.map(|why| format!("{}\n  {}", line.place, why.trim_end())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Command lines are really found: there are at least this many of each program.
    assert!(
        counts
            .iter()
            .zip([90, 15, 3, 8])
            .all(|(n, least)| *n >= least),
        "{counts:?}"
    );
}

/// Sections of a server with the drives and tenants that the documents name.
const LIVE: &str = "[drive.fast]\ncapacity = { read = \"900MB/s\", write = \"800MB/s\", iops = 90000 }\n[drive.main]\n\
    capacity = { read = \"900MB/s\", write = \"800MB/s\", iops = 90000 }\n[drive.other]\ncapacity = { read = \"900MB/s\", write = \"800MB/s\" }\n\
    [tenant.acme]\ndrive = \"main\"\nmin = \"50MB/s\"\n";

/// Starts a server in `scratch` at the socket `NAME.sock`, with a volume for each of the names.
fn serve(scratch: &Scratch, name: &str, volumes: &[&str]) -> RunningServer {
    let at = scratch.at("");
    let mut text = format!(
        "[listen]\nnbd = [\"unix:{at}/{name}.nbd\"]\n[manage]\nsocket = \"{at}/{name}.sock\"\nstorage = [\"{at}\"]\n{LIVE}"
    );
    for volume in volumes {
        scratch.file(&format!("{volume}.own"), &"x".repeat(1 << 20));
        writeln!(
            text,
            "[volume.{volume}]\ndrive = \"fast\"\nfile = \"{at}/{volume}.own\""
        )
        .expect("a String takes anything");
    }
    let file = format!("{name}.toml");
    scratch.file(&file, &text);
    start(&mut weir(scratch, &format!("serve {file}")))
}

/// Returns a command line that queries a server, changed to query a server here. `None` if it is
/// incomplete, waits, or needs another server.
fn request(scratch: &Scratch, words: &[String]) -> Option<Vec<String>> {
    let at = scratch.at("");
    let has = |word: &str| words.iter().any(|w| w == word);
    let least = match (words.get(1)?.as_str(), words.get(2).map(String::as_str)) {
        ("ctl", Some("set" | "add" | "grow" | "--socket")) => 5,
        ("ctl", Some("show" | "remove")) => 4,
        ("ctl", Some("list" | "status" | "changes" | "reload")) | ("explain", Some(_)) => 3,
        ("top", _) => 2,
        _ => return None,
    };
    let waits = has("--record") || words.iter().any(|word| word.starts_with("nbd="));
    if words.len() < least || waits {
        return None;
    }
    let creates = words.iter().any(|word| word.starts_with("size="));
    let mut request: Vec<String> = Vec::new();
    for word in &words[1..] {
        let before = request.last().map_or("", String::as_str);
        request.push(match word.as_str() {
            _ if before == "--socket" => "full.sock".to_owned(),
            "NAME" | "VOLUME" => "alpha".to_owned(),
            // The file is new, or exists already. An existing file also replaces a block device.
            word if word.starts_with("file=/") && creates => format!("file={at}/new.img"),
            word if word.starts_with("file=/") || word.starts_with("device=/") => {
                format!("file={at}/free.img")
            }
            word => word.to_owned(),
        });
    }
    let changes = ["set", "add", "grow", "remove"]
        .iter()
        .any(|word| has(word));
    // A dry run tests a change without applying it.
    if changes && !has("--dry-run") {
        request.push("--dry-run".to_owned());
    }
    if words[1] == "top" && !has("--once") {
        request.push("--once".to_owned());
    }
    if !has("--socket") {
        let name = if has("add") { "empty" } else { "full" };
        request.extend(["--socket".to_owned(), format!("{name}.sock")]);
    }
    Some(request)
}

/// Runs each distinct command line that `make` returns for the command lines of `weir` in all
/// documents. All of them must succeed. Returns their number.
fn run_all(scratch: &Scratch, make: impl Fn(&[String]) -> Option<Vec<String>>) -> usize {
    let (mut done, mut wrong) = (BTreeSet::new(), Vec::new());
    for line in documents().iter().flat_map(|path| lines(path)) {
        let made = Some(&line.words).filter(|words| words[0] == "weir");
        let Some(made) = made.and_then(|words| make(words)) else {
            continue;
        };
        if done.insert(made.clone()) {
            let words: Vec<&str> = made.iter().map(String::as_str).collect();
            let said = run_with(scratch, &words);
            if said.status != Some(0) {
                wrong.push(format!("{}\n  {}", line.place, said.err.trim_end()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    done.len()
}

#[test]
fn documented_requests_to_a_server_succeed() {
    let scratch = Scratch::new();
    scratch.file("free.img", &"x".repeat(1 << 20));
    let full = serve(&scratch, "full", &["alpha", "beta", "alpha-snapshot"]);
    let empty = serve(&scratch, "empty", &[]);
    let asked = run_all(&scratch, |words| request(&scratch, words));
    // If the form of the documents changed, few lines would be found and little would be tested.
    assert!(asked > 25, "requests are found: {asked}");
    full.end();
    empty.end();
}

/// Returns a comparison, a plan or a demo in virtual time, shortened to one second. `None` if not
/// all of it is in virtual time, or if another test covers it.
fn short(words: &[String]) -> Option<Vec<String>> {
    let has = |word: &str| words.iter().any(|w| w == word);
    // These scenarios have too many requests for this test.
    let is_long = [
        "ring",
        "coalescing",
        "storm",
        "s-suite",
        "scores",
        "services",
    ]
    .map(has)
    .contains(&true);
    let (least, length): (_, &[&str]) = match words.get(1)?.as_str() {
        "compare" => (3, &["--seconds", "1", "--repetitions", "1"]),
        "plan" => (
            3,
            &[
                "--seconds",
                "1",
                "--repetitions",
                "1",
                "--policy",
                "contract",
            ],
        ),
        "demo" if words.windows(2).any(|two| two == ["--on", "sim"]) => (2, &["--seconds", "1"]),
        _ => return None,
    };
    let is_elsewhere = ["serve", "guest", "linux", "shop.fio"]
        .map(has)
        .contains(&true);
    if words.len() < least
        || words.get(2)?.starts_with("--") && words[1] != "demo"
        || is_long
        || is_elsewhere
    {
        return None;
    }
    let mut short = words[1..].to_vec();
    for at in 1..short.len() {
        if short[at - 1] == "--policy" && short[at] == "mine.toml" {
            "policy.toml".clone_into(&mut short[at]);
        }
    }
    short.retain(|word| word != "--check");
    for pair in length.chunks(2) {
        match short.iter().position(|word| word == pair[0]) {
            Some(at) if pair[0] != "--policy" => pair[1].clone_into(&mut short[at + 1]),
            Some(_) => {}
            None => short.extend(pair.iter().map(|word| (*word).to_owned())),
        }
    }
    Some(short)
}

#[test]
fn documented_comparisons_and_plans_can_be_played() {
    let scratch = Scratch::new();
    let jobs = "[global]\nsize=64m\ndirect=1\n[reader]\nrw=randread\n[writer]\nrw=write\n";
    scratch.file("job.fio", jobs);
    scratch.file("jobs.fio", jobs);
    scratch.file("policy.toml", &run(&scratch, "policies bfq").out);
    scratch.file("mine.toml", &run(&scratch, "scenarios latency").out);
    let fleet = "name = \"fleet\"\ndrives = [\"demo\"]\nduration = \"1s\"\ngrouping = \"each\"\n[[client]]\nname = \"a\"\nrw = \"randread\"\n\
        direct = true\nsize = \"64MiB\"\nmin = \"5MB/s\"\n";
    scratch.file("fleet.toml", fleet);
    let played = run_all(&scratch, |words| short(&filled(words)));
    assert!(played > 20, "comparisons are found: {played}");
}

fn is_rust(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "rs")
}

/// Documents name sources by their path from `crates` or from any directory below it, and pages by
/// their path from the root directory or from `docs`. NAME stands for a file that a reader adds.
#[test]
fn every_source_and_page_named_in_a_document_exists() {
    let all = files_below(&root().join("crates"), "rs");
    let is_there = |name: &str| {
        all.iter().any(|file| file.ends_with(name))
            || root().join(name).exists()
            || root().join("docs").join(name).exists()
    };
    let mut missing = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("it is text");
        for name in text.split('`').skip(1).step_by(2) {
            let is_path = !name.contains(|c: char| c.is_whitespace() || "<>*{}$".contains(c));
            let is_source = name.starts_with("crates/") || name.contains('/') && is_rust(name);
            let is_page = Path::new(name).extension().is_some_and(|e| e == "md");
            if is_path && (is_source || is_page) && !name.contains("NAME") && !is_there(name) {
                missing.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns the lines of a document without its blocks of code.
fn prose(text: &str) -> Vec<&str> {
    let (mut kept, mut fenced, mut after_prose) = (Vec::new(), false, false);
    for line in text.lines() {
        let fence = line.starts_with("```");
        // An indented line continues a list, unless an empty line or a block precedes it.
        let is_block = fence || fenced || line.starts_with("    ") && !after_prose;
        fenced ^= fence;
        after_prose = !is_block && !line.is_empty();
        if !is_block {
            kept.push(line);
        }
    }
    kept
}

/// Returns the targets of the links and pictures of a document. Spans of code contain no links.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in prose(text).join("\n").split("\n\n") {
        let outside: String = paragraph.split('`').step_by(2).collect();
        let inline = outside.split("](").skip(1);
        let inline = inline.filter_map(|rest| rest.split([')', ' ']).next());
        let defined = outside.lines().filter(|line| line.starts_with('['));
        let defined = defined.filter_map(|line| line.split_once("]: ").map(|(_, target)| target));
        found.extend(inline.chain(defined).map(|target| target.trim().to_owned()));
    }
    found
}

/// Returns the anchors of a document's headings, in the form that mdBook and GitHub give them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts = BTreeMap::new();
    let headings = prose(text).into_iter().filter_map(|line| {
        let title = line.trim_start_matches('#').strip_prefix(' ')?;
        line.starts_with('#').then(|| title.trim().to_lowercase())
    });
    let mut found = BTreeSet::new();
    for title in headings {
        let kept = title.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            // Anchors keep letters, digits, `-` and `_`, and replace spaces by `-`.
            '-' | '_' => Some(c),
            _ => c.is_alphanumeric().then_some(c),
        });
        let anchor: String = kept.collect();
        let count = counts.entry(anchor.clone()).or_insert(0);
        found.insert(match *count {
            0 => anchor,
            // A repeated heading gets a number.
            n => format!("{anchor}-{n}"),
        });
        *count += 1;
    }
    found
}

/// Returns the reason why a link of the document `path` is broken, or `None`. Addresses of other
/// sites are not checked.
fn broken(path: &Path, text: &str, link: &str) -> Option<String> {
    if ["https://", "http://", "mailto:"]
        .iter()
        .any(|start| link.starts_with(start))
    {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = path.parent().expect("it is in a folder");
    let target = if file.is_empty() {
        path.to_owned()
    } else {
        folder.join(file)
    };
    let Ok(target) = target.canonicalize() else {
        return Some(format!("{link}: there is no such file"));
    };
    let docs = root().join("docs").canonicalize().expect("it is there");
    // mdBook copies only the files below `docs`, so a link to another file would be broken in the
    // book.
    if path.starts_with(root().join("docs")) && !target.starts_with(docs) {
        return Some(format!("{link}: is outside of the book"));
    }
    if anchor.is_empty() {
        return None;
    }
    let other = (!file.is_empty()).then(|| fs::read_to_string(&target).unwrap_or_default());
    let known = anchors(other.as_deref().unwrap_or(text)).contains(anchor);
    (!known).then(|| format!("{link}: there is no such heading"))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let (mut found, mut wrong) = (0, Vec::new());
    for path in documents() {
        let text = fs::read_to_string(&path).expect("it is text");
        for link in links(&text) {
            found += 1;
            let why = broken(&path, &text, &link);
            wrong.extend(why.map(|why| format!("{}: {why}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found > 80, "links are found: {found}");
}

#[test]
fn the_dashboard_links_to_pages_and_headings() {
    let page = root().join("crates/manage/src/dashboard/index.html");
    let page = fs::read_to_string(page).expect("it is text");
    let links: Vec<String> = page
        .split("href=\"/manual/")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('"')?.0.replacen(".html", ".md", 1)))
        .collect();
    assert!(links.len() > 5, "links are found: {links:?}");
    let summary = root().join("docs/SUMMARY.md");
    for link in links {
        assert_eq!(broken(&summary, "", &link), None);
    }
}

/// Returns the titles and files of the entries of a table of contents.
fn titles(summary: &str) -> Vec<(String, String)> {
    let entries = summary.lines().filter_map(|line| {
        let (title, file) = line.split_once('[')?.1.split_once("](")?;
        Some((title.to_owned(), file.trim_end_matches(')').to_owned()))
    });
    entries.collect()
}

#[test]
fn every_page_is_in_the_table_of_contents_once_and_every_picture_on_a_page() {
    let docs = root().join("docs");
    let read = |path: &Path| fs::read_to_string(path).expect("it is text");
    let mut entries = links(&read(&docs.join("SUMMARY.md")));
    let mut pages: Vec<String> = Vec::new();
    let mut others: BTreeSet<PathBuf> = BTreeSet::new();
    let kinds = ["md", "png", "svg", "csv"].into_iter();
    for path in kinds.flat_map(|kind| files_below(&docs, kind)) {
        let name = path.strip_prefix(&docs).expect("it is below");
        if path.extension().is_none_or(|e| e != "md") {
            others.insert(path.canonicalize().expect("it is there"));
        } else if name != Path::new("SUMMARY.md") {
            pages.push(name.to_string_lossy().into_owned());
        }
    }
    for (title, entry) in titles(&read(&docs.join("SUMMARY.md"))) {
        let page = read(&docs.join(&entry));
        let heading = page.lines().next().and_then(|line| line.strip_prefix("# "));
        assert_eq!(heading, Some(title.as_str()), "the title of {entry}");
    }
    entries.sort();
    pages.retain(|page| !entries.contains(page));
    assert!(pages.is_empty(), "docs/SUMMARY.md does not list {pages:?}");
    let twice: Vec<_> = entries.windows(2).filter(|two| two[0] == two[1]).collect();
    assert!(twice.is_empty(), "docs/SUMMARY.md lists twice {twice:?}");
    for path in documents() {
        let folder = path.parent().expect("it is in a folder");
        for link in links(&read(&path)) {
            if let Ok(target) = folder.join(link).canonicalize() {
                others.remove(&target);
            }
        }
    }
    assert!(others.is_empty(), "no page shows {others:?}");
}

/// The indexes of recipes and decisions must list every page of their directory. A decision has
/// three sections.
#[test]
fn every_recipe_and_decision_is_in_its_index() {
    let of_a_decision = ["Context", "Decision", "Consequence"];
    for (folder, sections) in [("recipes", None), ("decisions", Some(of_a_decision))] {
        let folder = root().join("docs").join(folder);
        let read = |path: &Path| fs::read_to_string(path).expect("it is text");
        let listed = links(&read(&folder.join("index.md")));
        for path in files_below(&folder, "md") {
            let name = path.file_name().expect("a file").to_string_lossy();
            if name == "index.md" {
                continue;
            }
            assert!(
                listed.iter().any(|link| *link == name),
                "the index does not list {}",
                path.display()
            );
            let text = read(&path);
            let found: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("## ")).collect();
            if let Some(sections) = sections {
                assert_eq!(found, sections, "{}", path.display());
            }
        }
    }
}

#[test]
fn links_and_anchors_are_found_and_a_broken_one_is_noticed() {
    let text = "# A page, `of.two`\n\nSee [`a`](a.md), [b\nc](b.md#c \"title\") and `[d](e.md)`.\n- one\n    - [f](f.md)\n\n    [g](h.md)\n\n\
        ```\n# [i](j.md)\n```\n![k](l.png)\n## Twice\n## Twice\n\n[m]: n.md\n";
    assert_eq!(links(text), ["a.md", "b.md#c", "f.md", "l.png", "n.md"]);
    let expected = ["a-page-oftwo", "twice", "twice-1"].map(str::to_owned);
    assert_eq!(anchors(text), expected.into());
    let page = root().join("docs/serving.md");
    for right in [
        "#twice-1",
        "contract.md",
        "writing.md#terms",
        "compare.png",
        "https://a.b/c#d",
    ] {
        assert_eq!(broken(&page, text, right), None, "{right}");
    }
    for wrong in [
        "#thrice",
        "contracts-of-sale.md",
        "writing.md#no-such-heading",
        "docs/contract.md",
        "../README.md",
    ] {
        assert!(broken(&page, text, wrong).is_some(), "{wrong}");
    }
    let readme = root().join("README.md");
    assert_eq!(broken(&readme, text, "docs/contract.md"), None);
    assert!(broken(&readme, text, "contract.md").is_some());
}

#[test]
fn command_lines_are_found_and_a_wrong_one_is_noticed() {
    let scratch = Scratch::new();
    let wrong = |text: &str| {
        let words = words(text).unwrap_or_else(|| panic!("{text} is none"));
        let mut asked = BTreeSet::new();
        match &words[0][..] {
            "weir" => wrong_weir(&scratch, &words, &mut asked),
            "cargo" => wrong_cargo(&scratch, &words, &mut asked),
            _ => wrong_script(&words),
        }
    };
    for right in [
        "weir drives NAME",
        "weir compare latency --policy \"bfq + io.latency\" | head -n 2",
        "$ weir demo --on sim > page.html",
        "WEIR_BLESS=1 cargo test -p weir --test it documents::",
        "cargo run --release -- demo  # the demo",
        "./bench cost peers",
        "./test --quick",
    ] {
        assert_eq!(wrong(right), None, "{right}");
    }
    for bad in [
        "weir drives measure",
        "weir compare latenc",
        "weir compare latency --polcy bfq",
        "weir compare latency --drive floppy",
        "weir demo --on moon",
        "weir chek CONFIG",
        "cargo test -p weir-nothing",
        "cargo test -p weir --test nothing",
        "cargo test -p weir --test it nothing::",
        "cargo run -p weir --release -- demo --sceanrio x",
        "cargo test -p weir-core --features nothing",
        "./bench nothing",
        "./test --fast",
    ] {
        assert!(wrong(bad).is_some(), "{bad}");
    }
    for none in ["weird", "of weir", "--drive NAME", "test"] {
        assert!(words(none).is_none(), "{none}");
    }
}
