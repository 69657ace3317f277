//! Plots as SVG text. Each plot is a pure function of its data.
//!
//! Colours, fonts and dark mode are applied by the classes of [`STYLE`], which a page contains
//! once.

mod axis;
mod canvas;
mod chart;
mod frame;
mod rows;

pub use axis::Scale;
pub use chart::{Along, Bar, Chart, ChartMark, MarkShape};

/// A colour of a policy, of a part of the time, or neutral.
///
/// The colours of the first seven policies can be distinguished with all common kinds of colour
/// blindness (after Okabe and Ito 2002), on light and dark backgrounds. All others have a line
/// pattern that their neighbours do not have. Parts have tints that no policy has: violet before
/// the drive, brown in the drive, and grey outside. Of two parts, the same one is the lighter one
/// on both backgrounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink(&'static str);

impl Ink {
    /// A grey for the background.
    pub const QUIET: Self = Self("ink-quiet");

    /// The colour of text, for the foreground.
    pub const STRONG: Self = Self("ink-strong");

    /// The colours of the parts of a request's time: throttled, waiting in the elevator, waiting
    /// while the drive idles, in the drive's queue, being served, and outside.
    pub const PARTS: [Self; 6] = [
        Self("ink-held"),
        Self("ink-waits"),
        Self("ink-idles"),
        Self("ink-queue"),
        Self("ink-served"),
        Self::QUIET,
    ];

    /// The number of colours for policies.
    pub(crate) const POLICIES: usize = 16;

    /// Returns the colour of a policy, by its index below `POLICIES`.
    pub(crate) fn policy(place: usize) -> Self {
        const ALL: [&str; Ink::POLICIES] = [
            "ink0", "ink1", "ink2", "ink3", "ink4", "ink5", "ink6", "ink7", "ink8", "ink9",
            "ink10", "ink11", "ink12", "ink13", "ink14", "ink15",
        ];
        Self(ALL[place])
    }

    /// Returns the class that carries the colour.
    pub(crate) fn class(self) -> &'static str {
        self.0
    }
}

/// The number of line patterns.
pub(crate) const DASHES: usize = 7;

/// The style sheet of every plot, for light and dark backgrounds.
pub const STYLE: &str = include_str!("plot.css");
