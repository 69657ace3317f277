//! What a layer is made from, as bytes. A new setting is added to its list here, at the place it has in its structure.

use super::code::{Code, Input, Malformed, choices, settings, variants};
use crate::control;
use crate::elevator::{self, bfq, contract};
use crate::{Capacity, Config, DriveShape, Limits};
use alloc::vec::Vec;

settings! {
    Config { limits, drive, controllers, elevator }
    control::Config { max, latency }
    Limits { requests, streams, groups, spaces, per_stream, reserved, scheduler_tags, events }
    DriveShape { queues, tags, max_transfer, rotational, capacity }
    Capacity { read, write, iops, read_iops, write_iops }
    bfq::Config {
        fifo_expire_sync, fifo_expire_async, back_seek_max, back_seek_penalty, slice_idle, max_budget, timeout_sync,
        strict_guarantees, async_charge_factor, seeky_threshold, low_latency, injection, merge, stable_merge, charge,
    }
    contract::Config { excess, catch_up, forget, idle_class_timeout, bound_in_flight }
}

variants! {
    bfq::Charge { 0 = Linux, 1 = Service } "how bfq charges a turn"
    contract::Excess { 0 = Time, 1 = Bytes } "what shares are measured in"
}

choices! {
    elevator::Config {
        0 = None {},
        1 = Bfq { config: 0 },
        2 = Contract { config: 0 },
    } "an elevator this build of weir has"
}
