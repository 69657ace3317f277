//! Tests of the interface's responses and effects, through its own client.

use crate::site::Site;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};
use weir_manage::api::{Changes, Curve, Error, Event, Outcome, ShortSeconds, Status, Volume};

#[test]
fn the_state_has_numbers_and_the_words_of_the_file() {
    let site = Site::new();
    let status: Status = site.get("/v1/status");
    let budget = status.drives[0].budget.unwrap();
    // The drive's write capacity is 120 MB/s. alpha (10 MB/s) and acme (30 MB/s) are promised 40
    // MB/s, and at most 90 % of the capacity can be promised, which leaves 68 MB/s.
    assert_eq!(budget.bytes_per_second, 120_000_000);
    assert_eq!(budget.promised_bytes_per_second, 40_000_000);
    assert!((67_900_000..=68_000_000).contains(&budget.left_bytes_per_second));
    let tenant = status.tenants[0].budget.unwrap();
    // acme is promised 30 MB/s, and its only volume has no promise of its own.
    assert_eq!(tenant.left_bytes_per_second, 30_000_000);
    let alpha: Volume = site.get("/v1/volumes/alpha");
    assert_eq!(alpha.config["min"], json!("10MB/s"));
    assert_eq!(alpha.contract.min_bytes_per_second, 10_000_000);
    assert_eq!(alpha.size_bytes, 16 << 20);
    let volumes: Vec<Volume> = site.get("/v1/volumes");
    let names: Vec<&str> = volumes.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["alpha", "beta"]);
}

#[test]
fn the_last_hour_of_each_object_is_there_from_the_start() {
    let site = Site::new();
    for of in ["drive.fast", "tenant.acme", "volume.alpha"] {
        let curve: Curve = site.get(&format!("/v1/history?of={of}"));
        assert_eq!((curve.of.as_str(), curve.step_ms), (of, 10_000));
    }
    let short: ShortSeconds = site.get("/v1/short");
    assert_eq!(short.short, []);
    for of in ["volume.gamma", "server.alpha", "alpha"] {
        let path = format!("/v1/history?of={of}");
        site.refuses(
            "GET",
            &path,
            &Value::Null,
            (404, "for example volume.alpha"),
        );
    }
}

#[test]
fn a_change_is_in_force_at_once_and_in_the_file_with_its_comments() {
    let mut site = Site::new();
    let before = site.text();
    let outcome = site.set("alpha", &json!({ "min": "20MB/s" }));
    assert_eq!(
        outcome.change.lines,
        ["volume.alpha.min = \"20MB/s\" (was \"10MB/s\")"]
    );
    assert!(outcome.change.saved && outcome.change.by.starts_with("uid "));
    let after = before.replace(
        "min = \"10MB/s\" # until May",
        "min = \"20MB/s\" # until May",
    );
    assert_eq!(site.text(), after);
    let alpha: Volume = site.get("/v1/volumes/alpha");
    assert_eq!(alpha.contract.min_bytes_per_second, 20_000_000);
    site.restart();
    let alpha: Volume = site.get("/v1/volumes/alpha");
    assert_eq!(alpha.contract.min_bytes_per_second, 20_000_000);
}

#[test]
fn a_volume_with_the_name_of_a_removed_volume_has_its_own_size() {
    let site = Site::new();
    for size in ["1MiB", "3MiB"] {
        let words = json!({ "drive": "fast", "memory": true, "size": size });
        site.send("PUT", "/v1/volumes/gamma", &words);
        let gamma: Volume = site.get("/v1/volumes/gamma");
        assert_eq!(format!("{}MiB", gamma.size_bytes >> 20), size);
        // The figures of a second must contain the first volume for the second one to be mixed up
        // with it.
        thread::sleep(Duration::from_millis(1_100));
        site.send("DELETE", "/v1/volumes/gamma", &Value::Null);
    }
}

#[test]
fn volumes_tenants_and_capacities_come_change_grow_and_go() {
    let site = Site::new();
    site.send("PUT", "/v1/tenants/t%20%C3%A4", &json!({ "drive": "fast" }));
    let gamma = json!({ "drive": "fast", "memory": true, "size": "1MiB", "max": { "iops": 100 }, "tenant": "t ä" });
    site.send("PUT", "/v1/volumes/gamma", &gamma);
    let exists = (409, "volume \"gamma\" already exists");
    site.refuses("PUT", "/v1/volumes/gamma", &gamma, exists);
    site.set(
        "gamma",
        &json!({ "size": "2MiB", "max": { "bandwidth": "5MB/s" } }),
    );
    let volume: Volume = site.get("/v1/volumes/gamma");
    assert_eq!(volume.size_bytes, 2 << 20);
    assert_eq!(volume.contract.max_requests_per_second, 100);
    assert_eq!(volume.contract.max_bytes_per_second, 5_000_000);
    site.set("gamma", &json!({ "max": null }));
    site.send(
        "PATCH",
        "/v1/drives/fast",
        &json!({ "capacity": { "write": "140MB/s" } }),
    );
    let status: Status = site.get("/v1/status");
    assert_eq!(
        status.drives[0].budget.unwrap().bytes_per_second,
        140_000_000
    );
    site.send("DELETE", "/v1/volumes/gamma", &Value::Null);
    site.send("DELETE", "/v1/tenants/t%20%C3%A4", &Value::Null);
    site.refuses("DELETE", "/v1/volumes/gamma", &Value::Null, (404, ""));
    let undone = site.text().replace("140MB/s", "120MB/s");
    assert!(
        undone.contains("[volume.beta]") && !undone.contains("gamma"),
        "{undone}"
    );
}

#[test]
fn a_volume_comes_and_goes_with_its_socket() {
    let site = Site::new();
    let at = site.path("gamma.sock");
    let gamma =
        json!({ "drive": "fast", "memory": true, "size": "1MiB", "listen": { "vhost": at } });
    // A file is in the place of the socket, so that the server cannot create it.
    fs::write(&at, "").unwrap();
    for path in ["/v1/volumes/gamma", "/v1/volumes/gamma?dry_run=true"] {
        let asked: Result<Outcome, Error> = site.client.send("PUT", path, &gamma, None);
        let Err(Error::Refused {
            status: 422,
            refusal,
        }) = asked
        else {
            panic!("{asked:?}");
        };
        assert_eq!(refusal.problems[0].key, "volume.gamma.listen.vhost");
    }
    site.refuses("DELETE", "/v1/volumes/gamma", &Value::Null, (404, ""));
    fs::remove_file(&at).unwrap();
    for _ in 0..3 {
        site.send("PUT", "/v1/volumes/gamma?dry_run=true", &gamma);
        assert!(!at.exists());
        site.send("PUT", "/v1/volumes/gamma", &gamma);
        let client = UnixStream::connect(&at).unwrap();
        // A client is accepted once it has sent something, and the volume is in use from then on.
        (&client).write_all(&[1]).unwrap();
        let within = Instant::now() + Duration::from_secs(20);
        while site.get::<Volume>("/v1/volumes/gamma").now.connections == 0 {
            assert!(Instant::now() < within, "it is not let in");
            thread::sleep(Duration::from_millis(20));
        }
        let used = (422, "cannot be removed while it has a client");
        site.refuses("DELETE", "/v1/volumes/gamma", &Value::Null, used);
        drop(client);
        while let Err(error) =
            site.client
                .send::<Outcome>("DELETE", "/v1/volumes/gamma", &Value::Null, None)
        {
            assert!(Instant::now() < within, "{error}");
            thread::sleep(Duration::from_millis(20));
        }
        assert!(!at.exists());
    }
}

/// Requests that are refused: method, path, body, status, and a part of the reason.
const REFUSED: &str = r#"
PATCH /v1/volumes/alpha {"min":"90MB/s"} 422 cannot promise 90MB/s: the promises on drive.fast would add up to 120MB/s, and at most 108MB/s can be promised (90 % of its write capacity, 120MB/s)
PATCH /v1/volumes/alpha {"min":"90MB"} 422 "90MB" is a size, not a rate
PATCH /v1/volumes/alpha {"mni":1} 422 mni
PATCH /v1/volumes/alpha {"size":"1MiB"} 422 cannot be reduced
PATCH /v1/volumes/alpha [1] 400 the body is invalid
PATCH /v1/volumes/nobody {"min":"1MB/s"} 404 unknown volume "nobody"
PATCH /v1/listeners/x {} 404 volumes, tenants or drives
DELETE /v1/drives/fast null 422 4 problems were found
POST /v1/changes {"edits":[{"key":["listen","nbd"],"value":["127.0.0.1:1"]}]} 422 cannot be changed
POST /v1/changes {"edits":[{"key":[],"value":1}]} 400 requires a key
POST /v1/changes {"edit":[]} 400 unknown field
POST /v1/undo {} 409 no change can be undone
PATCH /v1/volumes/alpha?dry=1 {} 400 unknown field
PUT /v1/status {} 405 the method is not supported
GET /v2/status null 404 unknown path
"#;

#[test]
fn impossible_changes_are_refused_with_the_sums_and_change_nothing() {
    let site = Site::new();
    let before = site.text();
    for line in REFUSED.trim().lines() {
        let [method, path, body, status, said] = line.splitn(5, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let body: Value = serde_json::from_str(body).unwrap();
        site.refuses(method, path, &body, (status.parse().unwrap(), said));
    }
    assert_eq!(site.text(), before);
    let changes: Changes = site.get("/v1/changes");
    assert_eq!(changes, Changes::default());
}

#[test]
fn several_edits_are_made_together_or_not_at_all() {
    let site = Site::new();
    let before = site.text();
    let edit = |volume: &str, min: &str| json!({ "key": ["volume", volume, "min"], "value": min });
    // beta's tenant is promised 30 MB/s, which 31 MB/s exceeds. alpha's 60 MB/s alone would be
    // possible.
    let edits = json!({ "edits": [edit("alpha", "60MB/s"), edit("beta", "31MB/s")] });
    site.refuses("POST", "/v1/changes", &edits, (422, ""));
    assert_eq!(site.text(), before);
    let edits = json!({ "edits": [edit("alpha", "60MB/s"), edit("beta", "29MB/s")] });
    let outcome = site.send("POST", "/v1/changes", &edits);
    assert_eq!(outcome.change.lines.len(), 2);
}

#[test]
fn a_dry_run_returns_the_changes_without_making_them() {
    let site = Site::new();
    let before = site.text();
    let outcome = site.set("alpha?dry_run=true", &json!({ "min": "20MB/s" }));
    assert!(outcome.dry_run);
    // 20 MB/s of alpha and 30 MB/s of acme are 50 MB/s, which is 41.7 % of 120 MB/s. 108 MB/s less
    // 50 MB/s are 58 MB/s.
    assert_eq!(
        outcome.change.lines,
        ["volume.alpha.min = \"20MB/s\" (was \"10MB/s\")"]
    );
    assert_eq!(
        outcome.promised,
        ["drive.fast: 50MB/s promised, 41.7 % of the drive's time; 58MB/s left"]
    );
    let outcome = site.send("DELETE", "/v1/volumes/beta?dry_run=true", &Value::Null);
    assert_eq!(outcome.change.lines, ["volume.beta was removed"]);
    assert_eq!(site.text(), before);
    let alpha: Volume = site.get("/v1/volumes/alpha");
    assert_eq!(alpha.contract.min_bytes_per_second, 10_000_000);
}

/// Lets ten clients send a request at once, each with its number. Returns the number of successes.
/// The others must be refused with the status `refused`.
fn race<R>(site: &Site, refused: u16, ask: R) -> usize
where
    R: Fn(&weir_manage::api::ManagementClient, usize) -> Result<Outcome, Error> + Sync,
{
    thread::scope(|scope| {
        let (ask, socket) = (&ask, site.path("manage.sock"));
        let tries: [_; 10] = std::array::from_fn(|n| {
            let client = weir_manage::api::ManagementClient::new(&socket).unwrap();
            scope.spawn(move || match ask(&client, n) {
                Ok(_) => 1,
                Err(Error::Refused { status, .. }) if status == refused => 0,
                Err(other) => panic!("{other}"),
            })
        });
        tries.into_iter().map(|t| t.join().unwrap()).sum()
    })
}

#[test]
fn exactly_one_of_ten_concurrent_changes_succeeds() {
    let site = Site::new();
    let path = "/v1/volumes/alpha";
    for round in 0..20 {
        let alpha: Volume = site.get(path);
        let won = race(&site, 412, |client, n| {
            let body = json!({ "share": 100 + round * 10 + n });
            client.send("PATCH", path, &body, Some(&alpha.etag))
        });
        // In round 0, client 0 sets the share of 100 that the volume already has. This changes
        // nothing, so that another client can succeed as well.
        assert!(won == 1 || round == 0 && won == 2, "{won}");
    }
    let beta: Volume = site.get("/v1/volumes/beta");
    site.set("alpha", &json!({ "share": 7 }));
    let path = "/v1/volumes/beta";
    let others: Result<Outcome, Error> =
        site.client
            .send("PATCH", path, &json!({ "share": 8 }), Some(&beta.etag));
    assert!(
        others.is_ok(),
        "a change of another volume is none of this one"
    );
}

#[test]
fn exactly_one_of_ten_clients_adds_or_removes_a_volume() {
    let site = Site::new();
    let path = "/v1/volumes/gamma";
    let mut gone: Option<Volume> = None;
    for _ in 0..20 {
        let added = race(&site, 409, |client, n| {
            let words =
                json!({ "drive": "fast", "memory": true, "size": "1MiB", "share": 100 + n });
            client.send("PUT", path, &words, None)
        });
        assert_eq!(added, 1);
        // A request for the previous volume of the same name arrives late.
        if let Some(Volume { etag, .. }) = gone.replace(site.get(path)) {
            let late = site.client.send("DELETE", path, &Value::Null, Some(&etag));
            let late: Result<Outcome, Error> = late;
            let late = late.expect_err("it is another");
            assert!(matches!(late, Error::Refused { status: 412, .. }), "{late}");
        }
        let removed = race(&site, 404, |client, _| {
            client.send("DELETE", path, &Value::Null, None)
        });
        assert_eq!(removed, 1);
    }
}

#[test]
fn a_change_can_be_undone() {
    let site = Site::new();
    let before = site.text();
    site.set("alpha", &json!({ "min": "20MB/s" }));
    site.send("DELETE", "/v1/volumes/beta", &Value::Null);
    site.set("alpha", &json!({ "share": 300 }));
    let outcome = site.send("POST", "/v1/undo", &json!({ "change": 2 }));
    assert_eq!(
        (outcome.change.undoes, outcome.change.lines),
        (Some(2), vec!["volume.beta was added".to_owned()])
    );
    site.send("POST", "/v1/undo", &json!({}));
    site.send("POST", "/v1/undo", &json!({}));
    assert_eq!(site.text(), before);
    let undone = (409, "change 2 has already been undone by change 4");
    site.refuses("POST", "/v1/undo", &json!({ "change": 2 }), undone);
    site.set("alpha", &json!({ "min": "11MB/s" }));
    site.set("alpha", &json!({ "min": "12MB/s" }));
    let later = (
        409,
        "cannot undo change 7: later changes affect the same keys",
    );
    site.refuses("POST", "/v1/undo", &json!({ "change": 7 }), later);
}

#[test]
fn changes_in_memory_do_not_reach_the_file() {
    let mut site = Site::new();
    let before = site.text();
    site.set("alpha?save=false", &json!({ "min": "40MB/s" }));
    assert_eq!(site.text(), before);
    let status: Status = site.get("/v1/status");
    assert!(status.unsaved);
    // Another change is saved. The file has only that one.
    site.set("beta", &json!({ "share": 50 }));
    assert!(site.text().contains("share = 50") && site.text().contains("10MB/s"));
    let alpha: Volume = site.get("/v1/volumes/alpha");
    assert_eq!(alpha.contract.min_bytes_per_second, 40_000_000);
    site.send("POST", "/v1/undo", &json!({ "change": 1 }));
    assert!(!site.get::<Status>("/v1/status").unsaved);
    site.restart();
    let beta: Volume = site.get("/v1/volumes/beta");
    assert_eq!(beta.contract.share, 50);
}

#[test]
fn a_file_edited_by_a_user_is_not_overwritten() {
    let site = Site::new();
    let edited = site.text() + "\n# Mine.\n";
    fs::write(site.path("weir.toml"), &edited).unwrap();
    let five = json!({ "share": 5 });
    let changed = (
        409,
        "has been changed since the server read it; reload it first",
    );
    site.refuses("PATCH", "/v1/volumes/alpha", &five, changed);
    assert_eq!(site.text(), edited);
    site.send("POST", "/v1/reload", &Value::Null);
    site.set("alpha", &json!({ "share": 5 }));
    assert!(site.text().ends_with("# Mine.\n") && site.text().contains("share = 5"));
    let broken = site.text().replace("[volume.beta]", "[volume.beta");
    // A file that is not TOML is refused with the position of the error.
    fs::write(site.path("weir.toml"), broken).unwrap();
    site.refuses("POST", "/v1/reload", &Value::Null, (422, ""));
    let refusal = site.management().reload().unwrap_err();
    assert!(refusal.problems[0].line > 0, "{refusal:?}");
}

#[test]
fn a_file_that_cannot_be_written_refuses_the_change() {
    let site = Site::new();
    fs::remove_file(site.path("weir.toml")).unwrap();
    let five = json!({ "share": 5 });
    site.refuses("PATCH", "/v1/volumes/alpha", &five, (507, "save=false"));
    let alpha: Volume = site.get("/v1/volumes/alpha");
    assert_eq!(alpha.contract.share, 100);
    site.set("alpha?save=false", &json!({ "share": 5 }));
}

#[test]
fn events_tell_of_seconds_and_changes() {
    let site = Site::new();
    let mut lines = site.client.events().unwrap();
    let patience = Duration::from_secs(20);
    assert!(matches!(lines.next(patience), Ok(Some(Event::Second(_)))));
    let other = weir_manage::api::ManagementClient::new(&site.path("manage.sock")).unwrap();
    let body = json!({ "share": 5 });
    let changed: Outcome = other
        .send("PATCH", "/v1/volumes/alpha", &body, None)
        .unwrap();
    let mut seen = BTreeSet::new();
    while seen.len() < 2 {
        match lines
            .next(patience)
            .unwrap()
            .expect("one comes each second")
        {
            Event::Second(second) => {
                assert_eq!(second.volumes.len(), 2);
                seen.insert("second");
            }
            Event::Change(change) => {
                assert_eq!(change, changed.change);
                seen.insert("change");
            }
            Event::Short(short) => panic!("{short:?}"),
        }
    }
}

#[test]
fn the_document_lists_exactly_the_supported_methods() {
    let site = Site::new();
    let document: Value = site.get("/v1/openapi.json");
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let paths = document["paths"].as_object().unwrap();
    let mut operations = 0;
    // Each method is supported if and only if the document has it.
    for (path, methods) in paths {
        for method in ["get", "put", "post", "delete", "patch"] {
            let real = path
                .replace("{kind}", "volumes")
                .replace("{name}", "nobody");
            let head = format!(
                "{} {real} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                method.to_uppercase()
            );
            let documented = methods.get(method).is_some();
            if path == "/v1/events" && documented {
                continue;
            }
            let answer = site.raw(head.as_bytes());
            let wrong = answer.starts_with("HTTP/1.1 405 ");
            assert_eq!(documented, !wrong, "{method} {path}: {answer}");
            operations += usize::from(documented);
        }
    }
    assert!(operations >= 14, "{operations}");
    // The responses have the form that the document describes.
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let status: Value = site.get("/v1/status");
    matches_schema(
        schemas,
        &json!({ "$ref": "#/components/schemas/Status" }),
        &status,
        "status",
    );
    let outcome = site.set("alpha", &json!({ "share": 5 }));
    let outcome = serde_json::to_value(outcome).unwrap();
    matches_schema(
        schemas,
        &json!({ "$ref": "#/components/schemas/Outcome" }),
        &outcome,
        "outcome",
    );
}

/// Checks that a value has the properties that a schema requires, no others, and the types that it
/// states.
fn matches_schema(
    schemas: &serde_json::Map<String, Value>,
    schema: &Value,
    value: &Value,
    at: &str,
) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return matches_schema(schemas, &schemas[name], value, at);
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(several) = schema[key].as_array() {
            let one = several.iter().find(|s| s["type"] != "null").unwrap();
            return matches_schema(schemas, one, value, at);
        }
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(
        kinds.iter().any(|k| k == kind),
        "{at}: {kind} is not {kinds:?}"
    );
    if let Some(elements) = value.as_array() {
        for element in elements {
            matches_schema(schemas, &schema["items"], element, at);
        }
    }
    let (Some(words), Some(properties)) = (value.as_object(), schema["properties"].as_object())
    else {
        return;
    };
    for required in schema["required"].as_array().into_iter().flatten() {
        let name = required.as_str().unwrap();
        assert!(words.contains_key(name), "{at} lacks {name}");
    }
    for (name, value) in words {
        let schema = properties
            .get(name)
            .unwrap_or_else(|| panic!("{at}.{name} is not documented"));
        matches_schema(schemas, schema, value, &format!("{at}.{name}"));
    }
}

#[test]
fn a_check_reports_what_a_start_refuses_and_creates_nothing() {
    let base = std::env::temp_dir().join(format!("weir-preflight-{}", std::process::id()));
    fs::create_dir(&base).unwrap();
    let at = base.display();
    let text = format!(
        "[manage]\nsocket = \"{at}/m.sock\"\nhttp = \"127.0.0.1:0\"\ntoken_file = \"{at}/token\"\n\
         audit_file = \"{at}/audit\"\nREST\n[listen]\nnbd = [\"127.0.0.1:0\"]\n[drive.d]\n\
         [volume.v]\ndrive = \"d\"\nfile = \"{at}/v\"\nsize = \"1MiB\"\n"
    );
    let found = |text: &str| {
        let config = weir_config::parse("", text).unwrap();
        let found = weir_manage::preflight(&config).into_iter();
        let found: Vec<_> = found.map(|f| (f.problem.key, f.certain)).collect();
        found
    };
    assert_eq!(found(&text.replace("REST", "")), []);
    for (rest, key) in [
        ("users = [\"no-such-user\"]", "manage.users"),
        ("groups = [\"no-such-group\"]", "manage.groups"),
        ("read_only = [\"user:no-such-user\"]", "manage.read_only"),
        ("read_only = [\"group:no-such-group\"]", "manage.read_only"),
        ("manual = \"/dev\"", "manage.manual"),
    ] {
        assert_eq!(found(&text.replace("REST", rest)), [(key.to_owned(), true)]);
    }
    let same = text.replace("REST", "").replace("/v\"", "/audit.1\"");
    assert_eq!(found(&same), [("volume.v.file".to_owned(), true)]);
    assert_eq!(fs::read_dir(&base).unwrap().count(), 0);
    fs::write(base.join("token"), "short").unwrap();
    fs::create_dir(base.join("audit")).unwrap();
    let keys = ["manage.token_file", "manage.audit_file"];
    let keys = keys.map(|key| (key.to_owned(), false));
    assert_eq!(found(&text.replace("REST", "")), keys);
    fs::remove_dir_all(base).unwrap();
}
