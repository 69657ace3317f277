//! The virtual host: load against core and drive in virtual time.
//!
//! A [`Scenario`] says what there is (a drive, groups with contracts, clients with programs, a path between them) and what
//! happens when; a [`Policy`] says how the drive is shared. A [`Run`] plays the one under the other: the same
//! [`Layer`](weir_core::Layer) as in the live server, the same client programs as in the live client, a clock that jumps from
//! event to event.
//!
//! Events have a total order: by time; at one time completions before timers before changes before submissions; within each kind
//! by sequence. Nothing depends on the machine, so a run is the same to the byte wherever it takes place.
//!
//! ```
//! use weir_core::Span;
//! use weir_sim::{Policy, Run, scenario};
//!
//! let scenario = scenario::demo(Span::from_secs(1));
//! let results = Run::new(&scenario, &Policy::none(), 0)?.run(|_| {})?;
//! let target = &results.clients[0];
//! // Without a policy, fifteen streaming readers crowd out the one that reads 4 KiB at a time.
//! assert!(target.meter.bytes() < 1_000_000);
//! assert!(results.total.bytes() > 240_000_000);
//! # Ok::<(), weir_sim::Error>(())
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

pub use again::{Again, Load, Sent};
pub use alone::{Alone, alone};
pub use error::Error;
pub use results::{ClientResult, Results};
pub use run::{Progress, Run};
pub use weir_config::Policy;
pub use weir_config::scenario::{
    Action, Adapter, Advice, Buffered, Calls, Change, ClientSpec, Cost, GroupSpec, Guest, Kicks,
    Machine, Merging, NrRequests, Path, Plug, Ring, Scenario, Scheduled, Stall, Threads,
};
pub use weir_core::record::Observer;
