//! What is told of each step, in a line.

use std::fmt;
use weir_config::one_line;

/// What was done, or was not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// A file was given a value; `from`: what it was.
    Set {
        /// The file.
        file: String,
        /// What it was.
        from: String,
        /// What it is.
        to: String,
    },
    /// A file that somebody had changed was given its value again.
    Repaired {
        /// The file.
        file: String,
        /// What it had become.
        from: String,
        /// What it is again.
        to: String,
    },
    /// The kernel made something else of a value, or ignored it.
    Other {
        /// The file.
        file: String,
        /// What was written.
        asked: String,
        /// What is read.
        is: String,
        /// It is as it was before.
        ignored: bool,
    },
    /// A cgroup or a directory was made.
    Made(String),
    /// The controller `io` was switched on below a cgroup.
    Enabled(String),
    /// A file of systemd was written.
    Unit(String),
    /// systemd read its units again.
    Reloaded,
    /// A file is as it was before.
    Restored {
        /// The file.
        file: String,
        /// What it is again.
        to: String,
    },
    /// What was made is gone again.
    Removed(String),
    /// The controller `io` is off again below a cgroup.
    Disabled(String),
    /// Something was left, and why.
    Left {
        /// What.
        path: String,
        /// Why.
        why: String,
    },
}

impl Said {
    /// Whether it is to be seen even where nobody asked what is done.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Self::Other { .. } | Self::Left { .. } | Self::Repaired { .. }
        )
    }

    /// The line, with names as they are.
    fn line(&self) -> String {
        match self {
            Self::Set { file, from, to } => format!("{file}: {from:?} -> {to:?}"),
            Self::Repaired { file, from, to } => {
                format!("{file}: another program changed it to {from:?}; restored to {to:?}")
            }
            Self::Other {
                file,
                asked,
                is,
                ignored,
            } => {
                let what = if *ignored {
                    "ignored it and still has"
                } else {
                    "set"
                };
                format!("{file}: {asked:?} was written, but the kernel {what} {is:?}")
            }
            Self::Made(path) => format!("{path}: created"),
            Self::Enabled(folder) => format!("{folder}/cgroup.subtree_control: +io"),
            Self::Unit(file) => format!("{file}: written"),
            Self::Reloaded => "systemctl daemon-reload".to_owned(),
            Self::Restored { file, to } => format!("{file}: restored to {to:?}"),
            Self::Removed(path) => format!("{path}: removed"),
            Self::Disabled(folder) => format!("{folder}/cgroup.subtree_control: -io"),
            Self::Left { path, why } => format!("{path}: not restored: {why}"),
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Other users can name cgroups, and root's terminal shows the names.
        f.write_str(&one_line(&self.line()))
    }
}
