//! A comparison under an unmodified kernel in a guest, beside the simulator: one short run.

mod common;

use common::{have, weir};
use std::fs;

const SCENARIO: &str = r#"
name = "short"
duration = "1s"
run_in = "0s"
warm_up = "200ms"
host = { nr_requests = "linux", nomerges = 0 }
[[client]]
name = "target"
rw = "randread"
bs = "4KiB"
direct = true
size = "1GiB"
share = 300
[[client]]
name = "reader"
rw = "read"
bs = "128KiB"
direct = true
size = "1GiB"
max = { bandwidth = "3MB/s" }
"#;
