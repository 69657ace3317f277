//! The virtual host: load against core and drive in virtual time.
