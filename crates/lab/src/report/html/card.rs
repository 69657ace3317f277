//! Cards, each of which summarises one result.

use super::{escape, write_terms};
use crate::report::svg::Ink;

/// A summary of one result: a name, a figure, and a verdict.
#[derive(Debug, Clone, Default)]
pub struct Card {
    /// The name of the result.
    pub title: String,
    /// The colour of the same policy in plots.
    pub ink: Option<Ink>,
    /// A line below the name.
    pub note: String,
    /// The figure, as text.
    pub figure: String,
    /// The unit of the figure.
    pub unit: String,
    /// The quality of the result.
    pub tone: Tone,
    /// The verdict in a word or two.
    pub badge: String,
    /// The bars below the figure.
    pub gauges: Vec<Gauge>,
    /// Further figures, as name and value.
    pub rows: Vec<(String, String)>,
    /// A sentence at the end of the card.
    pub text: String,
}

/// The quality of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// The result is as intended.
    Good,
    /// The result is not as intended.
    Bad,
    /// The result has no verdict.
    #[default]
    Plain,
}

/// A partly filled bar.
#[derive(Debug, Clone)]
pub struct Gauge {
    /// The name of the value.
    pub name: String,
    /// The value, as text.
    pub value: String,
    /// The filled fraction, from 0 to 1. Larger values are shown as full.
    pub part: f64,
    /// A mark on the bar, from 0 to 1, such as the position of the promise.
    pub mark: Option<f64>,
}

/// The length in bytes of the longest text that a card shows completely.
const TEXT: usize = 240;

impl Card {
    /// Returns the card as HTML.
    pub(super) fn html(&self) -> String {
        let (tone, sign) = match self.tone {
            Tone::Good => ("good", "\u{2713} "),
            Tone::Bad => ("bad", "\u{2717} "),
            Tone::Plain => ("plain", ""),
        };
        let ink = self.ink.map_or("", Ink::class);
        let mut out = format!(
            "<article class=\"card plot {tone} {ink}\">\n<h3>{}</h3>\n<p class=\"note\">{}</p>\n\
             <p class=\"figure\">{} <span>{}</span></p>\n<p class=\"badge\">{sign}{}</p>\n",
            escape(&self.title),
            escape(&self.note),
            escape(&self.figure),
            escape(&self.unit),
            escape(&self.badge),
        );
        out.extend(self.gauges.iter().map(Gauge::html));
        if !self.rows.is_empty() {
            write_terms(&mut out, &self.rows);
        }
        match self.text.split_once(". ") {
            // Cards next to each other have the same height, so that longer texts are shown on
            // demand.
            Some((first, rest)) if self.text.len() > TEXT => {
                let (first, rest) = (escape(first), escape(rest));
                out.extend([
                    "<details class=\"text\">\n<summary>",
                    &first,
                    ".</summary>\n",
                ]);
                out.extend([rest.as_str(), "\n</details>\n"]);
            }
            _ if self.text.is_empty() => {}
            _ => out.extend(["<p class=\"text\">", &escape(&self.text), "</p>\n"]),
        }
        out + "</article>\n"
    }
}

impl Gauge {
    fn html(&self) -> String {
        let percent = |part: f64| {
            // A promise of zero gives no finite ratio.
            let part = if part.is_finite() { part } else { 0.0 };
            part.clamp(0.0, 1.0) * 100.0
        };
        let mark = self.mark.map_or_else(String::new, |m| {
            format!("<b style=\"left:{:.1}%\"></b>", percent(m))
        });
        format!(
            "<div class=\"gauge\"><span>{}</span><span>{}</span><div><i style=\"width:{:.1}%\"></i>{mark}</div></div>\n",
            escape(&self.name),
            escape(&self.value),
            percent(self.part),
        )
    }
}
