//! A volume on another server, which is killed and restarted while fio writes through Weir and
//! verifies its data.

use crate::common::running::serve;
use crate::common::{Scratch, has, words, works};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const KILLED: usize = 8;

/// A server with a write cache in front of a file. If it is killed, it loses data that was not
/// flushed.
struct NbdkitServer {
    child: Child,
}

impl NbdkitServer {
    fn start(scratch: &Scratch) -> Self {
        let socket = scratch.path("pool.sock");
        // A killed nbdkit leaves its socket behind. At the first start, there is none.
        let _ = std::fs::remove_file(&socket);
        let child = Command::new("nbdkit")
            .args(["-f", "-U"])
            .arg(&socket)
            .args(["--filter=cache", "file"])
            .arg(format!("file={}", scratch.path("image").display()))
            .arg("cache=writeback")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !socket.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        Self { child }
    }
}

impl Drop for NbdkitServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts fio with random writes that it reads back and verifies during the run.
fn fio(socket: &str) -> std::io::Result<Child> {
    Command::new("fio")
        .args(words(
            "--name=v --ioengine=nbd --rw=randwrite --bs=4k-64k --bsrange=4k-64k --size=32m \
             --iodepth=16 --fsync=100 --verify=crc32c --verify_backlog=64 --verify_fatal=1 \
             --verify_state_save=0 --time_based --runtime=8",
        ))
        .arg(format!("--uri=nbd+unix:///alpha?socket={socket}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

#[test]
fn fio_verifies_its_writes_while_the_remote_server_is_killed() {
    if !works("nbdkit", &["--version"]) || !works("fio", &["--enghelp=nbd"]) {
        return;
    }
    let scratch = Scratch::new();
    let image = std::fs::File::create(scratch.path("image")).unwrap();
    image.set_len(32 << 20).unwrap();
    let mut pool = NbdkitServer::start(&scratch);
    let text = format!(
        "[drive.pool]\n[listen]\nnbd = [\"unix:{}\"]\n[volume.alpha]\ndrive = \"pool\"\nnbd = \"nbd+unix:///?socket={}\"\nremote = {{ unflushed = \"16MiB\" }}\n",
        scratch.at("nbd.sock"),
        scratch.at("pool.sock")
    );
    scratch.file("weir.toml", &text);
    let server = serve(&scratch);
    let fio = fio(&scratch.at("nbd.sock")).unwrap();
    for _ in 0..KILLED {
        // Eight kills, one every 800 ms, are spread over most of the 8 s for which fio runs.
        thread::sleep(Duration::from_millis(800));
        drop(pool);
        pool = NbdkitServer::start(&scratch);
    }
    let output = fio.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{said}\n{}",
        server.log.lock().unwrap()
    );
    has(&said, "err= 0");
    for words in ["the remote server is away", "the remote server is back"] {
        assert!(server.says(words), "{}", server.log.lock().unwrap());
    }
    server.end();
}
