//! The laboratory: measures drives ([`calibrate`]), fits models to them ([`fit`]), compares the
//! simulator with Linux ([`conformance`]), and reports results ([`report`]).
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod conformance;
pub mod fit;
pub mod report;
