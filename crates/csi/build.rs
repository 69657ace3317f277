//! Generates Rust from the description of the interface (`proto/`).

use std::error::Error;

/// The services that the driver implements.
const SERVICES: [&str; 3] = ["Identity", "Controller", "Node"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut description = protox::compile(["csi.proto"], ["proto"])?;
    for file in &mut description.file {
        file.service.retain(|s| SERVICES.contains(&s.name()));
        // Source positions refer to the services by number, so that they would be wrong after the
        // removal.
        file.source_code_info = None;
    }
    tonic_prost_build::configure()
        .build_transport(false)
        .client_mod_attribute("csi.v1", "#[cfg(feature = \"client\")]")
        .disable_comments(["."])
        .compile_fds(description)?;
    Ok(())
}
