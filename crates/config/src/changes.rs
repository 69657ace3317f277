//! What a reload changed, in the words of the file.

use crate::server::Server;
use crate::text::{join, path};
use std::collections::{BTreeMap, BTreeSet};
use toml::de::{DeTable, DeValue};

/// What differs between two servers of which the second came by a reload of the first: a line for each volume and tenant that came or
/// went, and for each key of the others that changed, defaults included.
pub fn changes(old: &Server, new: &Server) -> Vec<String> {
    let (was, now) = (keys(old), keys(new));
    let volumes = |server: &Server| -> Vec<String> {
        let all = server.volumes.iter();
        all.map(|v| path("volume", &v.name)).collect()
    };
    let tenants = |server: &Server| -> Vec<String> {
        let all = server.tenants.iter();
        all.map(|t| path("tenant", &t.name)).collect()
    };
    let mut lines = Vec::new();
    let mut whole = Vec::new();
    for tables in [&tenants as &dyn Fn(&Server) -> Vec<String>, &volumes] {
        let (before, after) = (tables(old), tables(new));
        let without = |all: &[String], others: &[String]| -> Vec<String> {
            let differ = all.iter().filter(|table| !others.contains(table));
            differ.cloned().collect()
        };
        for (what, tables) in [
            ("was removed", without(&before, &after)),
            ("was added", without(&after, &before)),
        ] {
            lines.extend(tables.iter().map(|table| format!("{table} {what}")));
            whole.extend(tables.into_iter().map(|table| table + "."));
        }
    }
    let both: BTreeSet<&String> = was.keys().chain(now.keys()).collect();
    for key in both {
        let said = whole.iter().any(|table| key.starts_with(table));
        let (was, now) = (was.get(key), now.get(key));
        if said || was == now {
            continue;
        }
        let before = was.map_or("nothing", |value| value);
        lines.push(match now {
            Some(now) => format!("{key} = {now} (was {before})"),
            None => format!("{key} was removed (was {before})"),
        });
    }
    lines
}

/// Every key that a reload can change and its value, as the file has them.
fn keys(server: &Server) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    let text = server.to_string();
    // What it prints can be read.
    if let Ok(file) = DeTable::parse(&text) {
        add(&mut keys, "", file.get_ref(), &text);
    }
    keys.retain(|key, _| {
        let fixed = key.starts_with("drive.") && !key.contains(".capacity.");
        !fixed
            && !["gateways.", "limits.", "listen.", "manage."]
                .iter()
                .any(|t| key.starts_with(t))
    });
    keys
}

fn add(keys: &mut BTreeMap<String, String>, at: &str, table: &DeTable<'_>, text: &str) {
    for (name, value) in table {
        let at = join(at, name.get_ref());
        match value.get_ref() {
            DeValue::Table(table) => add(keys, &at, table, text),
            _ => {
                keys.insert(at, text[value.span()].to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(write: &str, rest: &str) -> Server {
        let text = format!(
            "listen.nbd = [\"127.0.0.1:0\"]\n[drive.d]\ncapacity = {{ read = \"100MB/s\", write = \"{write}\" }}\n{rest}"
        );
        crate::parse("", &text).unwrap()
    }

    #[test]
    fn what_came_went_and_changed_is_said_in_the_words_of_the_file() {
        let volume = |name: &str, rest: &str| {
            format!("[volume.{name}]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\n{rest}")
        };
        let c = volume("\"of c\"", "");
        let old = volume("a", "min = \"30MB/s\"\n") + &volume("b", "") + &c;
        let max = "share = 200\nmax = { bandwidth = \"40MB/s\" }\n";
        let new = volume("a", max) + &c + &volume("e", "") + "[tenant.t]\ndrive = \"d\"\n";
        let new = new + "[server]\nremove_in_use = true\n";
        let (old, new) = (server("60MB/s", &old), server("50MB/s", &new));
        assert_eq!(
            changes(&old, &new),
            [
                "tenant.t was added",
                "volume.b was removed",
                "volume.e was added",
                "drive.d.capacity.write = \"50MB/s\" (was \"60MB/s\")",
                "server.remove_in_use = true (was false)",
                "volume.a.max.bandwidth = \"40MB/s\" (was nothing)",
                "volume.a.max.burst = \"0s\" (was nothing)",
                "volume.a.min was removed (was \"30MB/s\")",
                "volume.a.share = 200 (was 100)",
            ]
        );
        assert!(changes(&old, &old).is_empty());
    }
}
