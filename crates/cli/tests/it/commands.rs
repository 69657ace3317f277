//! The output of the commands, if they are used correctly and incorrectly.

use crate::common::{Scratch, golden, has, in_scratch, run, weir, words};
use std::fs;
use std::path::Path;
use std::process::Stdio;

const GOOD: &str = r#"
[drive.fast]
capacity = { read = "160MB/s", write = "120MB/s" }
[drive.plain]
policy = "none"
[listen]
nbd = ["unix:/run/weir/nbd.sock"]
[tenant.acme]
drive = "fast"
min = "50MB/s"
[volume.alpha]
drive = "fast"
memory = true
size = "1GiB"
tenant = "acme"
min = "20MB/s"
[volume.beta]
drive = "fast"
memory = true
size = "1GiB"
min = "10MB/s"
[volume.gamma]
drive = "plain"
memory = true
size = "1GiB"
"#;

/// A configuration with several errors at once.
const BAD: &str = r#"
[drive.fast]
capacity = { read = "160MB/s", write = "120MB/s" }
[listen]
nbd = ["unix:/run/weir/nbd.sock"]
[volume.alpha]
drive = "fats"
memory = true
size = "1GiB"
[volume.beta]
drive = "fast"
memory = true
size = "1GB"
mni = "10MB/s"
min = "10MB"
"#;

/// A configuration that promises more than the drive can do: 110 of 120 MB/s are more than 90 %.
const FULL: &str = r#"
[drive.fast]
capacity = { read = "160MB/s", write = "120MB/s" }
[listen]
nbd = ["unix:/run/weir/nbd.sock"]
[volume.alpha]
drive = "fast"
memory = true
size = "1GiB"
min = "100MB/s"
[volume.beta]
drive = "fast"
memory = true
size = "1GiB"
min = "10MB/s"
"#;

#[test]
fn usage() {
    let scratch = Scratch::new();
    golden(
        "usage",
        &scratch,
        "
--help
demo --help
compare --help
serve --help
calibrate --help
init --help
import --help
check --help
explain --help
replay --help
policies --help
drives --help
drives fit --help
drives validation --help
drives figures --help
scenarios --help
completion --help
man --help
demos
check
--log loud policies
",
    );
}

#[test]
fn lists() {
    golden(
        "lists",
        &Scratch::new(),
        "\
policies
drives
scenarios
",
    );
}

#[test]
fn drives() {
    let scratch = Scratch::new();
    let stripe =
        "kind = \"stripe\"\nmembers = [\"demo\", { kind = \"null\", service = \"1ms\" }]\n";
    scratch.file(
        "two.toml",
        &format!("name = \"two\"\nabout = \"a pair\"\n{stripe}"),
    );
    scratch.file(
        "bad.toml",
        &format!("nam = \"two\"\nchunk = \"1kB\"\n{stripe}"),
    );
    golden(
        "drives",
        &scratch,
        "\
drives scsi-debug
drives two.toml
drives bad.toml
drives nowhere.toml
drives samsung-970
drives floppy
drives fit floppy
",
    );
}

#[test]
fn policies() {
    let scratch = Scratch::new();
    golden(
        "policies",
        &scratch,
        "\
policies none
policies bfq
policies contract
policies 'io.max + bfq-linux + io.latency'
policies bqf
policies nowhere.toml
",
    );
    // The printed policy can be read back. A different policy under the same name is refused.
    let said = run(&scratch, "policies bfq");
    scratch.file("mine.toml", &said.out);
    let again = run(&scratch, "policies mine.toml");
    assert_eq!((again.status, &again.out), (Some(0), &said.out));
    scratch.file(
        "mine.toml",
        &said
            .out
            .replace("charge = \"linux\"", "charge = \"service\""),
    );
    // A policy with the name of a shipped one must be identical to it.
    let other = run(&scratch, "policies mine.toml").ended(1);
    has(&other.err, "use another name");
}

#[test]
fn demo_refuses() {
    let scratch = Scratch::new();
    scratch.file("text", "not a device\n");
    golden(
        "demo-refuses",
        &scratch,
        "\
demo --seconds 0
demo --seconds long
demo --policy contrakt
demo --policy 'bfq + none'
demo --scenario share
demo --on linux
demo --file a --device b
demo --on sim --file a
demo --on sim --priority high
demo --priority highest
demo --drive plextor-px-256m5
demo --drive nowhere.toml
demo --drive demo --file a
demo --html nowhere/demo.html
demo --html .
demo --html -
demo --json nowhere/demo.json
demo --file .
demo --file text
demo --file nowhere/image
demo --device missing
demo --device text
demo --device /dev/null
demo --file /dev/null
",
    );
    assert_eq!(scratch.names(), ["text"], "nothing is left");
}

/// Promises in bytes and in requests, on a drive whose capacity comes from its model.
const MODELLED: &str = r#"
[drive.disk]
model = "hitachi-hts72755"

[drive.stated]
rotational = true
capacity = { read = "160MB/s", write = "120MB/s", read_iops = 170, write_iops = 300 }

[listen]
nbd = ["unix:/run/weir/nbd.sock"]

[volume.alpha]
drive = "disk"
size = "1GiB"
min = "10MB/s"
[volume.beta]
drive = "disk"
size = "1GiB"
min_iops = 50
[volume.gamma]
drive = "stated"
memory = true
size = "1GiB"
min = "10MB/s"
"#;

#[test]
fn check() {
    let scratch = Scratch::new();
    let run = scratch.at("");
    let here = |text: &str| text.replace("/run/weir/", &run);
    let [good, modelled] = [GOOD, MODELLED].map(here);
    scratch.file("good.toml", &good);
    scratch.file("bad.toml", BAD);
    scratch.file("full.toml", FULL);
    // A min under `bfq` is a weight, which gives a warning.
    let kept = good.replace(
        "[drive.plain]\npolicy = \"none\"",
        "[drive.plain]\npolicy = \"bfq\"\ncapacity = { read = \"1GB/s\", write = \"1GB/s\" }",
    );
    scratch.file("warned.toml", &(kept + "min = \"10MB/s\"\n"));
    scratch.file("modelled.toml", &modelled);
    // 120 requests/s next to 10 MB/s take 93.5 % of the disk's time, and the stated capacity
    // exceeds that of the model.
    let beyond = modelled
        .replace("min_iops = 50", "min_iops = 120")
        .replace("rotational = true", "model = \"hitachi-hts72755\"");
    scratch.file("beyond.toml", &beyond.replace("memory = true\n", ""));
    // The images exist, can be created, or cannot be used.
    scratch.file("alpha.img", &"x".repeat(8192));
    let here = scratch.at("");
    // Not every file system supports reads that bypass the page cache.
    let image = |name: &str, path: &str, more: &str| {
        let cached = "drive = \"plain\"\ncache = \"host\"";
        format!("[volume.{name}]\n{cached}\nfile = \"{here}{path}\"\n{more}")
    };
    let size = "size = \"1GiB\"\n";
    let files = [
        good.clone(),
        image("one", "alpha.img", ""),
        image("two", "new.img", size),
    ]
    .concat();
    scratch.file("files.toml", &files);
    let lost = [
        files,
        image("dir", "", ""),
        image("gone", "gone.img", ""),
        image("nowhere", "nowhere/new.img", size),
        image("other", "alpha2.img", "read_only = true\n"),
    ];
    scratch.file("lost.toml", &lost.concat());
    golden(
        "check",
        &scratch,
        "\
check good.toml
check bad.toml
check full.toml
check warned.toml
check modelled.toml
check beyond.toml
check lost.toml
check missing.toml
check .
",
    );
    // Paths and free space differ between machines, so that a golden text cannot hold them.
    images_are_listed(&scratch);
}

/// Checks the list of images in the output of `check`: their paths, their sizes, and those that
/// will be created.
fn images_are_listed(scratch: &Scratch) {
    let said = run(scratch, "check files.toml").ended(0);
    // A note appears if this machine's disk rotates, although `drive.plain` does not. That depends
    // on the machine.
    let mut told = said.err.lines();
    assert!(
        told.next()
            .is_none_or(|line| line.contains(".rotational: is not set"))
            && told.nth(1).is_none(),
        "{}",
        said.err
    );
    // The file system of the image and its free space depend on the machine.
    let row = |volume: &str| {
        let line = said.out.lines().find(|line| line.starts_with(volume));
        let words = line.expect(&said.out).split_whitespace();
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let image = |name: &str| scratch.at(name);
    assert_eq!(row("one")[1..4], [&image("alpha.img"), "8KiB", "8KiB"]);
    assert_eq!(
        row("two")[1..6],
        [&image("new.img"), "1GiB", "to", "be", "made"]
    );
    assert_eq!(row("alpha")[1..], ["memory", "1GiB"]);
    assert!(!scratch.path("new.img").exists(), "nothing is created");
}

#[test]
fn serve_refuses() {
    let scratch = Scratch::new();
    scratch.file("bad.toml", BAD);
    let here = |text: &str| text.replace("/run/weir", &scratch.at("nowhere"));
    scratch.file("nowhere.toml", &here(GOOD));
    scratch.file("renamed", &here(GOOD));
    golden(
        "serve-refuses",
        &scratch,
        "\
serve missing.toml
serve bad.toml
serve --log error nowhere.toml
serve
serve missing.img
serve .
serve renamed
serve bad.toml --memory 1MiB
serve bad.toml --read-only
serve --memory 1
serve --memory 1G
serve --memory 1MiB --listen nowhere
serve --memory 1MiB --listen 0.0.0.0:10809
serve --memory 1MiB --insecure
serve bad.toml --listen 0.0.0.0:1 --insecure
serve --memory 1MiB --capacity 100M
serve --memory 1MiB --min 1MB/s
serve --memory 1MiB --min 1MB/s --capacity 1MB/s
",
    );
}

#[test]
fn an_image_of_another_program_is_noted() {
    let scratch = Scratch::new();
    let mut image = vec![0; 8192];
    // The magic number of qcow2.
    image[..4].copy_from_slice(b"QFI\xfb");
    let image = scratch.bytes("disk.qcow2", &image).display().to_string();
    let text = GOOD.replace("/run/weir/", &scratch.at(""));
    let text = text.replacen(
        "memory = true\nsize = \"1GiB\"",
        &format!("file = \"{image}\""),
        1,
    );
    scratch.file("weir.toml", &text);
    let noted = "the file is a qcow2 image, but the server serves its bytes unchanged";
    let said = run(&scratch, "check weir.toml");
    has(
        &said.err,
        &format!("note: weir.toml:13:8: volume.alpha.file: {noted}"),
    );
    let said = run(&scratch, &format!("serve {image} --run true"));
    has(&said.err, noted);
}

#[test]
fn replay_refuses() {
    let scratch = Scratch::new();
    scratch.file("text", "this is no record\n");
    scratch.file("empty", "");
    golden(
        "replay-refuses",
        &scratch,
        "\
replay missing
replay .
replay text
replay empty
",
    );
}

#[test]
fn the_environment_is_checked_like_the_command_line() {
    let scratch = Scratch::new();
    let output = weir(&scratch, "policies")
        .env("WEIR_LOG", "loud")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        "error: WEIR_LOG has the unknown level \"loud\"; use one of off, error, warn, info, debug, trace\n"
    );
}

#[test]
fn a_closed_output_is_no_failure() {
    let scratch = Scratch::new();
    for line in ["policies", "demo --on sim --seconds 1", "--help"] {
        let mut command = weir(&scratch, line);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        // The reader of a pipe can end early, like `head`. The command must then end quietly.
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        let is_well = !said.contains("panic") && !said.contains("error");
        assert!(ended.status.success() && is_well, "{line}: {said}");
    }
}

#[test]
fn an_existing_file_keeps_its_content_until_there_are_results() {
    let scratch = Scratch::new();
    let page = scratch.file("old.html", "old");
    // The command is refused, so the old page must survive.
    run(&scratch, "demo --html old.html --json nowhere/x").ended(1);
    assert_eq!(fs::read_to_string(&page).unwrap(), "old");
    let said = run(&scratch, "demo --on sim --seconds 1 --html old.html");
    // Notes about the mapping of contracts to policies are not of interest here.
    let mut told = said.err.lines().filter(|line| !line.starts_with("note: "));
    assert_eq!(
        (said.status, told.next()),
        (Some(0), Some("wrote old.html"))
    );
    assert_eq!(told.next(), None);
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
}

#[test]
fn a_failed_write_keeps_the_existing_file_and_the_other_results() {
    let scratch = Scratch::new();
    let page = scratch.file("old.html", "old");
    // The limit of 66 kB is less than the page, and more than the lines of JSON. Without the
    // signal, the system returns an error, as for a full disk.
    let weir = env!("CARGO_BIN_EXE_weir");
    let options = "demo --on sim --seconds 1 --html old.html --json new.json";
    let script = format!("trap '' XFSZ; ulimit -f 130; exec {weir} {options}");
    let ended = in_scratch(&scratch, Path::new("sh"), &["-c", &script]).output();
    let ended = ended.unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let err = String::from_utf8(ended.stderr).unwrap();
    has(&err, "error: cannot write old.html: File too large\n");
    assert_eq!(fs::read_to_string(&page).unwrap(), "old");
    has(&String::from_utf8(ended.stdout).unwrap(), "contract");
    assert!(scratch.read("new.json").ends_with("}\n"));
    // The incomplete page is removed.
    assert_eq!(scratch.names(), ["new.json", "old.html"]);
}

#[test]
fn two_results_in_the_same_file_are_refused() {
    let scratch = Scratch::new();
    scratch.file("old", "old");
    std::os::unix::fs::symlink("old", scratch.path("link")).unwrap();
    let refused = |options: &str, of: &str| {
        let said = run(&scratch, &format!("compare contract {options}")).ended(2);
        let [first, second, file] = *words(of) else {
            unreachable!("{of}");
        };
        has(
            &said.err,
            &format!(
                "error: {first} and {second} cannot both write to {file}; write another file name for one of them\n"
            ),
        );
    };
    refused("--json new --html ./new", "--json --html ./new");
    refused("--json old --trace link", "--json --trace link");
    refused("--html link --trace link", "--trace --html link");
    assert_eq!(fs::read_to_string(scratch.path("old")).unwrap(), "old");
    assert!(!scratch.path("new").exists());
    let line = "demo --on sim --seconds 1 --html weir.html --json weir.html";
    run(&scratch, line).ended(2);
    let line = "demo --on sim --seconds 1 --html /dev/null --json /dev/null";
    run(&scratch, line).ended(0);
}

#[test]
fn every_command_has_a_manual_page_and_is_completed() {
    let scratch = Scratch::new();
    let help = run(&scratch, "--help").out;
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.map_while(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(names.contains(&"serve"), "{names:?}");
    for shell in ["bash", "fish", "zsh"] {
        let said = run(&scratch, &format!("completion {shell}")).ended(0);
        let is_completed = |name: &&str| said.out.contains(*name);
        assert!(names.iter().all(is_completed), "{shell}: {}", said.out);
    }
    run(&scratch, "man pages/man1").ended(0);
    for name in names {
        let page = scratch.path(&format!("pages/man1/weir-{name}.1"));
        let page = fs::read_to_string(page).unwrap();
        has(&page, ".SH SYNOPSIS");
    }
}
