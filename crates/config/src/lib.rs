//! Configuration of Weir: units, contracts, policies, drive models, scenarios, and the server's
//! file.
//!
//! [`load`] or [`parse`] reads the server's file into a [`Server`], or returns everything that is
//! wrong with it. [`plan`] turns one of the server's drives into the settings that the core needs.
//! [`reload`] compares a changed file with that of a running server, and returns the steps that
//! apply the change.
//!
//! Start with `key`, which declares every key of every file, and with `document`, which reads
//! values and collects problems.
//!
//! All keys of the server's file:
//!
//! ```toml
#![doc = include_str!("../corpus/everything.toml")]
//! ```

#![forbid(unsafe_code)]

/// Declares the files of one kind that come with Weir: their names and texts (`BUILT_IN`), and
/// functions that list and find them. They are compiled in, so that a single binary has them.
macro_rules! built_in {
    ($kind:literal in $folder:literal: $($name:literal)*) => {
        #[doc = concat!("Each ", $kind, " that comes with Weir, and its file.")]
        const BUILT_IN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $folder, "/", $name, ".toml")))),*];

        #[doc = concat!("The names of each ", $kind, " that comes with Weir.")]
        pub fn names() -> impl Iterator<Item = &'static str> + Clone {
            BUILT_IN.iter().map(|file| file.0)
        }

        #[doc = concat!("The file of a ", $kind, " that comes with Weir.")]
        pub fn source(name: &str) -> Option<&'static str> {
            BUILT_IN.iter().find(|file| file.0 == name).map(|file| file.1)
        }
    };
}

mod admission;
mod allow;
pub mod apply;
mod changes;
mod check;
mod document;
mod elsewhere;
mod field;
mod file;
mod host;
mod import;
mod key;
mod listen;
mod load;
mod low;
pub mod manual;
mod measured;
mod nearest;
mod note;
mod notify;
pub mod os_error;
pub mod parameter;
mod places;
mod plan;
pub mod policy;
mod print;
mod problem;
pub mod profile;
mod read;
mod reload;
mod room;
pub mod scenario;
mod server;
mod setting;
pub mod sheet;
mod storage;
mod terms;
mod text;
pub mod trusted;
mod tunable;
pub mod units;
mod value;
mod words;

pub use admission::explain;
pub use allow::{Allow, ClientCertificates, Network, VolumeTls};
pub use changes::changes;
pub use check::warnings;
pub use file::text as file_text;
pub use import::{ImportedContracts, import};
pub use key::{DriveLimits, Gateways, Limits, Listen, Manage, ProcessSettings, Tls, contract_keys};
pub use listen::{Id, ListenAddress, SocketOwner};
pub use load::{load, load_again, parse, parse_again};
pub use measured::rounded;
pub use note::{notes, promised};
pub use notify::{CallRule, NotifyRules, WakeRule};
pub use plan::{DrivePlan, GroupOwner, VolumeSlot, plan};
pub use policy::Policy;
pub use print::{ContractText, class_word};
pub use problem::Problem;
pub use reload::{DriveReload, Reload, reload};
pub use room::{DriveRoom, TenantRoom, room};
pub use server::{Server, ServerDrive, Tenant, Volume};
pub use setting::Setting;
pub use storage::{Cache, Remote, Storage, ThreadPriority};
pub use text::{Quoted, one_line, toml_key};
