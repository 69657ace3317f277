//! Random numbers of our own: the same on every machine and in every version.
//!
//! Everything in Weir that draws numbers, tests included, takes them from here. [`Rng`] is the generator to use. [`SplitMix`] and
//! [`Xorshift`] have a single word of state; they remain where recorded seeds, fitted profiles or a fuzzer's corpus depend on the
//! numbers that they give. None of them is for cryptography.
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
