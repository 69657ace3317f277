//! Plots as SVG text: each is a pure function of its data.
//!
//! Colours, fonts and dark mode come from [`STYLE`] through classes. A page contains it once.

mod axis;
mod canvas;
mod chart;
mod frame;
mod rows;

pub use axis::Scale;
pub use chart::{Along, Bar, Chart, Mark, Shape};

/// A colour: of a policy, of a part of the time, or neutral.
///
/// Those of the first seven policies can be told apart with any of the common kinds of colour blindness (after Okabe and Ito 2002) on light and
/// on dark background; all others go with a line pattern that their neighbours do not have. Parts have tints that no policy has: violet before
/// the drive, brown in the drive, grey outside. Which of two parts is the lighter one is the same on both backgrounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink(&'static str);

impl Ink {
    /// A grey for the background.
    pub const QUIET: Self = Self("ink-quiet");

    /// The colour of text, for the foreground.
    pub const STRONG: Self = Self("ink-strong");

    /// The parts of a request's time: throttled, waiting in the elevator, waiting while the drive idles, in the drive's queue,
    /// being served, outside.
    pub const PARTS: [Self; 6] = [
        Self("ink-held"),
        Self("ink-waits"),
        Self("ink-idles"),
        Self("ink-queue"),
        Self("ink-served"),
        Self::QUIET,
    ];

    /// How many colours there are for policies.
    pub(crate) const POLICIES: usize = 16;

    /// The colour of a policy, by its index below `POLICIES`.
    pub(crate) fn policy(place: usize) -> Self {
        const ALL: [&str; Ink::POLICIES] = [
            "ink0", "ink1", "ink2", "ink3", "ink4", "ink5", "ink6", "ink7", "ink8", "ink9",
            "ink10", "ink11", "ink12", "ink13", "ink14", "ink15",
        ];
        Self(ALL[place])
    }

    /// The class that carries the colour.
    pub(crate) fn class(self) -> &'static str {
        self.0
    }
}

/// How many line patterns there are.
pub(crate) const DASHES: usize = 7;

/// The style sheet of every plot, in light and dark.
pub const STYLE: &str = include_str!("plot.css");
