//! Looks for contracts that are not kept:
//! `cargo run --release -p weir-search --example promises -- --runs 5000 --seed 1`.

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use weir_search::case::{Case, KINDS};
use weir_search::search::{Plan, drawn, search};
use weir_search::tally::{Failure, table, worst_of_each};
use weir_search::{show, trial};

const USAGE: &str =
    "usage: promises [--runs N] [--seed N] [--jobs N] [--kind null|ssd|hdd] [--first N] [--list]
       promises --case SEED|TEXT [--kind null|ssd|hdd] [--seconds]";

/// What was asked for.
#[derive(Debug)]
struct Asked {
    plan: Plan,
    first: usize,
    list: bool,
    case: Option<String>,
    seconds: bool,
}

fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = match &asked.case {
        Some(text) => replay(text, &asked),
        None => {
            find(&asked);
            Ok(())
        }
    };
    if let Err(what) = done {
        eprintln!("{what}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
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
        case: None,
        seconds: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text:?} is no number"));
        match word.as_str() {
            "--runs" => asked.plan.runs = number(value()?)?,
            "--seed" => asked.plan.seed = number(value()?)?,
            "--jobs" => asked.plan.jobs = number(value()?)? as usize,
            "--first" => asked.first = number(value()?)? as usize,
            "--kind" => {
                let name = value()?;
                let kind = KINDS.iter().position(|k| *k == name);
                asked.plan.kind = Some(kind.ok_or(format!("{name:?} is no kind of drive"))?);
            }
            "--case" => asked.case = Some(value()?),
            "--list" => asked.list = true,
            "--seconds" => asked.seconds = true,
            _ => return Err(format!("{word} is unknown")),
        }
    }
    Ok(asked)
}

/// Plays many cases and prints the table.
fn find(asked: &Asked) {
    // Panics are outcomes; what they say stands there.
    std::panic::set_hook(Box::new(|_| {}));
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
    if asked.list {
        for outcome in &outcomes {
            for failure in Failure::ALL {
                if let Some(badness) = failure.badness(outcome) {
                    let kind = KINDS[outcome.kind];
                    let line = failure.line(outcome);
                    println!(
                        "{} {kind} {} {badness:.4} {line}",
                        outcome.seed,
                        failure.name()
                    );
                }
            }
        }
    }
    print!("{}", table(&outcomes));
    let kind = asked
        .plan
        .kind
        .map_or(String::new(), |k| format!(" --kind {}", KINDS[k]));
    for (failure, worst) in worst_of_each(&outcomes, asked.first) {
        if !worst.is_empty() {
            println!("\n{}", failure.name());
        }
        for outcome in worst {
            println!("  --case {}{kind}  {}", outcome.seed, failure.line(outcome));
        }
    }
}

/// Plays a case and prints all about it.
fn replay(text: &str, asked: &Asked) -> Result<(), String> {
    let case = match text.parse() {
        Ok(seed) => drawn(seed, asked.plan.kind)?,
        Err(_) => text.parse::<Case>().map_err(|e| e.to_string())?,
    };
    println!("{case}\n");
    print!("{}", show::case(&case));
    let trial = trial::trial(&case, true)?;
    println!("\n{}", show::trial(&case, &trial));
    if asked.seconds {
        println!("{}", show::seconds(&trial));
    }
    print!("{}", show::outcome(&trial.outcome(&case)));
    Ok(())
}
