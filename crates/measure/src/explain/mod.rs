//! Explains the latency of a volume's requests from a journal of the calls into its layer.
//!
//! A [`Journal`] observes the calls into a [`Layer`](weir_core::Layer), as a
//! [`Recorder`](weir_core::record::Recorder) does. It makes no difference whether these are the
//! calls of a live server, of a simulated run or of a recording. The journal keeps as many of them
//! as fit into a fixed number of bytes, and allocates nothing for a request.
//!
//! Taking a [`JournalSnapshot`] of the journal is fast however much the journal holds. The view
//! then [explains](JournalSnapshot::explain) the requests of one group on any thread: which groups'
//! pieces were in the drive while its requests waited, for how long at each stage, and which
//! promised seconds were short for which reason. The [parts](Explanation::parts) of an explanation
//! add up to the measured latency.
//!
//! Only [`crate::promise`] decides whether a promise was kept, and a journal receives the verdicts
//! with [`Journal::ruled`]. [`JudgingJournal`] is a journal with promises of its own, for a run or
//! a recording, in which no server judges.
//!
//! `docs/explain.md` describes how time is divided among causes.

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
    CauseSeconds, DriveSummary, ExplainedShortSecond, Explanation, LatencyPart, Neighbour,
    OutstandingRequests, PromiseSummary, RequestStage, SlowestRequest,
};
pub use journal::Journal;
pub use note::{NOTE_LEN, note};
pub use say::{LatencySentence, SentencePlace, list};
pub use standings::Standings;
pub use view::JournalSnapshot;
pub use watch::JudgingJournal;
