//! Generation of `docs/configuration.md` and `docs/scenarios.md` from the tables that the parser
//! uses.

use crate::key::{self, DefaultValue, KeyDeclaration, Shape};
use crate::parameter::{KINDS, ModelKind, Parameter, ParameterUnit};
use crate::scenario::fio::{OPTIONS, OptionTreatment, VALUES};
use crate::{policy, tunable};
use std::fmt::Write as _;
use weir_core::elevator;
use weir_core::tunable::Tunable;

/// Returns `docs/configuration.md`, which describes all keys of all files except scenarios, as
/// Markdown.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for shape in key::SERVERS {
        section(&mut page, shape);
        // The keys of contracts follow the first table that has them, and other tables refer to
        // them.
        if shape.name == key::VOLUME.name {
            let about = "The keys that `[volume.NAME]` and `[tenant.NAME]` both have. `contract.md` has the rules by which a contract is admitted or refused.";
            heading(&mut page, "Contracts", about);
            keys(&mut page, key::CONTRACTS);
        }
    }
    page += KERNEL;
    for shape in key::APPLIES {
        // Tables of both files are described only once.
        let is_shared = key::SERVERS.iter().any(|s| s.name == shape.name);
        if !is_shared {
            section(&mut page, shape);
        }
    }
    page += POLICIES;
    for policy in policy::all() {
        let _ = writeln!(page, "- `\"{}\"`: {}", policy.name, policy.summary());
    }
    for shape in [
        &key::POLICY,
        &key::KNOBS,
        &key::IO_MAX,
        &key::LOW,
        &key::COST,
        &key::DERIVED,
        &key::BUDGET,
    ] {
        section(&mut page, shape);
    }
    for (kind, tunables) in tunable::tables() {
        tuned(&mut page, kind, tunables);
    }
    page += MODELS;
    for kind in KINDS {
        model(&mut page, kind);
    }
    page += PROFILES;
    for shape in [
        &key::PROFILE,
        &key::SHEET,
        &key::FIT,
        &key::PLAUSIBLE,
        &key::FIGURE,
    ] {
        section(&mut page, shape);
    }
    page
}

/// Returns `docs/scenarios.md`, which describes all keys of a scenario's file and all options of
/// `fio` job files, as Markdown.
pub fn scenarios() -> String {
    let mut page = SCENARIOS.to_owned();
    for shape in key::SCENARIOS {
        section(&mut page, shape);
    }
    heading(
        &mut page,
        "Contracts",
        "The keys that `[[client]]` and `[[group]]` both have. They are the same as in the server's file (`configuration.md`).",
    );
    keys(&mut page, key::CONTRACTS);
    page += JOBS;
    fates(&mut page);
    page
}

/// Adds the treatment of each option of a job file.
fn fates(page: &mut String) {
    let mut options: Vec<_> = OPTIONS.iter().collect();
    options.sort_by_key(|o| o.names[0]);
    let names = |names: &[&str]| format!("`{}`", names.join("`, `"));
    *page += "\n### Options\n\n\
              Played options have the same effect as in fio. Noted options have no effect, for the reason given in the table, and Weir prints\n\
              that reason on standard error. Refused options end the command with an error and the advice in the table. Any other option is refused\n\
              as unknown.\n\n\
              | Option | Treatment | Reason or advice |\n| --- | --- | --- |\n";
    for option in options {
        let (fate, text) = match option.fate {
            OptionTreatment::Played => ("played", ""),
            OptionTreatment::Noted(why) => ("noted", why),
            OptionTreatment::Refused(help) => ("refused", help),
        };
        let _ = writeln!(page, "| {} | {fate} | {text} |", names(&option.names));
    }
    *page += "\n### Refused values\n\n\
              These values of played options are refused:\n\n\
              | Option | Value | Reason or advice |\n| --- | --- | --- |\n";
    for (option, value, why) in VALUES {
        let _ = writeln!(page, "| {option} | {value} | {why} |");
    }
}

const SCENARIOS: &str = "\
# Scenario files and fio options

With a scenario file, you can simulate your own clients on a model of a drive and compare policies, and with a job file of `fio` you can do the same
without writing a new file. This page describes every key of a scenario file, and how Weir treats each option of a job file.

A scenario describes the requests of each client. You select the drive and the policies separately (`--drive`, `--policy`), so they do not change the
scenario unless the file says so (`on` and `under`).

    weir scenarios                     list the scenarios that come with Weir
    weir scenarios NAME > mine.toml    copy one of them as a starting point
    weir compare mine.toml             simulate it and compare policies
    weir compare mine.toml --check     exit with status 1 unless the results meet the expectations
    weir demo --scenario mine.toml     play it on a real server; refused with the reason if that is impossible
    weir compare jobs.fio              simulate a job file of fio
    weir scenarios --from jobs.fio     convert a job file to a scenario file, for example to add contracts
    weir compare s-suite               play several scenarios on one page (`weir scenarios s-suite` lists them)

Sizes, rates and times are written as in the server's file (`configuration.md`). Weir reports every error of a file with line and column, and suggests the
nearest name for a name that it does not know.

This page is generated from the tables that the parser uses (`crates/config/src/key/scenario.rs`), and a test compares them. To update the page, run
`WEIR_BLESS=1 cargo test -p weir-config --test it manual::`.

In this example, three readers share a file and interleave: each of them reads every third 16 KiB of it, as one process of three would:

    [[client]]
    name = \"reader\"
    numjobs = 3
    bs = \"16KiB\"
    size = \"10GiB\"
    file = \"shared\"
    offset_increment = \"16KiB\"
    zonesize = \"16KiB\"
    zoneskip = \"32KiB\"

    [[expect]]
    figure = \"bandwidth\"
    client = \"total\"
    at_least = \"20MB/s\"

A case states only its differences from the file. `[case.writers.client.reader]` changes the client `reader` in the case `writers`, and
`[[case.writers.client]]` adds a client. A case can use only one of these two forms. If only some cases have a certain client, put it into the file with
`numjobs = 0` and change that number in these cases. `[on.disk]`, `[on.flash]` and `[under.POLICY]` are written in the same way. Weir applies the case
first, then the differences for the kind of drive, then those for the policy. If a case renames a client, `on` and `under` still use the name from the file.

You can also set the tunables of elevators, in the file or in a case, for example `bfq = { low_latency = false }`. `configuration.md` lists the keys.
They apply under every policy with that elevator, and override the values of the policy.

Two details differ from `fio`. A `rate` is an open loop: the latency of a request counts from the time at which the request was due. With an `iodepth`
above 1, each of the requests in flight has a think time of its own. A file that needs something that is not modelled is refused, for example
several concurrent calls through the page cache.

## The file
";

const JOBS: &str = "
## Job files of fio

`weir compare job.fio` simulates each job as one client (with `numjobs`, as that number of clients). Each client has a group of its own, so policies
divide the drive among jobs. Jobs whose `prio` or `prioclass` differ share the root group instead, because Linux compares I/O priorities only within
a group. The files of all jobs are adjacent on one device. `nr_requests`, the adapter and merging are as in Linux.

Units are those of fio: `4k` is 4096 bytes with `kb_base=1024`, the default, while `4kib` is 4000 bytes. With `kb_base=1000`, it is the other way round.
Times are in seconds where fio uses seconds, and in microseconds for `thinktime`. A job that is not `time_based` ends when it has transferred its
`size` (`io_size`, `loops`), but at the latest after its `runtime`, or after 10 seconds if it has none. The latency in the results is that of the first
job. Without `--drive`, Weir uses the model `samsung-970-pro`.

- *Devices.* A job on a whole device (`filename=/dev/nvme0n1`) uses the selected drive. Without `size` it uses all of the drive, and with `size=50%` half of it.
- *Rates.* `rate` and `rate_iops` limit the reads and the writes of a mixed job separately. `rate_iops=1000,500` has one limit for each, and `rate_iops=1000,`
  limits only reads.
- *Phases.* A job with `stonewall` or `wait_for` starts at the latest time at which the jobs that it waits for can end, which is after their `startdelay`,
  `ramp_time` and `runtime`. If they end earlier because they have
  transferred their `size`, the waiting job does not start earlier.
- *Recorded loads.* `read_iolog` plays an iolog of fio (versions 2 and 3) or a trace of blktrace as
  it is, without a conversion. A trace is a file that `blkparse -d` has merged, or, without a merge,
  the name before `.blktrace.0`. Of a trace, Weir plays the requests that entered the block layer
  (the action Q): reads, writes, discards and flushes, with the flags for synchronous, durable and
  metadata requests. A write that is preceded by a flush is two requests. Files and devices of the
  load follow each other, unless `replay_redirect` names one for all of them. Each request is due at
  its recorded time, as in an open loop. It waits only while `iodepth` requests are in flight, and
  its latency counts from when it was due. The next request keeps its recorded time, while fio
  delays all later requests by the same time. With `replay_no_stall=1`, or if an iolog of version 2
  has no `wait`, each request follows as soon as `iodepth` permits. A `sync` in an iolog is a flush
  that does not wait for other requests. Times of version 3 are in microseconds, as fio 3.33 writes
  them. Without `runtime`, the job is played for its recorded time and one more second. A file can
  have up to 16 million requests, which take 400 MB of memory. A damaged or truncated file is
  refused with its line or byte.
- *Small writes.* A write through the page cache that is smaller than a page makes the whole page dirty, and `fdatasync` writes the whole page. The rest
  of the page is not read before, as in a file that is written for the first time.
- *Included files.* The path in `include other.fio` is relative to the working directory, or else to the directory of the job file. `${NAME}` is an
  environment variable, `$pagesize` is 4096, and `$ncpus` and `$mb_memory` are those of this machine. A note reports the result.

The bandwidth of a job is measured over the job's own time, as in fio: from its start to its last possible request or to the reply to that request,
independent of other jobs before and after it. `ramp_time` passes before the measurement. If a job ends within its `ramp_time`, fio reports the whole
job. Weir does not measure such a job, and its row says so.

`weir scenarios --from job.fio > mine.toml` prints the job file as a scenario file, in which you can give each client a contract (`min`, `max`, `share`,
`latency`). Without contracts, most policies of Linux have nothing to act on. If several policies give equal results, the table of `weir compare` says so.
";

const INTRODUCTION: &str = "\
# Configuration

This page describes every key of the files that you can write for Weir: the server's file, the file for `weir apply`, policies, and models of drives.
`scenarios.md` describes scenario files.

All files are TOML. A number that has a unit is a string that states the unit:

- a *size* is `\"4096B\"`, `\"128KiB\"`, `\"8GiB\"`, or decimal, where `\"5MB\"` is 5 * 10^6 bytes;
- a *rate* is a size per second, such as `\"50MB/s\"` or `\"1.5GiB/s\"`;
- a *time* is `\"30us\"`, `\"500ms\"`, `\"2s\"` or `\"1min\"`.

Fractions are permitted if the result is a whole number of bytes or nanoseconds. An unknown key is an error, and the message suggests the nearest
known key. `weir check CONFIG` reports every error of a server's file with line and column, and starts nothing.

A reload (SIGHUP) applies changes of contracts and capacities, added and removed volumes and tenants, and volumes that have become larger. All other
settings are fixed while the server runs, so a reload that would change one of them is refused. A reload that removes a volume while clients use it is
also refused, unless the file has `remove_in_use = true` in `[server]`. The log lists every key that a reload changed. To see this list beforehand, or the
reason why the reload would be refused, run `weir check --reload CONFIG`, which queries the running server at `listen.metrics`.

The server notifies the process that started it (`sd_notify(3)`) when it is ready, when it reloads and when it ends. With systemd 253 or later, you can
therefore use this unit:

    [Service]
    Type=notify-reload
    ExecStart=/usr/local/bin/weir serve /etc/weir.toml
    LimitNICE=-10

With an earlier systemd, use `Type=notify` and `ExecReload=kill -HUP $MAINPID`.

This page is generated from the tables that the parser uses (`crates/config/src/key`, `crates/config/src/parameter` and the tables of tunables in
the core), and a test compares them. To update the page, run `WEIR_BLESS=1 cargo test -p weir-config --test it manual::`.

## The server's file
";

const KERNEL: &str = "
## Contracts for the kernel

`weir apply` (`apply.md`) reads a file that has the form of the server's file, with block devices as drives and cgroups instead of volumes.
";

const POLICIES: &str = "
## Policies

A policy determines how a drive is shared. It consists of an elevator with its tunables, of controllers in front of it, and of the effect of each part
of a contract. The `policy` of a drive in the server's file, `--policy` of `weir demo` and `weir compare`, the simulator and the search all use the same
policies. You can name a policy in three ways:

- by its name. `weir policies` lists the policies that come with Weir, and `weir policies NAME` prints one, which you can copy and change;
- by a name followed by controllers, such as `\"bfq + io.latency\"`. A controller that the policy already has changes nothing, so `\"bfq + max\"` is the
  same as `\"bfq\"`. With `\"bfq + io.max\"`, the same limits are kept as in Linux, in time slices;
- by the path of a policy's file, which contains a slash or ends in `.toml`.

A server never refuses a contract because the policy of its drive does not keep it. Instead, `weir check` and the server's log warn about each key that is
not kept, and state its effect. A min always counts against the capacity, but only a policy whose min is `\"kept\"` keeps it. For example, a min has no
effect under `\"none\"`, and is a weight under `\"bfq\"`.

These policies come with Weir:

";

const MODELS: &str = "
## Models

A model is a table with a `kind` and the parameters of that kind. You can use it as `model` of a drive, as a member of a `stripe` or a `linear` volume,
and as the file of a profile. `weir drives fit NAME` prints one as a starting point, and `weir calibrate --profile FILE` fits one to a real drive.
Parameters that are \"required\" have no default. The examples are those of a plausible drive.

    [drive.fast]
    model = { kind = \"null\", service = \"30us\", link = \"250MB/s\" }

Instead of `kind`, a table can have `profile`, the name of a drive that `weir drives` lists. Then the table sets only the parameters that differ from that
drive. All other parameters are those of the profile, and `members` cannot be set.

    [drive.stalling]
    model = { profile = \"plextor-px-256m5s\", stall_every = \"20s\", stall_length = \"300ms\" }
";

const PROFILES: &str = "
## Profiles and sheets

A profile gives a drive model a name, and a sheet contains the published figures from which the parameters of a profile are found. The files that come
with Weir are in `crates/config/profiles` and `crates/config/sheets`. [Drive profiles](decisions/drive-profiles.md) explains how a drive gets its profile.
";

fn section(page: &mut String, shape: &Shape) {
    let name = if shape.name.starts_with('[') || shape.name.contains('{') {
        format!("`{}`", shape.name)
    } else {
        let (first, rest) = shape.name.split_at(1);
        first.to_uppercase() + rest
    };
    heading(page, &name, shape.about);
    for group in shape.keys {
        // Contracts have a section of their own.
        if group
            .iter()
            .map(|k| k.name)
            .eq(key::CONTRACTS.iter().map(|k| k.name))
        {
            *page += "\nIt also has the keys of [contracts](#contracts).\n";
        } else {
            keys(page, group);
        }
    }
}

fn heading(page: &mut String, name: &str, about: &str) {
    let _ = write!(page, "\n### {name}\n\n{about}\n");
}

fn keys(page: &mut String, keys: &[KeyDeclaration]) {
    *page +=
        "\n| Key | Type | Default | Description | Example |\n| --- | --- | --- | --- | --- |\n";
    for key in keys {
        let default = match key.default {
            DefaultValue::Needed => "required".to_owned(),
            DefaultValue::Value("[]") => "none".to_owned(),
            // An empty table means either that no object is defined or that all keys have their
            // defaults.
            DefaultValue::Value("{}") => match key.kind {
                key::KeyKind::Table(names) if names.starts_with("one ") => "none".to_owned(),
                _ => "its defaults".to_owned(),
            },
            DefaultValue::Value(value) => format!("`{value}`"),
            DefaultValue::Words(words) => words.to_owned(),
        };
        let (name, kind, about, example) = (key.name, key.kind.text(), key.about, key.example);
        let _ = writeln!(
            page,
            "| `{name}` | {kind} | {default} | {about} | `{name} = {example}` |"
        );
    }
}

/// Adds the tunables of an elevator.
fn tuned(page: &mut String, kind: &elevator::ElevatorKind, tunables: &[Tunable]) {
    let about = format!(
        "The tunables of the elevator `\"{0}\"`. Set them in `[{0}]` of a policy's file, or next to `policy` of a drive in the server's file, \
         where they apply to that drive alone. A tunable that Linux also has is called as in Linux. Where Linux uses plain numbers of \
         milliseconds, KiB or sectors, you must write the unit here.",
        kind.name
    );
    heading(page, &format!("`{}`", tunable::called(kind)), &about);
    *page += "\n| Key | Type | Default | Description | Source |\n| --- | --- | --- | --- | --- |\n";
    for tunable in tunables {
        let _ = writeln!(
            page,
            "| `{}` | {} | `{}` | {} | {} |",
            tunable.name,
            key::KeyKind::of(tunable).text(),
            tunable::toml(tunable, tunable.default),
            tunable.about,
            tunable.source
        );
    }
}

fn model(page: &mut String, kind: &ModelKind) {
    let mut generic = (kind.generic)();
    if let weir_model::drive::DriveConfig::Volume(volume) = &mut generic {
        // A volume without members is invalid, so the permitted values of its parameters could not
        // be found.
        let member = weir_model::drive::hdd::HddConfig::generic();
        volume
            .members
            .push(weir_model::drive::DriveConfig::Hdd(member));
    }
    heading(page, &format!("`kind = \"{}\"`", kind.name), kind.about);
    *page += "\n| Key | Type | Permitted values | Default | Description | Example |\n| --- | --- | --- | --- | --- | --- |\n";
    for parameter in kind.parameters {
        let Parameter { key, about, .. } = parameter;
        let about = sentence(about);
        let default = parameter.default.map_or_else(
            || "required".to_owned(),
            |u| format!("`{}`", parameter.toml(u)),
        );
        let allowed = match parameter.unit {
            ParameterUnit::Bool => "either",
            _ => parameter.allowed(&generic),
        };
        let is = unit(parameter.unit);
        let example = parameter.toml(parameter.get(&generic));
        let _ = writeln!(
            page,
            "| `{key}` | {is} | {allowed} | {default} | {about} | `{key} = {example}` |"
        );
    }
    if kind.has_members {
        *page += "| `members` | array of models | 1 to 64, which can be of different kinds | required | The drives of the volume, as names that `weir drives` lists \
                  or as tables. | `members = [\"wd-wd10jpvx\", \"wd-wd10jpvx\"]` |\n";
    }
}

/// Turns a few words into a sentence.
fn sentence(words: &str) -> String {
    let (first, rest) = words.split_at(1);
    format!("{}{rest}.", first.to_uppercase())
}

fn unit(unit: ParameterUnit) -> &'static str {
    match unit {
        ParameterUnit::Bytes => "size",
        ParameterUnit::Rate => "rate",
        ParameterUnit::Time => "time",
        ParameterUnit::Bool => "`true` or `false`",
        ParameterUnit::Count => "whole number",
        ParameterUnit::PerMinute => "whole number, per minute",
        ParameterUnit::Pages => "whole number of pages",
        ParameterUnit::PerMille => "whole number, per mille",
        ParameterUnit::Percent => "whole number, per cent",
    }
}
