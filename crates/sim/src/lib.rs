//! The simulator: a virtual host that runs load against the core and a drive model in virtual time.
//!
//! A [`Scenario`] describes the drive, the groups with their contracts, the clients with their
//! programs, the path between them, and the events of the run. A [`Policy`] describes how the drive
//! is shared. A [`SimRun`] plays the scenario under the policy. It uses the same
//! [`Layer`](weir_core::Layer) as the live server and the same client programs as the live client,
//! but its clock jumps from event to event.
//!
//! Events have a total order: by time, at the same time completions before timers before changes
//! before submissions, and within each kind by sequence. Nothing depends on the machine, so a run
//! has exactly the same result everywhere.
//!
//! [`SimRun::new`] and [`SimRun::run`] are the usual calls. [`LoadRecord`] and [`Playback`] play a
//! recorded load on another drive or under another policy, and [`measure_alone()`] plays each
//! client without contention.
//!
//! ```
//! use weir_core::Span;
//! use weir_sim::{Policy, SimRun, scenario};
//!
//! let scenario = scenario::demo(Span::from_secs(1));
//! let results = SimRun::new(&scenario, &Policy::none(), 0)?.run(|_| {})?;
//! let target = &results.clients[0];
//! // Without a policy, fifteen streaming readers crowd out the one that reads 4 KiB at a time.
//! assert!(target.meter.bytes() < 1_000_000);
//! assert!(results.total.bytes() > 240_000_000);
//! # Ok::<(), weir_sim::SimError>(())
//! ```

#![forbid(unsafe_code)]

mod again;
mod agenda;
mod alone;
mod error;
mod flights;
mod guest;
mod host;
mod idling;
mod path;
mod results;
mod ring;
mod run;
pub mod scenario;
mod states;
mod timers;

pub use again::{LoadRecord, Playback, RecordedRequest};
pub use alone::{PerformanceAlone, measure_alone};
pub use error::SimError;
pub use results::{ClientResult, Results};
pub use run::{Progress, SimRun};
pub use states::group_label;
pub use weir_config::Policy;
pub use weir_config::scenario::{
    Action, Adapter, Advice, Buffered, CallTiming, Change, ClientSpec, Cost, CpuStall, GroupSpec,
    Guest, GuestRing, KickReaction, Machine, MergeSettings, NrRequests, Path, PlugScope, Scenario,
    ScheduledAction, Threads,
};
pub use weir_core::record::Observer;
