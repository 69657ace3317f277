//! `weir explain` and the what-if of `weir replay`, on what a live server has recorded.

mod common;

use common::running::{Running, start};
use common::{Scratch, run, weir};
use std::time::Duration;
use weir_client::{Address, Fleet, Member};
use weir_load::Program;

/// A modelled drive first come, first served, of which alpha is promised more than beta leaves it.
fn config(scratch: &Scratch) {
    let text = format!(
        "[drive.d]\npolicy = \"none\"\nmodel = \"demo\"\n[listen]\nnbd = [\"unix:{}\"]\n\
         [volume.alpha]\ndrive = \"d\"\nsize = \"64MiB\"\nmin = \"20MB/s\"\n\
         [volume.beta]\ndrive = \"d\"\nsize = \"64MiB\"\n",
        scratch.path("nbd.sock").display()
    );
    scratch.file("weir.toml", &text);
}

fn load(address: &Address) {
    let member = |export: &str, program| Member {
        name: export.to_owned(),
        export: export.to_owned(),
        program,
        region: None,
        seed: 1,
    };
    let fleet = Fleet {
        address: address.clone(),
        members: vec![
            member("alpha", Program::random_reads(16 << 10, 2)),
            member("beta", Program::sequential_reads(128 << 10, 24)),
        ],
        warm_up: Duration::ZERO,
        length: Duration::from_millis(3500),
        patience: Duration::from_mins(1),
    };
    let outcomes = fleet.run(|_| {}).unwrap();
    assert!(outcomes.iter().all(|o| o.error.is_none()));
}

/// A server's record of three and a half seconds.
fn recorded() -> Scratch {
    let scratch = Scratch::new();
    config(&scratch);
    let server: Running = start(&mut weir(
        &scratch,
        &["serve", "weir.toml", "--record", "record"],
    ));
    load(&server.address);
    server.end();
    scratch
}

#[test]
fn a_record_says_why_and_what_would_have_been() {
    let scratch = recorded();
    let said = run(
        &scratch,
        &[
            "explain",
            "alpha",
            "--record",
            "record",
            "--config",
            "weir.toml",
        ],
    );
    println!("{said:?}");
    let json = run(
        &scratch,
        &[
            "explain",
            "alpha",
            "--record",
            "record",
            "--config",
            "weir.toml",
            "--json",
            "--since",
            "2s",
        ],
    );
    println!("{json:?}");
    for args in [
        &[
            "replay",
            "record",
            "--config",
            "weir.toml",
            "--policy",
            "contract",
        ][..],
        &[
            "replay",
            "record",
            "--config",
            "weir.toml",
            "--set",
            "alpha.min=30MB/s",
            "--policy",
            "contract",
        ],
        &["replay", "record", "--drive", "samsung-970-pro"],
        &["replay", "record", "--config", "weir.toml", "--recommend"],
    ] {
        println!("{:?}", run(&scratch, args));
    }
}
