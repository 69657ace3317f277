//! The keys of `[manage]`.

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
    token_file: Option<PathBuf> [None] as Text("an absolute path") or "required if `http` is set", "\"/var/lib/weir/token\"",
        "A file with the access token, which is one line of at least 16 characters. If the file does not exist, the server creates \
         it with a random token, readable only by the server's own user.";
    manual: Option<PathBuf> [None] as Text("an absolute path of a directory") or "`/usr/share/doc/weir/html`, where the package installs it, if it exists",
        "\"/usr/share/doc/weir/html\"",
        "A directory with the manual as web pages, to which the dashboard links. The server shows the files in this directory to every \
         browser that reaches `http`, without the token, so the directory must not contain any other files.";
}
