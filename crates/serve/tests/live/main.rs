//! Integration tests in real time, one module for each subject.

#[path = "../tools/mod.rs"]
mod tools;

mod clients;
mod clients_max;
mod device;
mod etcd;
mod explain;
mod flood;
mod guest_speed;
mod guests;
mod hostile;
mod promises;
mod refused;
mod server;
mod storage;
mod tls;
mod twin;
