//! The places of keys in a file, for problems that are found after the file was read.

use crate::problem::Problem;
use std::collections::BTreeMap;

/// The name of a file, with the line and column of each key path in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyPlaces {
    pub(crate) file: String,
    pub(crate) keys: BTreeMap<String, (u32, u32)>,
}

/// All places are equal, because two files with the same values must compare as equal.
impl PartialEq for KeyPlaces {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for KeyPlaces {}

impl KeyPlaces {
    /// Returns a problem at a key, or at the nearest table around the key that is in the file.
    pub(crate) fn problem(&self, key: &str, message: String, help: Option<String>) -> Problem {
        let mut path = key;
        let place = loop {
            if let Some(&place) = self.keys.get(path) {
                break place;
            }
            // A key with a default, or a missing one, has no place. The table around it is the next
            // best.
            match path.rfind('.') {
                Some(dot) => path = &path[..dot],
                // Line 0 is displayed without a place.
                None => break (0, 0),
            }
        };
        let help = help.unwrap_or_default();
        Problem::new(&self.file, place, key, message, &help)
    }
}
