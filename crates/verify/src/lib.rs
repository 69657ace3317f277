//! Verifies the block layer: auditors watch each rule, and a search draws scenarios and judges promises.
#![forbid(unsafe_code)]

/// An enumeration without data, with the list of its variants, and the names of these if they have
/// any.
macro_rules! listed {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident $(= $name:literal)?,)* }) => {
        $(#[$meta])*
        pub enum $type { $($(#[$doc])* $variant,)* }

        impl $type {
            /// All of them.
            pub const ALL: [Self; [$(stringify!($variant)),*].len()] = [$(Self::$variant),*];
            listed! { @names $($variant $($name)?)* }
        }
    };
    (@names $($variant:ident $name:literal)+) => {
        /// What it is called.
        pub fn name(self) -> &'static str {
            match self { $(Self::$variant => $name),* }
        }
    };
    (@names $($variant:ident)*) => {};
}

pub mod audit;
pub mod search;
