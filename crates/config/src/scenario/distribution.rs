//! Distributions of random positions, in the words of `fio`.

use crate::nearest;
use std::fmt::{self, Display, Formatter};
use weir_model::load::{Law, Pattern, Skew};

/// The number of units in 1. Parameters are stored in millionths.
const MILLION: u32 = 1_000_000;

/// The help for a text that is not a distribution.
const HELP: &str = "write \"random\", \"zipf:1.1\", \"pareto:0.2\" or \"normal:20\"; a center can be appended, for example \"zipf:1.1:0.25\"";

/// A problem and its help.
type DistributionProblem = (&'static str, String);

/// Reads `random`, or `LAW:PARAMETER` with an optional `:CENTER`. `zipf` is the exponent, in
/// millionths, of a text that states none.
pub(super) fn distribution(text: &str, zipf: u32) -> Result<Option<Skew>, DistributionProblem> {
    let (word, rest) = text
        .split_once(':')
        .map_or((text, None), |(w, r)| (w, Some(r)));
    let (parameter, center) = match rest.map(|rest| rest.split_once(':').unwrap_or((rest, ""))) {
        None => (None, None),
        Some((parameter, "")) if !text.ends_with(':') => (Some(parameter), None),
        Some((parameter, center)) => (Some(parameter), Some(center)),
    };
    let number = |most: u32| {
        let found = parameter.map(|p| millionths(p).filter(|n| *n <= most));
        found.map_or(Ok(None), |found| found.map(Some).ok_or(()))
    };
    let say = |what| (what, HELP.to_owned());
    let law = match word {
        "random" if parameter.is_none() => return Ok(None),
        "zipf" => number(100 * MILLION)
            .ok()
            .filter(|n| *n != Some(0))
            .map(|n| Law::Zipf(n.unwrap_or(zipf)))
            .ok_or_else(|| say("has an exponent that is not between 0 and 100")),
        "pareto" => number(MILLION - 1)
            .ok()
            .filter(|n| *n != Some(0))
            // 0.2 is the default of `fio`: 80 % of the requests go to 20 % of the positions.
            .map(|n| Law::Pareto(n.unwrap_or(MILLION / 5)))
            .ok_or_else(|| say("has a part that is not between 0 and 1")),
        "normal" => number(100 * MILLION - 1)
            .map(|n| Law::Normal(n.unwrap_or(0)))
            .map_err(|()| say("has a deviation that is not from 0 to below 100 percent")),
        "zoned" | "zoned_abs" => Err((
            "is not supported",
            "write a job for each zone, with offset and size".to_owned(),
        )),
        _ => {
            let near = nearest::name(word, ["random", "zipf", "pareto", "normal"]);
            let near = near.map(|n| format!("did you mean {n}?"));
            Err((
                "is not a distribution",
                near.unwrap_or_else(|| HELP.to_owned()),
            ))
        }
    }?;
    let center = match center {
        None => None,
        Some(center) => {
            let center = millionths(center).filter(|c| *c <= MILLION);
            Some(center.ok_or_else(|| say("has a center that is not from 0 to 1"))?)
        }
    };
    Ok(Some(Skew { law, center }))
}

/// Returns the order of a client's offsets. A client that is not `random` is sequential. `again` is
/// true if a position can be used again before all others were used.
pub(super) fn pattern_of(
    random: bool,
    skew: Option<Skew>,
    part: Option<[u8; 2]>,
    again: bool,
) -> Pattern {
    match (random, skew, part, again) {
        (false, ..) => Pattern::Sequential,
        (true, Some(skew), ..) => Pattern::Skewed(skew),
        (true, None, Some([reads, writes]), _) => Pattern::Partly { reads, writes },
        (true, None, None, true) => Pattern::Random,
        (true, None, None, false) => Pattern::Shuffled,
    }
}

/// Reads the percentages of random reads and writes: `80` for both, or `100,0`.
pub(super) fn parts(text: &str) -> Option<[u8; 2]> {
    let percent = |text: &str| {
        let number = text.trim().parse::<u8>().ok();
        number.filter(|n| *n <= 100)
    };
    let (reads, writes) = text.split_once(',').unwrap_or((text, text));
    Some([percent(reads)?, percent(writes)?])
}

/// Reads a decimal number of at most six digits after the point, in millionths.
fn millionths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 6 {
        return None;
    }
    let part: u32 = format!("{part:0<6}").parse().ok()?;
    whole
        .parse::<u32>()
        .ok()?
        .checked_mul(MILLION)?
        .checked_add(part)
}

/// A distribution that is displayed in the form of the file.
pub(super) struct DistributionText(pub(super) Skew);

impl Display for DistributionText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (word, parameter) = match self.0.law {
            Law::Zipf(exponent) => ("zipf", exponent),
            Law::Pareto(part) => ("pareto", part),
            Law::Normal(deviation) => ("normal", deviation),
        };
        write!(f, "{word}:{}", decimal(parameter))?;
        match self.0.center {
            Some(center) => write!(f, ":{}", decimal(center)),
            None => Ok(()),
        }
    }
}

fn decimal(millionths: u32) -> String {
    let text = format!("{}.{:06}", millionths / MILLION, millionths % MILLION);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_survive_parsing_and_printing() {
        for text in [
            "zipf:1.1",
            "zipf:0.000001:1",
            "pareto:0.999999",
            "normal:20:0.25",
            "normal:0",
            "zipf:100",
        ] {
            let skew = distribution(text, 1).unwrap().unwrap();
            assert_eq!(DistributionText(skew).to_string(), text);
        }
        let bare =
            |text| DistributionText(distribution(text, 1_100_000).unwrap().unwrap()).to_string();
        assert_eq!(
            ["zipf", "pareto", "normal"].map(bare),
            ["zipf:1.1", "pareto:0.2", "normal:0"]
        );
        assert_eq!(distribution("random", 1), Ok(None));
    }

    #[test]
    fn wrong_distributions_are_refused() {
        let wrong = [
            "",
            "zip",
            "random:1",
            "zipf:",
            "zipf:0",
            "zipf:-1",
            "zipf:1e3",
            "zipf:101",
            // Parameters have at most six decimal places.
            "zipf:1.0000001",
            "zipf:99999999999",
            "pareto:1",
            "pareto:0",
            "pareto:.5",
            "normal:100",
            "zipf:1.1:",
            "zipf:1.1:1.1",
            "zipf:1.1:0:0",
            // This distribution of `fio` is not supported.
            "zoned:50/50",
            "Zipf:1.1",
        ];
        for text in wrong {
            assert!(distribution(text, 1).is_err(), "{text}");
        }
    }
}
