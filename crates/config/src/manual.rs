//! `docs/configuration.md`: every key of the files that people write, printed from the tables that the parser reads by.

use crate::key::{self, DefaultValue, Key, Shape};
use crate::parameter::{KINDS, Kind, Parameter, Unit};
use crate::scenario::fio::{Fate, OPTIONS, VALUES};
use crate::{policy, tunable};
use std::fmt::Write as _;
use weir_core::elevator;
use weir_core::tunable::Tunable;

/// The page, as Markdown.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for shape in key::SERVERS {
        section(&mut page, shape);
        if shape.name == key::VOLUME.name {
            let about = "The keys of `[volume.NAME]` and `[tenant.NAME]` alike. What admission refuses: `contract.md`.";
            heading(&mut page, "Contracts", about);
            keys(&mut page, key::CONTRACTS);
        }
    }
    page += KERNEL;
    for shape in key::APPLIES {
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

/// `docs/scenarios.md`: every key of a scenario's file, and every option of a job file of `fio`, as Markdown.
pub fn scenarios() -> String {
    let mut page = SCENARIOS.to_owned();
    for shape in key::SCENARIOS {
        section(&mut page, shape);
    }
    heading(
        &mut page,
        "Contracts",
        "The keys of `[[client]]` and `[[group]]` alike, as in the server's file (`configuration.md`).",
    );
    keys(&mut page, key::CONTRACTS);
    page += JOBS;
    fates(&mut page);
    page
}

/// What becomes of each option of a job file.
fn fates(page: &mut String) {
    let mut options: Vec<_> = OPTIONS.iter().collect();
    options.sort_by_key(|o| o.names[0]);
    let names = |names: &[&str]| format!("`{}`", names.join("`, `"));
    *page += "\n### Options\n\n\
              Played options do what they do in fio. Noted options change nothing here, for the reason given, which is told on standard error.\n\
              Refused options end the command with the advice given. Any other option is refused as unknown.\n\n\
              | Option | Fate | Reason or advice |\n| --- | --- | --- |\n";
    for option in options {
        let (fate, text) = match option.fate {
            Fate::Played => ("played", ""),
            Fate::Noted(why) => ("noted", why),
            Fate::Refused(help) => ("refused", help),
        };
        let _ = writeln!(page, "| {} | {fate} | {text} |", names(option.names));
    }
    *page += "\n### Refused values\n\n\
              Values of played options that are refused:\n\n\
              | Option | Value | Reason or advice |\n| --- | --- | --- |\n";
    for (option, value, why) in VALUES {
        let _ = writeln!(page, "| {option} | {value} | {why} |");
    }
}

const SCENARIOS: &str = "\
# Scenarios

A scenario says what each client does. Drive and policy are chosen beside it (`--drive`, `--policy`) and change nothing in it, unless the file
says so.

    weir scenarios                     what comes with Weir
    weir scenarios NAME > mine.toml    one of them, to begin from
    weir compare mine.toml             played in virtual time, policies beside each other
    weir compare mine.toml --check     exit status 1 if what it asks for does not come out
    weir demo --scenario mine.toml     on a real server, where that can be; else it is refused with the reason
    weir compare jobs.fio              a job file of fio
    weir scenarios --from jobs.fio     what it comes to as a scenario's file, to add contracts to
    weir compare s-suite               several scenarios on one page (`weir scenarios s-suite` lists them)

This page is printed from the tables that the parser reads by (`crates/config/src/key/scenario.rs`), and a test keeps the two equal;
`WEIR_BLESS=1 cargo test -p weir-config --test manual` prints it anew. Sizes, rates and times are written as in the server's file
(`configuration.md`). Everything wrong is told with line and column and the nearest name.

Three readers that interleave, as one process of three reads each third 16 KiB of a file:

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

A file's cases are differences to it: `[case.writers.client.reader]` changes the client `reader` in the case `writers`, and
`[[case.writers.client]]` adds one; a case does one or the other (a client that only some cases have can stand in the file with
`numjobs = 0`). `[on.disk]`, `[on.flash]` and `[under.POLICY]` are written in the same way. A case is put in first, then the kind of drive, then the
policy. What a case calls a client by does not change how `on` and `under` name it.

The tunables of elevators can be stated, too, in the file or in what differs: `bfq = { low_latency = false }`, by the keys that `configuration.md`
has. They hold under every policy of that elevator, over what the policy says of them.

What `fio` does and this does not: a `rate` is an open loop here, whose latencies count from when a request was due; with `iodepth` above 1 each
of the places thinks on its own. What is not modelled (write-back without `fdatasync`, several calls at a time through the page cache)
is refused.

## The file
";

const JOBS: &str = "
## Job files of fio

`weir compare job.fio`: one client a job (`numjobs`: that number). Each client has a group of its own, so that policies divide the drive
among jobs. Jobs whose `prio` or `prioclass` differ share the root group, because Linux compares I/O priorities within a group only. The
files are one behind the other on one device. `nr_requests`, adapter and merging are as Linux has them. Units are fio's: `4k` is 4096 bytes
with `kb_base=1024`, the default, where `4kib` is 4000; the other way round with `kb_base=1000`. Times are seconds where fio has seconds,
and microseconds for `thinktime`. A job that is not `time_based` ends with its `size` (`io_size`, `loops`), at the latest after its
`runtime`, or after 10 seconds where it has none. The first job is the one whose latency is shown. Without `--drive` jobs are played on the
model `samsung-970-pro`.

- *Devices.* A job on a whole device (`filename=/dev/nvme0n1`) uses the chosen drive: without `size` all of it, and with `size=50%` half of it.
- *Rates.* `rate` and `rate_iops` limit reads and writes of a mixed job separately. `rate_iops=1000,500` has one for each, `rate_iops=1000,` for reads alone.
- *Phases.* A job with `stonewall` or `wait_for` begins when the jobs that it waits for have ended at the latest, after their `startdelay`, `ramp_time`
  and `runtime`. If they end earlier with their `size`, nothing happens in between.
- *Small writes.* A write through the page cache that is smaller than a page makes the whole page dirty, which `fdatasync` writes. The rest of the page is
  not read before, as in a file that is written for the first time.
- *Included files.* `include other.fio` reads a file relative to the working directory, otherwise next to the job file. `${NAME}` is a variable of the
  environment, `$pagesize` is 4096, `$ncpus` and `$mb_memory` are those of this machine; a note gives the result.

The bandwidth of a job is measured over the job's own time, as in fio: from its start to its last possible request, or the reply to that,
whatever other jobs do before and after it. `ramp_time` passes before anything is measured. If a job ends within it, fio reports the whole
job. Weir does not measure such a job, and its row says so.

`weir scenarios --from job.fio > mine.toml` prints the same as a scenario's file, in which each client can have a contract of its own (`min`,
`max`, `share`, `latency`). Without contracts most policies of Linux have nothing to act on. The table of `weir compare` says so if policies
give equal results.
";

const INTRODUCTION: &str = "\
# Every key

This page is printed from the tables that the parser reads by (`crates/config/src/key`, `crates/config/src/parameter`, the
core's tables of tunables), and a test keeps the two equal; `WEIR_BLESS=1 cargo test -p weir-config --test manual` prints it anew.

Files are TOML. A number that has a unit is a string and says it:

- a *size* is `\"4096B\"`, `\"128KiB\"`, `\"8GiB\"`, or decimal: `\"5MB\"` is 5 * 10^6 bytes;
- a *rate* is a size a second: `\"50MB/s\"`, `\"1.5GiB/s\"`;
- a *time* is `\"30us\"`, `\"500ms\"`, `\"2s\"`, `\"1min\"`.

Fractions are permitted where they come to a whole number of bytes or nanoseconds. An unknown key is an error, which names the nearest
known one. `weir check CONFIG` says everything that is wrong with a server's file, with line and column, and starts nothing.

A reload (SIGHUP) puts contracts, capacities, volumes and tenants that came, went or changed in force, and volumes that have become
larger. Everything else is fixed while the server runs, and a reload that would change it is refused. So is one that removes a volume under
its clients, unless the file says `remove_in_use = true` in `[server]`. The log says what a reload changed, key by key. Beforehand
`weir check --reload CONFIG` says it, or what the reload would be refused for; it asks the running server at `listen.metrics`.

The process that starts the server is told (`sd_notify(3)`) when it is ready, reloads and ends, so that a unit of systemd (253 or later) can say:

    [Service]
    Type=notify-reload
    ExecStart=/usr/local/bin/weir serve /etc/weir.toml
    LimitNICE=-10

Before, it says `Type=notify` and `ExecReload=kill -HUP $MAINPID`.

## The server's file
";

const KERNEL: &str = "
# Contracts for the kernel

The file of `weir apply` (`apply.md`): the server's, with block devices as drives and cgroups in the place of volumes.
";

const POLICIES: &str = "
## Policies

A policy says how a drive is shared: an elevator with its tunables, controllers before it, and what becomes of each part of a contract. The
`policy` of a drive in the server's file, `--policy` of `weir demo` and `weir compare`, the simulator and the search mean the same by it. It is

- a name: `weir policies` lists those that come with Weir, and `weir policies NAME` prints one, to be copied and changed;
- a name with controllers behind it: `\"bfq + io.latency\"`. What the policy has anyway changes nothing: `\"bfq + max\"` is `\"bfq\"`. With
  `io.max` behind it the same limits are kept as Linux keeps them, in slices: `\"bfq + io.max\"`;
- the path of a policy's file, with a slash in it or `.toml` at its end.

A server never refuses a contract because its drive's policy does not keep it: `weir check` and the server's log warn of each key that is not
kept, and say what is done with it instead. A min counts against the capacity all the same. Only a drive whose min is `\"kept\"` keeps it:
under `\"none\"` it does nothing, under `\"bfq\"` it is a weight.

Those that come with Weir:

";

const MODELS: &str = "
## Models

A model is a table with a `kind` and the parameters of that kind: in `model` of a drive, as a member of a `stripe` or a `linear` volume, and
as a profile's file. `weir drives fit NAME` prints one to begin from, `weir calibrate --profile FILE` fits one to a drive that is there. What is
\"needed\" cannot be left out; the examples are those of a plausible drive.

    [drive.fast]
    model = { kind = \"null\", service = \"30us\", link = \"250MB/s\" }
";

const PROFILES: &str = "
## Profiles and sheets

The profiles and sheets of Weir are in `crates/config/profiles` and `crates/config/sheets`. [Drive profiles](decisions/drive-profiles.md) explains how a drive gets its profile.
";

fn section(page: &mut String, shape: &Shape) {
    let name = if shape.name.starts_with('[') || shape.name.contains('{') {
        format!("`{}`", shape.name)
    } else {
        shape.name.to_owned()
    };
    heading(page, &name, shape.about);
    for group in shape.keys {
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

fn keys(page: &mut String, keys: &[Key]) {
    *page += "\n| key | is | if left out | does | example |\n| --- | --- | --- | --- | --- |\n";
    for key in keys {
        let default = match key.default {
            DefaultValue::Needed => "needed".to_owned(),
            DefaultValue::Value("[]") => "none".to_owned(),
            DefaultValue::Value("{}") => match key.kind {
                key::Kind::Table(names) if names.starts_with("one ") => "none".to_owned(),
                _ => "the defaults there".to_owned(),
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

/// The tunables of an elevator.
fn tuned(page: &mut String, kind: &elevator::Kind, tunables: &[Tunable]) {
    let about = format!(
        "Tunables of elevator `\"{0}\"`: in `[{0}]` of a policy's file, and beside `policy` of a drive in the server's file, where they are \
         set for that drive alone. Linux's names where Linux has them; where Linux has plain numbers of milliseconds, KiB or sectors, units \
         are written here.",
        kind.name
    );
    heading(page, &format!("`{}`", tunable::called(kind)), &about);
    *page += "\n| key | is | if left out | does | from |\n| --- | --- | --- | --- | --- |\n";
    for tunable in tunables {
        let _ = writeln!(
            page,
            "| `{}` | {} | `{}` | {} | {} |",
            tunable.name,
            key::Kind::of(tunable).text(),
            tunable::toml(tunable, tunable.default),
            tunable.about,
            tunable.source
        );
    }
}

fn model(page: &mut String, kind: &Kind) {
    let mut generic = (kind.generic)();
    if let weir_drive::Config::Volume(volume) = &mut generic {
        // Without a member it is refused whatever its parameters are.
        let member = weir_drive::hdd::Config::generic();
        volume.members.push(weir_drive::Config::Hdd(member));
    }
    heading(page, &format!("`kind = \"{}\"`", kind.name), kind.about);
    *page += "\n| key | is | permitted | if left out | does | example |\n| --- | --- | --- | --- | --- | --- |\n";
    for parameter in kind.parameters {
        let Parameter { key, about, .. } = parameter;
        let default = parameter.default.map_or_else(
            || "needed".to_owned(),
            |u| format!("`{}`", parameter.toml(u)),
        );
        let allowed = match parameter.unit {
            Unit::Bool => "either",
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
        *page += "| `members` | array of models | 1 to 64, each of a kind of its own | needed | The drives, by the names that `weir drives` lists \
                  or as tables. | `members = [\"wd-wd10jpvx\", \"wd-wd10jpvx\"]` |\n";
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "size",
        Unit::Rate => "rate",
        Unit::Time => "time",
        Unit::Bool => "`true` or `false`",
        Unit::Count => "whole number",
        Unit::PerMinute => "whole number, a minute",
        Unit::Pages => "whole number of pages",
        Unit::PerMille => "whole number of thousandths",
        Unit::Percent => "whole number of hundredths",
    }
}
