//! The log of a reload: each change in the words of the file.

use crate::field::{Difference, Values, differences, value};
use crate::key::{LISTEN, Tls};
use crate::server::{Server, ServerDrive, Tenant, Volume};
use crate::text::path;
use std::collections::BTreeMap;

/// Returns the differences between a server and its state after a reload, one line each. There is a
/// line for each volume and tenant that was added or removed, and for each key of the others whose
/// value changed, including defaults.
pub fn changes(old: &Server, new: &Server) -> Vec<String> {
    let (mut lines, mut all) = (Vec::new(), Vec::new());
    let drives = new.drives.iter();
    for (was, now) in drives.filter_map(|now| Some((old.drive(&now.name)?, now))) {
        // Of a drive, a reload can change only the capacity.
        let capacity = |drive: &ServerDrive| {
            let values = drive.values().into_iter();
            values.filter(|(key, _)| *key == "capacity").collect()
        };
        let at = path("drive", &now.name);
        all.extend(differences(&at, capacity(was), capacity(now)));
    }
    // Of the addresses, a reload can change only the certificates.
    let tls = |server: &Server| {
        let tls = server.listen.tls.as_ref();
        vec![("tls", value(&LISTEN, "tls", &tls.map(Tls::values)))]
    };
    all.extend(differences("listen", tls(old), tls(new)));
    all.extend(differences(
        "server",
        old.process.values(),
        new.process.values(),
    ));
    let name = |tenant: &Tenant| tenant.name.clone();
    let tenants = [&old.tenants[..], &new.tenants];
    lines.extend(named("tenant", tenants, name, Tenant::values, &mut all));
    let name = |volume: &Volume| volume.name.clone();
    let volumes = [&old.volumes[..], &new.volumes];
    lines.extend(named("volume", volumes, name, Volume::values, &mut all));
    // Sorting by path keeps the keys of each table together.
    all.sort_by(|a, b| a.0.cmp(&b.0));
    lines.extend(all.into_iter().map(|(key, was, now)| {
        let was = was.map_or_else(|| "nothing".to_owned(), |value| value.to_string());
        match now {
            Some(now) => format!("{key} = {now} (was {was})"),
            None => format!("{key} was removed (was {was})"),
        }
    }));
    lines
}

/// Returns a line for each table that was added or removed. The differing keys of the other tables
/// are appended to `all`.
fn named<T: PartialEq>(
    kind: &str,
    tables: [&[T]; 2],
    name: fn(&T) -> String,
    values: fn(&T) -> Values,
    all: &mut Vec<Difference>,
) -> Vec<String> {
    // Maps keep the comparison fast for thousands of tables.
    let [was, now]: [BTreeMap<String, &T>; 2] =
        tables.map(|tables| tables.iter().map(|table| (name(table), table)).collect());
    let mut lines = Vec::new();
    for (some, others, what) in [(&was, &now, "removed"), (&now, &was, "added")] {
        let alone = some.keys().filter(|name| !others.contains_key(*name));
        lines.extend(alone.map(|name| format!("{} was {what}", path(kind, name))));
    }
    for (name, now) in now {
        if let Some(was) = was.get(&name).filter(|was| **was != now) {
            all.extend(differences(&path(kind, &name), values(was), values(now)));
        }
    }
    lines
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
    fn changes_are_listed_with_the_keys_of_the_file() {
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
                // The defaults of a new table are listed too.
                "volume.a.max.burst = \"0s\" (was nothing)",
                "volume.a.min was removed (was \"30MB/s\")",
                "volume.a.share = 200 (was 100)",
            ]
        );
        assert!(changes(&old, &old).is_empty());
    }
}
