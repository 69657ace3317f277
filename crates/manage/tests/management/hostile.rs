//! Clients that are slow, huge, malformed, numerous or unauthorised. They are bounded and do not
//! get in the way of others.

use crate::site::{PATIENCE, Site, asked};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use weir_manage::api::Status;

fn request(line: &str, headers: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n").into_bytes()
}

/// A client with the token has fewer rights than root, like the members of `manage.users`.
#[test]
fn clients_name_storage_only_where_it_is_permitted() {
    let site = Site::new();
    let address = site.management().addresses().http.unwrap();
    let outside = site.path("outside");
    std::fs::write(&outside, vec![7; 1 << 20]).unwrap();
    let headers = |length| {
        let token = site.token();
        format!("Host: {address}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}")
    };
    let ask = |line: &str, body: &serde_json::Value| {
        let body = body.to_string();
        let mut bytes = request(line, &headers(body.len()));
        bytes.extend_from_slice(body.as_bytes());
        site.http(&bytes)
    };
    let volume = serde_json::json!({ "drive": "fast", "file": outside, "cache": "host" });
    let edit = serde_json::json!({ "key": ["volume", "gamma"], "value": volume });
    let edits = serde_json::json!({ "edits": [edit] });
    let before = site.text();
    for (line, body) in [
        ("PUT /v1/volumes/gamma", &volume),
        ("PUT /v1/volumes/gamma?dry_run=true", &volume),
        ("POST /v1/changes", &edits),
    ] {
        let answer = ask(line, body);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(
            answer.contains("is not below a path of manage.storage"),
            "{answer}"
        );
    }
    assert_eq!(site.text(), before);
    // Root and the user that runs the server may name any storage. Others may use it from then on.
    site.send("PUT", "/v1/volumes/gamma", &volume);
    assert!(ask("DELETE /v1/volumes/gamma", &serde_json::Value::Null).contains(" 200 "));
    assert!(ask("PUT /v1/volumes/gamma", &volume).contains(" 200 "));
    // The server must not read any file as a certificate.
    let files = serde_json::json!({ "certificate": outside, "key": outside });
    let tls = serde_json::json!({ "edits": [{ "key": ["listen", "tls"], "value": files }] });
    let answer = ask("POST /v1/changes", &tls);
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    // Nor may it read any file as a policy, because problems quote the file. The refusal does not
    // tell whether the file exists. A change in memory only has the server check a second text.
    site.send(
        "PATCH",
        "/v1/volumes/alpha?save=false",
        &serde_json::json!({ "share": 7 }),
    );
    std::fs::write(site.path("secret"), "root:secret").unwrap();
    for name in ["secret", "missing"] {
        let policy = serde_json::json!({ "policy": site.path(name) });
        let edit = serde_json::json!({ "key": ["drive"], "value": { "fast": &policy } });
        for (line, body) in [
            ("PATCH /v1/drives/fast", &policy),
            ("PATCH /v1/drives/fast?dry_run=true", &policy),
            ("POST /v1/changes", &serde_json::json!({ "edits": [edit] })),
        ] {
            let answer = ask(line, body);
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            assert!(
                answer.contains("drive.fast.policy: a file can be named"),
                "{answer}"
            );
            assert!(!answer.contains("secret:"), "{answer}");
        }
    }
    // A client must not extend its own rights by changing manage.storage.
    let everything =
        serde_json::json!({ "edits": [{ "key": ["manage", "storage"], "value": ["/"] }] });
    assert!(ask("POST /v1/changes", &everything).contains(" 422 "));
}

#[test]
fn browsers_need_the_token_and_ask_for_this_machine() {
    let site = Site::new();
    let address = site.management().addresses().http.unwrap();
    let (host, token) = (format!("Host: {address}"), site.token());
    let status = |line: &str, headers: &[&str]| {
        let answer = site.http(&request(line, &headers.join("\r\n")));
        answer.split(' ').nth(1).unwrap_or("none").to_owned()
    };
    let bearer = format!("Authorization: Bearer {token}");
    let get = "GET /v1/status";
    assert_eq!(status(get, &[&host, &bearer]), "200");
    assert_eq!(status(get, &[&host]), "401");
    assert_eq!(
        status(get, &[&host, "Authorization: Bearer 0123456789abcdef"]),
        "401"
    );
    assert_eq!(status(get, &["Host: evil.example", &bearer]), "421");
    assert_eq!(status("GET /", &[&host]), "200");
    assert_eq!(status("GET /", &["Host: evil.example"]), "421");
    assert_eq!(status("GET /healthz", &[&host]), "200");
    let change = "POST /v1/reload?dry_run=true";
    assert_eq!(status(change, &[&host, &bearer]), "200");
    assert_eq!(
        status(change, &[&host, &bearer, "Origin: http://evil.example"]),
        "403"
    );
    assert_eq!(
        status(change, &[&host, &bearer, "Sec-Fetch-Site: cross-site"]),
        "403"
    );
    let page = site.http(&request("GET /", &host));
    let head = page.split("\r\n\r\n").next().unwrap();
    for guard in [
        "content-security-policy: default-src 'none'",
        "nosniff",
        "no-store",
    ] {
        assert!(head.contains(guard), "{head}");
    }
    assert!(!page.contains(&token));
}

#[test]
fn the_address_of_metrics_serves_only_metrics() {
    let site = Site::new();
    let address = site.management().addresses().metrics.unwrap();
    let once = |line: &str| asked(address, &request(line, "Host: elsewhere"));
    // On a busy machine, a shard can need more than the second that it has for its reply.
    let ask = |line: &str| {
        let answers = std::iter::repeat_with(|| once(line)).take(30);
        let mut settled = answers.skip_while(|answer| answer.starts_with("HTTP/1.1 503 "));
        settled.next().expect("the shards answer in the end")
    };
    let metrics = ask("GET /metrics");
    assert!(
        metrics.contains("\r\ncontent-type: text/plain; version=0.0.4"),
        "{metrics}"
    );
    assert!(
        metrics.contains("weir_connections{volume=\"alpha\"} 0"),
        "{metrics}"
    );
    let full = ask("GET /metrics?detail=full");
    assert!(full.len() > metrics.len(), "{full}\n{metrics}");
    assert!(ask("GET /readyz").ends_with("ok\n"));
    assert!(ask("GET /v1/config").contains("[volume.alpha]   # the first"));
    for other in [
        "GET /v1/status",
        "GET /",
        "POST /v1/reload",
        "POST /metrics",
    ] {
        assert!(ask(other).starts_with("HTTP/1.1 404 "), "{other}");
    }
}

#[test]
fn malformed_requests_are_refused_and_the_next_one_is_served() {
    // Not HTTP, a length beyond 64 bits, a TLS handshake, invalid JSON, invalid UTF-8, and an
    // encoded path that leads upwards.
    let site = Site::new();
    for (bytes, said) in [
        (&b"rubbish\r\n\r\n"[..], "HTTP/1.1 400 "),
        (b"GET /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999999999999999\r\n\r\n", "HTTP/1.1 400 "),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "HTTP/1.1 400 "),
        (b"PATCH /v1/volumes/alpha HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\n{{{", "HTTP/1.1 400 "),
        (b"GET /v1/volumes/%ff%fe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 400 "),
        (b"GET /v1/volumes/..%2f..%2fetc HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 "),
    ] {
        let answer = site.raw(bytes);
        assert!(answer.starts_with(said), "{}: {answer}", String::from_utf8_lossy(bytes));
    }
    // A head of 1 MiB is beyond the limit of 16 KiB.
    let long = [
        b"GET /".as_slice(),
        &vec![b'a'; 1 << 20],
        b" HTTP/1.1\r\n\r\n",
    ]
    .concat();
    let answer = site.raw(&long);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    // 40 chunks of 64 KiB are 2.5 MiB, beyond the limit of 1 MiB for a body.
    let head = "PATCH /v1/volumes/alpha HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut endless = head.as_bytes().to_vec();
    for _ in 0..40 {
        endless.extend_from_slice(b"10000\r\n");
        endless.extend_from_slice(&vec![b' '; 1 << 16]);
        endless.extend_from_slice(b"\r\n");
    }
    let answer = site.raw(&endless);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413 "),
        "{answer}"
    );
    let _: Status = site.get("/v1/status");
}

#[test]
fn silent_clients_leave_room_for_a_request() {
    let site = Site::new();
    let address = site.management().addresses().http.unwrap();
    let mut silent = Vec::new();
    // More than three times the 128 places of a listener.
    for n in 0..400 {
        let mut stream = TcpStream::connect(address).unwrap();
        if n % 2 == 0 {
            stream.write_all(b"GET /v1/sta").unwrap();
        }
        silent.push(stream);
    }
    let mut local = Vec::new();
    for _ in 0..400 {
        local.push(UnixStream::connect(site.path("manage.sock")).unwrap());
    }
    let _: Status = site.get("/v1/status");
    let headers = format!("Host: {address}\r\nAuthorization: Bearer {}", site.token());
    let answer = site.http(&request("GET /v1/status", &headers));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn event_streams_survive_a_crowd_of_connections() {
    let site = Site::new();
    let mut lines = site.client.events().unwrap();
    lines.next(PATIENCE).unwrap();
    let _many: Vec<UnixStream> = (0..300)
        .map(|_| UnixStream::connect(site.path("manage.sock")).unwrap())
        .collect();
    for _ in 0..3 {
        assert!(lines.next(PATIENCE).unwrap().is_some());
    }
}

/// Sends a request over a connection that stays open. Returns false if the server has closed it.
fn asks_again(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let asked = stream.write_all(b"GET /v1/config HTTP/1.1\r\nHost: x\r\n\r\n");
    asked.is_ok() && stream.read(&mut [0; 8192]).is_ok_and(|n| n > 0)
}

#[test]
fn busy_clients_leave_room_for_a_scrape() {
    let site = Site::new();
    let address = site.management().addresses().metrics.unwrap();
    let mut busy = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(address).unwrap();
        assert!(asks_again(&mut stream), "a client that connects gets in");
        busy.push(stream);
    }
    for _ in 0..5 {
        busy.retain_mut(asks_again);
        let answer = asked(address, &request("GET /healthz", "Host: x"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    // 200 clients compete for 128 places. A new client may displace others of its host, so that
    // some remain and some do not.
    assert!((64..=128).contains(&busy.len()), "{} stay", busy.len());
}

#[test]
fn event_streams_leave_room_for_a_request() {
    let site = Site::new();
    let address = site.management().addresses().http.unwrap();
    let headers = format!("Host: {address}\r\nAuthorization: Bearer {}", site.token());
    let listen = format!("GET /v1/events HTTP/1.1\r\n{headers}\r\n\r\n");
    let listens = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(listen.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (head, stream)
    };
    let statuses = (0..128).map(|_| listens());
    let (streams, refused): (Vec<_>, Vec<_>) =
        statuses.partition(|(head, _)| *head == *b"HTTP/1.1 200");
    assert_eq!((streams.len(), refused.len()), (64, 64));
    assert!(refused.iter().all(|(head, _)| *head == *b"HTTP/1.1 503"));
    let answer = site.http(&request("GET /v1/status", &headers));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // A stream that ends leaves its place to another.
    drop(streams);
    let begun = std::time::Instant::now();
    while listens().0 != *b"HTTP/1.1 200" {
        assert!(begun.elapsed() < PATIENCE);
    }
}
