//! `[manage]`.

use super::{DefaultValue, Key, Kind, Shape};

pub(crate) const MANAGE: Shape = Shape {
    name: "[manage]",
    about: "The management interface (`docs/management.md`), through which `weir ctl`, `weir top`, a browser or your own program can inspect \
            and change the running server. This table cannot be changed while the server runs.",
    keys: &[&[
        Key {
            name: "socket",
            kind: Kind::Text("an absolute path"),
            default: DefaultValue::Words("none"),
            about: "The Unix socket of the management interface. A process can use it if it runs as root, as the server's user, or as one of \
                    `users` and `groups`.",
            example: "\"/run/weir/manage.sock\"",
        },
        Key {
            name: "socket_mode",
            kind: Kind::Text("an octal mode, `\"0000\"` to `\"0777\"`"),
            default: DefaultValue::Value("\"0600\""),
            about: "The permission bits of the socket.",
            example: "\"0660\"",
        },
        Key {
            name: "socket_owner",
            kind: Kind::Text("`\"user:group\"`, `\"user\"` or `\":group\"`, by name or number"),
            default: DefaultValue::Words("the user that runs the server"),
            about: "The owner of the socket.",
            example: "\":storage\"",
        },
        Key {
            name: "users",
            kind: Kind::List("users, by name or number"),
            default: DefaultValue::Value("[]"),
            about: "Users whose processes can use the socket, in addition to root and the server's own user.",
            example: "[\"operator\", \"1001\"]",
        },
        Key {
            name: "groups",
            kind: Kind::List("groups, by name or number"),
            default: DefaultValue::Value("[]"),
            about: "Groups whose processes can use the socket. The group must be the process's own group; supplementary groups do not count.",
            example: "[\"storage\"]",
        },
        Key {
            name: "storage",
            kind: Kind::List("absolute paths of directories and block devices"),
            default: DefaultValue::Words(
                "the directories of the volumes' files at the start of the server",
            ),
            about: "The places where clients of the management interface can put the storage of volumes. A `file`, a `device`, or the Unix \
                    socket of an `nbd` must be at or below one of these paths. Storage that the configuration contained at the start is also \
                    permitted. Root and the server's own user can use any storage.",
            example: "[\"/var/lib/weir\", \"/dev/vg0\"]",
        },
        Key {
            name: "http",
            kind: Kind::Text("a loopback IP address and a port"),
            default: DefaultValue::Words("none"),
            about: "The address at which browsers find the dashboard and the management interface. Each request must carry the token from \
                    `token_file`. The address must be a loopback address, because there is no encryption.",
            example: "\"127.0.0.1:9810\"",
        },
        Key {
            name: "token_file",
            kind: Kind::Text("an absolute path"),
            default: DefaultValue::Words("required if `http` is set"),
            about: "A file with the access token, which is one line of at least 16 characters. If the file does not exist, the server creates \
                    it with a random token, readable only by the server's own user.",
            example: "\"/var/lib/weir/token\"",
        },
        Key {
            name: "manual",
            kind: Kind::Text("an absolute path of a directory"),
            default: DefaultValue::Words(
                "`/usr/share/doc/weir/html`, where the package installs it, if it exists",
            ),
            about: "A directory with the manual as web pages, to which the dashboard links. The server shows the files in this directory to every \
                    browser that reaches `http`, without the token, so the directory must not contain any other files.",
            example: "\"/usr/share/doc/weir/html\"",
        },
    ]],
};
