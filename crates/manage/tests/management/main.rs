//! The management server, by its client and by bytes.

mod hostile;
mod interface;
mod random;
mod site;
