//! Access control: processes are identified by user and group, browsers by a token, and clients of
//! other machines by a certificate.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use weir_config::{Allow, Id, Manage};

use crate::error::RequestRefusal;

/// The minimum number of characters of a token.
const TOKEN_MIN: usize = 16;
/// The length of a generated token in bytes. It is written in hexadecimal digits.
const TOKEN_BYTES: usize = 32;

/// A client, identified by the listener through which it connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// A process that is connected to the Unix socket.
    Process {
        /// The id of its user.
        user: u32,
        /// The id of its primary group.
        group: u32,
        /// The id of the process.
        pid: i32,
    },
    /// A browser, or another client on the loopback interface.
    Browser,
    /// A client over TLS, with a verified certificate.
    Certificate {
        /// The DNS names and URIs in its certificate.
        names: Vec<String>,
        address: IpAddr,
    },
    /// A client of the address for metrics, which can request only these.
    Metrics,
}

/// The rights of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    ReadOnly,
    /// The client can read and change everything.
    Admin,
}

impl Peer {
    /// Returns the process at the other end of a Unix socket.
    pub(crate) fn of(socket: impl AsFd) -> io::Result<Self> {
        let peer = rustix::net::sockopt::socket_peercred(socket)?;
        Ok(Self::Process {
            user: peer.uid.as_raw(),
            group: peer.gid.as_raw(),
            pid: peer.pid.as_raw_nonzero().get(),
        })
    }

    /// Returns true for a process of root or of the server's own user. Such a process can read and
    /// write all files that the server can.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Process { user, .. } if own_users().contains(user))
    }

    /// Returns the client's name in the journal.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Process { user, pid, .. } => format!("uid {user} pid {pid}"),
            Self::Browser => "token".to_owned(),
            Self::Certificate { names, address } => {
                // A certificate can have many names, and one line of the log should stay readable.
                let names: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
                format!("certificate {} from {address}", names.join(" "))
            }
            Self::Metrics => "metrics".to_owned(),
        }
    }
}

/// Returns the ids of root and of the server's own user.
fn own_users() -> [u32; 2] {
    [0, rustix::process::geteuid().as_raw()]
}

/// The users, the groups and the names in certificates that have a role.
#[derive(Debug, Default)]
struct RoleMembers {
    users: Vec<u32>,
    groups: Vec<u32>,
    names: Vec<String>,
}

impl RoleMembers {
    /// Returns true if a client is one of the members.
    fn contain(&self, peer: &Peer) -> bool {
        match peer {
            Peer::Process { user, group, .. } => {
                self.users.contains(user) || self.groups.contains(group)
            }
            Peer::Certificate { names, .. } => names.iter().any(|name| self.names.contains(name)),
            Peer::Browser | Peer::Metrics => false,
        }
    }
}

/// The clients that are authorised.
#[derive(Debug)]
pub(crate) struct AccessRules {
    admins: RoleMembers,
    readers: RoleMembers,
    token: Option<String>,
    /// The loopback ports at which clients can connect, as named in `Host`.
    ports: Vec<u16>,
}

impl AccessRules {
    /// Reads the access rules of the configuration. Makes the token if its file does not exist.
    pub(crate) fn new(manage: &Manage, ports: Vec<u16>) -> Result<Self, String> {
        let token = manage.token_file.as_deref().map(token);
        Ok(Self {
            token: token.transpose()?,
            ports,
            ..Self::of_roles(manage)?
        })
    }

    /// Reads the roles of the configuration, without the token.
    pub(crate) fn of_roles(manage: &Manage) -> Result<Self, String> {
        let mut users = own_users().to_vec();
        for id in &manage.users {
            users.push(user(id, "manage.users")?);
        }
        let groups = manage.groups.iter();
        let groups = groups.map(|id| group(id, "manage.groups"));
        let admins = RoleMembers {
            users,
            groups: groups.collect::<Result<_, String>>()?,
            names: manage.certificates.clone(),
        };
        let mut readers = RoleMembers::default();
        for allow in &manage.read_only {
            match allow {
                Allow::User(id) => readers.users.push(user(id, "manage.read_only")?),
                Allow::Group(id) => readers.groups.push(group(id, "manage.read_only")?),
                Allow::Certificate(name) => readers.names.push(name.clone()),
                // The configuration refuses addresses, which do not identify a client.
                Allow::Address(_) => {}
            }
        }
        Ok(Self {
            admins,
            readers,
            token: None,
            ports: Vec::new(),
        })
    }

    /// Returns the role of a client that is identified, or `None` if it has none.
    fn role(&self, peer: &Peer) -> Option<Role> {
        if self.admins.contain(peer) {
            Some(Role::Admin)
        } else {
            self.readers.contain(peer).then_some(Role::ReadOnly)
        }
    }

    /// Checks that a client may send a request. `page` is true for the dashboard's page, which has
    /// no secrets. `writes` is true if the request changes something.
    pub(crate) fn check(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        page: bool,
        writes: bool,
    ) -> Result<(), RequestRefusal> {
        let forbidden = |error: String| Err(RequestRefusal::new(StatusCode::FORBIDDEN, error));
        match peer {
            Peer::Metrics => Ok(()),
            Peer::Process { user, .. } => match self.role(peer) {
                Some(Role::ReadOnly) if writes => forbidden(format!(
                    "user {user} may only read; add the user to users, or its group to groups, in [manage]"
                )),
                Some(_) => Ok(()),
                None => forbidden(format!(
                    "user {user} is not permitted; add the user to users, or its group to groups, in [manage]"
                )),
            },
            Peer::Certificate { names, .. } => {
                let shown = names.first().map_or("without a name", String::as_str);
                match self.role(peer) {
                    Some(Role::ReadOnly) if writes => forbidden(format!(
                        "certificate {shown} may only read; add {shown:?} to certificates in [manage]"
                    )),
                    // A browser sends the certificate with requests of every page.
                    Some(_) if writes && !is_same_origin(headers) => {
                        forbidden(FOREIGN_PAGE.to_owned())
                    }
                    Some(_) => Ok(()),
                    None => forbidden(format!(
                        "certificate {shown} is not permitted; add {shown:?} to certificates, or \"certificate:{shown}\" to read_only, in [manage]"
                    )),
                }
            }
            Peer::Browser => {
                self.check_host(headers)?;
                if writes && !self.is_own_origin(headers) {
                    return forbidden(FOREIGN_PAGE.to_owned());
                }
                if page || self.has_token(headers) {
                    return Ok(());
                }
                let error = "the token is missing or wrong; send the token of manage.token_file as Authorization: Bearer TOKEN";
                Err(RequestRefusal::new(StatusCode::UNAUTHORIZED, error))
            }
        }
    }

    /// Checks the requested host name. If a page of another site has its name resolve to this
    /// machine (DNS rebinding), its requests name that host.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), RequestRefusal> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        if host.is_some_and(|host| self.is_own(host)) {
            return Ok(());
        }
        Err(RequestRefusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "the host name is not permitted; use 127.0.0.1, [::1] or localhost, with the port",
        ))
    }

    /// Returns true if a host name and port are those of a loopback listener of this server.
    fn is_own(&self, host: &str) -> bool {
        // The address must be a loopback address, so that it has no other names.
        ["127.0.0.1", "[::1]", "localhost"].iter().any(|name| {
            let port = host
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(':'));
            let port = port.and_then(|port| port.parse().ok());
            port.is_some_and(|port| self.ports.contains(&port))
        })
    }

    /// Returns true if a request does not come from another site. Programs other than browsers do
    /// not send these headers.
    fn is_own_origin(&self, headers: &HeaderMap) -> bool {
        is_own_site(headers)
            && word(headers, ORIGIN.as_str()).is_none_or(|origin| {
                let host = origin.strip_prefix("http://");
                host.is_some_and(|host| self.is_own(host))
            })
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
        let given = given.and_then(|text| text.strip_prefix("Bearer "));
        match (given, &self.token) {
            (Some(given), Some(token)) => is_equal(given.trim().as_bytes(), token.as_bytes()),
            _ => false,
        }
    }
}

const FOREIGN_PAGE: &str =
    "changes from pages of other sites are not permitted; use the dashboard's own page";

/// Returns true if a request over TLS does not come from another site. TLS has verified that the
/// client means this server, so its `Host` is a name of this server.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let host = word(headers, HOST.as_str());
    is_own_site(headers)
        && word(headers, ORIGIN.as_str())
            .is_none_or(|origin| origin.strip_prefix("https://") == host)
}

/// Returns true if a browser does not state that a request comes from another site.
fn is_own_site(headers: &HeaderMap) -> bool {
    let site = word(headers, "sec-fetch-site");
    site.is_none_or(|site| ["same-origin", "none"].contains(&site))
}

/// Returns a header, which counts as a foreign one if it is not text.
fn word<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Returns true if two texts are equal. The time does not depend on the position of the first
/// difference.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    // Without `black_box`, the compiler could end the comparison early.
    let differ = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differ) == 0
}

/// Returns the token in a file, which is created if it does not exist.
fn token(path: &Path) -> Result<String, String> {
    match existing_token(path)? {
        Some(token) => Ok(token),
        None => made(path).map_err(|error| refused_token("create", path, &error)),
    }
}

fn refused_token(what: &str, path: &Path, error: &io::Error) -> String {
    let reason = weir_config::os_error::message(error);
    format!(
        "manage.token_file: cannot {what} {}: {reason}",
        path.display()
    )
}

/// Returns the token in a file, or `None` if the file does not exist.
///
/// # Errors
/// The file cannot be read, or does not contain a token.
pub(crate) fn existing_token(path: &Path) -> Result<Option<String>, String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| refused_token("read", path, &error))?,
    };
    let (_, text) = weir_config::file_text(path).map_err(|problems| {
        let why: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
        format!("manage.token_file: {} {}", path.display(), why.join("; "))
    })?;
    let mode = fs::metadata(path).map_or(0, |m| m.mode());
    if mode & 0o007 != 0 {
        let path = path.display();
        tracing::warn!(
            "{path} contains the token and can be read by all users of this machine; run chmod 600 {path}"
        );
    }
    let token = text.trim();
    // The token is sent in a header.
    let visible = token.bytes().all(|b| b.is_ascii_graphic());
    if token.len() < TOKEN_MIN || !visible {
        return Err(format!(
            "manage.token_file: {} must have one line of at least {TOKEN_MIN} visible characters; remove the file to have the server create a token",
            path.display()
        ));
    }
    Ok(Some(token.to_owned()))
}

/// Makes a random token and writes it to a new file.
fn made(path: &Path) -> io::Result<String> {
    use std::fmt::Write as _;
    let mut bytes = [0; TOKEN_BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    let mut token = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(token, "{byte:02x}");
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        // Only the server's user may read the token.
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    Ok(token)
}

/// Returns the id of a user, from the system's table if it is given by name. `key` is the key that
/// contains the user.
fn user(id: &Id, key: &str) -> Result<u32, String> {
    number(id, key, ["user", "/etc/passwd"])
}

/// Returns the id of a group, from the system's table if it is given by name. `key` is the key that
/// contains the group.
fn group(id: &Id, key: &str) -> Result<u32, String> {
    number(id, key, ["group", "/etc/group"])
}

fn number(id: &Id, key: &str, [kind, table]: [&str; 2]) -> Result<u32, String> {
    weir_serve::number(id, kind, table).map_err(|(what, help)| format!("{key}: {what}; {help}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        headers
    }

    fn access() -> AccessRules {
        let members = |users: &[u32], groups: &[u32], name: &str| RoleMembers {
            users: users.to_vec(),
            groups: groups.to_vec(),
            names: vec![name.to_owned()],
        };
        AccessRules {
            admins: members(&[0, 7], &[9], "ops.example"),
            readers: members(&[8], &[10], "monitor.example"),
            token: Some("0123456789abcdef".to_owned()),
            ports: vec![9810],
        }
    }

    fn status(pairs: &[(&'static str, &str)], page: bool, writes: bool) -> u16 {
        let checked = access().check(&Peer::Browser, &headers(pairs), page, writes);
        checked.map_or_else(|refused| refused.status.as_u16(), |()| 200)
    }

    #[test]
    fn browsers_need_a_token_and_ask_for_this_machine() {
        const HERE: (&str, &str) = ("host", "127.0.0.1:9810");
        const TOKEN: (&str, &str) = ("authorization", "Bearer 0123456789abcdef");
        assert_eq!(status(&[HERE, TOKEN], false, false), 200);
        assert_eq!(
            status(&[("host", "localhost:9810"), TOKEN], false, true),
            200
        );
        assert_eq!(status(&[HERE], false, false), 401);
        assert_eq!(status(&[HERE], true, false), 200, "the page has no secrets");
        for wrong in [
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcde",
            "Bearer ",
            "Basic x",
        ] {
            assert_eq!(
                status(&[HERE, ("authorization", wrong)], false, false),
                401,
                "{wrong}"
            );
        }
        for host in [
            "evil.example:9810",
            "127.0.0.1:9811",
            "127.0.0.1",
            "127.0.0.1.evil.example:9810",
        ] {
            assert_eq!(
                status(&[("host", host), TOKEN], false, false),
                421,
                "{host}"
            );
        }
        assert_eq!(status(&[TOKEN], true, false), 421);
        let from = |origin| [HERE, TOKEN, ("origin", origin)];
        assert_eq!(status(&from("http://127.0.0.1:9810"), false, true), 200);
        assert_eq!(status(&from("http://evil.example"), false, true), 403);
        assert_eq!(status(&from("null"), false, true), 403);
        let cross = [HERE, TOKEN, ("sec-fetch-site", "cross-site")];
        assert_eq!(status(&cross, false, true), 403);
    }

    #[test]
    fn processes_are_told_apart_by_user_and_group() {
        let of = |user, group, writes| {
            let peer = Peer::Process {
                user,
                group,
                pid: 1,
            };
            access()
                .check(&peer, &HeaderMap::new(), false, writes)
                .is_ok()
        };
        assert!(of(0, 0, true) && of(7, 100, true) && of(8, 9, true));
        assert!(of(8, 8, false) && of(1, 10, false));
        assert!(!of(8, 8, true) && !of(1, 10, true) && !of(1, 1, false));
    }

    #[test]
    fn certificates_have_the_role_of_one_of_their_names() {
        let status = |names: &[&str], pairs: &[(&'static str, &str)], page, writes| {
            let peer = Peer::Certificate {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                address: IpAddr::from([192, 0, 2, 7]),
            };
            let checked = access().check(&peer, &headers(pairs), page, writes);
            checked.map_or_else(|refused| refused.status.as_u16(), |()| 200)
        };
        let (ops, monitor) = (["x.example", "ops.example"], ["monitor.example"]);
        assert_eq!(status(&ops, &[], false, true), 200);
        assert_eq!(status(&monitor, &[], false, false), 200);
        assert_eq!(status(&monitor, &[], false, true), 403);
        for other in [&["OPS.example"][..], &["*.example"], &[]] {
            assert_eq!(
                status(other, &[], true, false),
                403,
                "{other:?}, even the page"
            );
        }
        // The certificate alone must not permit a change from a page of another site.
        let host = ("host", "server.example:9811");
        let from = |origin| [host, ("origin", origin)];
        assert_eq!(
            status(&ops, &from("https://server.example:9811"), false, true),
            200
        );
        for origin in ["https://evil.example", "http://server.example:9811", "null"] {
            assert_eq!(status(&ops, &from(origin), false, true), 403, "{origin}");
        }
        let cross = [host, ("sec-fetch-site", "cross-site")];
        assert_eq!(status(&ops, &cross, false, true), 403);
    }

    #[test]
    fn a_token_is_made_once_and_read_again() {
        let path = std::env::temp_dir().join(format!("weir-token-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let made = token(&path).unwrap();
        assert_eq!(made.len(), 2 * TOKEN_BYTES);
        assert_eq!(token(&path), Ok(made));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::write(&path, "short\n").unwrap();
        assert!(token(&path).unwrap_err().contains("at least 16"));
        fs::remove_file(&path).unwrap();
    }
}
