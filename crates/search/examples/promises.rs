//! Searches for contracts that are not kept:
//! `cargo run --release -p weir-search --example promises -- --runs 5000 --seed 1`.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stderr, stdout};
use std::process::ExitCode;
use weir_search::case::{Case, KINDS};
use weir_search::search::{Plan, drawn, search};
use weir_search::shrink::shrink;
use weir_search::tally::Failure;
use weir_search::trial::Outcome;
use weir_search::{show, tally, trial, why};

const USAGE: &str =
    "usage: promises [--runs N] [--seed N] [--jobs N] [--kind null|ssd|hdd] [--first N] [--list] [--why]
       promises --case SEED|FILE [--kind null|ssd|hdd] [--seconds]
       promises --shrink SEED|FILE [--kind null|ssd|hdd] [--failure promise|bfq-keeps|total|latency|share|idle|finding|panic]";

/// The arguments.
#[derive(Debug)]
struct Asked {
    plan: Plan,
    first: usize,
    list: bool,
    why: bool,
    case: Option<String>,
    seconds: bool,
    shrink: Option<String>,
    failure: Option<Failure>,
}

fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // Panics are outcomes, which contain their messages.
    std::panic::set_hook(Box::new(|_| {}));
    let done = match (&asked.case, &asked.shrink) {
        (_, Some(text)) => simplify(text, &asked),
        (Some(text), None) => replay(text, &asked),
        (None, None) => Ok(find(&asked)),
    };
    match done {
        Ok(text) => {
            // The reader may have closed the pipe.
            let _ = stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn asked(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let jobs = std::thread::available_parallelism().map_or(1, Into::into);
    let mut asked = Asked {
        plan: Plan {
            seed: 1,
            runs: 1000,
            kind: None,
            jobs,
        },
        first: 10,
        list: false,
        why: false,
        case: None,
        seconds: false,
        shrink: None,
        failure: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text:?} is no number"));
        match word.as_str() {
            "--runs" => asked.plan.runs = number(value()?)?,
            "--seed" => asked.plan.seed = number(value()?)?,
            "--jobs" => asked.plan.jobs = number(value()?)? as usize,
            "--first" => asked.first = number(value()?)? as usize,
            "--kind" => {
                let name = value()?;
                let kind = KINDS.iter().position(|k| *k == name);
                asked.plan.kind =
                    Some(kind.ok_or_else(|| format!("{name:?} is no kind of drive"))?);
            }
            "--case" => asked.case = Some(value()?),
            "--shrink" => asked.shrink = Some(value()?),
            "--failure" => {
                let name = value()?;
                let failure = Failure::find(&name);
                asked.failure = Some(failure.ok_or_else(|| format!("{name:?} is no failure"))?);
            }
            "--list" => asked.list = true,
            "--why" => asked.why = true,
            "--seconds" => asked.seconds = true,
            _ => return Err(format!("{word} is unknown")),
        }
    }
    Ok(asked)
}

/// Runs many cases: prints the table, and the worst.
fn find(asked: &Asked) -> String {
    let terminal = stderr().is_terminal();
    let runs = asked.plan.runs;
    let outcomes = search(&asked.plan, |done| {
        if terminal && (done.is_multiple_of(10) || done == runs) {
            eprint!("\r{done} of {runs}");
        }
    });
    if terminal {
        eprintln!();
    }
    let list = if asked.list {
        tally::list(&outcomes)
    } else {
        String::new()
    };
    let kind = asked.plan.kind.map(|k| format!(" --kind {}", KINDS[k]));
    let worst = tally::worst(&outcomes, asked.first, &kind.unwrap_or_default());
    let causes = if asked.why {
        causes(&outcomes, asked)
    } else {
        String::new()
    };
    list + &tally::table(&outcomes) + &worst + &causes
}

/// What the drive's time went to where a feasible promise was broken, the worst first.
fn causes(outcomes: &[Outcome], asked: &Asked) -> String {
    let mut text = String::from("\nwhy promises were broken, each in its worst second\n");
    let mut all = Vec::new();
    for outcome in tally::failing(outcomes, Failure::Broken) {
        let seed = outcome.seed;
        let line = match drawn(seed, asked.plan.kind).and_then(|case| why::why(&case)) {
            Ok(Some(why)) => {
                all.push(why);
                format!("{}: {why}", outcome.title)
            }
            Ok(None) => "kept when it was run again".into(),
            Err(what) => what,
        };
        let _ = writeln!(text, "  {seed} {line}");
    }
    text + "\n" + &why::table(&all)
}

/// The case of a seed, or of a scenario's file.
fn case(word: &str, asked: &Asked) -> Result<Case, String> {
    if let Ok(seed) = word.parse() {
        return drawn(seed, asked.plan.kind);
    }
    let text = std::fs::read_to_string(word).map_err(|e| format!("{word}: {e}"))?;
    Case::read(&text, word)
}

/// Simplifies a case while it fails in the same way.
fn simplify(text: &str, asked: &Asked) -> Result<String, String> {
    let case = case(text, asked)?;
    let came = trial::outcome(&case, true);
    let mut ways = Failure::ALL.into_iter();
    let first = ways.find(|f| f.badness(&came).is_some());
    let failure = asked.failure.or(first).ok_or("it does not fail")?;
    let terminal = stderr().is_terminal();
    let small = shrink(&case, failure, |case| {
        if terminal {
            let clients = case.scenario.clients.len();
            eprint!("\r{clients} clients, {} s   ", case.seconds());
        }
    });
    if terminal {
        eprintln!();
    }
    let came = trial::outcome(&small, true);
    let line = failure.line(&came);
    let head = format!("# {}: {line}\n{small}\n", failure.name());
    let played = match came.broken {
        None => show::trial(&small, &trial::trial(&small, false)?),
        Some(why) => why + "\n",
    };
    Ok(head + &played)
}

/// Prints everything about a case.
fn replay(text: &str, asked: &Asked) -> Result<String, String> {
    let case = case(text, asked)?;
    let mut text = format!("{case}\n");
    let outcome = trial::outcome(&case, true);
    if let Some(why) = &outcome.broken {
        return Ok(text + why + "\n");
    }
    let trial = trial::trial(&case, true)?;
    text += &show::trial(&case, &trial);
    if asked.seconds {
        text += "\n";
        text += &show::seconds(&trial);
    }
    Ok(text + "\n" + &show::outcome(&outcome))
}
