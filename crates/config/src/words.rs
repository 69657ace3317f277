//! Values that a file says in a word.

/// A value that a file says in one of a few words.
pub(crate) trait Words: Copy + PartialEq + 'static {
    /// Every value with its word, in the order of the declared words.
    const WORDS: &'static [(&'static str, Self)];

    /// Its word.
    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|w| w.1 == self);
        found.map_or("", |w| w.0)
    }

    /// The value of a word.
    fn named(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().find(|w| w.0 == word);
        found.map(|w| w.1)
    }
}

/// The words of types: `Type: "word" Variant, …;`.
macro_rules! words {
    ($($Type:ty: $($word:literal $Variant:ident),*;)*) => {$(
        impl $crate::words::Words for $Type {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$Variant)),*];
        }
    )*};
}
pub(crate) use words;
