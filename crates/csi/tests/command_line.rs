//! Tests of the command line of `weir-csi`.

use std::process::{Command, Output};

fn weir_csi(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-csi"));
    let command = command.args(arguments).env_remove("WEIR_LOG");
    command.output().expect("it can be run")
}

#[test]
fn the_manual_page_names_every_option_of_the_help() {
    let help = weir_csi(&["--help"]);
    let page = weir_csi(&["--man"]);
    assert!(help.status.success() && page.status.success());
    let page = String::from_utf8(page.stdout).unwrap().replace('\\', "");
    let help = String::from_utf8(help.stdout).unwrap();
    let options = help
        .split_whitespace()
        .filter(|word| word.starts_with("--"));
    let options: Vec<&str> = options.map(|word| word.trim_end_matches(',')).collect();
    assert!(options.len() >= 8, "{options:?}");
    for option in options {
        assert!(page.contains(option), "{option}");
    }
}

#[test]
fn a_relative_directory_is_refused() {
    let refused = weir_csi(&["--volumes", "images"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "error: --volumes images is not absolute; write the path from / on, because the server must use the same path\n"
    );
}
