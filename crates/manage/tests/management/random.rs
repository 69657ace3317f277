//! Random valid and invalid changes. A refused change has no effect, the file is always valid, and
//! changes can be undone.

use crate::site::Site;
use serde_json::{Value, json};
use weir_core::random::Rng;
use weir_manage::api::{Changes, Error, Outcome, Status, Volume};

/// Returns a random change: method, path and body.
fn draw(rng: &mut Rng) -> (&'static str, String, Value) {
    let name = ["alpha", "beta", "gamma", "delta"][rng.range(0, 3) as usize];
    let path = format!("/v1/volumes/{name}");
    let rate = |rng: &mut Rng| json!(format!("{}MB/s", rng.range(1, 120)));
    match rng.range(0, 11) {
        0 => {
            let mut words = json!({ "drive": "fast", "memory": true, "size": "1MiB" });
            if rng.range(0, 1) == 0 {
                words["min"] = rate(rng);
            }
            ("PUT", path, words)
        }
        1 => ("DELETE", path, Value::Null),
        2 => (
            "PATCH",
            path,
            json!({ "max": { "iops": rng.range(1, 9000) } }),
        ),
        3 => ("PATCH", path, json!({ "max": null })),
        4 => (
            "PATCH",
            path,
            json!({ "min": null, "share": rng.range(1, 500) }),
        ),
        5 => (
            "PATCH",
            path,
            json!({ "size": format!("{}MiB", rng.range(1, 32)) }),
        ),
        6 => (
            "PATCH",
            "/v1/tenants/acme".into(),
            json!({ "min": rate(rng) }),
        ),
        7 => {
            let write = json!({ "write": format!("{}MB/s", rng.range(60, 160)) });
            (
                "PATCH",
                "/v1/drives/fast".into(),
                json!({ "capacity": write }),
            )
        }
        8 => ("PATCH", path, json!({ "class": "realtime", "nonsense": 1 })),
        9 => ("POST", "/v1/undo".into(), json!({})),
        _ => ("PATCH", path, json!({ "min": rate(rng) })),
    }
}

/// Returns the configuration in force and that of the file.
fn written(site: &Site) -> (String, String) {
    (site.client.text("/v1/config").unwrap(), site.text())
}

/// Returns the volumes in force, without the figures of the moment.
fn in_force(site: &Site) -> Value {
    let mut volumes: Vec<Volume> = site.get("/v1/volumes");
    for volume in &mut volumes {
        (volume.now, volume.etag) = Default::default();
    }
    serde_json::to_value(volumes).unwrap()
}

fn play(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut site = Site::new();
    let (mut made, mut refused) = (0, 0);
    for _ in 0..60 {
        let (method, path, body) = draw(&mut rng);
        // The results 0 to 5 select each of the three variants twice. Most changes use the first
        // one.
        let how = ["", "?save=false", "?dry_run=true"][(rng.range(0, 5) / 2) as usize % 3];
        let how = if rng.range(0, 3) > 0 { "" } else { how };
        let before = written(&site);
        let asked: Result<Outcome, Error> =
            site.client
                .send(method, &format!("{path}{how}"), &body, None);
        let after = written(&site);
        match asked {
            Ok(outcome) if outcome.dry_run => assert_eq!(before, after),
            Ok(outcome) => {
                made += 1;
                assert!(outcome.change.saved || before.1 == after.1);
            }
            Err(Error::Refused { status, .. }) => {
                assert!([404, 409, 422].contains(&status), "{status}");
                assert_eq!(before, after);
                refused += 1;
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
        // The configuration in force agrees with its text, and the server can be started from the
        // file.
        let config = weir_config::parse("", &after.0).unwrap();
        let volumes: Vec<Volume> = site.get("/v1/volumes");
        assert_eq!(volumes.len(), config.volumes.len());
        for (volume, written) in volumes.iter().zip(&config.volumes) {
            assert_eq!(volume.name, written.name);
            assert_eq!(volume.contract.min_bytes_per_second, written.contract.min);
            assert_eq!(volume.contract.share, written.contract.share);
        }
        weir_config::parse("", &after.1).unwrap();
        let status: Status = site.get("/v1/status");
        assert_eq!(status.unsaved, after.0 != after.1);
        if rng.range(0, 19) == 0 {
            site.restart();
            assert_eq!(written(&site), (after.1.clone(), after.1));
        }
    }
    assert!(
        made > 5 && refused > 5,
        "seed {seed}: {made} made, {refused} refused"
    );
}

#[test]
fn refused_changes_have_no_effect_and_the_file_stays_valid() {
    for seed in 1..=12 {
        play(seed);
    }
}

#[test]
fn changes_are_undone_step_by_step() {
    for seed in 100..=107 {
        let mut rng = Rng::new(seed);
        let site = Site::new();
        let begin = in_force(&site);
        let mut states = Vec::new();
        for _ in 0..40 {
            let (method, path, body) = draw(&mut rng);
            // Volumes cannot shrink, so that growth cannot be undone.
            if path == "/v1/undo" || body.get("size").is_some() && method == "PATCH" {
                continue;
            }
            let before = in_force(&site);
            let asked: Result<Outcome, Error> = site.client.send(method, &path, &body, None);
            if asked.is_ok_and(|outcome| outcome.change.number > 0) {
                states.push(before);
            }
        }
        assert!(states.len() > 5, "seed {seed}");
        while let Some(state) = states.pop() {
            site.send("POST", "/v1/undo", &json!({}));
            assert_eq!(in_force(&site), state, "seed {seed}");
        }
        assert_eq!(in_force(&site), begin);
        let changes: Changes = site.get("/v1/changes");
        assert!(changes.changes.iter().any(|c| c.undoes == Some(1)));
    }
}
