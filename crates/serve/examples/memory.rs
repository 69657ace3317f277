//! Serves volumes in memory on a Unix socket, to try the server without a configuration file:
//!
//! ```text
//! cargo run --release -p weir-serve --example memory -- /tmp/weir.sock [none|bfq|contract] [volumes] [size] [model]
//! nbdinfo --list nbd+unix://?socket=/tmp/weir.sock
//! ```
//!
//! The volumes are named `v0`, `v1` and so on; with only one, clients need not name it. `model` puts the demo's null drive in
//! front of them. It serves until its standard input ends.

use std::error::Error;
use std::io::Read;

use weir_serve::{Options, Server};

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = std::env::args().skip(1);
    let socket = arguments
        .next()
        .ok_or("usage: memory SOCKET [POLICY] [VOLUMES] [SIZE] [model]")?;
    let policy = arguments.next().unwrap_or_else(|| "none".to_owned());
    let volumes: u32 = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let size = arguments.next().unwrap_or_else(|| "1GiB".to_owned());
    let model = arguments.next().is_some();
    let model = if model { "model = \"demo\"\n" } else { "" };
    let storage = if model.is_empty() {
        "memory = true\n"
    } else {
        ""
    };
    let volume = |n: u32| {
        let share = 100 + n;
        format!("[volume.v{n}]\ndrive = \"memory\"\nsize = \"{size}\"\nshare = {share}\n{storage}")
    };
    let volumes: Vec<String> = (0..volumes).map(volume).collect();
    let text = format!(
        "[drive.memory]\npolicy = \"{policy}\"\n{model}[listen]\nnbd = [\"unix:{socket}\"]\n{}",
        volumes.concat()
    );
    let config = weir_config::parse("", &text);
    let config = config.map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })?;
    let server = Server::start(&config, &Options::default())?;
    for address in server.addresses() {
        println!("{address}");
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.shutdown();
    Ok(())
}
