//! Prometheus' text format (`text/plain; version=0.0.4`), which every scraper reads.

use std::fmt::{Display, Write};

/// The format of metrics, as HTTP calls it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page under way: families of samples, each under its head.
#[derive(Debug, Default)]
pub(super) struct Page(String);

/// What kind of number a family has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Grows from the start of the server on; its name ends in `_total`.
    Counter,
    /// Rises and falls.
    Gauge,
}

/// Names and values that tell the samples of a family apart.
pub(super) type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

impl Page {
    /// A family, and a sample for each of these labels and values.
    pub(super) fn family<'a, const N: usize>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a, N>, impl Display)>,
    ) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.head(kind, name, help);
        for (labels, value) in samples {
            self.sample(name, "", &labels, value);
        }
    }

    /// The head of a family of histograms, each of which is to follow.
    pub(super) fn histograms(&mut self, name: &str, help: &str) {
        self.head("histogram", name, help);
    }

    /// One histogram: its bounds in seconds, the last of them `+Inf`, each with the number of what is not above it, and the sum of all.
    pub(super) fn histogram<B: Display>(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        buckets: impl IntoIterator<Item = (B, u64)>,
        sum: Seconds,
    ) {
        let mut all = 0;
        for (bound, count) in buckets {
            let bound = bound.to_string();
            self.sample(
                name,
                "_bucket",
                &[labels, &[("le", &bound)]].concat(),
                count,
            );
            all = count;
        }
        self.sample(name, "_sum", labels, sum);
        self.sample(name, "_count", labels, all);
    }

    pub(super) fn text(self) -> String {
        self.0
    }

    fn head(&mut self, kind: &str, name: &str, help: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0 += name;
        self.0 += suffix;
        for (n, (label, value)) in labels.iter().enumerate() {
            self.0.push(if n == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.0 += "\\\\",
                    '"' => self.0 += "\\\"",
                    '\n' => self.0 += "\\n",
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

/// A time, written in seconds, to the microsecond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) u128);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = self.0 / 1_000;
        write!(f, "{}.{:06}", micros / 1_000_000, micros % 1_000_000)
    }
}
