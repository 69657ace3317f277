//! The interface as Rust, from its published description (`proto/`).

use std::error::Error;

/// The services that the driver has.
const SERVICES: [&str; 3] = ["Identity", "Controller", "Node"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut description = protox::compile(["csi.proto"], ["proto"])?;
    for file in &mut description.file {
        file.service.retain(|s| SERVICES.contains(&s.name()));
        // Places in the text, which are of all services.
        file.source_code_info = None;
    }
    tonic_prost_build::configure()
        .build_transport(false)
        .client_mod_attribute("csi.v1", "#[cfg(feature = \"client\")]")
        .disable_comments(["."])
        .compile_fds(description)?;
    Ok(())
}
