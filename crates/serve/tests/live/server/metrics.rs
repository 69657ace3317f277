//! The metrics of a server.

use weir_measure::promise::{Cause, Excuse};
use weir_serve::Detail;
use weir_wire::nbd::{CommandFlags, NbdCommand};

use crate::server::client::serve;
use crate::tools::TestSite;
use crate::tools::metrics::{MetricsSnapshot, text};

#[test]
fn metrics_count_requests_and_bytes() {
    let bench = serve(
        "drive.d.policy = \"none\"\n\
         volume.v = { drive = \"d\", memory = true, size = \"1MiB\", share = 300 }\n\
         volume.w = { drive = \"d\", memory = true, size = \"1MiB\", share = 100 }\n",
    );
    let mut client = bench.connect("v");
    for n in 0..10 {
        client.read(n * 4096, 4096);
    }
    client.write(0, &[1; 1000]);
    client.call(NbdCommand::Flush, CommandFlags::EMPTY, 0, 0, &[]);
    client.call(
        NbdCommand::BlockStatus,
        CommandFlags::EMPTY,
        0,
        1 << 20,
        &[],
    );
    let metrics = MetricsSnapshot::of(&bench.server);
    // A look-up of extents counts as a request without data. With it, there are ten reads, a write
    // and a flush, which make 13 requests.
    let samples = [
        ("weir_requests_total", &[("op", "read")][..], 10.0),
        ("weir_bytes_total", &[("op", "read")], 40_960.0),
        ("weir_bytes_total", &[("op", "write")], 1_000.0),
        ("weir_requests_total", &[("op", "flush")], 1.0),
        ("weir_requests_total", &[("op", "extents")], 1.0),
        ("weir_bytes_total", &[("op", "extents")], 0.0),
        // The share of 300 of 400.
        ("weir_share_ratio", &[("kind", "promised")], 0.75),
        ("weir_stage_seconds_count", &[("stage", "elevator")], 13.0),
        ("weir_latency_seconds_count", &[], 13.0),
        ("weir_connections", &[], 1.0),
    ];
    for (name, labels, expected) in samples {
        let got = metrics.sum(name, &[&[("volume", "v")], labels].concat());
        assert!(
            (got - expected).abs() < 1e-9,
            "{name} {labels:?}: {got} instead of {expected}"
        );
    }
}

#[test]
fn every_sample_belongs_to_the_family_before_it() {
    let bench = serve(
        "drive.d.policy = \"contract\"\n\
         volume.\"a \\\\ \\\"b\\\"\" = { drive = \"d\", memory = true, size = \"1MiB\" }\n",
    );
    for detail in [Detail::Usual, Detail::Full] {
        each_sample_follows_its_head(&text(&bench.server, detail));
    }
}

fn each_sample_follows_its_head(body: &str) {
    let mut family = "";
    let mut seen = std::collections::BTreeSet::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap();
            assert!(seen.insert(family), "{family} twice");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let suffix = name
                .strip_prefix(family)
                .unwrap_or_else(|| panic!("{line} in {family}"));
            assert!(
                ["", "_bucket", "_count", "_sum"].contains(&suffix),
                "{line}"
            );
            assert!(
                line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(),
                "{line}"
            );
        }
    }
    assert!(body.contains("volume=\"a \\\\ \\\"b\\\"\""));
}

/// `docs/metrics.md` contains every metric family with its kind, and no others.
#[test]
fn every_metric_is_documented() {
    let bench = serve(
        "drive.d.capacity = { read = \"10MB/s\", write = \"10MB/s\" }\n\
         volume.v = { drive = \"d\", memory = true, size = \"1MiB\", min = \"1MB/s\" }\n",
    );
    let text = text(&bench.server, Detail::Full);
    let families = text.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let mut said: Vec<String> = families.map(str::to_owned).collect();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.strip_suffix('`')?;
        let kind = cells.next()?;
        ["counter", "gauge", "histogram"]
            .contains(&kind)
            .then(|| format!("{name} {kind}"))
    });
    let mut documented: Vec<String> = rows.collect();
    said.sort();
    documented.sort();
    assert_eq!(documented, said);
    for (reasons, family) in [
        (
            &Cause::OF_SHORT.map(Cause::name)[..],
            "weir_short_reason_seconds",
        ),
        (&Excuse::OF_SERVER.map(Excuse::name), "weir_excused_seconds"),
    ] {
        for reason in reasons {
            let row = format!("| `{reason}` |");
            assert!(page.contains(&row), "{reason} of {family} is not explained");
            let sample = format!("{family}_total{{volume=\"v\",reason=\"{reason}\"}} 0");
            assert!(text.contains(&sample), "{sample}");
        }
    }
}

/// Sums of contracts change with a reload.
#[test]
fn metrics_show_promised_and_left_capacity() {
    let config = |min: &str| {
        format!(
            "    drive.d.capacity = {{ read = \"100MB/s\", write = \"100MB/s\", iops = 1000 }}\n\
             tenant.acme = {{ drive = \"d\", min = \"30MB/s\" }}\n\
             volume.a = {{ drive = \"d\", tenant = \"acme\", memory = true, size = \"1MiB\", min = \"{min}\" }}\n\
             volume.b = {{ drive = \"d\", memory = true, size = \"1MiB\", min_iops = 100 }}\n"
        )
    };
    let mut bench = serve(&config("10MB/s"));
    let says = |bench: &TestSite, expected: &[(&str, f64)]| {
        let metrics = MetricsSnapshot::of(&bench.server);
        for (name, expected) in expected {
            let got = metrics.sum(name, &[]);
            assert!((got - expected).abs() < 1e-9, "{name}: {got}");
        }
    };
    let drive = [
        ("weir_drive_capacity_bytes_per_second", 1e8),
        ("weir_drive_capacity_requests_per_second", 1e3),
        ("weir_drive_promised_bytes_per_second", 3e7),
        ("weir_drive_promised_requests_per_second", 100.0),
        // The tenant's 30 MB/s include those of its volume. The drive's sum has 30 MB/s of 100,
        // which is 30 %, and 100 requests per second of 1,000, which is 10 %.
        ("weir_drive_promised_ratio", 0.4),
        // At most 90 % can be promised, so 50 % are left, in bytes or in requests.
        ("weir_drive_left_bytes_per_second", 5e7),
        ("weir_drive_left_requests_per_second", 500.0),
        ("weir_tenant_promised_bytes_per_second", 3e7),
    ];
    says(&bench, &drive);
    // 30 MB/s less the 10 MB/s of the volume.
    says(&bench, &[("weir_tenant_left_bytes_per_second", 2e7)]);
    bench.change(&config("25MB/s")).unwrap();
    says(&bench, &drive);
    says(&bench, &[("weir_tenant_left_bytes_per_second", 5e6)]);
}
