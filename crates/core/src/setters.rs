//! Methods that change one field of a value, so that `min(5).share(200)` replaces a literal with
//! `..` of four lines.

/// Gives a structure one method for each of the listed fields. The method returns a copy in which
/// that field has another value.
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
