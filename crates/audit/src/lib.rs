//! Auditors: independent models that watch the core's inputs, outputs and events.
