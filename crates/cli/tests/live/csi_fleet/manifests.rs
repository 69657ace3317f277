//! The chart and the manifests, which a real API server must accept.

use super::lab::{ControlPlane, documents, packaging};
use super::program;
use std::process::Command;

/// The namespace of the driver in the manifests.
const NAMESPACE: &str = "weir-system";

/// Returns the manifests that the chart generates with its default values.
fn rendered() -> Option<String> {
    let mut helm = Command::new(program("helm")?);
    helm.args(["template", "weir", "--namespace", NAMESPACE])
        .arg(packaging().join("chart"));
    let made = helm.output().expect("helm can be run");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let about =
        "# What `helm template` makes of the chart; the namespace `weir-system` is to be there.\n";
    Some(about.to_owned() + &String::from_utf8(made.stdout).expect("text"))
}

#[test]
fn the_manifests_match_the_rendered_chart() {
    let Some(made) = rendered() else {
        return;
    };
    let path = packaging().join("weir.yaml");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &made).expect("it can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "WEIR_BLESS=1 writes {} anew", path.display());
}

#[test]
fn a_real_api_server_takes_every_object() {
    let Some(lab) = ControlPlane::start() else {
        return;
    };
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n");
    for (path, text) in documents(&namespace) {
        lab.apply(&text, &path, false).unwrap();
    }
    let mut taken = 0;
    for name in ["weir.yaml", "classes.yaml"] {
        let text = std::fs::read_to_string(packaging().join(name)).expect("it is there");
        for (path, text) in documents(&text) {
            lab.apply(&text, &path, true)
                .unwrap_or_else(|said| panic!("{said}\n{text}"));
            taken += 1;
        }
    }
    println!("a real API server takes the {taken} objects of the manifests (dry run)");
    assert_eq!(taken, 11);
}
