//! Integration tests in real time, one module for each subject.

#[path = "../tools/mod.rs"]
mod tools;

mod clients;
mod clients_max;
mod device;
mod etcd;
mod etcd_tls;
mod explain;
mod flood;
mod guest_speed;
mod guests;
mod hostile;
mod promises;
mod refused;
mod remote_tls;
mod server;
mod storage;
mod tls;
mod twin;
