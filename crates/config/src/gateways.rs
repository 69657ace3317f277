//! Where servers that keep minimums together meet.

use weir_core::Span;

/// The store of minimums that several servers keep together (`[gateways]`), fixed while the server runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gateways {
    /// The endpoints of etcd as `host:port`, at least one; each is spoken to by HTTP.
    pub etcd: Vec<String>,
    /// What its keys begin with: a slash and more, without one at the end.
    pub prefix: String,
    /// How long what a server has is kept for it when it is gone: whole seconds.
    pub lease: Span,
}
