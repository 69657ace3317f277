//! The management server, by its client and by bytes.

mod gateways;
mod hostile;
mod interface;
mod random;
mod site;
