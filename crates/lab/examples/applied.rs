//! `applied WEIR [KERNEL...]` compares contracts that `weir apply` has activated under real kernels
//! with the simulator under the same contracts.
//!
//! In a guest, the program WEIR serves a modelled drive, and `weir apply` configures the kernel by
//! a file of contracts. In each cgroup, fio reads sequentially with direct I/O, with 8 requests of
//! 128 KiB in flight, for five seconds, so that the drive is the bottleneck. The simulator runs the
//! same clients with the same contracts under the same policy. The bandwidths of the cgroups are
//! compared, in MB/s.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use weir_config::scenario::{self, Choice, Scenario};
use weir_config::{Policy, policy, profile};
use weir_linux::guest::Kernel;
use weir_linux::play::guest::Lab;
use weir_sim::SimRun;

/// The measured seconds, which follow a second of warm-up.
const SECONDS: u32 = 5;

/// The shares of the cgroups, and their limits in MB/s if the policy has limits.
const SHARES: [u32; 3] = [400, 200, 100];
const MOST: [u32; 3] = [20, 40, 80];

/// The compared policies: their names, whether shares and limits are stated, and the tolerance of
/// the comparison.
const POLICIES: [(&str, bool, bool, f64); 4] = [
    ("io.max", false, true, 0.02),
    ("bfq", true, false, 0.15),
    ("io.cost", true, false, 0.15),
    ("bfq + io.max", true, true, 0.15),
];

/// The drives: flash, and a rotating disk, for which the S suite configures io.cost differently.
const DRIVES: [(&str, &str); 2] = [
    ("plextor-px-256m5s", "io.cost-s"),
    ("hitachi-hts72755", "io.cost-s-disk"),
];

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

/// Compares all bandwidths. Returns how many are within the tolerance, and how many there are.
fn compare(weir: &Path, kernels: &[String]) -> Result<(u32, u32), String> {
    let (mut near, mut all) = (0, 0);
    println!(
        "| kernel | drive | policy | Linux, MB/s | simulator, MB/s | ratios |\n|---|---|---|---|---|---|"
    );
    for version in kernels {
        let tell = |line: &str| eprintln!("{line}");
        let kernel = Kernel::find(version, tell).map_err(|e| e.to_string())?;
        let lab = Lab::new(kernel, weir.to_owned());
        for (drive, cost) in DRIVES {
            for (policy, has_shares, has_limits, most) in POLICIES {
                let policy = policy.replace("io.cost", cost);
                let terms = terms(has_shares, has_limits);
                let (played, under) = scenario(drive, &policy, &terms)?;
                let linux = in_guest(&lab, &played, &policy, &terms)?;
                let sim = simulated(&played, &under)?;
                let ratios: Vec<f64> = linux.iter().zip(&sim).map(|(l, s)| s / l).collect();
                let list = |of: &[f64], digits: usize| {
                    let texts = of.iter().map(|x| format!("{x:.digits$}"));
                    texts.collect::<Vec<_>>().join(" ")
                };
                let [linux, sim] = [linux, sim].map(|of| list(&of, 1));
                println!(
                    "| {} | {drive} | {policy} | {linux} | {sim} | {} |",
                    lab.kernel().release(),
                    list(&ratios, 3)
                );
                // Symmetric in the two sides.
                let is_near = |r: &&f64| (1.0 / (1.0 + most)..=1.0 + most).contains(*r);
                near += ratios.iter().filter(is_near).count() as u32;
                all += ratios.len() as u32;
            }
        }
    }
    Ok((near, all))
}

/// Returns the contract of each cgroup, as lines of a file.
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

/// Measures the bandwidth of each cgroup in a guest.
fn in_guest(
    lab: &Lab,
    scenario: &Scenario,
    policy: &str,
    terms: &[String; 3],
) -> Result<Vec<f64>, String> {
    let wrong = |e: weir_linux::play::guest::GuestPlayError| format!("{policy}: {e}");
    let mut contracts = format!("[drive.d]\ndevice = \"/dev/DEV\"\npolicy = \"{policy}\"\n");
    let mut jobs = String::new();
    for (n, terms) in terms.iter().enumerate() {
        let _ = writeln!(
            contracts,
            "[volume.g{n}]\ndrive = \"d\"\ncgroup = \"/g{n}\"\n{terms}"
        );
        let _ = writeln!(
            jobs,
            "sh -c 'echo $$ > /cg/g{n}/cgroup.procs; exec fio --name=g{n} --filename=/dev/'$dev' --direct=1 --ioengine=libaio --rw=read --bs=128k \
             --iodepth=8 --offset={}g --size=1g --time_based --ramp_time=1 --runtime={SECONDS} --minimal --terse-version=3 \
             --clocksource=clock_gettime' > $OUT/g{n} 2>&1 & pids=\"$pids $!\"",
            2 * n
        );
    }
    let script = format!(
        "{}sed s/DEV/$dev/ $FILES/contracts.toml > /tmp/contracts.toml\n\
         weir apply /tmp/contracts.toml --journal /tmp/journal > $OUT/applied 2>&1\n\
         grep -q '\\[none\\]' $q/scheduler || echo {} > $q/nr_requests\n\
         pids=\n{jobs}wait $pids\n",
        lab.connect(scenario),
        2 * scenario.drive.shape().tags,
    );
    let path_ns = lab.path(scenario, &|| true).map_err(wrong)?;
    let server = weir_linux::play::guest::server(scenario, 8 << 30, path_ns);
    let mut guest = lab.guest(script).map_err(wrong)?;
    guest.files.insert("server.toml".to_owned(), server.into());
    guest
        .files
        .insert("contracts.toml".to_owned(), contracts.into());
    let ran = guest.run().map_err(|e| e.to_string())?;
    let text = |name: &str| {
        let bytes = ran.files.get(name).map_or(&[][..], Vec::as_slice);
        String::from_utf8_lossy(bytes).into_owned()
    };
    let rate = |n: usize| {
        let said = text(&format!("g{n}"));
        // Field 7 of fio's terse output is the bandwidth of reads in KiB/s.
        let report = said.lines().find(|line| line.starts_with("3;"));
        let rate = report.and_then(|line| line.split(';').nth(6)?.parse::<f64>().ok());
        let nothing = || {
            format!(
                "{policy}: fio reported nothing: {said}\n{}",
                text("applied")
            )
        };
        rate.map(|kib| kib * 1024.0 / 1e6).ok_or_else(nothing)
    };
    (0..terms.len()).map(rate).collect()
}

/// Returns the clients as a scenario, and the policy under which they run.
fn scenario(drive: &str, policy: &str, terms: &[String; 3]) -> Result<(Scenario, Policy), String> {
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
    let config = profile::find(drive).map_err(|e| wrong(&e))?.drive;
    let policy = policy::find(policy).map_err(|e| wrong(&e))?;
    let script = scenario::read(&text, "applied").map_err(|e| wrong(&e))?;
    let choice = Choice::new(&config, None, &policy.name);
    let scenario = script.scenario(&choice).map_err(|e| wrong(&e))?;
    Ok((scenario.under(&policy), policy))
}

/// Measures the bandwidth of each client in the simulator.
fn simulated(scenario: &Scenario, policy: &Policy) -> Result<Vec<f64>, String> {
    let results = SimRun::new(scenario, policy, 0).and_then(|run| run.run(|_| {}));
    let results = results.map_err(|e| e.to_string())?;
    let seconds = f64::from(SECONDS);
    let rates = results
        .clients
        .iter()
        .map(|c| c.meter.bytes() as f64 / seconds / 1e6);
    Ok(rates.collect())
}
