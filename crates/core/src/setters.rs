//! Methods that change one field of a value, so that `min(5).share(200)` says in a line what a
//! literal with `..` says in four.

/// Gives a structure a method for each of these fields, which returns a copy with another value in
/// that field.
macro_rules! setters {
    ($name:ident: $($field:ident: $type:ty),* $(,)?) => {
        impl $name {
            $(
                #[doc = concat!("Changes `", stringify!($field), "`.")]
                #[must_use]
                pub const fn $field(self, $field: $type) -> Self {
                    Self { $field, ..self }
                }
            )*
        }
    };
}

pub(crate) use setters;
