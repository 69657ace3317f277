//! Tests of the management server through its client, and with raw bytes.

mod gateways;
mod hostile;
mod interface;
mod random;
mod site;
mod tls;
