//! Verification of the block layer. Auditors check its rules ([`audit`]), and a search draws
//! scenarios and judges their promises ([`search`]).
#![forbid(unsafe_code)]

/// Defines an enumeration without data, with the list of its variants. If the variants have names,
/// it also defines a function that returns them.
macro_rules! listed {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident $(= $name:literal)?,)* }) => {
        $(#[$meta])*
        pub enum $type { $($(#[$doc])* $variant,)* }

        impl $type {
            /// All variants in the order of their definition.
            pub const ALL: [Self; [$(stringify!($variant)),*].len()] = [$(Self::$variant),*];
            listed! { @names $($variant $($name)?)* }
        }
    };
    (@names $($variant:ident $name:literal)+) => {
        /// Returns the name of the variant.
        pub fn name(self) -> &'static str {
            match self { $(Self::$variant => $name),* }
        }
    };
    (@names $($variant:ident)*) => {};
}

pub mod audit;
pub mod search;
