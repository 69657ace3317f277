//! An NBD client that runs load programs.
