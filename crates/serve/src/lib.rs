//! The live server: shards, front ends, backends, metrics.
