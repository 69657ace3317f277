//! Values that files state as one of a few words.

/// A type whose values are words in files.
pub(crate) trait Words: Copy + PartialEq + 'static {
    /// All values with their words, in the order of the key's declared words.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the word for the value.
    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|w| w.1 == self);
        found.map_or("", |w| w.0)
    }

    /// Returns the value for a word.
    fn named(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().find(|w| w.0 == word);
        found.map(|w| w.1)
    }
}

/// Implements [`Words`] for types: `Type: "word" Variant, …;`.
macro_rules! words {
    ($($Type:ty: $($word:literal $Variant:ident),*;)*) => {$(
        impl $crate::words::Words for $Type {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$Variant)),*];
        }
    )*};
}
pub(crate) use words;
