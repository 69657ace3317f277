//! Where each key of a file stands, for what is found out about it later.

use crate::problem::Problem;
use std::collections::BTreeMap;

/// The file's name, and line and column of every key path in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) file: String,
    pub(crate) keys: BTreeMap<String, (u32, u32)>,
}

/// Where a value stands does not change what it says.
impl PartialEq for Places {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Places {}

impl Places {
    /// A problem at a key, or at the nearest table around it that is in the file.
    pub(crate) fn problem(&self, key: &str, message: String, help: Option<String>) -> Problem {
        let mut path = key;
        let place = loop {
            if let Some(&place) = self.keys.get(path) {
                break place;
            }
            match path.rfind('.') {
                Some(dot) => path = &path[..dot],
                None => break (0, 0),
            }
        };
        let help = help.unwrap_or_default();
        Problem::new(&self.file, place, key, message, &help)
    }
}
