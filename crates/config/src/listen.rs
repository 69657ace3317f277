//! Addresses of listeners, and owners of Unix sockets.

use crate::text::quoted;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a listener for clients.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum ListenAddress {
    /// A Unix socket at an absolute path: `"unix:/run/weir/nbd.sock"`. The path has at most 107
    /// bytes, the size of `sun_path` without the final zero.
    Unix(PathBuf),
    /// An IP address and a port, such as `"127.0.0.1:10809"`, `"[::1]:10809"` or
    /// `"localhost:10809"` (127.0.0.1). Port 0 selects any free port.
    Tcp(SocketAddr),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// The owner of a file: `"user:group"`, `"user"` or `":group"`. A part that is `None` is not
/// changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SocketOwner {
    /// The user, if it is set.
    pub user: Option<Id>,
    /// The group, if it is set.
    pub group: Option<Id>,
}

/// A user or a group, by name or number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Id {
    /// A name, which is looked up on the machine.
    Name(String),
    /// A numeric user or group ID.
    Number(u32),
}

impl Id {
    /// Returns a user or group by name or number, or `None` if the text is empty.
    pub(crate) fn of(text: &str) -> Option<Self> {
        match text.parse() {
            _ if text.is_empty() => None,
            Ok(number) => Some(Self::Number(number)),
            Err(_) => Some(Self::Name(text.to_owned())),
        }
    }
}

impl FromStr for SocketOwner {
    /// The problem, and the help for it.
    type Err = (String, &'static str);

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        // A second colon would otherwise become part of the group's name.
        let odd = |c: char| c == ':' || c.is_whitespace() || c.is_control();
        let [user, group] = [user, group].map(|part| (Id::of(part), part.contains(odd)));
        if user.1 || group.1 || user.0.is_none() && group.0.is_none() {
            let help = "write \"user:group\", \"user\" or \":group\", by name or number";
            return Err((format!("{} is not a valid owner", quoted(text)), help));
        }
        Ok(Self {
            user: user.0,
            group: group.0,
        })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl fmt::Display for SocketOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = |id: &Option<Id>| id.as_ref().map_or_else(String::new, Id::to_string);
        f.write_str(&id(&self.user))?;
        if self.group.is_some() {
            write!(f, ":{}", id(&self.group))?;
        }
        Ok(())
    }
}
