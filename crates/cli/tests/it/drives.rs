//! `weir drives`: rightly used and wrongly.

use crate::common::{Scratch, golden, has, run};

const SHEET: &str = r#"
name = "mine"
about = "a sheet that ties what cannot be tied"
kind = "null"
service = "4us"
tags = 255

[fit]
service = { figure = "one-at-a-tme", from = "1us", to = "1ms" }

[[figure]]
name = "one-at-a-tme"
value = "4us"
within = 5
source = "a guess"
"#;

#[test]
fn drives() {
    let scratch = Scratch::new();
    scratch.file("unknown-figure.toml", SHEET);
    let known = SHEET.replace("tme", "time");
    scratch.file("known.toml", &known);
    let untied = known.replace(
        "[[figure]]\nname = \"one-at-a-time\"",
        "[[figure]]\nname = \"access\"",
    );
    scratch.file("untied.toml", &untied);
    scratch.file("no-tolerance.toml", &known.replace("within = 5\n", ""));
    scratch.file(
        "a-rate.toml",
        &known.replace("value = \"4us\"", "value = \"4MB/s\""),
    );
    scratch.file("wrong.toml", &known.replace("to = \"1ms\"", "to = \"1MB\""));
    golden(
        "drives-fit",
        &scratch,
        "\
drives
drives figures
drives scsi-debug
drives ./known.toml
drives fit scsi-debug
drives fit known.toml
drives scsi-debgu
drives fit floppy
drives fit demo
drives fit nowhere.toml
drives fit unknown-figure.toml
drives fit untied.toml
drives fit no-tolerance.toml
drives fit a-rate.toml
drives fit wrong.toml
drives validation scsi-debug --sets -1
drives validation scsi-debug --jobs 0
",
    );
}

#[test]
fn a_fitted_profile_can_be_used() {
    let scratch = Scratch::new();
    let fitted = run(&scratch, "drives fit scsi-debug").ended(0);
    scratch.file("fitted.toml", &fitted.out);
    let shown = run(&scratch, "drives fitted.toml").ended(0);
    has(&shown.out, "255");
}
