//! The errors of preparing and playing a run.

use crate::{ClientSpec, Scenario};
use weir_core::{GroupId, Instant, OpenError, Refusal, SpaceId};

/// The reason why a run could not start or did not end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A parameter of the drive is out of range.
    #[error("drive: {0}")]
    Drive(weir_core::rule::RuleViolation),
    /// A freeze of the drive is empty, or not shorter than the time from one freeze to the next.
    #[error(
        "drive: the length of a freeze must be above zero and shorter than the time between two freezes"
    )]
    Freeze,
    /// The files do not fit into the part of the drive over which they are scattered.
    #[error("drive: spread must be at least the size of all files and at most that of the drive")]
    Spread,
    /// The layer's tables cannot have this size.
    #[error("layer: {0}")]
    Layer(weir_core::ConfigError),
    /// The groups and contracts of the scenario are refused.
    #[error("the contracts cannot be admitted: {0}")]
    Refused(Refusal),
    /// A parameter of a client's program is out of range.
    #[error("client {client}: {error}")]
    Program {
        /// The client's name.
        client: String,
        /// The parameter and its permitted range.
        error: weir_core::rule::RuleViolation,
    },
    /// A client's region is not inside its space, or the space does not exist.
    #[error("client {client}: its region must be inside its file")]
    Region {
        /// The client's name.
        client: String,
        /// The number of the space.
        space: u32,
    },
    /// A client's program cannot use the page cache.
    #[error("client {client}, through the page cache: {key} = {value} must be {allowed}")]
    Buffered {
        /// The client's name.
        client: String,
        /// The name of the parameter.
        key: &'static str,
        /// The value of the parameter, in the unit of `allowed`.
        value: u64,
        /// The permitted values.
        allowed: &'static str,
    },
    /// A space does not fit on the drive.
    #[error(
        "space {space}: its {size} bytes from byte {base} on do not fit on a drive of {drive} bytes; use a larger --drive"
    )]
    Place {
        /// The number of the space.
        space: u32,
        /// The position of the space on the drive, in bytes.
        base: u64,
        /// The size of the space in bytes.
        size: u64,
        /// The size of the drive in bytes.
        drive: u64,
    },
    /// The files of clients do not fit on the drive.
    #[error(
        "{clients}: the files do not fit: they end at byte {end}, and the drive has {drive} bytes; reduce size or the number of clients (numjobs), use one file \
         for several (filename in a job file, file in a scenario), or use a larger --drive"
    )]
    Beyond {
        /// The names of the clients whose files end after the end of the drive: a few names and the
        /// number of the others.
        clients: String,
        /// The end of the last file, in bytes.
        end: u64,
        /// The size of the drive in bytes.
        drive: u64,
    },
    /// A client could not connect.
    #[error("client {client}: {error}")]
    Open {
        /// The client's name.
        client: String,
        /// The reason of the layer.
        error: OpenError,
    },
    /// An action names a client that does not exist.
    #[error("an action names client {0}, which does not exist")]
    NoSuchClient(usize),
    /// A million turns took place at one instant, because the drive and the clients take no time,
    /// or every request is refused.
    #[error(
        "the time does not advance beyond {at:?}, because the drive and the clients take no time, or every request is refused"
    )]
    Stuck {
        /// The time that does not advance.
        at: Instant,
    },
}

impl SimError {
    /// The message, with names instead of the numbers of groups and spaces.
    pub fn message_with_names(
        &self,
        group: impl FnOnce(GroupId) -> String,
        space: impl FnOnce(SpaceId) -> String,
    ) -> String {
        match self {
            Self::Refused(refusal) => {
                format!("the contracts cannot be admitted: {}", refusal.named(group))
            }
            Self::Place { space: at, .. } => {
                let text = self.to_string();
                text.replacen(&format!("space {at}"), &space(SpaceId(*at)), 1)
            }
            _ => self.to_string(),
        }
    }

    /// The message, with the names of a scenario's clients instead of numbers.
    pub fn message_for(&self, scenario: &Scenario) -> String {
        let names = |is_of: &dyn Fn(&ClientSpec) -> bool| {
            let clients = scenario.clients.iter().filter(|client| is_of(client));
            let names: Vec<&str> = clients.map(|client| client.name.as_str()).collect();
            match &names[..] {
                [one] => format!("client {one}"),
                [first, others @ ..] => format!("client {first} and {} more", others.len()),
                [] => "a group without clients".to_owned(),
            }
        };
        self.message_with_names(
            |group| names(&|client| client.group == group),
            |space| format!("the file of {}", names(&|client| client.space == space)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{Contract, Span};
    use weir_model::load::Program;

    #[test]
    fn reasons_name_clients_and_no_numbers() {
        let drive =
            weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
        let mut scenario = Scenario::new("named", drive, Span::from_secs(1));
        for name in ["web", "log"] {
            let program = Program::random_reads(4096, 1);
            scenario.add_client_with_group(name, Contract::DEFAULT, 1 << 20, program);
        }
        let refused = SimError::Refused(Refusal::MinAboveMax(GroupId(2)));
        let text = "the contracts cannot be admitted: client log: the min exceeds the max";
        assert_eq!(refused.message_for(&scenario), text);
        let place = SimError::Place {
            space: 0,
            base: 0,
            size: 9,
            drive: 5,
        };
        let text = "the file of client web: its 9 bytes from byte 0 on do not fit on a drive of 5 bytes; use a larger --drive";
        assert_eq!(place.message_for(&scenario), text);
    }
}
