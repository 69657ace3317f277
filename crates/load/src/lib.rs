//! Client programs as state machines, generators of offsets and times.
