//! Volumes of files behind a running server: what clients write is in the file, and the file is the server's alone.

#[path = "durability/client.rs"]
mod client;

use std::fs;
use std::path::{Path, PathBuf};

use weir_random::Rng;
use weir_serve::{Options, Server, StartError};
use weir_wire::nbd::{Command, CommandFlags};

use client::Client;

/// A directory on the file system of the build, which goes with its owner.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("weir-storage-{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn start(&self, socket: &str, volume: &str) -> Result<Server, StartError> {
        let text = format!(
            "listen.nbd = [\"unix:{0}/{socket}\"]\n\
             [drive.d]\ncapacity = {{ read = \"100MB/s\", write = \"100MB/s\" }}\n\
             [volume.v]\ndrive = \"d\"\nfile = \"{0}/image\"\n{volume}",
            self.0.display()
        );
        let config = weir_config::parse("", &text);
        let config = config.unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        Server::start(&config, &Options::default())
    }

    fn connect(&self, socket: &str) -> Client {
        Client::connect(&self.0.join(socket), "v")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SIZE: u64 = 4 << 20;

/// Four connections write what no two share, in all sizes, and zero and trim some of it.
#[test]
fn what_clients_write_is_in_the_file() {
    for volume in [
        "size = \"4MiB\"\nmin = \"10MB/s\"",
        "size = \"4MiB\"\ncache = \"host\"",
    ] {
        let directory = Directory::new("write");
        let server = directory.start("s", volume).unwrap();
        let mut model = vec![0u8; SIZE as usize];
        let (grain, quarter) = (97, SIZE as usize / 4);
        std::thread::scope(|scope| {
            for (number, model) in model
                .chunks_mut(grain * (quarter / grain))
                .take(4)
                .enumerate()
            {
                let mut client = directory.connect("s");
                let start = (number * model.len()) as u64;
                scope.spawn(move || write(&mut client, start, model, number as u64));
            }
        });
        let mut client = directory.connect("s");
        client.queue(Command::Flush, CommandFlags::EMPTY, 0, 0, &[]);
        client.queue(Command::Read, CommandFlags::EMPTY, 0, SIZE as u32, &[]);
        client.send();
        for _ in 0..2 {
            let (_, ended) = client.answer();
            let bytes = ended.unwrap();
            assert!(bytes.is_empty() || bytes == model, "{volume}");
        }
        drop(client);
        assert!(server.shutdown());
        assert!(
            fs::read(directory.0.join("image")).unwrap() == model,
            "{volume}"
        );
    }
}

fn write(client: &mut Client, start: u64, model: &mut [u8], seed: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..60 {
        let from = rng.range(0, model.len() as u64) as usize;
        let to = (from + rng.range(1, 20_000) as usize).min(model.len());
        let (offset, length) = (start + from as u64, (to - from) as u32);
        let fua = rng.range(0, 8) == 0;
        let flags = if fua {
            CommandFlags::FUA
        } else {
            CommandFlags::EMPTY
        };
        let part = &mut model[from..to];
        if rng.range(0, 4) == 0 {
            part.fill(0);
            client.queue(Command::WriteZeroes, flags, offset, length, &[]);
        } else {
            part.fill(rng.range(1, 256) as u8);
            client.queue(Command::Write, flags, offset, length, part);
        }
        client.send();
        let (_, ended) = client.answer();
        ended.unwrap();
    }
}

#[test]
fn an_image_belongs_to_one_server() {
    let directory = Directory::new("lock");
    let first = directory.start("one", "size = \"1MiB\"").unwrap();
    let second = directory
        .start("two", "size = \"1MiB\"")
        .unwrap_err()
        .to_string();
    assert!(
        second.contains(": volume.v.file: ")
            && second.contains("image is in use by another program"),
        "{second}"
    );
    assert!(!directory.0.join("two").exists(), "nothing is listening");
    assert!(first.shutdown());
    let larger = directory
        .start("two", "size = \"2MiB\"")
        .unwrap_err()
        .to_string();
    assert!(
        larger.contains("has 1MiB, and the volume's `size` is 2MiB"),
        "{larger}"
    );
    directory.start("two", "").unwrap();
}
