//! Cards: one result at a glance.

use super::{escape, write_terms};
use crate::report::svg::Ink;

/// One result at a glance: a name, a figure, a verdict.
#[derive(Debug, Clone, Default)]
pub struct Card {
    /// Its name.
    pub title: String,
    /// The colour of the same thing in plots.
    pub ink: Option<Ink>,
    /// A line below the name.
    pub note: String,
    /// The figure.
    pub figure: String,
    /// The figure's unit.
    pub unit: String,
    /// How good it is.
    pub tone: Tone,
    /// The verdict in a word or two.
    pub badge: String,
    /// Bars below the figure.
    pub gauges: Vec<Gauge>,
    /// Further figures: name and value.
    pub rows: Vec<(String, String)>,
    /// A sentence at the end.
    pub text: String,
}

/// How good a result is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// As intended.
    Good,
    /// Not as intended.
    Bad,
    /// No verdict.
    #[default]
    Plain,
}

/// A partly filled bar.
#[derive(Debug, Clone)]
pub struct Gauge {
    /// Its name.
    pub name: String,
    /// The value as text.
    pub value: String,
    /// The filled fraction, 0 to 1; more is shown as full.
    pub part: f64,
    /// A mark on the bar, 0 to 1, such as the position of the promise.
    pub mark: Option<f64>,
}

/// The longest text, in bytes, that a card shows as a whole.
const TEXT: usize = 240;

impl Card {
    /// The card as HTML.
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
            // Cards beside each other have one height: what is longer is shown on demand.
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
