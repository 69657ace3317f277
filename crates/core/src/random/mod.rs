//! Random numbers that are the same on every machine and in every version.
//!
//! Everything in Weir that draws numbers uses this module, including tests. [`Rng`] is the
//! generator for new code. [`SplitMix`] and [`Xorshift`] have a single word of state. They remain
//! in use because recorded seeds, fitted profiles or a fuzzer's corpus depend on their numbers.
//! None of the generators is suitable for cryptography.
//!
//! ```
//! use weir_core::random::Rng;
//!
//! let mut rng = Rng::new(7);
//! let dice = rng.range(1, 6);
//! assert!((1..=6).contains(&dice));
//! assert_eq!(Rng::new(7).range(1, 6), dice, "a seed always gives the same numbers");
//! ```

mod rng;
mod split_mix;
mod xorshift;

pub use rng::Rng;
pub use split_mix::SplitMix;
pub use xorshift::Xorshift;
