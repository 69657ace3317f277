//! Every claim of the published documents, from `claims.toml`: the published figures, the figures
//! of Weir, and the verdict.

use crate::common::root;
use crate::published::Runs;
use crate::published::played::{CompareArguments, FigurePlace};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use weir_config::{policy, profile, scenario};

/// The factor within which a figure counts as equal to the published one.
const NEAR: f64 = 1.5;

/// The content of `claims.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims {
    run: BTreeMap<String, CompareArguments>,
    document: Vec<PublishedDocument>,
    claim: Vec<PublishedClaim>,
}

/// A published document, and the number of its last claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedDocument {
    title: String,
    source: String,
    last: usize,
}

/// A claim with its evidence. If it has several parts, it appears only if all of them do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedClaim {
    number: usize,
    says: String,
    /// The words of the document, instead of published figures.
    published: Option<String>,
    /// The default place of its figures.
    #[serde(default)]
    of: FigurePlace,
    #[serde(default)]
    figures: Vec<ClaimFigure>,
    /// The evidence for a claim that is not a figure.
    seen: Option<String>,
    /// A part that does not appear, with the reason.
    none: Option<String>,
    /// The reason why this is not a claim about storage.
    aside: Option<String>,
    /// The reason why the figures differ.
    why: Option<String>,
}

/// A published figure, and the place of the corresponding figure here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimFigure {
    label: Option<String>,
    #[serde(default)]
    at: FigurePlace,
    /// The cell to which the figure is relative.
    beside: Option<FigurePlace>,
    value: Option<f64>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    unit: String,
    /// The words of the document, if it has no number.
    published: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimVerdict {
    Appears,
    InPart,
    No,
    /// The claim is not about storage.
    Aside,
}

impl Claims {
    pub(crate) fn read() -> Self {
        let text = include_str!("claims.toml");
        let claims: Self = toml::from_str(text).unwrap_or_else(|e| panic!("claims.toml: {e}"));
        let numbers = claims.claim.iter().map(|claim| claim.number);
        let last = claims.document.last().map_or(0, |document| document.last);
        // Claims are numbered without gaps across all documents.
        assert!(numbers.eq(1..=last), "each claim has its place");
        claims
    }

    /// Plays each run once, and returns the results by name.
    pub(crate) fn play(&self) -> Runs {
        let runs = self
            .run
            .iter()
            .map(|(name, run)| (name.clone(), run.play()));
        runs.collect()
    }

    /// Returns a table for each document with the reasons below it, and the count of verdicts.
    pub(crate) fn tables(&self, runs: &Runs) -> String {
        let (mut page, mut first) = (String::new(), 0);
        let (mut verdicts, mut wrong) = (Vec::new(), Vec::new());
        for document in &self.document {
            let (title, source) = (&document.title, &document.source);
            let _ = write!(page, "\n## {title}\n\nSource: {source}\n\n{HEAD}");
            let mut reasons = String::new();
            for claim in &self.claim[first..document.last] {
                let (row, verdict) = claim.row(runs, &self.run);
                let _ = writeln!(page, "{row}");
                if let Some(why) = &claim.why {
                    let _ = writeln!(reasons, "- {}: {why}", claim.number);
                }
                wrong.extend(claim.wrong(verdict));
                verdicts.push(verdict);
            }
            if !reasons.is_empty() {
                let _ = write!(
                    page,
                    "\nThese figures differ for the following reasons:\n\n{reasons}"
                );
            }
            first = document.last;
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        page + &count(&verdicts)
    }
}

impl ClaimFigure {
    fn here(&self, of: &FigurePlace, runs: &Runs) -> f64 {
        let cell = self.at.or(of);
        let figure = |cell: &FigurePlace| {
            let run = cell.run.as_ref().expect("a figure names its run");
            let run = runs.get(run).unwrap_or_else(|| panic!("no run {run}"));
            run.figure(cell)
        };
        let beside = self.beside.as_ref().map_or(1.0, |b| figure(&b.or(&cell)));
        let scale = match &self.unit[..] {
            "ms" => 1e-3,
            "s" => 1e-6,
            "%" => 100.0,
            _ => 1.0,
        };
        figure(&cell) / beside * scale
    }

    fn holds(&self, here: f64) -> bool {
        self.value
            .is_none_or(|value| here <= value * NEAR && here >= value / NEAR)
            && self.at_least.is_none_or(|least| here >= least)
            && self.at_most.is_none_or(|most| here <= most)
    }

    fn number(&self, number: &str) -> String {
        format!("{number} {}", self.unit).trim_end().to_owned()
    }

    fn labelled(&self, text: &str) -> String {
        let label = self.label.iter().map(|label| format!("{label}: "));
        label.collect::<String>() + text
    }

    fn published(&self) -> String {
        match (&self.published, self.value, self.at_least, self.at_most) {
            (Some(words), ..) => words.clone(),
            (None, Some(value), None, None) => self.number(&value.to_string()),
            (None, None, Some(least), None) => self.number(&format!("at least {least}")),
            (None, None, None, Some(most)) => self.number(&format!("at most {most}")),
            (None, None, Some(least), Some(most)) => self.number(&format!("{least} to {most}")),
            _ => panic!("a value or bounds: {self:?}"),
        }
    }
}

/// Formats a figure with three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.995 => format!("{value:.2}"),
        v if v >= 0.0995 => format!("{value:.3}"),
        v if v > 0.0 => format!("{value:.4}"),
        _ => "0".to_owned(),
    }
}

impl PublishedClaim {
    /// Returns the row of the claim, and its verdict.
    fn row(
        &self,
        played: &Runs,
        runs: &BTreeMap<String, CompareArguments>,
    ) -> (String, ClaimVerdict) {
        let here: Vec<f64> = self
            .figures
            .iter()
            .map(|f| f.here(&self.of, played))
            .collect();
        let verdict = self.verdict(&here);
        let figures = self.figures.iter().zip(&here);
        let figures =
            join(figures.map(|(figure, here)| figure.labelled(&figure.number(&digits(*here)))));
        let figures = Some(figures).filter(|text| !text.is_empty());
        let figures = figures.map(|text| format!("{text} ({})", self.scenarios(runs)));
        let words = [&self.seen, &self.none, &self.aside]
            .into_iter()
            .flatten()
            .cloned();
        let found: Vec<String> = figures.into_iter().chain(words).collect();
        let row = format!(
            "| {} | {} | {} | {} | {} |",
            self.number,
            self.says,
            self.published(),
            found.join("; "),
            verdict.word()
        );
        (row, verdict)
    }

    /// Returns the published values of the figures, or a single value if all are equal.
    fn published(&self) -> String {
        if let Some(words) = &self.published {
            return words.clone();
        }
        let texts: Vec<String> = self.figures.iter().map(ClaimFigure::published).collect();
        if texts.iter().all(|text| *text == texts[0]) {
            return texts.into_iter().next().unwrap_or_default();
        }
        let figures = self.figures.iter().zip(&texts);
        join(figures.map(|(figure, text)| figure.labelled(text)))
    }

    /// Returns the verdict that follows from the parts: the figures, the other evidence, and the
    /// parts that do not appear.
    fn verdict(&self, here: &[f64]) -> ClaimVerdict {
        let figures = self.figures.iter().zip(here);
        let parts = figures.map(|(figure, here)| figure.holds(*here));
        let parts = parts.chain(self.seen.iter().map(|_| true));
        let parts: Vec<bool> = parts.chain(self.none.iter().map(|_| false)).collect();
        match parts.iter().filter(|holds| **holds).count() {
            // A claim of which no part holds is either not about storage, or does not appear.
            0 if self.aside.is_some() => ClaimVerdict::Aside,
            0 => ClaimVerdict::No,
            n if n == parts.len() => ClaimVerdict::Appears,
            _ => ClaimVerdict::InPart,
        }
    }

    /// Returns the scenarios of the figures.
    fn scenarios(&self, runs: &BTreeMap<String, CompareArguments>) -> String {
        let cells = self.figures.iter().map(|figure| figure.at.or(&self.of));
        let runs = cells.map(|cell| &runs[&cell.run.expect("it was played")]);
        let mut names: Vec<String> = runs.map(|run| format!("`{}`", run.scenario)).collect();
        names.dedup();
        names.join(", ")
    }

    /// Returns the errors of the claim: fields that are missing or superfluous, and names that do
    /// not exist.
    fn wrong(&self, verdict: ClaimVerdict) -> Vec<String> {
        let mut wrong = Vec::new();
        let differs = !self.figures.is_empty() && verdict != ClaimVerdict::Appears;
        // A reason is necessary if figures differ, and superfluous otherwise.
        if self.why.is_some() != differs {
            wrong.push(format!(
                "{}: it needs a why if figures differ, and only then",
                verdict.word()
            ));
        }
        let says = [&self.seen, &self.none, &self.aside].into_iter().flatten();
        if says.clone().count() + self.figures.len() == 0 {
            wrong.push("nothing shows it, and nothing says why".to_owned());
        }
        for text in says.chain(&self.why) {
            let spans = text.split('`').skip(1).step_by(2);
            let missing = spans.filter(|span| !is_there(span));
            wrong.extend(missing.map(|span| format!("there is no {span}")));
        }
        wrong
            .iter()
            .map(|what| format!("claim {}: {what}", self.number))
            .collect()
    }
}

/// Returns true if a path, a scenario, a policy or a drive exists. Commands are checked by the test
/// of all documents.
fn is_there(span: &str) -> bool {
    let mut names = scenario::names()
        .chain(policy::names())
        .chain(profile::names());
    span.contains('/') && root().join(span).exists()
        || span.starts_with("weir ")
        || names.any(|name| name == span)
}

fn join(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("; ")
}

impl ClaimVerdict {
    fn word(self) -> &'static str {
        match self {
            Self::Appears => "appears",
            Self::InPart => "in part",
            Self::No => "no",
            Self::Aside => "-",
        }
    }
}

fn count(verdicts: &[ClaimVerdict]) -> String {
    let of = |verdict| verdicts.iter().filter(|v| **v == verdict).count();
    let (appear, part, no) = (
        of(ClaimVerdict::Appears),
        of(ClaimVerdict::InPart),
        of(ClaimVerdict::No),
    );
    let all = appear + part + no;
    let percent = 100 * appear / all;
    format!(
        "\n## Count of the verdicts\n\n{appear} of {all} claims appear ({percent} %), {part} appear in part, and {no} do not appear. {} claims are not about storage and are not counted.\n",
        of(ClaimVerdict::Aside)
    )
}

const HEAD: &str = "\
| No. | Claim | Published | In Weir | Verdict |
| ---: | --- | --- | --- | --- |
";
