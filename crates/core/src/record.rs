//! The calls as bytes, and back.
