//! Tests that the tables of keys agree with the parser: each key is read, has the declared default,
//! and its example is accepted.

use super::*;
use crate::{Problem, apply, parse, policy, profile, sheet};
use TestedFile::{Apply, Policy, Profile, Server, Sheet};

/// A kind of file, by the function that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestedFile {
    Server,
    Apply,
    Policy,
    Profile,
    Sheet,
}

impl TestedFile {
    /// Returns the lines of a file that is accepted.
    const fn lines(self) -> &'static str {
        match self {
            Server => {
                r#"
listen.nbd = ["unix:/run/weir/nbd.sock"]
drive.fast.capacity = { read = "160MB/s", write = "120MB/s", iops = 20000 }
drive.fast.limits.volumes = 9
"#
            }
            Apply => {
                r#"
drive.fast.capacity = { read = "160MB/s", write = "120MB/s", iops = 20000 }
drive.fast.device = "/dev/disk/by-id/ata-x"
drive.fast.policy = "bfq + io.max"
drive.fast.queue.nomerges = 1
tenant.acme.drive = "fast"
tenant.acme.cgroup = "/acme"
volume.alpha.drive = "fast"
volume.alpha.cgroup = "/beta"
"#
            }
            Policy => {
                r#"
name = "x"
about = "x"
elevator = "bfq"
controllers = ["io.max", "io.low", "io.cost"]
"#
            }
            Profile | Sheet => {
                r#"
name = "x"
about = "x"
kind = "null"
service = "30us"
figure = [{ name = "x", value = "5MB/s", source = "x" }]
fit.service = { figure = "one-reader", from = "1us", to = "1ms" }
plausible.service = { from = "1us", to = "1ms" }
"#
            }
        }
    }
}

/// A table of a file, with its path and with further lines that make it possible there. They
/// replace lines of the file with the same path.
struct TestedTable {
    shape: &'static Shape,
    file: TestedFile,
    path: &'static str,
    more: &'static str,
}

/// The lines that write the capacity as a table with one line for each key. A line without a value
/// removes an earlier line.
const PARTS: &str = r#"
drive.fast.capacity =
drive.fast.capacity.read = "160MB/s"
drive.fast.capacity.write = "120MB/s"
"#;
/// Lines that make all keys of `[manage]` possible.
const MANAGED: &str = r#"
manage.socket = "/run/weir/manage.sock"
manage.http = "127.0.0.1:9810"
manage.token_file = "/var/lib/weir/token"
manage.https = "0.0.0.0:9811"
manage.audit_file = "/var/lib/weir/audit.jsonl"
listen.tls.certificate = "/server.pem"
listen.tls.key = "/key.pem"
listen.tls.client_ca = "/ca.pem"
"#;
/// Lines that make all keys of `[listen.tls]` possible.
const CERTIFIED: &str = r#"
listen.tls.certificate = "/server.pem"
listen.tls.key = "/key.pem"
listen.tls.client_ca = "/ca.pem"
"#;
const STORED: &str = r#"
tenant.acme.drive = "fast"
tenant.acme.share = 7
volume.alpha.drive = "fast"
volume.alpha.file = "/var/lib/weir/alpha.img"
volume.alpha.size = "1GiB"
volume.alpha.ublk = true
"#;
const ATTACHED: &str = r#"
volume.alpha.drive = "fast"
volume.alpha.file = "/var/lib/weir/alpha.img"
volume.alpha.listen.vhost = "/run/weir/alpha.vhost.sock"
volume.alpha.listen.call_count = 1
volume.alpha.listen.call_delay = "100us"
"#;
/// The lines of a volume on another server.
const FAR: &str = r#"
volume.alpha.drive = "fast"
volume.alpha.nbd = "nbd://localhost/alpha"
"#;
const LEASED: &str = r#"
gateways.etcd = ["https://127.0.0.1:2379"]
gateways.certificates = "/etc/weir/etcd"
gateways.user = "weir"
gateways.password_file = "/etc/weir/etcd-password"
gateways.lease = "9s"
"#;
const ALL_KNOBS: &str = r#"
elevator = "contract"
controllers = ["max", "io.low", "io.latency"]
"#;
const HALF_BUDGET: &str = r#"
derived.max_budget.window = "1s"
derived.max_budget.percent = 10
"#;
const METRICS: &str = r#"listen.metrics = "127.0.0.1:9809""#;

const PLACES: &[TestedTable] = &[
    place(&ROOT, Server, "", ""),
    place(&DRIVE, Server, "drive.fast", ""),
    place(&CAPACITY, Server, "drive.fast.capacity", PARTS),
    place(&DRIVE_LIMITS, Server, "drive.fast.limits", ""),
    place(&LISTEN, Server, "listen", METRICS),
    place(&TLS, Server, "listen.tls", CERTIFIED),
    place(&GATEWAYS, Server, "gateways", LEASED),
    place(&MANAGE, Server, "manage", MANAGED),
    place(&LIMITS, Server, "limits", ""),
    place(&SERVER, Server, "server", ""),
    place(&VOLUME, Server, "volume.alpha", STORED),
    place(&ATTACH, Server, "volume.alpha.listen", ATTACHED),
    place(&REMOTE, Server, "volume.alpha.remote", FAR),
    place(&TENANT, Server, "tenant.acme", STORED),
    place(&MAX, Server, "tenant.acme.max", STORED),
    place(&APPLY, Apply, "", ""),
    place(&APPLY_DRIVE, Apply, "drive.fast", ""),
    place(&QUEUE, Apply, "drive.fast.queue", ""),
    place(&APPLY_VOLUME, Apply, "volume.alpha", ""),
    place(&APPLY_TENANT, Apply, "tenant.acme", ""),
    place(&POLICY, Policy, "", ""),
    place(&KNOBS, Policy, "knobs", ALL_KNOBS),
    place(&IO_MAX, Policy, "max", ""),
    place(&LOW, Policy, "low", ""),
    place(&COST, Policy, "cost", ""),
    place(&DERIVED, Policy, "derived", ""),
    place(&BUDGET, Policy, "derived.max_budget", HALF_BUDGET),
    place(&PROFILE, Profile, "", ""),
    place(&SHEET, Sheet, "", ""),
    place(&FIT, Sheet, "fit.service", ""),
    place(&PLAUSIBLE, Sheet, "plausible.service", ""),
    place(&FIGURE, Sheet, "figure[0]", ""),
];

const fn place(
    shape: &'static Shape,
    file: TestedFile,
    path: &'static str,
    more: &'static str,
) -> TestedTable {
    TestedTable {
        shape,
        file,
        path,
        more,
    }
}

/// Returns further lines that a key needs. A line without a value removes a line that the key
/// cannot be combined with.
fn beside(place: &TestedTable, key: &KeyDeclaration) -> &'static str {
    match (place.shape.name, key.name) {
        ("[drive.NAME]", "model") => "drive.fast.capacity =",
        ("[volume.NAME]", "device" | "nbd" | "memory") => "volume.alpha.file =",
        ("[volume.NAME]", "model") => "volume.alpha.file =\ndrive.fast.capacity =",
        ("[volume.NAME]", "remote") => {
            "volume.alpha.file =\nvolume.alpha.nbd = \"nbd://localhost/alpha\""
        }
        ("[volume.NAME]", "shared") => {
            "gateways.etcd = [\"http://127.0.0.1:2379\"]\nvolume.alpha.min = \"1MB/s\""
        }
        ("[volume.NAME]", "tls" | "allow") => CERTIFIED,
        ("[volume.NAME] for the kernel", "unit") => "volume.alpha.cgroup =",
        ("[volume.NAME] for the kernel", "tenant") => "volume.alpha.cgroup = \"/acme/alpha\"",
        ("[tenant.NAME] for the kernel", "unit") => "tenant.acme.cgroup =",
        ("[volume.NAME]" | "[volume.NAME] for the kernel", "class") => "volume.alpha.max.iops = 9",
        ("[tenant.NAME]" | "[tenant.NAME] for the kernel", "class")
        | ("max = { ... }", "burst" | "iops_size") => "tenant.acme.max.iops = 9",
        _ => "",
    }
}

impl TestedTable {
    fn at(&self, key: &str) -> String {
        crate::text::join(self.path, key)
    }

    /// Returns the file with this value of the key, or without the key.
    fn text(&self, key: &KeyDeclaration, value: Option<&str>) -> String {
        let at = self.at(key.name);
        let mut lines: Vec<(String, String)> = Vec::new();
        let figure = self.path.starts_with("figure");
        let stated = [self.file.lines(), self.more, beside(self, key)].map(str::lines);
        for (path, line) in stated
            .into_iter()
            .flatten()
            .filter_map(|l| l.split_once(" ="))
        {
            // A later line replaces an earlier one with the same path.
            lines.retain(|l| l.0 != path);
            let replaced = path == at || path.starts_with(&format!("{at}."));
            if !line.is_empty() && !replaced {
                lines.push((path.to_owned(), line.trim_start().to_owned()));
            }
        }
        match value {
            // These tables are written inline, so the value is put inside.
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

    /// Returns true if a value of a key is refused with a problem at the key.
    fn refuses(&self, key: &KeyDeclaration, value: &str) -> bool {
        let problems = self
            .read(&self.text(key, Some(value)))
            .err()
            .unwrap_or_default();
        let at = self.at(key.name);
        problems.iter().any(|p| p.key.starts_with(&at))
    }
}

/// Returns those lines of a sheet that a profile can have too.
fn without_sheet(text: &str) -> String {
    let own = |l: &&str| {
        !["figure", "fit", "plausible"]
            .iter()
            .any(|k| l.starts_with(k))
    };
    text.lines().filter(own).collect::<Vec<_>>().join("\n")
}

fn each(mut check: impl FnMut(&TestedTable, &KeyDeclaration)) {
    for place in PLACES {
        for key in place.shape.keys() {
            check(place, key);
        }
    }
}

#[test]
fn every_shape_has_a_place_in_the_tests() {
    let shapes: Vec<_> = PLACES.iter().map(|p| p.shape.name).collect();
    for shape in SERVERS.iter().chain(APPLIES) {
        assert!(
            shapes.contains(&shape.name),
            "{} has no place in this test",
            shape.name
        );
    }
}

/// Checks that each key is read: a date, which no key can have, is refused at the key. The parser
/// would accept the date for a key that it does not read.
#[test]
fn every_key_is_read() {
    each(|place, key| {
        let at = place.at(key.name);
        // No key accepts a date.
        let nonsense = "1979-05-27";
        assert!(
            place.refuses(key, nonsense),
            "{at} = {nonsense} is not refused: nothing reads the key"
        );
    });
}

/// Checks a key outside of the table at each place of a file.
#[test]
fn unknown_keys_are_refused() {
    for place in PLACES {
        let key = KeyDeclaration {
            name: "zzzzzz",
            kind: KeyKind::Flag,
            default: DefaultValue::Value("false"),
            about: "",
            example: "true",
        };
        // The keys of inline tables are checked by their shape alone.
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
fn keys_that_are_left_out_have_their_declared_defaults() {
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
            // Some defaults in words are conditional: storage without a size of its own needs one,
            // every volume needs storage, and clients need a way to connect.
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
                        "https",
                        "audit_file",
                        "certificates",
                        "user",
                        "password_file",
                        "client_ca",
                        "cgroup",
                        "unit"
                    ]
                    .contains(&key.name)
                        || place.shape.name == MAX.name,
                    "{at}"
                );
            }
            (DefaultValue::Value(_), Err(problems)) => panic!("{at}: {problems:#?}"),
            // A file with the declared default must read as the same value as a file without the
            // key.
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

/// Checks that the corpus file has every key of a server's file, so that tests with this file cover
/// all of them.
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
