//! `[manage]`.

use super::{DefaultValue, Key, Kind, Shape};

pub(crate) const MANAGE: Shape = Shape {
    name: "[manage]",
    about: "Where the running server is asked and changed (`docs/management.md`), by `weir ctl`, `weir top`, a browser or a program of \
            one's own. Fixed while the server runs.",
    keys: &[&[
        Key {
            name: "socket",
            kind: Kind::Text("an absolute path"),
            default: DefaultValue::Words("none"),
            about: "A Unix socket at which the interface is found. A process may use it if it runs as root, as the server's user, or as one \
                    of `users` and `groups`.",
            example: "\"/run/weir/manage.sock\"",
        },
        Key {
            name: "socket_mode",
            kind: Kind::Text("an octal mode, `\"0000\"` to `\"0777\"`"),
            default: DefaultValue::Value("\"0600\""),
            about: "Permission bits of that socket.",
            example: "\"0660\"",
        },
        Key {
            name: "socket_owner",
            kind: Kind::Text("`\"user:group\"`, `\"user\"` or `\":group\"`, by name or number"),
            default: DefaultValue::Words("the user that runs the server"),
            about: "The owner of that socket.",
            example: "\":storage\"",
        },
        Key {
            name: "users",
            kind: Kind::List("users, by name or number"),
            default: DefaultValue::Value("[]"),
            about: "Users whose processes may use the socket, beside root and the server's own.",
            example: "[\"operator\", \"1001\"]",
        },
        Key {
            name: "groups",
            kind: Kind::List("groups, by name or number"),
            default: DefaultValue::Value("[]"),
            about: "Groups whose processes may use the socket: those that have one of them as their own group.",
            example: "[\"storage\"]",
        },
        Key {
            name: "storage",
            kind: Kind::List("absolute paths of directories and block devices"),
            default: DefaultValue::Words("the directories of the volumes' files at the start"),
            about: "Where clients of the interface may put the storage of volumes: a `file`, a `device`, or the Unix socket of an `nbd` must be at \
                    or below one of these paths. Storage that the configuration named at the start is permitted, too. Root and the server's own \
                    user may name any storage.",
            example: "[\"/var/lib/weir\", \"/dev/vg0\"]",
        },
        Key {
            name: "http",
            kind: Kind::Text("an IP address of this machine alone, and a port"),
            default: DefaultValue::Words("none"),
            about: "Where browsers find the same interface and the dashboard. Each request needs the token of `token_file`. There is no \
                    encryption, so it must be a loopback address.",
            example: "\"127.0.0.1:9810\"",
        },
        Key {
            name: "token_file",
            kind: Kind::Text("an absolute path"),
            default: DefaultValue::Words("needed beside `http`"),
            about: "A file with the token: one line of at least 16 characters. If it is not there, the server makes it, with a token that \
                    nobody can guess, readable by its own user alone.",
            example: "\"/var/lib/weir/token\"",
        },
        Key {
            name: "manual",
            kind: Kind::Text("an absolute path of a directory"),
            default: DefaultValue::Words("`/usr/share/doc/weir/html`, where the package puts it, if it exists"),
            about: "The manual as web pages, to which the dashboard links. The server shows the directory's files to every browser that \
                    reaches `http`, without the token, so it must contain nothing else.",
            example: "\"/usr/share/doc/weir/html\"",
        },
    ]],
};
