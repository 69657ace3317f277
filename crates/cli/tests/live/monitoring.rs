//! The files in `packaging` for Prometheus and Grafana. `promtool` checks them, and a real
//! Prometheus uses them with a real server under load.
//!
//! The tests need `prometheus` and `promtool`, either in `target/monitoring` (where `./test` puts
//! Debian's) or installed. Without these, they are skipped with a message, unless `WEIR_NO_SKIP=1`
//! forbids it.

use crate::common::program::skip;
use crate::common::running::{fleet, serve};
use crate::common::{Scratch, free_port, get, root, wait};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_model::client::Address;
use weir_model::load::Program;

fn packaging(path: &str) -> PathBuf {
    let root = root().join("packaging");
    root.join(path).canonicalize().unwrap()
}

/// Returns the path of a program of Prometheus. `None`, with a message, if it is not installed.
fn program(name: &str) -> Option<PathBuf> {
    let fetched = root().join("target/monitoring");
    let places = [fetched.join(name), Path::new("/usr/bin").join(name)];
    let found = places.into_iter().find(|path| path.exists());
    if found.is_none() {
        skip(&format!("{name} is not there"));
    }
    found
}

/// Runs promtool, which must succeed.
fn promtool(arguments: &[&str], input: &str) {
    let Some(promtool) = program("promtool") else {
        return;
    };
    let mut child = Command::new(promtool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let said = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = text(&said.stdout) + &text(&said.stderr);
    assert!(said.status.success(), "{arguments:?}: {all}");
    // For `check metrics`, promtool prints warnings without failing.
    assert!(!arguments.contains(&"metrics") || all.is_empty(), "{all}");
}

#[test]
fn the_alert_rules_are_valid_and_each_alert_has_a_passing_test() {
    let rules = packaging("prometheus/weir.rules.yml");
    promtool(&["check", "rules", rules.to_str().unwrap()], "");
    let tests = packaging("prometheus/weir.test.yml");
    promtool(&["test", "rules", tests.to_str().unwrap()], "");
    // The tests of the rules must have a case for each alert in which it fires.
    let tests = fs::read_to_string(tests).unwrap();
    let rules = fs::read_to_string(rules).unwrap();
    let alerts = rules.lines().filter_map(|l| l.split_once("- alert: "));
    let fires = |alert: &str| format!("alertname: {alert}\n        exp_alerts:");
    for (_, alert) in alerts {
        assert!(tests.contains(&fires(alert)), "{alert} never fires");
    }
}

/// Returns the expressions of the dashboard's panels, with Grafana's variables replaced.
fn dashboard() -> Vec<String> {
    let text = fs::read_to_string(packaging("grafana/weir.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let expressions = targets.flatten().map(|t| t["expr"].as_str().unwrap());
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    // The form of a variable is `label_values(SELECTOR, LABEL)`.
    let selectors = variables.filter_map(|variable| {
        let query = variable["definition"].as_str()?;
        let query = query.strip_prefix("label_values(")?;
        Some(query.rsplit_once(", ").unwrap().0)
    });
    let all = expressions.chain(selectors).map(|expression| {
        let replaced = expression
            .replace("$__rate_interval", "1m")
            .replace("$instance", ".*")
            .replace("$drive", ".*")
            .replace("$volume", ".*");
        assert!(!replaced.contains('$'), "{replaced}");
        replaced
    });
    all.collect()
}

#[test]
fn every_expression_of_the_dashboard_is_valid() {
    let mut rules = String::from("groups:\n  - name: dashboard\n    rules:\n");
    for (number, expression) in dashboard().iter().enumerate() {
        let expression = expression.replace('\'', "''");
        let _ = write!(
            rules,
            "      - record: panel:{number}\n        expr: '{expression}'\n"
        );
    }
    let scratch = Scratch::new();
    let file = scratch.file("dashboard.yml", &rules);
    promtool(&["check", "rules", file.to_str().unwrap()], "");
}

/// Returns the names of metrics in a text: those of Weir, and those that the rules record.
fn names(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !word(c));
    let named = words.filter(|w| w.starts_with("weir_") || w.contains(":weir_"));
    named.map(str::to_owned).collect()
}

/// A Prometheus with the rules, which scrapes a server four times per second and ends with the
/// test.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    fn start(program: &Path, scratch: &Scratch, weir: u16) -> Self {
        let port = free_port();
        let config = format!(
            // A short interval makes alerts appear within seconds.
            "global: {{ scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms }}\n\
             rule_files: [\"{}\"]\n\
             scrape_configs: [{{ job_name: weir, static_configs: [{{ targets: [\"127.0.0.1:{weir}\"] }}] }}]\n",
            packaging("prometheus/weir.rules.yml").display()
        );
        let config = scratch.file("prometheus.yml", &config);
        let child = Command::new(program)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                scratch.path("tsdb").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, port }
    }

    fn ask(&self, path: &str) -> Value {
        let answer = get(self.port, path).unwrap_or_default();
        serde_json::from_str(&answer).unwrap_or_default()
    }

    /// Returns the state of an alert (pending or firing) with its labels, or `None` if it is
    /// inactive.
    fn alert(&self, alert: &str) -> Option<(String, Value)> {
        let alerts = self.ask("/api/v1/alerts");
        let mut alerts = alerts["data"]["alerts"].as_array()?.iter();
        let found = alerts.find(|a| a["labels"]["alertname"] == alert)?;
        Some((found["state"].as_str()?.to_owned(), found["labels"].clone()))
    }

    fn fires(&self, alert: &str) -> bool {
        self.alert(alert)
            .is_some_and(|(state, _)| state == "firing")
    }

    /// Returns the number of series of an expression, or `None` if Prometheus refuses it.
    fn series(&self, expression: &str) -> Option<usize> {
        let mut query = String::from("/api/v1/query?query=");
        for byte in expression.bytes() {
            // Every byte is percent-encoded, which is valid for any expression.
            let _ = write!(query, "%{byte:02X}");
        }
        Some(self.ask(&query)["data"]["result"].as_array()?.len())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A disk for which the sequential rate was stated as its capacity, so that promises cannot be kept
/// with random reads.
const SLOW: &str = r#"
[listen]
nbd = ["unix:SOCKET"]
metrics = "127.0.0.1:PORT"
[drive.slow]
capacity = { read = "80MB/s", write = "80MB/s" }
model = "hitachi-hts72755"
[tenant.acme]
drive = "slow"
min = "70MB/s"
[volume.alpha]
drive = "slow"
tenant = "acme"
size = "1GiB"
min = "50MB/s"
[volume.beta]
drive = "slow"
size = "1GiB"
"#;

/// Reads and writes the volume `alpha` for some seconds.
fn load(address: &Address) {
    let program = Program {
        writes: 50,
        ..Program::random_reads(65536, 8)
    };
    let fleet = fleet(address, &[("alpha", program)], Duration::from_secs(4));
    assert!(fleet.run(|_| {}).unwrap()[0].error.is_none());
}

#[test]
fn prometheus_scrapes_a_server_under_load_and_alerts_of_a_short_promise() {
    let Some(program) = program("prometheus") else {
        return;
    };
    let scratch = Scratch::new();
    let port = free_port();
    let socket = scratch.at("nbd.sock");
    let config = SLOW.replace("SOCKET", &socket);
    scratch.file("weir.toml", &config.replace("PORT", &port.to_string()));
    let server = serve(&scratch);
    let prometheus = Prometheus::start(&program, &scratch, port);
    wait("Prometheus has asked", || {
        let up = prometheus.ask("/api/v1/query?query=up");
        up["data"]["result"][0]["value"][1] == "1"
    });
    // Without load, no promise can be short.
    assert!(!prometheus.fires("WeirPromiseShort"));
    load(&server.address);
    for alert in [
        "WeirPromiseShort",
        "WeirTenantPromiseShort",
        "WeirDriveSlow",
    ] {
        wait(alert, || prometheus.fires(alert));
    }
    let (_, labels) = prometheus.alert("WeirPromiseShort").unwrap();
    assert_eq!(
        (&labels["volume"], &labels["drive"], &labels["tenant"]),
        (&"alpha".into(), &"slow".into(), &"acme".into())
    );
    // Alerts about other problems must stay silent.
    for alert in ["WeirDown", "WeirSyncFailed", "WeirStorageErrors"] {
        assert_eq!(prometheus.alert(alert), None, "{alert}");
    }
    // The alert is still pending, because it fires after one minute.
    let (state, labels) = prometheus.alert("WeirCapacityExhausted").unwrap();
    assert_eq!((&state[..], &labels["drive"]), ("pending", &"slow".into()));
    let page = get(port, "/metrics").unwrap();
    promtool(&["check", "metrics"], &page);
    promtool(
        &["check", "metrics"],
        &get(port, "/metrics?detail=full").unwrap(),
    );
    // A panel must show something, unless one of its metrics has no samples.
    let quiet = |name: &String| {
        let lines = page.lines().filter_map(|line| line.strip_prefix(&name[..]));
        lines.filter(|rest| rest.starts_with(['{', '_'])).count() == 0
    };
    for expression in dashboard() {
        let series = prometheus.series(&expression);
        let shows = series.is_some_and(|n| n > 0) || names(&expression).iter().any(quiet);
        assert!(shows && series.is_some(), "{expression}: {series:?}");
    }
    // A name that no metric has would leave panels and alerts empty.
    let rules = fs::read_to_string(packaging("prometheus/weir.rules.yml")).unwrap();
    let used = names(&(rules + &dashboard().join("\n")));
    let families = page.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let families: Vec<&str> = families.map(|f| f.split(' ').next().unwrap()).collect();
    let recorded = prometheus.ask("/api/v1/label/__name__/values");
    let recorded: Vec<&str> = recorded["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for name in used {
        let said = families.contains(&&name[..]) || recorded.contains(&&name[..]);
        assert!(
            said,
            "{name} is in a rule or the dashboard, and nowhere else"
        );
    }
    drop(prometheus);
    server.end();
}
