//! `weir import`: the example of the documentation, and what is refused. The tests of `weir-config`
//! contain the translations.

use crate::common::{Scratch, golden, has, root, run, shell, weir};
use std::fs;

/// Returns the commands, the lines with `<disk`, and the tables of the section of the guide.
fn guide() -> [String; 3] {
    let page = fs::read_to_string(root().join("docs/guests.md")).expect("a document");
    let (_, section) = page.split_once("## Import limits").expect("the section");
    let (section, _) = section
        .split_once("\n## ")
        .expect("another section follows");
    let block = |begin: &str| {
        let (_, rest) = section
            .split_once(&format!("\n\n    {begin}"))
            .expect(begin);
        let lines = rest
            .split("\n\n")
            .next()
            .unwrap_or_default()
            .replace("\n    ", "\n");
        format!("{begin}{lines}\n")
    };
    let (_, tables) = section.split_once("```toml\n").expect("the tables");
    let (tables, _) = tables.split_once("```").expect("their end");
    [block("weir import"), block("<disk"), tables.to_owned()]
}

#[test]
fn the_guide_can_be_followed() {
    let scratch = Scratch::new();
    let [commands, disk, tables] = guide();
    let here = |text: &str| {
        text.replace(
            "/var/lib/libvirt/images",
            scratch.at("").trim_end_matches('/'),
        )
    };
    scratch.file("alpha.xml", &here(&disk));
    scratch.file("alpha.img", &"x".repeat(1 << 20));
    scratch.file(
        "weir.toml",
        "listen.nbd = [\"127.0.0.1:0\"]\n[drive.fast]\n\n",
    );
    // The commands are pasted as they are.
    let output = shell(&scratch.path(""), &format!("set -e\n{commands}")).output();
    let output = output.expect("the shell can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(scratch.read("alpha.toml"), here(&tables));
    has(
        &said,
        "warning: alpha.xml:1:1: volume.vda: total_bytes_sec_max_length: QEMU limits",
    );
}

#[test]
fn standard_input_is_read_and_exact_fails_with_warnings() {
    let scratch = Scratch::new();
    let [_, disk, tables] = guide();
    scratch.file("alpha.xml", &disk);
    let mut command = weir(&scratch, "import - --drive fast");
    let text = fs::File::open(scratch.path("alpha.xml")).expect("it is there");
    let out = command
        .stdin(text)
        .output()
        .expect("the command can be started")
        .stdout;
    let tables = tables.replace("alpha.xml", "standard input");
    assert_eq!(String::from_utf8_lossy(&out), tables);
    let exact = run(&scratch, "import alpha.xml --exact").ended(1);
    assert_eq!(exact.out, "");
    has(&exact.err, "total_bytes_sec_max_length: QEMU limits");
}

#[test]
fn wrong_inputs_are_refused() {
    let scratch = Scratch::new();
    scratch.file("text", "Limit the disk to 50 MB/s.\n");
    scratch.file(
        "none.xml",
        "<domain type='kvm'>\n  <name>web</name>\n</domain>\n",
    );
    scratch.file(
        "both.args",
        "qemu -drive file=/a,throttling.bps-total=1,throttling.bps-read=x\n",
    );
    scratch.bytes("bytes", &[0xff, 0xfe]);
    golden(
        "import-refuses",
        &scratch,
        "\
import
import missing
import .
import -
import text
import bytes
import none.xml
import both.args
",
    );
}
