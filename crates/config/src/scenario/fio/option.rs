//! The options that there are, and what becomes of each.

use super::Line;
use crate::document::Document;
use crate::nearest;

/// What is read: each by all of its names.
const READ: &[&[&str]] = &[
    &["rw", "readwrite"],
    &["bs", "blocksize"],
    &["bsrange", "blocksize_range"],
    &["bssplit"],
    &["size"],
    &["io_size", "io_limit"],
    &["filesize"],
    &["loops"],
    &["offset"],
    &["offset_increment"],
    &["filename"],
    &["filename_format"],
    &["nrfiles", "nr_files"],
    &["ioengine"],
    &["iodepth"],
    &["iodepth_low"],
    &["iodepth_batch_complete_min", "iodepth_batch_complete"],
    &["direct"],
    &["buffered"],
    &["fsync"],
    &["fdatasync"],
    &["sync"],
    &["rwmixread"],
    &["rwmixwrite"],
    &["numjobs"],
    &["startdelay", "start_delay"],
    &["runtime", "timeout"],
    &["time_based"],
    &["ramp_time"],
    &["number_ios"],
    &["thinktime"],
    &["thinktime_blocks"],
    &["rate"],
    &["rate_iops"],
    &["rate_process"],
    &["random_distribution"],
    &["percentage_random"],
    &["norandommap"],
    &["zonemode"],
    &["zonesize"],
    &["zoneskip"],
    &["zonerange"],
    &["prio"],
    &["prioclass"],
    &["stonewall", "wait_for_previous"],
    &["kb_base"],
];

/// What changes nothing here, and why.
const NOTED: &[(&str, &str)] = &[
    ("group_reporting", "every client has a record of its own"),
    ("description", "it is a remark"),
    ("thread", "processes and threads are the same here"),
    (
        "directory",
        "files lie one behind the other on the drive that is chosen",
    ),
    (
        "randseed",
        "seeds follow from the scenario's name, so that all policies meet the same work",
    ),
    ("randrepeat", "runs repeat whatever it says"),
    ("allrandrepeat", "runs repeat whatever it says"),
    ("random_generator", "random numbers are Weir's own"),
    ("refill_buffers", "nothing depends on what is written"),
    ("zero_buffers", "nothing depends on what is written"),
    ("scramble_buffers", "nothing depends on what is written"),
    ("clat_percentiles", "percentiles are always there"),
    ("lat_percentiles", "percentiles are always there"),
    ("percentile_list", "percentiles are always the same"),
    ("disk_util", "it is always there"),
    ("invalidate", "every run begins with an empty cache"),
    ("clocksource", "time is virtual"),
    ("gtod_reduce", "time is virtual"),
    ("cpus_allowed", "processors are not modelled"),
    ("cpus_allowed_policy", "processors are not modelled"),
    ("fallocate", "files are there before the run"),
    ("create_serialize", "files are there before the run"),
    ("overwrite", "files are there before the run"),
    ("unlink", "there is no file to remove"),
    ("exitall_on_error", "no request fails"),
    ("unit_base", "it is about fio's own output"),
    ("significant_figures", "it is about fio's own output"),
    (
        "iodepth_batch",
        "requests that are due together go out together",
    ),
    (
        "iodepth_batch_submit",
        "requests that are due together go out together",
    ),
    (
        "iodepth_batch_complete_max",
        "answers are taken when they come",
    ),
    (
        "end_fsync",
        "what a job does after its last request is not measured",
    ),
    (
        "fsync_on_close",
        "what a job does after its last request is not measured",
    ),
    ("create_fsync", "files are there before the run"),
    ("ioscheduler", "the policy is chosen with --policy"),
    (
        "write_bw_log",
        "`weir compare --json FILE` writes what came of the run",
    ),
    (
        "write_lat_log",
        "`weir compare --json FILE` writes what came of the run",
    ),
    (
        "write_iops_log",
        "`weir compare --json FILE` writes what came of the run",
    ),
    (
        "write_hist_log",
        "`weir compare --json FILE` writes what came of the run",
    ),
    (
        "log_avg_msec",
        "`weir compare --json FILE` writes what came of the run",
    ),
    (
        "per_job_logs",
        "`weir compare --json FILE` writes what came of the run",
    ),
    ("disable_lat", "latencies are always measured"),
    ("disable_clat", "latencies are always measured"),
    ("disable_slat", "latencies are always measured"),
    ("disable_bw_measurement", "latencies are always measured"),
    ("slat_percentiles", "latencies are always measured"),
    ("bwavgtime", "it is about fio's own output"),
    ("iopsavgtime", "it is about fio's own output"),
    ("eta_newline", "it is about fio's own output"),
    ("new_group", "every client has a record of its own"),
    ("name", "a job is called as its section"),
    ("buffer_pattern", "nothing depends on what is written"),
    (
        "buffer_compress_percentage",
        "nothing depends on what is written",
    ),
    (
        "buffer_compress_chunk",
        "nothing depends on what is written",
    ),
    ("dedupe_percentage", "nothing depends on what is written"),
    ("nice", "processors are not modelled"),
    ("numa_cpu_nodes", "processors are not modelled"),
    ("numa_mem_policy", "processors are not modelled"),
    ("lockmem", "memory is not modelled"),
    ("mem", "memory is not modelled"),
    ("iomem", "memory is not modelled"),
    ("mem_align", "memory is not modelled"),
    ("iomem_align", "memory is not modelled"),
    ("hugepage-size", "memory is not modelled"),
    ("continue_on_error", "no request fails"),
    ("ignore_error", "no request fails"),
    ("openfiles", "files are open before the run"),
    ("unlink_each_loop", "there is no file to remove"),
    ("create_on_open", "files are there before the run"),
    ("allow_file_create", "files are there before the run"),
    ("rate_cycle", "a rate is kept from request to request"),
    ("hipri", "how answers are waited for costs nothing here"),
    ("registerfiles", "what a system call costs is not modelled"),
    ("fixedbufs", "what a system call costs is not modelled"),
    ("sqthread_poll", "what a system call costs is not modelled"),
    (
        "softrandommap",
        "a place once before any again takes no memory here",
    ),
    (
        "fadvise_hint",
        "clients tell the kernel how they read, as fio does unless told otherwise",
    ),
];

/// Other options of fio: what to do instead.
const REFUSED: &[(&str, &str)] = &[
    (
        "wait_for",
        "all jobs run at a time: put each phase into a file of its own",
    ),
    (
        "exitall",
        "leave it out: every job runs for its own runtime",
    ),
    (
        "cgroup",
        "write a scenario's file, where groups and contracts have words (`weir scenarios NAME` prints one)",
    ),
    (
        "cgroup_weight",
        "write a scenario's file with share = 200 (`weir scenarios shares` prints one)",
    ),
    ("cgroup_nodelete", "leave it out"),
    ("fill_device", "write size"),
    (
        "thinktime_blocks_type",
        "leave it out: a job thinks when its requests are answered",
    ),
    (
        "thinktime_spin",
        "leave it out: processors are not modelled",
    ),
    (
        "thinktime_iotime",
        "leave it out, or write a scenario's file with on and off",
    ),
    ("rate_min", "write an [[expect]] in a scenario's file"),
    ("rate_iops_min", "write an [[expect]] in a scenario's file"),
    ("rate_ignore_thinktime", "leave out thinktime or the rate"),
    ("io_submit_mode", "write rate_iops, which is open loop here"),
    ("serialize_overlap", "leave it out"),
    ("file_service_type", "leave it out: files take turns"),
    ("rw_sequencer", "leave it out"),
    (
        "bs_unaligned",
        "leave it out: offsets are multiples of the block",
    ),
    (
        "blockalign",
        "leave it out: offsets are multiples of the block",
    ),
    ("ba", "leave it out: offsets are multiples of the block"),
    ("write_barrier", "write fdatasync"),
    ("sync_file_range", "write fdatasync"),
    ("verify", "leave it out: a modelled drive holds no data"),
    ("do_verify", "leave it out: a modelled drive holds no data"),
    ("read_iolog", "traces are not played"),
    (
        "write_iolog",
        "`weir compare --json FILE` writes what came of the run",
    ),
    ("latency_target", "write an [[expect]] in a scenario's file"),
    ("latency_window", "write an [[expect]] in a scenario's file"),
    (
        "latency_percentile",
        "write an [[expect]] in a scenario's file",
    ),
    ("max_latency", "write an [[expect]] in a scenario's file"),
    ("opendir", "name files with filename"),
    (
        "pre_read",
        "leave it out: every run begins with an empty cache",
    ),
    ("flow", "write rate_iops for each job"),
    ("include", "copy the other file's lines to here"),
    ("zonecapacity", "zoned drives are not modelled"),
    ("max_open_zones", "zoned drives are not modelled"),
    ("trim_percentage", "trim is not read"),
    ("atomic", "leave it out"),
    ("exec_prerun", "run it yourself"),
    ("exec_postrun", "run it yourself"),
    ("steadystate", "write runtime and ramp_time"),
    ("profile", "leave it out"),
    ("replay_no_stall", "traces are not played"),
];

/// Of those what may stand there as 0, which is off.
const OFF: &[&str] = &[
    "verify",
    "do_verify",
    "pre_read",
    "fill_device",
    "exitall",
    "thinktime_spin",
    "serialize_overlap",
    "atomic",
];

/// What is read, by all names.
pub(crate) fn read_options() -> impl Iterator<Item = &'static [&'static str]> {
    READ.iter().copied()
}

/// What changes nothing here, and why.
pub(crate) fn noted_options() -> impl Iterator<Item = (&'static str, &'static str)> {
    NOTED.iter().copied()
}

/// What is refused, and what to do instead.
pub(crate) fn refused_options() -> impl Iterator<Item = (&'static str, &'static str)> {
    REFUSED.iter().copied()
}

/// An option with its value. What is refused or only noted is said and gives nothing.
pub(super) fn line<'a>(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    line: &'a str,
    begin: usize,
) -> Option<Line<'a>> {
    let (name, value) = match line.split_once('=') {
        Some((name, value)) => (name.trim_end(), Some(value)),
        None => (line, None),
    };
    let at = begin..begin + name.len();
    let value_at = value.map_or_else(
        || at.clone(),
        |v| {
            let skipped = v.len() - v.trim_start().len();
            let from = begin + line.len() - v.len() + skipped;
            from..from + v.trim().len()
        },
    );
    let value = value.map(str::trim);
    if value.is_some_and(has_option) {
        let help = "write each option on a line of its own";
        doc.at(
            &value_at,
            name,
            "another option stands on the same line",
            help,
        );
        return None;
    }
    if let Some(words) = READ.iter().find(|words| words.contains(&name)) {
        return Some(Line {
            name: words[0],
            value,
            global: false,
            at,
            value_at,
        });
    }
    if let Some((_, why)) = NOTED.iter().find(|n| n.0 == name) {
        notes.at(&at, name, format!("changes nothing here: {why}"), "");
        return None;
    }
    let word = name.split_whitespace().next().unwrap_or(name);
    if OFF.contains(&name) && value == Some("0") {
        notes.at(&at, name, "changes nothing here: it is off", "");
        return None;
    }
    if let Some((word, help)) = REFUSED.iter().find(|r| r.0 == word) {
        doc.at(&at, word, "has no meaning here", help);
        return None;
    }
    let read = READ.iter().flat_map(|words| words.iter().copied());
    let noted = NOTED.iter().map(|n| n.0);
    let refused = REFUSED.iter().map(|r| r.0);
    let near = nearest::name(name, read.chain(noted).chain(refused));
    if name.is_empty() {
        let help = "write NAME=VALUE on one line";
        doc.at(&at, "", "no option stands before =", help);
        return None;
    }
    let help = match near {
        _ if is_read(name.trim_start_matches('-')) => {
            format!("write {} without dashes", name.trim_start_matches('-'))
        }
        _ if word == "fio" => {
            "write each option on a line of its own, without dashes, below [reader]".into()
        }
        Some(near) => format!("did you mean {near}?"),
        None => {
            "leave it out, or write a scenario's file (`weir scenarios NAME` prints one)".into()
        }
    };
    doc.at(&at, word, "unknown option", &help);
    None
}

/// Whether it is an option that is read.
fn is_read(name: &str) -> bool {
    READ.iter().any(|words| words.contains(&name))
}

/// Whether another option follows a value on its line.
fn has_option(value: &str) -> bool {
    let mut words = value.split_whitespace().skip(1);
    words.any(|word| is_read(word.split('=').next().unwrap_or(word)))
}
