//! The Rust of the interface is what its published description comes to; `WEIR_BLESS=1` writes it anew.

use std::path::Path;

/// The services that the driver has.
const SERVICES: [&str; 3] = ["Identity", "Controller", "Node"];

#[test]
fn the_code_is_what_the_description_comes_to() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut description =
        protox::compile(["csi.proto"], [root.join("proto")]).expect("it is proto3");
    for file in &mut description.file {
        file.service.retain(|s| SERVICES.contains(&s.name()));
        // Places in the text, which are of all services.
        file.source_code_info = None;
    }
    let out = tempfile::tempdir().expect("a directory");
    tonic_prost_build::configure()
        .build_transport(false)
        .client_mod_attribute("csi.v1", "#[cfg(feature = \"client\")]")
        .disable_comments(["."])
        .out_dir(out.path())
        .compile_fds(description)
        .expect("it is written");
    let made = std::fs::read_to_string(out.path().join("csi.v1.rs")).expect("it was written");
    let kept = root.join("src/csi.v1.rs");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&kept, &made).expect("it can be written");
    }
    let kept = std::fs::read_to_string(&kept).unwrap_or_default();
    assert!(kept == made, "WEIR_BLESS=1 writes src/csi.v1.rs anew");
}
