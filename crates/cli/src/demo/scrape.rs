//! Where the time of requests went, as the server itself tells at `GET /metrics`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use weir_measure::SplitUs;

/// The sums of each volume so far, and how long the drive was served and busy, in seconds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Scrape {
    volumes: BTreeMap<String, Sums>,
    served: f64,
    busy: f64,
}

/// Seconds that a volume's requests spent in each stage, and how many requests these were.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sums {
    limit: f64,
    elevator: f64,
    drive: f64,
    requests: f64,
}

/// The server answers at once, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(2);

impl Scrape {
    /// Asks the server.
    ///
    /// # Errors
    /// It cannot be reached, or does not answer.
    pub(crate) fn read(server: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        Ok(Self::parse(&page))
    }

    /// Where a mean request's time went between an earlier scrape and this one; `None` if there was no request.
    pub(crate) fn since(&self, earlier: &Self, volume: &str) -> Option<SplitUs> {
        let now = self.volumes.get(volume)?;
        let then = earlier.volumes.get(volume).copied().unwrap_or_default();
        let requests = now.requests - then.requests;
        let mean = |now: f64, then: f64| (now - then) * 1e6 / requests;
        (requests > 0.0).then(|| SplitUs {
            limit: mean(now.limit, then.limit),
            elevator: mean(now.elevator, then.elevator),
            drive: mean(now.drive, then.drive),
            ..SplitUs::default()
        })
    }

    /// Between an earlier scrape and this one, for how much of the time the drive was busy, in whole percent.
    pub(crate) fn busy_percent(&self, earlier: &Self) -> Option<u64> {
        let served = self.served - earlier.served;
        let part = (self.busy - earlier.busy) / served;
        (served > 0.0).then(|| (part.clamp(0.0, 1.0) * 100.0).round() as u64)
    }

    fn parse(page: &str) -> Self {
        let mut all = Self::default();
        for line in page.lines() {
            let of_drive = |name| {
                let labels = line.strip_prefix(name)?.strip_prefix('{')?;
                labels.rsplit_once("} ")?.1.parse::<f64>().ok()
            };
            all.served += of_drive("weir_drive_seconds_total").unwrap_or(0.0);
            all.busy += of_drive("weir_drive_busy_seconds_total").unwrap_or(0.0);
            let sum = line.strip_prefix("weir_wait_seconds_total{");
            let count = line.strip_prefix("weir_latency_seconds_count{");
            let Some((labels, value)) = sum.or(count).and_then(|rest| rest.split_once("} ")) else {
                continue;
            };
            let (Some(volume), Ok(value)) = (label(labels, "volume"), value.parse()) else {
                continue;
            };
            let sums = all.volumes.entry(volume.to_owned()).or_default();
            match label(labels, "stage") {
                Some("limit") => sums.limit = value,
                Some("elevator") => sums.elevator = value,
                Some("drive") => sums.drive = value,
                Some(_) => {}
                None => sums.requests = value,
            }
        }
        all
    }
}

/// The value of a label; the demo's names need no escapes.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(elevator: f64, requests: u32) -> String {
        // What is zero is left out.
        format!(
            "HTTP/1.1 200 OK\r\n\r\n# TYPE weir_wait_seconds_total counter\n\
             weir_wait_seconds_total{{volume=\"target\",stage=\"elevator\"}} {elevator}\n\
             weir_wait_seconds_total{{volume=\"target\",stage=\"drive\"}} 0.5\n\
             # TYPE weir_latency_seconds histogram\n\
             weir_latency_seconds_bucket{{volume=\"target\",le=\"+Inf\"}} 7\n\
             weir_latency_seconds_sum{{volume=\"target\"}} 3.5\n\
             weir_latency_seconds_count{{volume=\"target\"}} {requests}\n"
        )
    }

    #[test]
    fn a_split_is_the_mean_between_two_scrapes() {
        let (first, second) = (
            Scrape::parse(&page(1.0, 100)),
            Scrape::parse(&page(1.5, 1100)),
        );
        let split = second.since(&first, "target").unwrap();
        assert!((split.elevator - 500.0).abs() < 1e-6, "{split:?}");
        assert!(split.limit.abs() < 1e-9 && split.drive.abs() < 1e-9);
        assert_eq!(second.since(&second, "target"), None);
        assert_eq!(second.since(&first, "other"), None);
        assert_eq!(Scrape::parse("no metrics"), Scrape::default());
    }

    #[test]
    fn a_drive_is_busy_for_a_part_of_the_time_between_two_scrapes() {
        let page = |served: f64, busy: f64| {
            let line = |name, value| format!("weir_drive_{name}_total{{drive=\"demo\"}} {value}\n");
            Scrape::parse(&(line("seconds", served) + &line("busy_seconds", busy)))
        };
        let (first, second) = (page(1.0, 0.5), page(3.0, 1.249));
        assert_eq!(second.busy_percent(&first), Some(37));
        assert_eq!(first.busy_percent(&first), None);
    }
}
