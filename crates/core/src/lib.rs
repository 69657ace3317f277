//! The block layer as a state machine: no clock, no I/O.
