//! Timing models of drives.
