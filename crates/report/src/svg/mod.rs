//! Plots as SVG text: each a pure function of its data.
//!
//! Colours, fonts and dark mode come from [`STYLE`] through classes. A page holds it once; [`standalone`] puts it into a
//! plot that is to be a file of its own.

mod axis;
mod bars;
mod canvas;
mod frame;
mod lines;
mod stack;

pub use axis::Scale;
pub use bars::{Bar, BarChart, BarGroup};
pub use lines::{Band, Line, LineChart, Mark};
pub use stack::{StackChart, StackRow};

/// A colour of the palette, by its place in it. The first six are told apart by people with any of the common kinds of
/// colour blindness (after Okabe and Ito 2002) on light and on dark ground; further ones begin again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink(pub usize);

impl Ink {
    /// A grey for what stands in the background.
    pub const QUIET: Self = Self(PALETTE);

    /// The class that carries the colour.
    pub(crate) fn class(self) -> String {
        let place = match self {
            Self::QUIET => PALETTE,
            Self(i) => i % PALETTE,
        };
        format!("ink{place}")
    }
}

/// Number of colours before they begin again.
const PALETTE: usize = 6;

/// The style sheet of every plot, in light and dark.
pub const STYLE: &str = include_str!("plot.css");

/// A plot as a document of its own, with its style.
pub fn standalone(plot: &str) -> String {
    match plot.split_once('>') {
        Some((head, body)) => format!("{head}><style>{STYLE}</style>{body}"),
        None => plot.to_owned(),
    }
}
