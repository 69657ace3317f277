//! A server with its management interface, in a directory of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use weir_manage::api::{Error, ManagementClient, Outcome};
use weir_manage::{ConfigSource, Management};
use weir_serve::{LiveServer, ServerOptions};

/// The maximum time to wait for a reply on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const VOLUMES: &str = "
# Ours.
[drive.fast]
capacity = { read = \"160MB/s\", write = \"120MB/s\", iops = 5000 }

[tenant.acme]
drive = \"fast\"
min = \"30MB/s\"

[volume.alpha]   # the first
drive = \"fast\"
memory = true
size = \"16MiB\"
min = \"10MB/s\" # until May

[volume.beta]
drive = \"fast\"
memory = true
size = \"16MiB\"
tenant = \"acme\"
";

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) management: Option<Management>,
    pub(crate) client: ManagementClient,
    directory: PathBuf,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with(VOLUMES)
    }

    pub(crate) fn with(volumes: &str) -> Self {
        // The tests of a process run in parallel.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-manage-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let at = directory.display();
        let text = format!(
            "[listen]\nnbd = [\"unix:{at}/nbd.sock\"]\nmetrics = \"127.0.0.1:0\"\n\
             [manage]\nsocket = \"{at}/manage.sock\"\nhttp = \"127.0.0.1:0\"\ntoken_file = \"{at}/token\"\n{volumes}"
        );
        fs::write(directory.join("weir.toml"), text).unwrap();
        Self {
            management: Some(start(&directory)),
            client: ManagementClient::new(&directory.join("manage.sock")).unwrap(),
            directory,
        }
    }

    pub(crate) fn management(&self) -> &Management {
        self.management.as_ref().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.path("weir.toml")).unwrap()
    }

    pub(crate) fn token(&self) -> String {
        fs::read_to_string(self.path("token"))
            .unwrap()
            .trim()
            .to_owned()
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        self.client.get(path).unwrap()
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Outcome {
        self.client.send(method, path, body, None).unwrap()
    }

    /// Changes keys of a volume.
    pub(crate) fn set(&self, volume: &str, words: &Value) -> Outcome {
        self.send("PATCH", &format!("/v1/volumes/{volume}"), words)
    }

    /// Checks that a request is refused with this status and a reason that contains this text.
    #[track_caller]
    pub(crate) fn refuses(&self, method: &str, path: &str, body: &Value, refusal: (u16, &str)) {
        let (status, why) = self.refused(method, path, body);
        let is_so = status == refusal.0 && why.contains(refusal.1);
        assert!(is_so, "{method} {path} {body}: {status} {why}");
    }

    /// Returns the status and the reason of a refusal.
    pub(crate) fn refused(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let asked: Result<Outcome, Error> = self.client.send(method, path, body, None);
        match asked.unwrap_err() {
            Error::Refused { status, refusal } => (status, refusal.error),
            other => panic!("{other}"),
        }
    }

    /// Ends the server and starts it again from its file.
    pub(crate) fn restart(&mut self) {
        self.end();
        self.management = Some(start(&self.directory));
    }

    fn end(&mut self) {
        let server = self.management.take().and_then(Management::end);
        assert!(server.is_none_or(LiveServer::shutdown));
    }

    /// Sends bytes to the Unix socket and returns the response.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let stream = UnixStream::connect(self.path("manage.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        talk(stream, bytes)
    }

    /// Sends bytes to the address for browsers and returns the response.
    pub(crate) fn http(&self, bytes: &[u8]) -> String {
        asked(self.management().addresses().http.unwrap(), bytes)
    }
}

/// Sends bytes to an address and returns the response.
pub(crate) fn asked(address: SocketAddr, bytes: &[u8]) -> String {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    talk(stream, bytes)
}

impl Drop for Site {
    // A test that has failed reports its own panic, not that of the shutdown.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn start(directory: &Path) -> Management {
    let file = directory.join("weir.toml");
    let (name, text) = weir_config::file_text(&file).unwrap();
    let config = weir_config::parse(&name, &text).unwrap();
    let server = LiveServer::start(&config, &ServerOptions::default()).unwrap();
    let source = ConfigSource {
        text,
        file: Some(file),
        file_text: None,
    };
    Management::start(server, source).unwrap()
}

fn talk(mut stream: impl Read + Write, bytes: &[u8]) -> String {
    // The server can refuse a request and close the connection before it has read all of it.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}
