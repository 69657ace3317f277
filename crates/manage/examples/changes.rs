//! Makes many changes on a running server, and reports any that was lost, visible in part, or won
//! by two clients: `changes SOCKET COUNT`.
//!
//! The server must have the volumes `v0` to `v3` on the drive `d`, and can have clients. A change
//! sets a share, a max or a min, adds, grows and removes a volume, undoes a change, or sets the
//! same max for two volumes, which must never be seen to differ. Every tenth change is a race of
//! ten clients that have read the same state.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use weir_core::random::Rng;
use weir_manage::api::{Changes, Error as Refused, ManagementClient, Outcome, Status, Volume};

type ExampleResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExampleResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, count] = &arguments[..] else {
        return Err("usage: changes SOCKET COUNT".into());
    };
    let (socket, count) = (PathBuf::from(socket), count.parse()?);
    let (stop, apart) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut seen = RunTally::default();
    let looks = std::thread::scope(|scope| {
        let reader = scope.spawn(|| look(&socket, &stop, &apart));
        let changed = seen.change(&socket, count);
        stop.store(true, Ordering::Relaxed);
        changed.and_then(|()| reader.join().map_err(|_| "the reader panicked")?)
    })?;
    seen.compare_file(&socket)?;
    let RunTally {
        made,
        lost,
        races,
        won,
        ..
    } = seen;
    let half = apart.load(Ordering::Relaxed);
    println!(
        "{made} changes: {lost} lost, {half} half made in {looks} looks; {races} races of ten, {won} won"
    );
    // Each race must have exactly one winner.
    if lost + half > 0 || races != won {
        return Err("not every change was whole, and won by one".into());
    }
    Ok(())
}

/// Polls the two volumes that are changed together, and counts how often they differ. Returns the
/// number of polls.
fn look(socket: &Path, stop: &AtomicBool, apart: &AtomicU64) -> ExampleResult<u64> {
    let client = ManagementClient::new(socket)?;
    let mut looks = 0;
    while !stop.load(Ordering::Relaxed) {
        let status: Status = client.get("/v1/status")?;
        let weight = |name: &str| {
            let volume = status.volumes.iter().find(|v| v.name == name);
            volume.map(|v| v.contract.max_requests_per_second)
        };
        if weight("v2") != weight("v3") {
            apart.fetch_add(1, Ordering::Relaxed);
        }
        looks += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(looks)
}

#[derive(Default)]
struct RunTally {
    /// The number of the last change that the server has reported.
    last: u64,
    made: u64,
    lost: u64,
    races: u64,
    won: u64,
}

impl RunTally {
    /// Makes a change, and remembers its number. A change without effect has the number 0.
    fn send(
        &mut self,
        client: &ManagementClient,
        method: &str,
        path: &str,
        body: &impl Serialize,
    ) -> ExampleResult<()> {
        let outcome: Outcome = client.send(method, path, body, None)?;
        self.last = self.last.max(outcome.change.number);
        Ok(())
    }

    fn change(&mut self, socket: &Path, count: u64) -> ExampleResult<()> {
        let client = ManagementClient::new(socket)?;
        let mut rng = Rng::new(count);
        while self.made < count {
            match self.made % 10 {
                9 => self.race(socket, &client)?,
                8 => self.come_and_go(&client)?,
                7 => self.undo(&client)?,
                6 => self.two_at_once(&client, &mut rng)?,
                _ => self.set(&client, &mut rng)?,
            }
        }
        Ok(())
    }

    /// Sets a key, and reads it back.
    fn set(&mut self, client: &ManagementClient, rng: &mut Rng) -> ExampleResult<()> {
        let name = format!("v{}", rng.range(0, 1));
        let (key, value) = match rng.range(0, 3) {
            0 => ("share", json!(rng.range(1, 1000))),
            1 => ("min", json!(format!("{}MB/s", rng.range(1, 10)))),
            2 => ("min", json!(format!("{}kB/s", rng.range(1000, 9999)))),
            _ => (
                "max",
                json!({ "bandwidth": format!("{}MB/s", rng.range(40, 400)) }),
            ),
        };
        let path = format!("/v1/volumes/{name}");
        let mut body = serde_json::Map::new();
        body.insert(key.to_owned(), value.clone());
        self.send(client, "PATCH", &path, &body)?;
        self.made += 1;
        let volume: Volume = client.get(&path)?;
        self.lost += u64::from(volume.config.get(key) != Some(&value));
        Ok(())
    }

    /// Sets the same max of two volumes in one change.
    fn two_at_once(&mut self, client: &ManagementClient, rng: &mut Rng) -> ExampleResult<()> {
        let value = rng.range(100_000, 900_000);
        let edit = |name| json!({ "key": ["volume", name, "max", "iops"], "value": value });
        let body = json!({ "edits": [edit("v2"), edit("v3")] });
        self.send(client, "POST", "/v1/changes", &body)?;
        self.made += 1;
        for name in ["v2", "v3"] {
            let volume: Volume = client.get(&format!("/v1/volumes/{name}"))?;
            self.lost += u64::from(volume.contract.max_requests_per_second != value);
        }
        Ok(())
    }

    /// Adds, grows and removes a volume.
    fn come_and_go(&mut self, client: &ManagementClient) -> ExampleResult<()> {
        let path = "/v1/volumes/passing";
        let body = json!({ "drive": "d", "size": "1MiB" });
        self.send(client, "PUT", path, &body)?;
        self.send(client, "PATCH", path, &json!({ "size": "2MiB" }))?;
        let volume: Volume = client.get(path)?;
        self.lost += u64::from(volume.config["size"] != "2MiB");
        self.send(client, "DELETE", path, &json!({}))?;
        self.lost += u64::from(client.get::<Volume>(path).is_ok());
        self.made += 3;
        Ok(())
    }

    /// Makes a change and undoes it.
    fn undo(&mut self, client: &ManagementClient) -> ExampleResult<()> {
        let before: Vec<Volume> = client.get("/v1/volumes")?;
        self.send(client, "PATCH", "/v1/volumes/v0", &json!({ "share": 1234 }))?;
        self.send(client, "POST", "/v1/undo", &json!({}))?;
        self.made += 2;
        let after: Vec<Volume> = client.get("/v1/volumes")?;
        let words = |all: &[Volume]| all.iter().map(|v| v.config.clone()).collect::<Vec<_>>();
        self.lost += u64::from(words(&before) != words(&after));
        Ok(())
    }

    /// Lets ten clients that have read the same state change it at once. Exactly one must succeed.
    fn race(&mut self, socket: &Path, client: &ManagementClient) -> ExampleResult<()> {
        let path = "/v1/volumes/v1";
        let volume: Volume = client.get(path)?;
        // None of these values is the present one. Setting the present value would change nothing,
        // so that a second client could succeed.
        let base = 1001 + self.races % 800 * 10;
        let won: Vec<u64> = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..10)
                .map(|n| {
                    let etag = &volume.etag;
                    scope.spawn(move || attempt(socket, path, etag, base + n))
                })
                .collect();
            let tries = tries.into_iter();
            let ended = tries.map(|t| t.join().map_err(|_| "a client panicked")?);
            ended.collect::<ExampleResult<Vec<u64>>>()
        })?;
        let won = won.into_iter().filter(|number| *number > 0);
        self.races += 1;
        for number in won {
            self.won += 1;
            self.made += 1;
            self.last = self.last.max(number);
        }
        Ok(())
    }

    /// Checks that the file has the configuration in force.
    fn compare_file(&mut self, socket: &Path) -> ExampleResult<()> {
        let client = ManagementClient::new(socket)?;
        let status: Status = client.get("/v1/status")?;
        let file = status.file.ok_or("the server has a file")?;
        self.lost += u64::from(std::fs::read_to_string(file)? != client.text("/v1/config")?);
        let changes: Changes = client.get("/v1/changes")?;
        self.lost += u64::from(changes.changes.first().map(|c| c.number) != Some(self.last));
        Ok(())
    }
}

/// Returns the number of the change, or 0 if another client was first.
fn attempt(socket: &Path, path: &str, etag: &str, share: u64) -> ExampleResult<u64> {
    let client = ManagementClient::new(socket)?;
    let body: Value = json!({ "share": share });
    match client.send::<Outcome>("PATCH", path, &body, Some(etag)) {
        Ok(outcome) => Ok(outcome.change.number),
        Err(Refused::Refused { status: 412, .. }) => Ok(0),
        Err(other) => Err(other.into()),
    }
}
