//! Prometheus' text format (`text/plain; version=0.0.4`), which all scrapers support.

use std::fmt::{Display, Write};

/// The media type of metrics, for the HTTP header `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page of metrics that is being written: families of samples, each below its head.
#[derive(Debug, Default)]
pub(super) struct MetricsPage(String);

/// The kind of a family's values.
#[derive(Clone, Copy, Debug)]
pub(super) enum MetricKind {
    /// A count that only grows while the server runs. Its name ends in `_total`.
    Counter,
    /// A value that can rise and fall.
    Gauge,
}

/// Label names and values that distinguish the samples of a family.
pub(super) type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

impl MetricsPage {
    /// Appends a family with one sample for each of these labels and values.
    pub(super) fn family<'a, const N: usize>(
        &mut self,
        kind: MetricKind,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a, N>, impl Display)>,
    ) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        self.head(kind, name, help);
        for (labels, value) in samples {
            self.sample(name, "", &labels, value);
        }
    }

    /// Appends the head of a family of histograms. The histograms must follow.
    pub(super) fn histograms(&mut self, name: &str, help: &str) {
        self.head("histogram", name, help);
    }

    /// Appends one histogram. `buckets` contains upper bounds in seconds, the last of them `+Inf`,
    /// each with the number of values up to the bound. `sum` is the sum of all values.
    pub(super) fn histogram<B: Display>(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        buckets: impl IntoIterator<Item = (B, u64)>,
        sum: Seconds,
    ) {
        // Counts are cumulative, so that the last bucket contains all values.
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
                // The format escapes exactly these three characters in label values.
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

/// A time in nanoseconds, which is printed in seconds with microsecond precision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) u128);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = self.0 / 1_000;
        write!(f, "{}.{:06}", micros / 1_000_000, micros % 1_000_000)
    }
}
