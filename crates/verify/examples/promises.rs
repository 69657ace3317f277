//! Searches for contracts that are not kept, for example with `cargo run --release -p weir-verify
//! --example promises -- --runs 5000 --seed 1`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{IsTerminal, Write as _, stderr, stdout};
use std::process::ExitCode;
use weir_verify::search::batch::{
    DrawOptions, KeptCases, SearchPlan, draw_case, search, search_again,
};
use weir_verify::search::case::{KINDS, SearchCase};
use weir_verify::search::shrink::shrink;
use weir_verify::search::tally::SearchFailure;
use weir_verify::search::trial::TrialOutcome;
use weir_verify::search::{show, tally, trial, why};

const USAGE: &str =
    "usage: promises [--runs N] [--seed N] [--jobs N] [--kind null|ssd|hdd] [--shallow] [--admitted] [--first N] [--list] [--why] [--keep FILE]
       promises --given FILE [--jobs N] [--first N] [--list] [--why]
       promises --case SEED|FILE [--kind null|ssd|hdd] [--shallow] [--admitted] [--seconds]
       promises --shrink SEED|FILE [--kind null|ssd|hdd] [--shallow] [--admitted]
                [--failure promise|bfq-keeps|none-keeps|total|bfq-total|realtime|latency|share|idle|finding|panic]";

/// The command-line arguments.
#[derive(Debug)]
struct SearchArguments {
    plan: SearchPlan,
    first: usize,
    list: bool,
    why: bool,
    keep: Option<String>,
    given: Option<String>,
    case: Option<String>,
    seconds: bool,
    shrink: Option<String>,
    failure: Option<SearchFailure>,
}

fn main() -> ExitCode {
    let asked = match parse_arguments(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // A panic is an outcome, which contains its message.
    std::panic::set_hook(Box::new(|_| {}));
    let done = match (&asked.case, &asked.shrink) {
        (_, Some(text)) => simplify(text, &asked),
        (Some(text), None) => replay(text, &asked),
        (None, None) => find(asked),
    };
    match done {
        Ok(text) => {
            // The reader may have closed the pipe, which is not an error.
            let _ = stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn parse_arguments(mut words: impl Iterator<Item = String>) -> Result<SearchArguments, String> {
    let jobs = std::thread::available_parallelism().map_or(1, Into::into);
    let mut asked = SearchArguments {
        plan: SearchPlan {
            seed: 1,
            runs: 1000,
            draw: DrawOptions::default(),
            jobs,
        },
        first: 10,
        list: false,
        why: false,
        keep: None,
        given: None,
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
                asked.plan.draw.kind =
                    Some(kind.ok_or_else(|| format!("{name:?} is no kind of drive"))?);
            }
            "--shallow" => asked.plan.draw.shallow = true,
            "--admitted" => asked.plan.draw.admitted = true,
            "--keep" => asked.keep = Some(value()?),
            "--given" => asked.given = Some(value()?),
            "--case" => asked.case = Some(value()?),
            "--shrink" => asked.shrink = Some(value()?),
            "--failure" => {
                let name = value()?;
                let failure = SearchFailure::find(&name);
                asked.failure = Some(failure.ok_or_else(|| format!("{name:?} is no failure"))?);
            }
            "--list" => asked.list = true,
            "--why" => asked.why = true,
            "--seconds" => asked.seconds = true,
            _ => return Err(format!("{word} is unknown")),
        }
    }
    let one = asked.case.is_some() || asked.shrink.is_some();
    if asked.given.is_some() && (one || asked.keep.is_some()) {
        return Err("--given has its own cases, which are kept already".into());
    }
    Ok(asked)
}

/// Runs many cases and returns the table and the worst cases.
fn find(mut asked: SearchArguments) -> Result<String, String> {
    let terminal = stderr().is_terminal();
    let progress = |runs: u64| {
        move |done: u64| {
            // A log file would contain every step of the progress.
            if terminal && (done.is_multiple_of(10) || done == runs) {
                eprint!("\r{done} of {runs}");
            }
        }
    };
    let outcomes = if let Some(file) = &asked.given {
        let text = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
        let kept: KeptCases = serde_json::from_slice(&text).map_err(|e| format!("{file}: {e}"))?;
        // The seeds are drawn again for the causes, in the same way as before.
        asked.plan.draw = kept.draw;
        let runs = kept.cases.len() as u64;
        search_again(kept, asked.plan.jobs, progress(runs))
    } else {
        // The file is created first, so that a wrong name does not lose the work of minutes.
        let made = |file: &String| File::create(file).map_err(|e| format!("{file}: {e}"));
        let to = asked.keep.as_ref().map(made).transpose()?;
        let (outcomes, kept) = search(&asked.plan, progress(asked.plan.runs));
        if let (Some(file), Some(mut to)) = (&asked.keep, to) {
            let text = serde_json::to_vec(&kept).map_err(|e| e.to_string())?;
            to.write_all(&text).map_err(|e| format!("{file}: {e}"))?;
        }
        outcomes
    };
    if terminal {
        eprintln!();
    }
    let list = if asked.list {
        tally::list(&outcomes)
    } else {
        String::new()
    };
    let DrawOptions {
        kind,
        shallow,
        admitted,
    } = asked.plan.draw;
    let kind = kind.map(|k| format!(" --kind {}", KINDS[k]));
    let shallow = if shallow { " --shallow" } else { "" };
    let admitted = if admitted { " --admitted" } else { "" };
    let with = kind.unwrap_or_default() + shallow + admitted;
    let worst = tally::worst(&outcomes, asked.first, &with);
    let causes = if asked.why {
        causes(&outcomes, asked.plan.draw)
    } else {
        String::new()
    };
    Ok(list + &tally::table(&outcomes) + &worst + &causes)
}

/// Lists the use of the drive's time in cases in which a feasible promise was broken, the worst
/// first.
fn causes(outcomes: &[TrialOutcome], draw: DrawOptions) -> String {
    let mut text = String::from("\nwhy promises were broken, each in its worst second\n");
    let mut all = Vec::new();
    for outcome in tally::failing(outcomes, SearchFailure::Broken) {
        let seed = outcome.seed;
        let line = match draw_case(seed, draw).and_then(|case| why::why(&case)) {
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

/// Returns the case of a seed or of a scenario's file.
fn case(word: &str, asked: &SearchArguments) -> Result<SearchCase, String> {
    if let Ok(seed) = word.parse() {
        return draw_case(seed, asked.plan.draw);
    }
    let text = std::fs::read_to_string(word).map_err(|e| format!("{word}: {e}"))?;
    let case = SearchCase::read(&text, word)?;
    Ok(if asked.plan.draw.admitted {
        case.admitted()
    } else {
        case
    })
}

/// Simplifies a case as long as it fails in the same way.
fn simplify(text: &str, asked: &SearchArguments) -> Result<String, String> {
    let case = case(text, asked)?;
    let came = trial::outcome(&case, true);
    let mut ways = SearchFailure::ALL.into_iter();
    let first = ways.find(|f| f.badness(&came).is_some());
    let failure = asked.failure.or(first).ok_or("it does not fail")?;
    let terminal = stderr().is_terminal();
    let small = shrink(&case, failure, asked.plan.draw.admitted, |case| {
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

/// Runs a case and prints all its results.
fn replay(text: &str, asked: &SearchArguments) -> Result<String, String> {
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
