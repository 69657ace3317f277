//! Every claim of the published documents, from `claims.toml`: the published figures, the figures
//! of Weir, and the verdict.

use crate::common::root;
use crate::published::Runs;
use crate::published::played::{CompareArguments, CompareResults, FigurePlace};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use weir_config::{policy, profile, scenario};

/// The factor within which a figure counts as equal to the published one.
const NEAR: f64 = 1.5;

/// The factor within which Weir's figure must be that of Linux, before Linux refutes a claim.
const AGREES: f64 = 1.25;

/// The content of `claims.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims {
    run: BTreeMap<String, CompareArguments>,
    /// The runs that Linux's own code played on the same models, by the names in `run`.
    linux: BTreeMap<String, CompareArguments>,
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
    /// True if the claim is about the rules of the kernel. Linux's own code refutes such a claim if
    /// it has Weir's figures on the same model, and these are not the published ones.
    #[serde(default)]
    rules: bool,
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
    /// Linux's own code on the same model gives Weir's figures instead of the published ones.
    Refuted,
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

    /// Returns the stored results of Linux. With a kernel that is a program (`WEIR_KERNEL`), the
    /// runs are played by it and stored. The figures of the scenario `latency` are those of the
    /// validation.
    pub(crate) fn linux(&self) -> Runs {
        let file = root().join("crates/cli/tests/it/published/linux.jsonl");
        if let Some(kernel) = std::env::var_os("WEIR_KERNEL") {
            let played = self.linux.iter();
            let lines = played.map(|(name, run)| run.play_on(&kernel).lines(name));
            fs::write(&file, lines.collect::<String>()).expect("it can be written");
        }
        let text = fs::read_to_string(&file).expect("it was stored");
        let stored = |name: &String| (name.clone(), CompareResults::stored(&text, name));
        let validated = ("latency".to_owned(), CompareResults::validated());
        self.linux.keys().map(stored).chain([validated]).collect()
    }

    /// Returns a table for each document with the reasons below it, and the count of verdicts.
    pub(crate) fn tables(&self, runs: &Runs, linux: &Runs) -> String {
        let (mut page, mut first) = (String::new(), 0);
        let (mut verdicts, mut wrong) = (Vec::new(), Vec::new());
        for document in &self.document {
            let (title, source) = (&document.title, &document.source);
            let _ = write!(page, "\n## {title}\n\nSource: {source}\n\n{HEAD}");
            let mut reasons = String::new();
            for claim in &self.claim[first..document.last] {
                let (row, verdict) = claim.row(runs, linux, &self.run);
                let _ = writeln!(page, "{row}");
                if let Some(why) = &claim.why {
                    let _ = writeln!(reasons, "- {}: {why}", claim.number);
                }
                wrong.extend(claim.wrong(verdict));
                verdicts.push((verdict, claim.is_measured()));
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

    /// Returns the figure of Linux, if it was played.
    fn of_linux(&self, of: &FigurePlace, linux: &Runs) -> Option<f64> {
        let cell = self.at.or(of);
        let places = self.beside.iter().map(|beside| beside.or(&cell));
        let mut places = places.chain([cell.clone()]);
        let is_played = |place: &FigurePlace| {
            let run = place.run.as_ref().and_then(|run| linux.get(run));
            run.is_some_and(|run| run.has(place))
        };
        places
            .all(|place| is_played(&place))
            .then(|| self.here(of, linux))
    }

    /// Returns true if Linux's own code gives Weir's figure, which is not the published one.
    fn is_refuted(&self, here: f64, linux: Option<f64>) -> bool {
        linux.is_some_and(|linux| {
            !self.holds(linux) && here <= linux * AGREES && here >= linux / AGREES
        })
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
        linux: &Runs,
        runs: &BTreeMap<String, CompareArguments>,
    ) -> (String, ClaimVerdict) {
        let of = &self.of;
        let here: Vec<f64> = self.figures.iter().map(|f| f.here(of, played)).collect();
        let linux: Vec<_> = self.figures.iter().map(|f| f.of_linux(of, linux)).collect();
        let verdict = self.verdict(&here, &linux);
        let figures = self.figures.iter().zip(here.iter().copied().map(Some));
        let figures = with_labels(figures).map(|text| format!("{text} ({})", self.scenarios(runs)));
        // Linux's figures are evidence where the published ones do not appear.
        let differs = verdict != ClaimVerdict::Appears;
        let linux = self.figures.iter().zip(linux).filter(|_| differs);
        let linux = with_labels(linux).map(|text| format!("Linux on the same model: {text}"));
        let words = [&self.seen, &self.none, &self.aside]
            .into_iter()
            .flatten()
            .cloned();
        let found: Vec<String> = figures.into_iter().chain(linux).chain(words).collect();
        let row = format!(
            "| {} | {} | {} | {} | {} | {} |",
            self.number,
            self.says,
            self.published(),
            found.join("; "),
            self.basis(),
            verdict.word()
        );
        (row, verdict)
    }

    /// Returns true if a figure can refute the claim.
    fn is_measured(&self) -> bool {
        !self.figures.is_empty()
    }

    /// Returns the basis of the verdict.
    fn basis(&self) -> &'static str {
        match (self.is_measured(), &self.aside) {
            (true, _) => "measured",
            (false, None) => "construction",
            (false, Some(_)) => "-",
        }
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
    fn verdict(&self, here: &[f64], linux: &[Option<f64>]) -> ClaimVerdict {
        let figures = || self.figures.iter().zip(here).zip(linux);
        let parts = figures().map(|((figure, here), _)| figure.holds(*here));
        let parts = parts.chain(self.seen.iter().map(|_| true));
        let parts: Vec<bool> = parts.chain(self.none.iter().map(|_| false)).collect();
        let mut differs = figures().filter(|((figure, here), _)| !figure.holds(**here));
        let is_refuted = self.rules
            && self.none.is_none()
            && differs.all(|((figure, here), linux)| figure.is_refuted(*here, *linux));
        match parts.iter().filter(|holds| **holds).count() {
            // A claim of which no part holds is either not about storage, or does not appear.
            0 if self.aside.is_some() => ClaimVerdict::Aside,
            n if n == parts.len() => ClaimVerdict::Appears,
            _ if is_refuted => ClaimVerdict::Refuted,
            0 => ClaimVerdict::No,
            _ => ClaimVerdict::InPart,
        }
    }

    /// Returns the scenarios of the figures.
    fn scenarios(&self, runs: &BTreeMap<String, CompareArguments>) -> String {
        let cells = self.figures.iter().map(|figure| figure.at.or(&self.of));
        let runs = cells.map(|cell| &runs[&cell.run.expect("it was played")]);
        let mut names: Vec<String> = runs.map(CompareArguments::called).collect();
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
            Self::Refuted => "refuted by Linux",
            Self::Aside => "-",
        }
    }
}

/// Returns the figures that are known, with their labels, or nothing if there are none.
fn with_labels<'a>(
    figures: impl Iterator<Item = (&'a ClaimFigure, Option<f64>)>,
) -> Option<String> {
    let known = figures.filter_map(|(figure, value)| Some((figure, value?)));
    let texts = known.map(|(figure, value)| figure.labelled(&figure.number(&digits(value))));
    Some(join(texts)).filter(|text| !text.is_empty())
}

/// Returns the table of the verdicts by their basis, and the parts that they make.
fn count(verdicts: &[(ClaimVerdict, bool)]) -> String {
    let mut page = String::from(COUNT);
    for (name, measured) in [("measured", true), ("construction", false)] {
        let of = |verdict| {
            let same = |v: &&(ClaimVerdict, bool)| **v == (verdict, measured);
            verdicts.iter().filter(same).count()
        };
        let counts = [
            ClaimVerdict::Appears,
            ClaimVerdict::Refuted,
            ClaimVerdict::InPart,
            ClaimVerdict::No,
        ]
        .map(of);
        let all: usize = counts.iter().sum();
        let percent = 100 * (counts[0] + counts[1]) / all;
        let [appear, refuted, part, no] = counts;
        let _ = writeln!(
            page,
            "| {name} | {all} | {appear} | {refuted} | {part} | {no} | {percent} % |"
        );
    }
    let aside = verdicts.iter().filter(|v| v.0 == ClaimVerdict::Aside);
    let _ = writeln!(
        page,
        "\n{} claims are not about storage and are not counted.",
        aside.count()
    );
    page
}

const COUNT: &str = "
## Count of the verdicts

| Basis | Claims | Appear | Refuted by Linux | In part | Do not appear | Appear or refuted |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
";

const HEAD: &str = "\
| No. | Claim | Published | In Weir | Basis | Verdict |
| ---: | --- | --- | --- | --- | --- |
";
