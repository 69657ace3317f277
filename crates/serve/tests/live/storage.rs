//! Volumes in files: the data that clients write is in the file, and only one server uses the file.

use std::{fs, io};

use weir_config::Volume;
use weir_core::random::Rng;
use weir_serve::backend::{Backend, BackendJob, Context, Prepare, Traits};
use weir_serve::{LiveServer, ServerOptions, StartError};
use weir_uring::RingCompletion;
use weir_wire::nbd::{CommandFlags, NbdCommand};

use crate::tools::raw::{Raw, fua};
use crate::tools::{Temp, parse};
use weir_config::ListenAddress;

fn start(directory: &Temp, socket: &str, volume: &str) -> Result<LiveServer, StartError> {
    start_on(directory, socket, volume, &ServerOptions::default())
}

fn start_on(
    directory: &Temp,
    socket: &str,
    volume: &str,
    options: &ServerOptions,
) -> Result<LiveServer, StartError> {
    let text = format!(
        "listen.nbd = [\"unix:{0}/{socket}\"]\n\
         [drive.d]\ncapacity = {{ read = \"100MB/s\", write = \"100MB/s\" }}\n\
         [volume.v]\ndrive = \"d\"\nfile = \"{0}/image\"\n{volume}",
        directory.path().display()
    );
    LiveServer::start(&parse(&text), options)
}

fn connect(directory: &Temp) -> Raw {
    let address = ListenAddress::Unix(directory.path().join("s"));
    Raw::open(&address, "v").unwrap()
}

const SIZE: u64 = 4 << 20;

/// Four connections write, zero and trim disjoint ranges of all sizes.
#[test]
fn writes_of_clients_are_in_the_file() {
    for volume in [
        "size = \"4MiB\"\nmin = \"10MB/s\"",
        "size = \"4MiB\"\ncache = \"host\"",
    ] {
        let directory = Temp::on_disk();
        let server = start(&directory, "s", volume).unwrap();
        let mut model = vec![0u8; SIZE as usize];
        // Ranges that begin at multiples of 97 are not aligned to sectors or pages, so neighbours
        // share blocks.
        let (grain, quarter) = (97, SIZE as usize / 4);
        std::thread::scope(|scope| {
            for (number, model) in model
                .chunks_mut(grain * (quarter / grain))
                .take(4)
                .enumerate()
            {
                let mut client = connect(&directory);
                let start = (number * model.len()) as u64;
                scope.spawn(move || write(&mut client, start, model, number as u64));
            }
        });
        let mut client = connect(&directory);
        let flushed = client.call(NbdCommand::Flush, CommandFlags::EMPTY, 0, 0, &[]);
        assert_eq!(flushed.unwrap().error, None);
        assert!(client.read(0, SIZE as u32).unwrap() == model, "{volume}");
        drop(client);
        assert!(server.shutdown());
        assert!(
            fs::read(directory.path().join("image")).unwrap() == model,
            "{volume}"
        );
    }
}

fn write(client: &mut Raw, start: u64, model: &mut [u8], seed: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..60 {
        let from = rng.range(0, model.len() as u64) as usize;
        let to = (from + rng.range(1, 20_000) as usize).min(model.len());
        let (offset, length) = (start + from as u64, (to - from) as u32);
        let flags = fua(rng.range(0, 8) == 0);
        let part = &mut model[from..to];
        let answer = if rng.range(0, 4) == 0 {
            part.fill(0);
            client.call(NbdCommand::WriteZeroes, flags, offset, length, &[])
        } else {
            part.fill(rng.range(1, 256) as u8);
            client.call(NbdCommand::Write, flags, offset, length, part)
        };
        assert_eq!(answer.unwrap().error, None);
    }
}

#[test]
fn an_image_belongs_to_one_server() {
    let directory = Temp::on_disk();
    let first = start(&directory, "one", "size = \"1MiB\"").unwrap();
    let second = start(&directory, "two", "size = \"1MiB\"")
        .unwrap_err()
        .to_string();
    assert!(
        second.contains(": volume.v.file: ")
            && second.contains("image is in use by another program"),
        "{second}"
    );
    assert!(
        !directory.path().join("two").exists(),
        "nothing is listening"
    );
    assert!(first.shutdown());
    let larger = start(&directory, "two", "size = \"2MiB\"")
        .unwrap_err()
        .to_string();
    assert!(
        larger.contains("has 1MiB, but the volume's `size` is 2MiB"),
        "{larger}"
    );
    start(&directory, "two", "").unwrap();
}

/// Storage with a bug, which panics.
#[derive(Debug)]
struct PanickingStorage;

impl Prepare for PanickingStorage {
    fn size(&self) -> u64 {
        SIZE
    }

    fn traits(&self) -> Traits {
        Traits {
            align: 1,
            preferred: 4096,
            read_only: false,
            trim: false,
            fast_zero: false,
            allocation: false,
            guest: false,
        }
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Backend>> {
        Ok(self)
    }
}

impl Backend for PanickingStorage {
    fn submit(&mut self, _: BackendJob, _: &mut Context<'_>) {
        panic!("a bug of a test's");
    }

    fn completed(&mut self, _: u32, _: RingCompletion, _: &mut Context<'_>) {}

    fn size(&self, _: Option<u64>) -> io::Result<u64> {
        Ok(SIZE)
    }
}

#[test]
fn a_server_stops_when_a_shard_panics() {
    let directory = Temp::new();
    let options = ServerOptions {
        storage: |_: &Volume| Ok(Box::new(PanickingStorage)),
        ..ServerOptions::default()
    };
    let server = start_on(&directory, "s", "", &options).unwrap();
    let watch = server.watch();
    assert!(watch.is_running());
    // The connection is closed when the shard ends.
    assert!(connect(&directory).read(0, 512).is_err());
    while watch.is_running() {
        std::thread::yield_now();
    }
    assert!(watch.figures().is_none());
    assert!(!server.shutdown());
}
