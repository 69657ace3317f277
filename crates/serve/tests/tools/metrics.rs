//! What the server says of itself at `GET /metrics`.

use std::io::{Read, Write};
use std::net::TcpStream;

use weir_serve::Server;

/// One answer.
#[derive(Debug)]
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) fn of(server: &Server) -> Self {
        let address = server.metrics_address().expect("listen.metrics is set");
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .write_all(b"GET /metrics?detail=full HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        Self(text)
    }

    /// The sum of the samples of that name that have all these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let lines = self.0.lines().filter_map(|line| line.strip_prefix(name));
        let lines = lines.filter(|rest| rest.starts_with(['{', ' ']));
        let matching = lines.filter(|rest| {
            labels
                .iter()
                .all(|(label, value)| rest.contains(&format!("{label}=\"{value}\"")))
        });
        let values: Vec<f64> = matching
            .map(|rest| rest.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect();
        assert!(!values.is_empty(), "no {name} {labels:?} in\n{}", self.0);
        values.iter().sum()
    }
}
