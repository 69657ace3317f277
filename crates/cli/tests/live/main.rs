//! The integration tests in real time, with one module for each subject.

#[path = "../common/browser.rs"]
mod browser;
#[path = "../common/mod.rs"]
mod common;
#[allow(
    dead_code,
    reason = "a tool of the server's tests, of which a part is used here"
)]
#[path = "../../../serve/tests/tools/guest.rs"]
mod guest;
#[allow(
    dead_code,
    reason = "a tool of the server's tests, of which a part is used here"
)]
#[path = "../../../serve/tests/tools/raw.rs"]
mod raw;

mod calibrate;
mod causes;
mod compare_guest;
mod compare_linux;
mod csi;
mod csi_fleet;
mod ctl;
mod dashboard;
mod demo;
mod gateways;
mod monitoring;
mod nbd_tls;
mod qemu;
mod readme;
mod record;
mod remote;
mod restart;
mod serve;
mod top;
mod tutorials;
mod ublk;
mod upgrade;
