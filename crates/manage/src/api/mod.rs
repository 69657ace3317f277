//! What the management server of Weir says and is told.
//!
//! The server (`weir-manage`) and its clients (`weir ctl`, `weir top`) share these types; the `OpenAPI` document at `/v1/openapi.json` is made from
//! them, too. Quantities are numbers with their unit in their name; what is written in the configuration is in the words of the file.
//! [`Client`] asks a server over its Unix socket.

mod change;
mod client;
mod event;
mod figures;
mod history;
pub mod log;
mod socket;
mod state;
mod words;

pub use change::{Change, ChangeRequest, Changes, Edit, Outcome, Refusal, Said, UndoRequest};
pub use client::{Client, Error, Lines};
pub use event::{Event, Second, ShortSecond};
pub use figures::{Counts, DriveFigures, Latency, SecondCounts, TenantFigures, VolumeFigures};
pub use history::{Curve, CurvePoint, ShortSeconds};
pub use socket::Socket;
pub use state::{Budget, Contract, Drive, Found, List, Status, Tenant, Volume};
pub use words::{encoded, path, words};

/// Words of the file and their values: a table of the configuration as JSON.
pub type Words = serde_json::Map<String, serde_json::Value>;
