//! Why a volume's requests take as long as they do.
//!
//! A [`Journal`] observes the calls into a [`Layer`](weir_core::Layer), as a [`Recorder`](weir_core::record::Recorder) does: those of a
//! live server, of a simulated run or of a record, which makes no difference to it. It keeps as much of them as fits into a fixed number
//! of bytes, and allocates nothing for a request. A [`View`] of it is taken at once, however much it holds, and
//! [explains](View::explain) one group's requests wherever there is time for that: whose pieces were in the drive while its requests
//! waited, for how long at each stage, and which promised seconds were short for which reason.
//!
//! The [parts](Explanation::parts) of an explanation add up to the latency that was measured. Whether a promise was kept is decided by
//! [`crate::promise`] alone; a journal is [told](Journal::ruled) the verdicts. [`Watch`] is a journal with promises of its own, for
//! a run or a record, where nobody else judges.
//!
//! `docs/explain.md` says how time is divided among causes.

mod alone;
mod answer;
mod clock;
mod explanation;
mod journal;
mod late;
mod note;
mod ring;
mod rows;
mod say;
mod share;
mod slice;
mod standing;
mod standings;
mod stated;
mod sweep;
mod terms;
mod view;
mod watch;

pub use crate::promise::Cause;
pub use explanation::{
    CauseSeconds, DriveSeen, Explanation, Neighbour, Part, Promised, ShortSecond, Slowest, Stage,
    Waiting,
};
pub use journal::Journal;
pub use note::{NOTE_LEN, note};
pub use say::{Place, Takes, list};
pub use standings::Standings;
pub use view::View;
pub use watch::Watch;
