//! `weir ctl` beside a running server: what it prints, and what it says where something is wrong.

mod common;

use common::running::{Running, start};
use common::{Said, Scratch, run, weir};

const CONFIG: &str = r#"
[drive.fast]
capacity = { read = "160MB/s", write = "120MB/s" }
[listen]
nbd = ["unix:SOCKET"]
[manage]
socket = "MANAGE"
[tenant.acme]
drive = "fast"
min = "30MB/s"
[volume.alpha]   # the first
drive = "fast"
memory = true
size = "1MiB"
min = "10MB/s"
"#;

struct Site {
    scratch: Scratch,
    server: Option<Running>,
}

impl Site {
    fn new() -> Self {
        let scratch = Scratch::new();
        let path = |name| scratch.path(name).display().to_string();
        let text = CONFIG.replace("SOCKET", &path("nbd.sock"));
        scratch.file("weir.toml", &text.replace("MANAGE", &path("manage.sock")));
        let server = start(&mut weir(&scratch, &["serve", "weir.toml"]));
        Self {
            scratch,
            server: Some(server),
        }
    }

    fn ctl(&self, arguments: &str) -> Said {
        let socket = self.scratch.path("manage.sock").display().to_string();
        let mut all = vec!["ctl"];
        all.extend(arguments.split(' '));
        if !all.contains(&"--socket") {
            all.extend(["--socket", &socket]);
        }
        run(&self.scratch, &all)
    }

    /// What it prints; it must succeed.
    fn said(&self, arguments: &str) -> String {
        let ended = self.ctl(arguments);
        assert_eq!(ended.status, Some(0), "{arguments}: {}", ended.err);
        assert_eq!(ended.err, "", "{arguments}");
        ended.out
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.scratch.path("weir.toml")).expect("it is there")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(server) = self.server.take().filter(|_| !std::thread::panicking()) {
            server.end();
        }
    }
}

#[test]
fn a_server_is_asked_and_changed_in_the_words_of_its_file() {
    let site = Site::new();
    let status = site.said("status");
    for part in [
        "fast",
        "40MB/s",
        "68MB/s",
        "acme",
        "30MB/s",
        "weir.toml",
        "volumes: 1",
    ] {
        assert!(status.contains(part), "{part} in\n{status}");
    }
    let tried = site.said("set alpha min=20MB/s --dry-run");
    assert_eq!(
        tried,
        "volume.alpha.min = \"20MB/s\" (was \"10MB/s\")\n\
         drive.fast: 50MB/s promised, 41.7 % of the drive's time; 58MB/s left\n\
         tried only: nothing has changed\n"
    );
    let made = site.said("set alpha min=20MB/s max.bandwidth=50MB/s share=200");
    assert!(made.ends_with("change 1, saved\n"), "{made}");
    site.said("add beta drive=fast memory=true size=1MiB tenant=acme");
    site.said("grow beta 2MiB");
    let list = site.said("list");
    for part in ["alpha", "20MB/s", "50MB/s", "200", "beta", "2MiB"] {
        assert!(list.contains(part), "{part} in\n{list}");
    }
    let shown = site.said("show alpha");
    assert!(shown.contains("config.min = \"20MB/s\"\n"), "{shown}");
    let shown = site.said("show tenant.acme --json");
    assert!(shown.starts_with("{\"name\":\"acme\","), "{shown}");
    site.said("remove beta");
    let undone = site.said("undo");
    assert!(undone.starts_with("volume.beta was added\n"), "{undone}");
    site.said("set drive.fast capacity.write=140MB/s --no-save");
    let changes = site.said("changes");
    assert_eq!(changes.lines().count(), 6, "{changes}");
    assert!(
        changes.lines().next().unwrap().ends_with("in memory only"),
        "{changes}"
    );
    let text = site.text();
    assert!(
        text.contains("[volume.alpha]   # the first") && text.contains("120MB/s"),
        "{text}"
    );
    site.said("reload");
    assert!(site.said("status").contains("108MB/s") || site.said("status").contains("120MB/s"));
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let site = Site::new();
    let before = site.text();
    for (arguments, status, said) in [
        (
            "set alpha min=200MB/s",
            1,
            "at most 90 % (108MB/s) may be promised\n  help: ",
        ),
        (
            "set alpha min=20MB",
            1,
            "volume.alpha.min: \"20MB\" is a size, not a rate\n  help: write \"20MB/s\"\n",
        ),
        ("set alpha mni=20MB/s", 1, "did you mean"),
        (
            "set nobody min=1MB/s",
            1,
            "error: there is no volume \"nobody\"\n",
        ),
        ("set alpha min", 2, "is not KEY=VALUE"),
        ("set alpha", 2, "KEY=VALUE"),
        (
            "add alpha drive=fast memory=true size=1MiB",
            1,
            "there is a volume \"alpha\" already",
        ),
        ("grow alpha 1kiB", 1, "size"),
        ("remove drive.fast", 1, "things are wrong"),
        ("undo", 1, "there is no change to undo"),
        ("undo 7", 1, "change 7 is not known"),
        (
            "set alpha share=3 --if-match \"x\"",
            1,
            "has been changed since it was read",
        ),
        (
            "status --socket /nowhere/x.sock",
            1,
            "help: is it running, with a socket in [manage]?",
        ),
        ("frobnicate", 2, "unrecognized subcommand"),
    ] {
        let ended = site.ctl(arguments);
        assert_eq!(ended.status, Some(status), "{arguments}: {}", ended.err);
        assert!(ended.err.contains(said), "{arguments}: {}", ended.err);
        assert_eq!(ended.out, "", "{arguments}");
    }
    assert_eq!(site.text(), before);
}
