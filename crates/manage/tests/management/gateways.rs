//! Tests of the server's part in a shared minimum, with a simulated etcd.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_manage::api::Volume;

use crate::site::Site;

/// The state of etcd for one minimum, with the responses of its JSON gateway. Keys stay in base64.
#[derive(Default)]
struct EtcdStore {
    revision: u64,
    generation: u64,
    /// The values and leases of the rows, by key.
    rows: BTreeMap<String, (String, String)>,
    leases: u64,
    silent: bool,
}

#[derive(Clone)]
struct FakeEtcd {
    port: u16,
    store: Arc<Mutex<EtcdStore>>,
}

impl FakeEtcd {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let etcd = Self {
            port: listener.local_addr().unwrap().port(),
            store: Arc::default(),
        };
        let store = Arc::clone(&etcd.store);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut store = store.lock().unwrap();
                if !store.silent {
                    serve(&mut stream.unwrap(), &mut store);
                }
            }
        });
        etcd
    }

    fn be_silent(&self, silent: bool) {
        self.store.lock().unwrap().silent = silent;
    }

    fn rows(&self) -> Vec<String> {
        let store = self.store.lock().unwrap();
        store.rows.keys().cloned().collect()
    }
}

fn serve(stream: &mut TcpStream, store: &mut EtcdStore) {
    let mut read = Vec::new();
    let (path, body) = loop {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).unwrap();
        read.extend_from_slice(&some[..count]);
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str::<Value>(body)
        {
            break (head.split(' ').nth(1).unwrap().to_owned(), body);
        }
        assert!(count > 0, "a request is whole");
    };
    let answer = store.answer(&path, &body).to_string();
    let length = answer.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    // The server can have ended and closed the connection.
    let _ = stream.write_all((head + &answer).as_bytes());
}

impl EtcdStore {
    fn answer(&mut self, path: &str, body: &Value) -> Value {
        match path {
            "/v3/lease/grant" => {
                self.leases += 1;
                json!({ "ID": self.leases.to_string(), "TTL": body["TTL"] })
            }
            "/v3/lease/keepalive" => json!({ "result": { "ID": body["ID"], "TTL": "2" } }),
            "/v3/lease/revoke" => {
                self.rows
                    .retain(|_, row| row.1 != body["ID"].as_str().unwrap());
                json!({})
            }
            "/v3/kv/range" => self.table(),
            "/v3/kv/txn" => {
                let compared = &body["compare"][0]["mod_revision"];
                // The compared revision is outdated: etcd executes the other branch, which reads
                // the table.
                if *compared != json!(self.generation.to_string()) {
                    return json!({ "responses": [{ "response_range": self.table() }] });
                }
                self.revision += 1;
                self.generation = self.revision;
                let put = &body["success"][1]["request_put"];
                let [key, value, lease] =
                    ["key", "value", "lease"].map(|k| put[k].as_str().unwrap().to_owned());
                self.rows.insert(key, (value, lease));
                json!({ "succeeded": true, "header": { "revision": self.revision.to_string() } })
            }
            other => panic!("{other} is asked"),
        }
    }

    fn table(&self) -> Value {
        let rows = self.rows.iter();
        let mut pairs: Vec<Value> = rows
            .map(|(key, (value, lease))| json!({ "key": key, "value": value, "lease": lease }))
            .collect();
        if self.generation > 0 {
            // `/weir/alpha/generation`
            let key = "L3dlaXIvYWxwaGEvZ2VuZXJhdGlvbg==";
            pairs.push(json!({ "key": key, "mod_revision": self.generation.to_string() }));
        }
        json!({ "header": {}, "kvs": pairs })
    }
}

fn site(etcd: &FakeEtcd) -> Site {
    Site::with(&format!(
        "[drive.fast]\ncapacity = {{ read = \"160MB/s\", write = \"120MB/s\" }}\n\
         [gateways]\netcd = [\"http://127.0.0.1:{}\"]\nlease = \"2s\"\n\
         [volume.alpha]\ndrive = \"fast\"\nmemory = true\nsize = \"16MiB\"\nmin = \"64MB/s\"\nshared = \"alpha\"\n",
        etcd.port
    ))
}

fn part(site: &Site) -> Option<f64> {
    site.get::<Volume>("/v1/volumes/alpha").now.part
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn has_part(site: &Site) -> bool {
    part(site).is_some_and(|part| part > 0.0)
}

#[test]
fn a_part_comes_with_etcd_ends_without_it_and_is_given_back_at_the_end() {
    let etcd = FakeEtcd::start();
    let [one, other] = [site(&etcd), site(&etcd)];
    wait("both have a part", || has_part(&one) && has_part(&other));
    assert_eq!(etcd.rows().len(), 2);
    let promised = part(&one).unwrap() + part(&other).unwrap();
    assert!(promised <= 1.0, "{promised}");
    etcd.be_silent(true);
    // The parts end with their leases of 2 s.
    wait("nothing is promised without etcd", || {
        part(&one) == Some(0.0) && part(&other) == Some(0.0)
    });
    etcd.be_silent(false);
    wait("both have a part again", || {
        has_part(&one) && has_part(&other)
    });
    let rows = etcd.rows();
    drop(other);
    assert_eq!(etcd.rows().len(), rows.len() - 1, "it gives its row back");
}

#[test]
fn a_volume_no_longer_shared_returns_its_part_and_keeps_its_min() {
    let etcd = FakeEtcd::start();
    let site = site(&etcd);
    wait("it has a part", || has_part(&site));
    let promised = || {
        let metrics = site.raw(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let line = metrics
            .lines()
            .find(|line| line.starts_with("weir_min_bytes_per_second"))?;
        line.rsplit_once(' ')?.1.parse::<u64>().ok()
    };
    // Without any demand of clients, a server keeps 1/64 of the minimum, which is 64 MB/s here.
    assert_eq!(promised(), Some(1_000_000), "1/64 of it");
    site.send("PATCH", "/v1/volumes/alpha", &json!({ "shared": null }));
    wait("its row is gone", || etcd.rows().is_empty());
    wait("the whole is its own", || promised() == Some(64_000_000));
    wait("it has no part", || part(&site).is_none());
}
