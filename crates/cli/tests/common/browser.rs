//! Headless Chromium, which is driven through Debian's `chromium-driver`.

use crate::common::program::skip;
use crate::common::running::{RunningServer, start};
use crate::common::{Scratch, wait, weir};
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The token of every server in these tests.
pub(crate) const TOKEN: &str = "a-token-for-these-tests";

/// A running server with a dashboard.
pub(crate) struct DashboardSite {
    server: Option<RunningServer>,
    /// The address at which its clients connect.
    pub(crate) address: weir_model::client::Address,
    /// The URL of the dashboard.
    pub(crate) url: String,
}

impl DashboardSite {
    /// Starts a server with a modelled drive `fast` and the sections in `volumes`.
    pub(crate) fn start(scratch: &Scratch, volumes: &str) -> Self {
        let path = |name| scratch.at(name);
        let text = format!(
            "[drive.fast]\nmodel = \"demo\"\n[listen]\nnbd = [\"unix:{}\"]\n[manage]\nsocket = \"{}\"\nhttp = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n{volumes}",
            path("nbd.sock"),
            path("manage.sock"),
            path("token"),
        );
        Self::of(scratch, &text, "")
    }

    /// Starts a server with this configuration and further arguments. Its token is in the file
    /// `token`.
    pub(crate) fn of(scratch: &Scratch, text: &str, options: &str) -> Self {
        scratch.file("weir.toml", text);
        scratch.file("token", TOKEN);
        let server = start(&mut weir(scratch, &format!("serve weir.toml {options}")));
        wait("the dashboard is said", || server.says("dashboard at "));
        let log = server.log.lock().unwrap().clone();
        let (_, url) = log.split_once("dashboard at ").unwrap();
        let url = url.lines().next().unwrap().to_owned();
        Self {
            address: server.address.clone(),
            server: Some(server),
            url,
        }
    }

    /// Asks the server to end, and checks that it ends without an error.
    pub(crate) fn end(mut self) {
        self.server.take().expect("it runs").end();
    }
}

impl Drop for DashboardSite {
    /// Kills the server if the test failed before its end.
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
    }
}

/// Runs a test in a browser, which is ended afterwards even if the test panics. Skips the test if
/// no browser is installed.
pub(crate) fn browse<F>(test: impl FnOnce(BrowserPage) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(mut driver) = BrowserDriver::start() else {
        skip("chromedriver is not installed");
        return;
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let ended = runtime.block_on(async {
        let client = driver.connect().await;
        // The test is a task of its own, so that the session is closed even after a panic.
        let ended = tokio::spawn(test(BrowserPage(client.clone()))).await;
        client.close().await.unwrap();
        ended
    });
    driver.end();
    if let Err(panicked) = ended {
        std::panic::resume_unwind(panicked.into_panic());
    }
}

struct BrowserDriver {
    child: Child,
    url: String,
}

impl BrowserDriver {
    fn start() -> Option<Self> {
        let mut command = Command::new("chromedriver");
        // With port 0, the system chooses a free port.
        command.arg("--port=0").stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().ok()?;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            Some(port.trim_end_matches('.').to_owned())
        });
        // The driver writes further lines. If nobody read them, the full pipe would block the
        // driver.
        std::thread::spawn(move || lines.count());
        let url = format!("http://127.0.0.1:{}", port.expect("it says its port"));
        Some(Self { child, url })
    }

    async fn connect(&self) -> Client {
        // Chromium has no sandbox if it runs as root, and tests may run as root.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            // The dashboard draws only visible rows, so the window must be high enough for all of
            // them.
            "--window-size=1200,1400",
        ];
        let capabilities = json!({
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let Value::Object(capabilities) = capabilities else {
            unreachable!("it is an object")
        };
        let client = builder.capabilities(capabilities).connect(&self.url).await;
        client.expect("chromedriver starts a session")
    }

    fn end(&mut self) {
        // The session is closed already, and the browser has ended with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A page in the browser.
#[derive(Clone)]
pub(crate) struct BrowserPage(pub(crate) Client);

impl BrowserPage {
    /// Runs JavaScript as the body of a function, and returns its result.
    pub(crate) async fn ask(&self, script: &str) -> Value {
        self.0.execute(script, Vec::new()).await.expect(script)
    }

    /// Returns the visible text of the first element that matches a selector.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({selector:?})?.innerText ?? ''");
        let text = self.ask(&script).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a JavaScript expression is true.
    pub(crate) async fn wait(&self, expression: &str) {
        let begin = Instant::now();
        let script = format!("return Boolean({expression})");
        while self.ask(&script).await != true {
            if begin.elapsed() > Duration::from_mins(1) {
                let shown = self.text("body").await;
                panic!("never true: {expression}\n{shown}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Types into the element that has the focus. `\u{e007}` is Enter.
    pub(crate) async fn keys(&self, keys: &str) {
        let focused = self.0.active_element().await.unwrap();
        focused.send_keys(keys).await.unwrap();
    }
}
