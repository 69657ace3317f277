//! `applied WEIR [KERNEL...]`: contracts that `weir apply` has put in force under real kernels, beside the simulator under the same file.
//!
//! In a guest the program WEIR serves a modelled drive, `weir apply` sets the kernel by a file of contracts, and in each cgroup fio reads in
//! sequence past the page cache, 8 requests of 128 KiB at a time, for five seconds: the drive is the bottleneck. The simulator plays the same
//! clients with the same contracts under the same policy. What each cgroup gets is compared, in MB/s.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use weir_config::scenario::{self, Choice};
use weir_config::{policy, profile};
use weir_drive::Config;
use weir_guest::{Guest, Kernel};
use weir_sim::Run;

/// Seconds measured, behind one that is not.
const SECONDS: u32 = 5;

/// Shares of the cgroups, and MB/s for each at most where the policy limits.
const SHARES: [u32; 3] = [400, 200, 100];
const MOST: [u32; 3] = [20, 40, 80];

/// What is put in force: a policy of Weir's, whether shares and limits are stated, and how near the two sides are to be.
const POLICIES: [(&str, bool, bool, f64); 4] = [
    ("io.max", false, true, 0.02),
    ("bfq", true, false, 0.15),
    ("io.cost-s", true, false, 0.15),
    ("bfq + io.max", true, true, 0.15),
];

/// The drives: flash and a disk.
const DRIVES: [&str; 2] = ["plextor-px-256m5s", "hitachi-hts72755"];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((weir, kernels)) = words.split_first() else {
        eprintln!("usage: applied WEIR [KERNEL...]");
        return ExitCode::FAILURE;
    };
    let kernels = match kernels {
        [] => vec!["6.1".to_owned(), "6.12".to_owned()],
        some => some.to_vec(),
    };
    match compare(Path::new(weir), &kernels) {
        Ok((near, all)) => {
            println!(
                "{near} of {all} bandwidths within 15 % of the simulator's, under io.max within 2 %"
            );
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("applied: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Of how many bandwidths how many are near.
fn compare(weir: &Path, kernels: &[String]) -> Result<(u32, u32), String> {
    let (mut near, mut all) = (0, 0);
    println!(
        "| kernel | drive | policy | Linux, MB/s | simulator, MB/s | ratios |\n|---|---|---|---|---|---|"
    );
    for version in kernels {
        let tell = |line: &str| eprintln!("{line}");
        let kernel = Kernel::find(version, tell).map_err(|e| e.to_string())?;
        for drive in DRIVES {
            for (policy, has_shares, has_limits, most) in POLICIES {
                let terms = terms(has_shares, has_limits);
                let linux = in_guest(weir, &kernel, drive, policy, &terms)?;
                let sim = simulated(drive, policy, &terms)?;
                let ratios: Vec<f64> = linux.iter().zip(&sim).map(|(l, s)| s / l).collect();
                let list = |of: &[f64], digits: usize| {
                    let texts = of.iter().map(|x| format!("{x:.digits$}"));
                    texts.collect::<Vec<_>>().join(" ")
                };
                let [linux, sim] = [linux, sim].map(|of| list(&of, 1));
                println!(
                    "| {} | {drive} | {policy} | {linux} | {sim} | {} |",
                    kernel.release(),
                    list(&ratios, 3)
                );
                let is_near = |r: &&f64| (1.0 / (1.0 + most)..=1.0 + most).contains(*r);
                near += ratios.iter().filter(is_near).count() as u32;
                all += ratios.len() as u32;
            }
        }
    }
    Ok((near, all))
}

/// The contract of each cgroup, as lines of a file.
fn terms(has_shares: bool, has_limits: bool) -> [String; 3] {
    std::array::from_fn(|n| {
        let mut text = String::new();
        if has_shares {
            let _ = writeln!(text, "share = {}", SHARES[n]);
        }
        if has_limits {
            let _ = writeln!(text, "max = {{ bandwidth = \"{}MB/s\" }}", MOST[n]);
        }
        text
    })
}

fn shape(drive: &str) -> Result<Config, String> {
    Ok(profile::find(drive).map_err(|e| e.to_string())?.drive)
}

/// What each cgroup gets in a guest.
fn in_guest(
    weir: &Path,
    kernel: &Kernel,
    drive: &str,
    policy: &str,
    terms: &[String; 3],
) -> Result<Vec<f64>, String> {
    let shape = shape(drive)?.shape();
    let mut contracts = format!("[drive.d]\ndevice = \"/dev/nbd0\"\npolicy = \"{policy}\"\n");
    let mut jobs = String::new();
    for (n, terms) in terms.iter().enumerate() {
        let _ = writeln!(
            contracts,
            "[volume.g{n}]\ndrive = \"d\"\ncgroup = \"/g{n}\"\n{terms}"
        );
        let _ = writeln!(
            jobs,
            "sh -c 'echo $$ > /cg/g{n}/cgroup.procs; exec fio --name=g{n} --filename=/dev/nbd0 --direct=1 --ioengine=libaio --rw=read --bs=128k \
             --iodepth=8 --offset={}g --size=1g --time_based --ramp_time=1 --runtime={SECONDS} --minimal --terse-version=3 \
             --clocksource=clock_gettime' > $OUT/g{n} 2>&1 & pids=\"$pids $!\"",
            2 * n
        );
    }
    let script = format!(
        "for m in nbd bfq kyber_iosched mq_deadline; do has $m && load $m; done\n\
         weir serve $FILES/server.toml 2> /tmp/weir &\n\
         n=0; until [ -S /run/weir ] || [ $n = 500 ]; do sleep 0.01; n=$((n+1)); done\n\
         nbd-client -unix /run/weir /dev/nbd0 -N v -b 512 > /tmp/nbd 2>&1\n\
         q=/sys/block/nbd0/queue\n\
         echo {} > $q/rotational; echo {} > $q/max_sectors_kb; echo none > $q/scheduler; echo {} > $q/nr_requests\n\
         weir apply $FILES/contracts.toml --journal /tmp/journal > $OUT/applied 2>&1\n\
         grep -q '\\[none\\]' $q/scheduler || echo {} > $q/nr_requests\n\
         pids=\n{jobs}wait $pids\n\
         weir apply --restore --journal /tmp/journal >> $OUT/applied 2>&1\n",
        u8::from(shape.rotational),
        shape.max_transfer >> 10,
        shape.tags,
        2 * shape.tags,
    );
    let mut guest = Guest::new(kernel.clone(), script);
    guest.limit = Duration::from_mins(20);
    guest.programs.push(weir.to_owned());
    for (program, package) in [("fio", "fio"), ("nbd-client", "nbd-client")] {
        guest
            .add_program(program, package)
            .map_err(|e| e.to_string())?;
    }
    let server = format!(
        "[drive.d]\nmodel = \"{drive}\"\npolicy = \"none\"\n\n[listen]\nnbd = [\"unix:/run/weir\"]\n\n[volume.v]\ndrive = \"d\"\nsize = \"8GiB\"\n"
    );
    guest.files.insert("server.toml".to_owned(), server.into());
    guest
        .files
        .insert("contracts.toml".to_owned(), contracts.into());
    let ran = guest.run().map_err(|e| e.to_string())?;
    let text = |name: &str| {
        String::from_utf8_lossy(ran.files.get(name).map_or(&[], Vec::as_slice)).into_owned()
    };
    let rate = |n: usize| {
        let said = text(&format!("g{n}"));
        // Field 7: KiB/s read.
        let report = said.lines().find(|line| line.starts_with("3;"));
        let rate = report.and_then(|line| line.split(';').nth(6)?.parse::<f64>().ok());
        rate.map(|kib| kib * 1024.0 / 1e6).ok_or_else(|| {
            format!(
                "{drive}, {policy}: fio reported nothing: {said}\n{}",
                text("applied")
            )
        })
    };
    (0..terms.len()).map(rate).collect()
}

/// What each gets in the simulator.
fn simulated(drive: &str, policy: &str, terms: &[String; 3]) -> Result<Vec<f64>, String> {
    let wrong = |e: &dyn std::fmt::Debug| format!("{drive}, {policy}: {e:?}");
    let mut text = format!(
        "name = \"applied\"\nduration = \"{SECONDS}s\"\nwarm_up = \"1s\"\nhost = {{ nr_requests = \"linux\", nomerges = 0 }}\n"
    );
    for (n, terms) in terms.iter().enumerate() {
        let _ = writeln!(
            text,
            "[[group]]\nname = \"g{n}\"\n{terms}[[client]]\nname = \"c{n}\"\ngroup = \"g{n}\"\nrw = \"read\"\nbs = \"128KiB\"\niodepth = 8\n\
             direct = true\nfile = \"drive\"\noffset = \"{}GiB\"\nsize = \"1GiB\"",
            2 * n
        );
    }
    let config = shape(drive)?;
    let policy = policy::find(policy).map_err(|e| wrong(&e))?;
    let script = scenario::read(&text, "applied").map_err(|e| wrong(&e))?;
    let choice = Choice::new(&config, None, &policy.name);
    let scenario = script
        .scenario(&choice)
        .map_err(|e| wrong(&e))?
        .under(&policy);
    let results = Run::new(&scenario, &policy, 0).and_then(|run| run.run(|_| {}));
    let results = results.map_err(|e| wrong(&e))?;
    let seconds = f64::from(SECONDS);
    let rates = results
        .clients
        .iter()
        .map(|c| c.meter.bytes() as f64 / seconds / 1e6);
    Ok(rates.collect())
}
