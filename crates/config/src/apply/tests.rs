//! Tests of the file for `weir apply`: an accepted file, and problems that result from changing it.

use super::*;
use crate::policy::PolicyController;
use weir_core::Span;

const FILE: &str = r#"
[drive.fast]
device = "/dev/disk/by-id/x"
policy = "bfq + io.max"
capacity = { read = "160MB/s", write = "120MB/s" }
queue = { nr_requests = 256, read_ahead = "128KiB", write_back_latency = "0s" }
bfq = { slice_idle = "2ms" }

[tenant.acme]
drive = "fast"
cgroup = "/acme"
min = "30MB/s"

[volume.alpha]
drive = "fast"
cgroup = "/acme/alpha"
tenant = "acme"
min = "10MB/s"
max = { bandwidth = "50MB/s" }

[volume.beta]
drive = "fast"
unit = "beta.service"
share = 300
prio_class = "idle"
"#;

fn problems(change: impl Fn(&str) -> String) -> Vec<String> {
    let problems = parse("x.toml", &change(FILE)).expect_err("something is wrong");
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_has_drives_with_their_cgroups() {
    let host = parse("", FILE).unwrap();
    let drive = &host.drives[0];
    assert!(drive.policy.controllers.contains(&PolicyController::Slices));
    assert_eq!(drive.queue.nr_requests, Some(256));
    assert_eq!(drive.queue.write_back_latency, Some(Span::ZERO));
    // Tenants come before volumes, and alpha refers to acme by its index.
    let members: Vec<_> = drive
        .members
        .iter()
        .map(|m| (m.key.as_str(), &m.cgroup, m.parent))
        .collect();
    let path = |path: &str| Cgroup::Path(path.to_owned());
    assert_eq!(
        members,
        [
            ("tenant.acme", &path("/acme"), None),
            ("volume.alpha", &path("/acme/alpha"), Some(0)),
            ("volume.beta", &Cgroup::Unit("beta.service".into()), None),
        ]
    );
    assert_eq!(drive.members[2].prio_class, Some("idle"));
    // `bfq` uses the min as a weight, about which there is a warning.
    let unkept = unkept(&host);
    assert!(
        unkept[0].to_string().contains("uses it as a weight only"),
        "{unkept:?}"
    );
    // The help must not propose a policy that the kernel does not have.
    let proposed = unkept.iter().map(ToString::to_string);
    let proposed: Vec<String> = proposed
        .filter(|text| text.contains("\"contract\""))
        .collect();
    assert_eq!(proposed, [""; 0]);
}

#[test]
fn a_control_character_in_a_cgroups_path_is_refused_and_escaped() {
    let found = problems(|file| {
        file.replace(
            "cgroup = \"/acme/alpha\"",
            r#"cgroup = "/acme/al\u001bpha""#,
        )
    });
    let said = r#""/acme/al\u{1b}pha" is not the path of a cgroup"#;
    assert!(found[0].contains(said), "{found:?}");
}

#[test]
fn errors_are_reported_at_their_position() {
    for (from, to, said) in [
        (
            "cgroup = \"/acme/alpha\"",
            "cgroup = \"/\"",
            "is not the path of a cgroup",
        ),
        (
            "cgroup = \"/acme/alpha\"",
            "cgroup = \"/acme/../alpha\"",
            "is not the path of a cgroup",
        ),
        (
            "cgroup = \"/acme/alpha\"",
            "cgroup = \"/alpha\"",
            "is not in \"/acme\"",
        ),
        (
            "cgroup = \"/acme/alpha\"",
            "cgroup = \"/acme\"",
            "has the same cgroup as tenant.acme",
        ),
        ("cgroup = \"/acme/alpha\"", "memory = true", "unknown key"),
        (
            "unit = \"beta.service\"",
            "unit = \"beta\"",
            "is not a unit",
        ),
        (
            "unit = \"beta.service\"",
            "",
            "a cgroup or a unit is missing",
        ),
        (
            "unit = \"beta.service\"",
            "unit = \"b.slice\"\ncgroup = \"/b\"",
            "cannot have both a cgroup and a unit",
        ),
        ("policy = \"bfq + io.max\"", "", "is missing"),
        (
            "device = \"/dev/disk/by-id/x\"",
            "device = \"sda\"",
            "is not an absolute path",
        ),
        ("min = \"30MB/s\"", "min = \"300MB/s\"", "capacity"),
        ("nr_requests = 256", "nr_requests = 3", "4 and 65536"),
        (
            "prio_class = \"idle\"",
            "prio_class = \"rt\"",
            "promote-to-rt",
        ),
        ("tenant = \"acme\"", "tenant = \"acne\"", "unknown tenant"),
        (
            "drive = \"fast\"\nunit",
            "drive = \"fats\"\nunit",
            "did you mean \"fast\"",
        ),
    ] {
        let all = problems(|file| file.replacen(from, to, 1));
        assert!(all.iter().any(|p| p.contains(said)), "{to}: {all:#?}");
    }
    // The cgroup of beta is below that of alpha, which is a volume and not a tenant.
    let nested =
        problems(|file| file.replace("unit = \"beta.service\"", "cgroup = \"/acme/alpha/b\""));
    assert!(
        nested[0].contains("is inside the cgroup of volume.alpha"),
        "{nested:?}"
    );
}

#[test]
fn a_device_of_two_drives_is_refused() {
    let twice = problems(|file| {
        format!("{file}\n[drive.other]\ndevice = \"/dev/disk/by-id/x\"\npolicy = \"none\"\n")
    });
    assert!(
        twice[0].contains("is already the device of drive.fast"),
        "{twice:?}"
    );
}
