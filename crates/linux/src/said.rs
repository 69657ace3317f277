//! The report of one step of `apply` or `restore`, as a line for the user.

use std::fmt;
use weir_config::one_line;

/// A step that was done, or that could not be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepReport {
    /// A file was given a value.
    Set {
        /// The file that was written.
        file: String,
        /// The value before.
        from: String,
        /// The value that was read back.
        to: String,
    },
    /// A file that another program had changed was given its value again.
    Repaired {
        /// The file that was written.
        file: String,
        /// The value of the other program.
        from: String,
        /// The value that was read back.
        to: String,
    },
    /// The kernel has another value than was written, or ignored the write.
    Other {
        /// The file that was written.
        file: String,
        /// The value that was written.
        asked: String,
        /// The value that was read back.
        is: String,
        /// True if the value is the same as before.
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
    /// A file was given its earlier value again.
    Restored {
        /// The file that was written.
        file: String,
        /// The earlier value.
        to: String,
    },
    /// A cgroup, directory or file that a plan had made was removed.
    Removed(String),
    /// The controller `io` was disabled again below a cgroup.
    Disabled(String),
    /// A change was left, for a reason.
    Left {
        /// The file or directory of the change.
        path: String,
        /// The reason why it was left.
        why: String,
    },
}

impl StepReport {
    /// Returns true if the line is shown even if the user did not ask for the steps.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Self::Other { .. } | Self::Left { .. } | Self::Repaired { .. }
        )
    }

    /// Returns the line, with names unescaped.
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

impl fmt::Display for StepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Other users can name cgroups, and the names are printed on root's terminal.
        f.write_str(&one_line(&self.line()))
    }
}
