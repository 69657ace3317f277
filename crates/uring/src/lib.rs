//! A ring that owns its buffers, and a poll-based twin behind one trait.
