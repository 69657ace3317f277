//! Contracts from libvirt and QEMU: `tests/import/NAME` gives `NAME.txt`, what is refused, mutants
//! of the inputs, and random limits in every form.
//!
//! With `WEIR_BLESS=1`, the texts are written, and a person reviews the difference.

use crate::common::RandomSource;
use crate::common::files::{files, told};
use crate::common::held::check;
use crate::common::mutate::walk;
use std::fmt::Write as _;
use weir_config::{ImportedContracts, Problem, Server, import, parse};
use weir_core::Max;

/// The rest of a server's file.
const BASE: &str = "listen.nbd = [\"127.0.0.1:0\"]\n[drive.disk]\n";

fn inputs() -> Vec<(std::path::PathBuf, String)> {
    let all = ["xml", "args", "json"].map(|ending| files("tests/import", ending));
    all.concat()
}

/// Reads imported contracts as part of a server's file. If the input does not have the storage of a
/// volume, the volume gets memory.
fn read(imported: &ImportedContracts) -> Result<Server, Vec<Problem>> {
    let mut text = BASE.to_owned();
    // An empty line is in front of each table and its comments.
    for table in imported.text.split_inclusive("\n\n") {
        text.push_str(table.trim_end());
        let keys = ["\nfile = ", "\ndevice = "];
        if table.contains("\n[volume.") && !keys.iter().any(|key| table.contains(key)) {
            text.push_str("\nmemory = true");
        }
        if table.contains("\n[volume.") {
            text.push_str("\nsize = \"1GiB\"");
        }
        text.push_str("\n\n");
    }
    parse("", &text)
}

#[test]
fn every_input_is_translated_as_in_its_golden_file() {
    for (input, text) in inputs() {
        let name = input.file_name().unwrap().to_str().unwrap().to_owned();
        let imported = import(&name, &text, "disk").unwrap_or_else(|all| panic!("{}", told(&all)));
        let server = read(&imported).unwrap_or_else(|all| panic!("{name}: {}", told(&all)));
        assert!(server.volumes.len() + server.tenants.len() > 0);
        let answer = format!(
            "{}\n--- warnings\n{}",
            imported.text,
            told(&imported.remarks)
        );
        check(input.with_extension("txt"), &answer);
    }
}

/// A domain with one disk that has these limits.
fn domain(limits: &str) -> String {
    format!(
        "<domain><name>v</name><devices><disk type='file'><source file='/v.img'/><target dev='a'/>\
         <iotune>{limits}</iotune></disk></devices></domain>"
    )
}

/// Each line of `refused.inputs` is an input. A line that begins with `iotune` has the limits of a
/// disk of libvirt, and one that begins with `drive` has those of a disk of QEMU.
#[test]
fn wrong_inputs_are_refused_by_name() {
    let mut told_all = String::new();
    let (file, lines) = files("tests/import", "inputs").remove(0);
    for line in lines.lines().chain([""]) {
        let text = match line.split_once(' ') {
            Some(("iotune", limits)) => domain(limits),
            Some(("drive", limits)) => format!("qemu -drive file=/a,format=raw,id=a,{limits}"),
            _ => line.to_owned(),
        };
        let problems = import("in", &text, "disk").expect_err(line);
        writeln!(told_all, "{line}\n{}", told(&problems)).unwrap();
    }
    check(file.with_extension("txt"), &told_all);
}

/// A parser that calls itself for each level would exhaust the stack.
#[test]
fn deep_nesting_is_refused() {
    const DEPTH: usize = 200_000;
    let open = "<disk>".repeat(DEPTH);
    let closed = format!("{open}{}", "</disk>".repeat(DEPTH));
    let json = format!("{{\"limits\": {}", "[".repeat(DEPTH));
    let option = format!("qemu -drive {}=1", "a.".repeat(DEPTH));
    for (text, reason) in [
        (open, "is not XML"),
        (closed, "disk: has no target"),
        (json, "is not JSON: recursion limit"),
        (option, "a key has more than 32 names"),
    ] {
        let problems = import("in", &text, "disk").expect_err(reason);
        assert!(told(&problems).contains(reason), "{}", told(&problems));
    }
}

#[test]
fn names_and_paths_cannot_add_lines() {
    // A quotation mark and a bracket could end the header of a table, and a separator of lines or a
    // line break a comment.
    let forged = "\"]&#x2028;[volume.evil] # &#10;[volume.more]";
    let limited = domain("<total_iops_sec>1</total_iops_sec>");
    for text in [
        limited.replace("/v.img", &format!("/v{forged}")),
        limited.replace("/v.img", &format!("v{forged}")),
        limited.replace("'a'", "'\"] [volume.evil] #'"),
        limited.replace("<target", &format!("<driver type='{forged}'/><target")),
    ] {
        let imported = import(forged, &text, "disk").unwrap_or_else(|all| panic!("{}", told(&all)));
        let server =
            read(&imported).unwrap_or_else(|all| panic!("{}\n{}", imported.text, told(&all)));
        assert_eq!(server.volumes.len(), 1, "{}", imported.text);
        assert!(
            server.volumes[0].name.starts_with("v-"),
            "{}",
            imported.text
        );
    }
}

/// Problems of an accepted mutant that its own names and paths cause, and not the translation.
fn is_of_input(problem: &Problem) -> bool {
    problem.message.contains("is already used by") || problem.message.contains("maximum")
}

#[test]
fn mutants_are_refused_with_a_place_or_give_valid_contracts() {
    let all: Vec<String> = inputs().into_iter().map(|input| input.1).collect();
    walk(&all, 3_000, 20, |text| {
        let imported = import("fuzz", text, "disk")?;
        if let Err(problems) = read(&imported) {
            assert!(
                problems.iter().all(is_of_input),
                "{text}\n---\n{}\n---\n{}",
                imported.text,
                told(&problems)
            );
        }
        // Each remark is in the file as well as in the list.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let comments: Vec<&str> = imported
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .collect();
        let comments = words(&comments.join(" "));
        for remark in &imported.remarks {
            assert!(
                comments.contains(&words(&weir_config::one_line(&remark.message))),
                "{remark}"
            );
        }
        Ok(())
    });
}

/// The six limits in the names of libvirt, of QEMU's options and of its monitor.
const NAMES: [[&str; 3]; 6] = [
    ["total_bytes_sec", "bps-total", "bps"],
    ["read_bytes_sec", "bps-read", "bps_rd"],
    ["write_bytes_sec", "bps-write", "bps_wr"],
    ["total_iops_sec", "iops-total", "iops"],
    ["read_iops_sec", "iops-read", "iops_rd"],
    ["write_iops_sec", "iops-write", "iops_wr"],
];

/// Draws rates, each with a burst and its length, of which zero means that they are not set.
fn draw(random: &mut RandomSource) -> [[u64; 3]; 6] {
    let mut limits = [[0; 3]; 6];
    for kind in [0, 3] {
        // Either a total, or limits on reads and writes.
        let some: &[usize] = [&[0][..], &[1], &[2], &[1, 2], &[]][random.below(5)];
        for at in some {
            // Large rates have bursts that are no whole number of nanoseconds.
            let most = [10, 1_000_000, 1_000_000_000][random.below(3)];
            let rate = 1 + random.below(most) as u64;
            let burst = if random.below(2) == 0 {
                0
            } else {
                rate + random.below(100_000) as u64
            };
            let length = if burst == 0 {
                0
            } else {
                random.below(4) as u64
            };
            limits[kind + at] = [rate, burst, length];
        }
    }
    limits
}

/// Returns the lines of limits: `form` writes one from a name, the end of the name, and its value.
fn written(limits: &[[u64; 3]; 6], dialect: usize, form: impl Fn(String, u64) -> String) -> String {
    let ends = [["", "_max", "_max_length"], ["", "-max", "-max-length"]];
    let mut text = String::new();
    for (names, values) in NAMES.iter().zip(limits) {
        for (end, value) in ends[usize::from(dialect == 1)].iter().zip(values) {
            if *value > 0 {
                write!(text, "{}", form(format!("{}{end}", names[dialect]), *value)).unwrap();
            }
        }
    }
    text
}

/// The same limits give the same contract in every form, with exactly their rates, and with a burst
/// that no limit exceeds.
#[test]
fn random_limits_are_the_same_in_every_form() {
    let mut random = RandomSource::new(1);
    for _ in 0..300 {
        let limits = draw(&mut random);
        if limits == [[0; 3]; 6] {
            continue;
        }
        let texts = [
            domain(&written(&limits, 0, |name, value| {
                format!("<{name}>{value}</{name}>")
            })),
            format!(
                "qemu -drive file=/v.img,format=raw,id=v{}",
                written(&limits, 1, |name, value| format!(
                    ",throttling.{name}={value}"
                ))
            ),
            format!(
                "{{\"execute\": \"block_set_io_throttle\", \"arguments\": {{\"id\": \"v\"{}}}}}",
                written(&limits, 2, |name, value| format!(", \"{name}\": {value}"))
            ),
        ];
        let maxes = texts.map(|text| {
            let imported =
                import("", &text, "disk").unwrap_or_else(|all| panic!("{text}\n{}", told(&all)));
            let server =
                read(&imported).unwrap_or_else(|all| panic!("{}\n{}", imported.text, told(&all)));
            (server.volumes[0].contract.max, imported.remarks.len())
        });
        assert!(
            maxes[1] == maxes[0] && maxes[2].0 == maxes[0].0,
            "{limits:?}: {maxes:?}"
        );
        let max = maxes[0].0;
        let Max {
            bandwidth,
            read_bandwidth,
            write_bandwidth,
            iops,
            read_iops,
            write_iops,
            ..
        } = max;
        let rates = [
            bandwidth,
            read_bandwidth,
            write_bandwidth,
            iops,
            read_iops,
            write_iops,
        ];
        assert_eq!(rates, limits.map(|limit| limit[0]));
        // QEMU's bucket holds `burst * length`, or a tenth of a second at the rate. Both sides are
        // multiplied by the nanoseconds of a second.
        for [rate, burst, length] in limits.into_iter().filter(|limit| limit[0] > 0) {
            let passes = u128::from(rate) * u128::from(max.burst.as_nanos());
            let permitted = if burst == 0 {
                rate.into()
            } else {
                u128::from(burst * length.max(1)) * 10
            };
            assert!(passes <= permitted * 100_000_000, "{limits:?}: {max:?}");
        }
    }
}
