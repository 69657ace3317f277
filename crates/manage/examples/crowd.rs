//! Opens many connections that send nothing, half a request, or rubbish to the address for
//! browsers: `crowd ADDRESS COUNT SECONDS`.

use std::error::Error;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, count, seconds] = &arguments[..] else {
        return Err("usage: crowd ADDRESS COUNT SECONDS".into());
    };
    // Each connection takes a descriptor. The usual soft limit is 1024.
    let (count, seconds): (usize, u64) = (count.parse()?, seconds.parse()?);
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limits.maximum,
        ..limits
    };
    setrlimit(Resource::Nofile, raised)?;
    let begun = Instant::now();
    let (mut all, mut opened) = (Vec::new(), 0u64);
    while begun.elapsed() < Duration::from_secs(seconds) {
        if all.len() >= count {
            // Connections that the server has closed are replaced as well.
            all.drain(..count / 10);
        }
        let Ok(mut stream) = TcpStream::connect(address) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        opened += 1;
        // An error means that the server has already closed the connection, which it may do.
        let _ = match opened % 4 {
            0 => stream.write_all(b"GET /v1/status HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
            1 => stream.write_all(b"GET /v1/sta"),
            2 => stream.write_all(&[0x16; 4096]),
            _ => Ok(()),
        };
        all.push(stream);
    }
    println!("{opened} connections, {} at a time", all.len());
    Ok(())
}
