//! The keys of `[manage]`.

use crate::allow::Allow;
use crate::document::{Document, ShapedTable};
use crate::listen::{Id, SocketOwner};
use std::net::SocketAddr;
use std::path::PathBuf;

table! {
    /// The sockets of the management interface, and the processes that can use it (`[manage]`).
    /// They cannot be changed while the server runs.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Manage: MANAGE = "[manage]",
        "The management interface (`docs/management.md`), through which `weir ctl`, `weir top`, a browser or your own program can inspect \
         and change the running server. This table cannot be changed while the server runs.";

    socket: Option<PathBuf> [None] as Text("an absolute path") or "none", "\"/run/weir/manage.sock\"",
        "The Unix socket of the management interface. A process can use it if it runs as root, as the server's user, or as one of \
         `users` and `groups`.";
    socket_mode: u32 as Text("an octal mode, `\"0000\"` to `\"0777\"`") = "\"0600\"", "\"0660\"",
        "The permission bits of the socket.";
    socket_owner: SocketOwner as Text("`\"user:group\"`, `\"user\"` or `\":group\"`, by name or number") or "the user that runs the server",
        "\":storage\"",
        "The owner of the socket.";
    users: Vec<Id> [Vec::new()] as List("users, by name or number") = "[]", "[\"operator\", \"1001\"]",
        "Users whose processes can use the socket, in addition to root and the server's own user.";
    groups: Vec<Id> [Vec::new()] as List("groups, by name or number") = "[]", "[\"storage\"]",
        "Groups whose processes can use the socket. The group must be the process's own group; supplementary groups do not count.";
    storage: Option<Vec<PathBuf>> [None] as List("absolute paths of directories and block devices") or "the directories of the volumes' files at the start of the server",
        "[\"/var/lib/weir\", \"/dev/vg0\"]",
        "The places where clients of the management interface can put the storage of volumes. A `file`, a `device`, or the Unix \
         socket of an `nbd` must be at or below one of these paths. Storage that the configuration contained at the start is also \
         permitted. Root and the server's own user can use any storage.";
    http: Option<SocketAddr> [None] as Text("a loopback IP address and a port") or "none", "\"127.0.0.1:9810\"",
        "The address at which browsers find the dashboard and the management interface. Each request must carry the token from \
         `token_file`. The address must be a loopback address, because there is no encryption.";
    https: Option<SocketAddr> [None] as Text("an IP address and a port") or "none", "\"0.0.0.0:9811\"",
        "The address for clients of any machine over TLS, with the certificate, the key and the `client_ca` of `[listen.tls]`. Each client \
         must have a certificate from `client_ca`, with a name in `certificates` or `read_only`. It needs no token.";
    certificates: Vec<String> [Vec::new()] as List("DNS names and URIs in the subject alternative names of certificates") = "[]",
        "[\"ops.example\"]",
        "Names in the certificates of clients at `https` that can read and change everything.";
    read_only: Vec<Allow> [Vec::new()] as List("`\"certificate:NAME\"`, `\"user:USER\"` and `\"group:GROUP\"`") = "[]",
        "[\"certificate:monitor.example\", \"group:audit\"]",
        "Clients that can read everything and change nothing: a name in a certificate at `https`, and the user or the primary group of a \
         process at `socket`. If a client is also one of `users`, `groups` or `certificates`, it can change everything.";
    token_file: Option<PathBuf> [None] as Text("an absolute path") or "required if `http` is set", "\"/var/lib/weir/token\"",
        "A file with the access token, which is one line of at least 16 characters. If the file does not exist, the server creates \
         it with a random token, readable only by the server's own user.";
    audit_file: Option<PathBuf> [None] as Text("an absolute path") or "none: the list of changes begins again with each start",
        "\"/var/lib/weir/audit.jsonl\"",
        "A file to which the server appends one line of JSON for each change and each refused change: time, client, request and result. \
         It has mode 0600. When it has half of `audit_size`, it is renamed to the same name with `.1`, which it replaces.";
    audit_size: u64 as Size(64 << 10, 1 << 40, 1) = "\"16MiB\"", "\"1MiB\"",
        "The maximum size of `audit_file` and its predecessor together.";
    manual: Option<PathBuf> [None] as Text("an absolute path of a directory") or "`/usr/share/doc/weir/html`, where the package installs it, if it exists",
        "\"/usr/share/doc/weir/html\"",
        "A directory with the manual as web pages, to which the dashboard links. The server shows the files in this directory to every \
         browser that reaches `http`, without the token, so the directory must not contain any other files.";
}
