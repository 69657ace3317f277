//! The types of the management interface, and a client for it.
//!
//! The server (`weir-manage`) and its clients (`weir ctl`, `weir top`) share these types. The
//! `OpenAPI` document at `/v1/openapi.json` is generated from them as well. Quantities are numbers
//! with the unit in their name. Configuration has the keys and values of the configuration file.
//! [`ManagementClient`] calls a server over its Unix socket, or over TLS.

mod change;
mod client;
mod event;
mod figures;
mod history;
pub mod log;
mod socket;
mod state;
mod words;

pub use change::{
    Change, ChangeRequest, Changes, Edit, Outcome, Refusal, Said, UndoRequest, Upgraded,
};
pub use client::{Error, EventStream, ManagementClient};
pub use event::{Event, Second, ShortSecond};
pub use figures::{Counts, DriveFigures, Latency, SecondCounts, TenantFigures, VolumeFigures};
pub use history::{Curve, CurvePoint, ShortSeconds};
pub use socket::{ManagementServer, Socket};
pub use state::{Budget, Contract, Drive, Found, List, Status, Tenant, Volume};
pub use words::{encoded, path, words};

/// A table of the configuration as JSON, with the keys and values of the configuration file.
pub type JsonTable = serde_json::Map<String, serde_json::Value>;
