//! The tables against the parser: that each key is read, what holds where it is left out, and that its example is accepted.

use super::*;
use crate::{Problem, apply, parse, policy, profile, sheet};
use File::{Apply, Policy, Profile, Server, Sheet};

/// What reads a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Server,
    Apply,
    Policy,
    Profile,
    Sheet,
}

/// A table of a file, and the lines (path, value) of a file in which it can stand.
struct Place {
    shape: &'static Shape,
    file: File,
    path: &'static str,
    lines: &'static [(&'static str, &'static str)],
}

const DISK: (&str, &str) = (
    "drive.fast.capacity",
    "{ read = \"160MB/s\", write = \"120MB/s\", iops = 20000 }",
);
const NAMED: (&str, &str) = ("drive.fast.limits.volumes", "9");
const SOCKET: (&str, &str) = ("listen.nbd", "[\"unix:/run/weir/nbd.sock\"]");
const ETCD: (&str, &str) = ("gateways.etcd", "[\"http://127.0.0.1:2379\"]");
const VOLUME_LINES: &[(&str, &str)] = &[
    SOCKET,
    DISK,
    NAMED,
    ("tenant.acme.drive", "\"fast\""),
    ("tenant.acme.share", "7"),
    ("volume.alpha.drive", "\"fast\""),
    ("volume.alpha.file", "\"/var/lib/weir/alpha.img\""),
    ("volume.alpha.size", "\"1GiB\""),
    ("volume.alpha.ublk", "true"),
];
const ATTACH_LINES: &[(&str, &str)] = &[
    SOCKET,
    DISK,
    NAMED,
    ("volume.alpha.drive", "\"fast\""),
    ("volume.alpha.file", "\"/var/lib/weir/alpha.img\""),
    (
        "volume.alpha.listen.vhost",
        "\"/run/weir/alpha.vhost.sock\"",
    ),
    ("volume.alpha.listen.call_count", "1"),
    ("volume.alpha.listen.call_delay", "\"100us\""),
];
const REMOTE_LINES: &[(&str, &str)] = &[
    SOCKET,
    DISK,
    NAMED,
    ("volume.alpha.drive", "\"fast\""),
    ("volume.alpha.nbd", "\"nbd://localhost/alpha\""),
];
const APPLY_LINES: &[(&str, &str)] = &[
    DISK,
    ("drive.fast.device", "\"/dev/disk/by-id/ata-x\""),
    ("drive.fast.policy", "\"bfq + io.max\""),
    ("drive.fast.queue.nomerges", "1"),
    ("tenant.acme.drive", "\"fast\""),
    ("tenant.acme.cgroup", "\"/acme\""),
    ("volume.alpha.drive", "\"fast\""),
    ("volume.alpha.cgroup", "\"/beta\""),
];
const MODEL: &[(&str, &str)] = &[
    ("name", "\"x\""),
    ("about", "\"x\""),
    ("kind", "\"null\""),
    ("service", "\"30us\""),
    (
        "figure",
        "[{ name = \"x\", value = \"5MB/s\", source = \"x\" }]",
    ),
    (
        "fit.service",
        "{ figure = \"one-reader\", from = \"1us\", to = \"1ms\" }",
    ),
    ("plausible.service", "{ from = \"1us\", to = \"1ms\" }"),
];

const EVERYTHING: &[(&str, &str)] = &[
    ("name", "\"x\""),
    ("about", "\"x\""),
    ("elevator", "\"contract\""),
    ("controllers", "[\"max\", \"io.low\", \"io.latency\"]"),
];

const BFQ_WITH_ALL: &[(&str, &str)] = &[
    ("name", "\"x\""),
    ("about", "\"x\""),
    ("elevator", "\"bfq\""),
    ("controllers", "[\"io.max\", \"io.low\", \"io.cost\"]"),
];
const PLACES: &[Place] = &[
    place(&ROOT, Server, "", &[SOCKET, DISK]),
    place(&DRIVE, Server, "drive.fast", &[SOCKET, DISK, NAMED]),
    place(
        &CAPACITY,
        Server,
        "drive.fast.capacity",
        &[
            SOCKET,
            ("drive.fast.capacity.read", "\"160MB/s\""),
            ("drive.fast.capacity.write", "\"120MB/s\""),
        ],
    ),
    place(&DRIVE_LIMITS, Server, "drive.fast.limits", &[SOCKET, DISK]),
    place(
        &LISTEN,
        Server,
        "listen",
        &[SOCKET, DISK, ("listen.metrics", "\"127.0.0.1:9809\"")],
    ),
    place(
        &GATEWAYS,
        Server,
        "gateways",
        &[SOCKET, DISK, ETCD, ("gateways.lease", "\"9s\"")],
    ),
    place(
        &MANAGE,
        Server,
        "manage",
        &[
            SOCKET,
            DISK,
            ("manage.socket", "\"/run/weir/manage.sock\""),
            ("manage.http", "\"127.0.0.1:9810\""),
            ("manage.token_file", "\"/var/lib/weir/token\""),
        ],
    ),
    place(&LIMITS, Server, "limits", &[SOCKET, DISK]),
    place(&SERVER, Server, "server", &[SOCKET, DISK]),
    place(&VOLUME, Server, "volume.alpha", VOLUME_LINES),
    place(&ATTACH, Server, "volume.alpha.listen", ATTACH_LINES),
    place(&REMOTE, Server, "volume.alpha.remote", REMOTE_LINES),
    place(&TENANT, Server, "tenant.acme", VOLUME_LINES),
    place(&MAX, Server, "tenant.acme.max", VOLUME_LINES),
    place(&APPLY, Apply, "", APPLY_LINES),
    place(&APPLY_DRIVE, Apply, "drive.fast", APPLY_LINES),
    place(&QUEUE, Apply, "drive.fast.queue", APPLY_LINES),
    place(&APPLY_VOLUME, Apply, "volume.alpha", APPLY_LINES),
    place(&APPLY_TENANT, Apply, "tenant.acme", APPLY_LINES),
    place(&POLICY, Policy, "", BFQ_WITH_ALL),
    place(&KNOBS, Policy, "knobs", EVERYTHING),
    place(&IO_MAX, Policy, "max", BFQ_WITH_ALL),
    place(&LOW, Policy, "low", BFQ_WITH_ALL),
    place(&COST, Policy, "cost", BFQ_WITH_ALL),
    place(&DERIVED, Policy, "derived", BFQ_WITH_ALL),
    place(
        &BUDGET,
        Policy,
        "derived.max_budget",
        &[
            ("name", "\"x\""),
            ("about", "\"x\""),
            ("elevator", "\"bfq\""),
            ("derived.max_budget.window", "\"1s\""),
            ("derived.max_budget.percent", "10"),
        ],
    ),
    place(&PROFILE, Profile, "", MODEL),
    place(&SHEET, Sheet, "", MODEL),
    place(&FIT, Sheet, "fit.service", MODEL),
    place(&PLAUSIBLE, Sheet, "plausible.service", MODEL),
    place(&FIGURE, Sheet, "figure[0]", MODEL),
];

const fn place(
    shape: &'static Shape,
    file: File,
    path: &'static str,
    lines: &'static [(&'static str, &'static str)],
) -> Place {
    Place {
        shape,
        file,
        path,
        lines,
    }
}

/// What a key needs beside it (path, value), or cannot have beside it (path, "").
fn beside(place: &Place, key: &Key) -> &'static [(&'static str, &'static str)] {
    match (place.shape.name, key.name) {
        ("[drive.NAME]", "model") => &[("drive.fast.capacity", "")],
        ("[volume.NAME]", "device" | "nbd" | "memory") => &[("volume.alpha.file", "")],
        ("[volume.NAME]", "model") => &[("volume.alpha.file", ""), ("drive.fast.capacity", "")],
        ("[volume.NAME]", "remote") => &[
            ("volume.alpha.file", ""),
            ("volume.alpha.nbd", "\"nbd://localhost/alpha\""),
        ],
        ("[volume.NAME]", "shared") => &[ETCD, ("volume.alpha.min", "\"1MB/s\"")],
        ("[volume.NAME] for the kernel", "unit") => &[("volume.alpha.cgroup", "")],
        ("[volume.NAME] for the kernel", "tenant") => &[("volume.alpha.cgroup", "\"/acme/alpha\"")],
        ("[tenant.NAME] for the kernel", "unit") => &[("tenant.acme.cgroup", "")],
        ("[volume.NAME]" | "[volume.NAME] for the kernel", "class") => {
            &[("volume.alpha.max.iops", "9")]
        }
        ("[tenant.NAME]" | "[tenant.NAME] for the kernel", "class")
        | ("max = { ... }", "burst" | "iops_size") => &[("tenant.acme.max.iops", "9")],
        _ => &[],
    }
}

impl Place {
    fn at(&self, key: &str) -> String {
        crate::text::join(self.path, key)
    }

    /// The file with that value for the key; without the key if there is none.
    fn text(&self, key: &Key, value: Option<&str>) -> String {
        let at = self.at(key.name);
        let mut lines: Vec<(String, String)> = Vec::new();
        let figure = self.path.starts_with("figure");
        for (path, line) in self.lines.iter().chain(beside(self, key)) {
            let same = |l: &(String, String)| l.0 == *path;
            lines.retain(|l| !same(l));
            let replaced = *path == at || path.starts_with(&format!("{at}."));
            if !line.is_empty() && !replaced {
                lines.push(((*path).to_owned(), (*line).to_owned()));
            }
        }
        match value {
            // An array of tables, a table in one line: the value goes inside.
            value if figure || self.file == Sheet && !self.path.is_empty() => {
                let outer = if figure { "figure" } else { self.path };
                let inner = self.shape.keys().filter_map(|k| {
                    let own = if k.name == key.name {
                        value
                    } else {
                        matches!(k.default, DefaultValue::Needed).then_some(k.example)
                    };
                    Some(format!("{} = {}", k.name, own?))
                });
                let inner = inner.collect::<Vec<_>>().join(", ");
                let table = if figure {
                    format!("[{{ {inner} }}]")
                } else {
                    format!("{{ {inner} }}")
                };
                lines.retain(|l| l.0 != outer);
                lines.push((outer.to_owned(), table));
            }
            Some(value) => lines.push((at, value.to_owned())),
            None => {}
        }
        let lines: Vec<_> = lines
            .iter()
            .map(|(p, value)| format!("{p} = {value}"))
            .collect();
        lines.join("\n")
    }

    fn read(&self, text: &str) -> Result<String, Vec<Problem>> {
        match self.file {
            Server => parse("", text).map(|s| s.to_string()),
            Apply => apply::parse("", text).map(|h| format!("{:?}", h.drives)),
            Policy => policy::read(text, "").map(|p| policy::print(&p)),
            Profile => profile::read(&without_sheet(text), "").map(|p| format!("{p:?}")),
            Sheet => sheet::read(text, "").map(|s| format!("{s:?}")),
        }
    }

    /// Whether a value of a key is refused: whether a problem is about the key.
    fn refuses(&self, key: &Key, value: &str) -> bool {
        let problems = self
            .read(&self.text(key, Some(value)))
            .err()
            .unwrap_or_default();
        let at = self.at(key.name);
        problems.iter().any(|p| p.key.starts_with(&at))
    }
}

/// The lines of a sheet that a profile has, too.
fn without_sheet(text: &str) -> String {
    let own = |l: &&str| {
        !["figure", "fit", "plausible"]
            .iter()
            .any(|k| l.starts_with(k))
    };
    text.lines().filter(own).collect::<Vec<_>>().join("\n")
}

fn each(mut check: impl FnMut(&Place, &Key)) {
    for place in PLACES {
        for key in place.shape.keys() {
            check(place, key);
        }
    }
}

#[test]
fn every_shape_is_tried() {
    let shapes: Vec<_> = PLACES.iter().map(|p| p.shape.name).collect();
    for shape in SERVERS.iter().chain(APPLIES) {
        assert!(
            shapes.contains(&shape.name),
            "{} has no place in this test",
            shape.name
        );
    }
}

/// A key of the table is read: a value that no key can have is refused where it stands. One that the parser forgot would be taken.
#[test]
fn every_key_is_read() {
    each(|place, key| {
        let at = place.at(key.name);
        let nonsense = "1979-05-27";
        assert!(
            place.refuses(key, nonsense),
            "{at} = {nonsense} is not refused: nothing reads the key"
        );
    });
}

/// A key that is not in the table is refused, whatever else reads it.
#[test]
fn no_other_key_is_accepted() {
    for place in PLACES {
        let key = Key {
            name: "zzzzzz",
            kind: Kind::Flag,
            default: DefaultValue::Value("false"),
            about: "",
            example: "true",
        };
        // The tables in one line have the keys of their shape only.
        if place.file == Sheet && !place.path.is_empty() {
            continue;
        }
        assert!(place.refuses(&key, "true"), "{}", place.shape.name);
    }
}

#[test]
fn every_example_is_accepted() {
    each(|place, key| {
        let text = place.text(key, Some(key.example));
        if let Err(problems) = place.read(&text) {
            panic!("{}: {problems:#?}\n{text}", place.at(key.name));
        }
    });
}

#[test]
fn what_is_left_out_is_as_the_table_says() {
    each(|place, key| {
        let at = place.at(key.name);
        let without = place.text(key, None);
        match (key.default, place.read(&without)) {
            (DefaultValue::Needed, Ok(_)) => panic!("{at} can be left out"),
            (DefaultValue::Needed, Err(problems)) => {
                assert!(
                    problems.iter().any(|p| p.key.starts_with(&at)),
                    "{at}: {problems:#?}"
                );
            }
            // What has no size of its own needs one, what can hold nothing nothing else, and something must listen.
            (DefaultValue::Words(_), Err(_)) => {
                assert!(
                    [
                        "size",
                        "file",
                        "device",
                        "memory",
                        "model",
                        "listen",
                        "nbd",
                        "socket",
                        "http",
                        "token_file",
                        "cgroup",
                        "unit"
                    ]
                    .contains(&key.name)
                        || place.shape.name == MAX.name,
                    "{at}"
                );
            }
            (DefaultValue::Value(_), Err(problems)) => panic!("{at}: {problems:#?}"),
            (DefaultValue::Value(value), Ok(without)) => {
                let text = place.text(key, Some(value));
                let with = place.read(&text).unwrap_or_else(|p| panic!("{at}: {p:#?}"));
                assert_eq!(
                    with, without,
                    "{at} = {value} is not what holds where it is left out"
                );
            }
            (DefaultValue::Words(_), Ok(_)) => {}
        }
    });
}

/// What comes with Weir has no key that the tables lack, and its server's file has every key that a server's file can have.
#[test]
fn the_file_with_every_key_has_every_key() {
    let text = include_str!("../../corpus/everything.toml");
    let server = parse("", text).expect("accepted");
    let written: Vec<&str> = server
        .places
        .keys
        .keys()
        .map(|path| path.rsplit('.').next().unwrap_or(path))
        .collect();
    for shape in SERVERS {
        for key in shape.keys() {
            assert!(
                written.contains(&key.name),
                "{} of {} is not in corpus/everything.toml",
                key.name,
                shape.name
            );
        }
    }
}
