//! Tests of `io.cost` as a whole: comparisons with Linux (`referee`), and its rules under random
//! configurations (`rules`).

mod host;
mod referee;
mod rules;
