//! Every option of fio's job files, and what becomes of each.

/// What becomes of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The option is read and played.
    Played,
    /// The option changes nothing here, for this reason.
    Noted(&'static str),
    /// The option is refused, with what to do instead.
    Refused(&'static str),
}

/// An option by all of its names, the usual one first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FioOption {
    /// The names.
    pub(crate) names: &'static [&'static str],
    /// What becomes of it.
    pub(crate) fate: Fate,
}

const fn played(names: &'static [&'static str]) -> FioOption {
    let fate = Fate::Played;
    FioOption { names, fate }
}

const fn noted(names: &'static [&'static str], why: &'static str) -> FioOption {
    let fate = Fate::Noted(why);
    FioOption { names, fate }
}

const fn refused(names: &'static [&'static str], help: &'static str) -> FioOption {
    let fate = Fate::Refused(help);
    FioOption { names, fate }
}

/// What to do about an option of an engine that is not modelled.
const ENGINE: &str =
    "write another ioengine, as libaio: the one whose option this is is not modelled";

/// The options of fio 3.33, and those of its command line that people write into job files.
pub(crate) const OPTIONS: &[FioOption] = &[
    played(&["rw", "readwrite"]),
    played(&["bs", "blocksize"]),
    played(&["bsrange", "blocksize_range"]),
    played(&["bssplit"]),
    played(&["ba", "blockalign"]),
    played(&["size"]),
    played(&["io_size", "io_limit"]),
    played(&["filesize"]),
    played(&["loops"]),
    played(&["offset", "fileoffset"]),
    played(&["offset_increment"]),
    played(&["filename"]),
    played(&["filename_format"]),
    played(&["nrfiles", "nr_files"]),
    played(&["ioengine"]),
    played(&["iodepth"]),
    played(&["iodepth_low"]),
    played(&["iodepth_batch_complete_min", "iodepth_batch_complete"]),
    played(&["direct"]),
    played(&["buffered"]),
    played(&["fsync"]),
    played(&["fdatasync"]),
    played(&["sync"]),
    played(&["rwmixread"]),
    played(&["rwmixwrite"]),
    played(&["numjobs"]),
    played(&["startdelay", "start_delay"]),
    played(&["runtime", "timeout"]),
    played(&["time_based"]),
    played(&["ramp_time"]),
    played(&["number_ios"]),
    played(&["thinktime"]),
    played(&["thinktime_blocks"]),
    played(&["rate"]),
    played(&["rate_iops"]),
    played(&["rate_process"]),
    played(&["random_distribution"]),
    played(&["percentage_random"]),
    played(&["norandommap"]),
    played(&["zonemode"]),
    played(&["zonesize"]),
    played(&["zoneskip"]),
    played(&["zonerange"]),
    played(&["prio"]),
    played(&["prioclass"]),
    played(&["stonewall", "wait_for_previous"]),
    played(&["wait_for"]),
    played(&["include"]),
    played(&["kb_base"]),
    noted(&["group_reporting"], "every client has a record of its own"),
    noted(&["new_group"], "every client has a record of its own"),
    noted(
        &["unified_rw_reporting"],
        "every client has a record of its own",
    ),
    noted(&["stats"], "every client has a record of its own"),
    noted(&["description"], "it is a remark"),
    noted(&["name"], "a job is called as its section"),
    noted(&["thread"], "processes and threads are the same here"),
    noted(
        &["directory"],
        "files lie one behind the other on the drive that is chosen",
    ),
    noted(
        &["unique_filename"],
        "files lie one behind the other on the drive that is chosen",
    ),
    noted(&["lockfile"], "nobody else uses the files"),
    noted(&["uid"], "nobody else uses the files"),
    noted(&["gid"], "nobody else uses the files"),
    noted(&["allow_mounted_write"], "nobody else uses the files"),
    noted(
        &["randseed"],
        "seeds follow from the scenario's name, so that all policies meet the same work",
    ),
    noted(&["randrepeat"], "runs repeat whatever it says"),
    noted(&["allrandrepeat"], "runs repeat whatever it says"),
    noted(&["random_generator"], "random numbers are Weir's own"),
    noted(&["refill_buffers"], "nothing depends on what is written"),
    noted(&["zero_buffers"], "nothing depends on what is written"),
    noted(&["scramble_buffers"], "nothing depends on what is written"),
    noted(&["buffer_pattern"], "nothing depends on what is written"),
    noted(
        &["buffer_compress_percentage"],
        "nothing depends on what is written",
    ),
    noted(
        &["buffer_compress_chunk"],
        "nothing depends on what is written",
    ),
    noted(&["dedupe_percentage"], "nothing depends on what is written"),
    noted(&["dedupe_mode"], "nothing depends on what is written"),
    noted(
        &["dedupe_working_set_percentage"],
        "nothing depends on what is written",
    ),
    noted(&["dedupe_global"], "nothing depends on what is written"),
    noted(&["write_hint"], "nothing depends on what is written"),
    noted(&["clat_percentiles"], "percentiles are always there"),
    noted(&["lat_percentiles"], "percentiles are always there"),
    noted(&["block_error_percentiles"], "percentiles are always there"),
    noted(&["percentile_list"], "percentiles are always the same"),
    noted(&["disk_util"], "it is always there"),
    noted(&["invalidate"], "every run begins with an empty cache"),
    noted(&["clocksource"], "time is virtual"),
    noted(&["gtod_reduce"], "time is virtual"),
    noted(&["gtod_cpu"], "time is virtual"),
    noted(&["cpus_allowed"], "processors are not modelled"),
    noted(&["cpus_allowed_policy"], "processors are not modelled"),
    noted(&["cpumask"], "processors are not modelled"),
    noted(&["nice"], "processors are not modelled"),
    noted(&["numa_cpu_nodes"], "processors are not modelled"),
    noted(&["numa_mem_policy"], "processors are not modelled"),
    noted(&["lockmem"], "memory is not modelled"),
    noted(&["mem", "iomem"], "memory is not modelled"),
    noted(&["mem_align", "iomem_align"], "memory is not modelled"),
    noted(&["hugepage-size"], "memory is not modelled"),
    noted(&["fallocate"], "files are there before the run"),
    noted(&["create_serialize"], "files are there before the run"),
    noted(&["overwrite"], "files are there before the run"),
    noted(&["create_fsync"], "files are there before the run"),
    noted(&["openfiles"], "files are there before the run"),
    noted(&["create_on_open"], "files are there before the run"),
    noted(&["allow_file_create"], "files are there before the run"),
    noted(&["unlink"], "there is no file to remove"),
    noted(&["unlink_each_loop"], "there is no file to remove"),
    noted(&["exitall_on_error"], "no request fails"),
    noted(&["continue_on_error"], "no request fails"),
    noted(&["ignore_error"], "no request fails"),
    noted(&["error_dump"], "no request fails"),
    noted(&["exit_what"], "no job ends before its time"),
    noted(&["unit_base"], "it is about fio's own output"),
    noted(&["significant_figures"], "it is about fio's own output"),
    noted(&["bwavgtime"], "it is about fio's own output"),
    noted(&["iopsavgtime"], "it is about fio's own output"),
    noted(&["eta_newline"], "it is about fio's own output"),
    noted(&["eta"], "it is about fio's own output"),
    noted(&["output"], "it is about fio's own output"),
    noted(&["output-format"], "it is about fio's own output"),
    noted(&["minimal"], "it is about fio's own output"),
    noted(&["status-interval"], "it is about fio's own output"),
    noted(
        &["iodepth_batch", "iodepth_batch_submit"],
        "requests that are due together go out together",
    ),
    noted(
        &["iodepth_batch_complete_max"],
        "answers are taken when they come",
    ),
    noted(&["userspace_reap"], "answers are taken when they come"),
    noted(
        &["end_fsync"],
        "what a job does after its last request is not measured",
    ),
    noted(
        &["fsync_on_close"],
        "what a job does after its last request is not measured",
    ),
    noted(&["ioscheduler"], "the policy is chosen with --policy"),
    noted(
        &["write_bw_log"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["write_lat_log"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["write_iops_log"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["write_hist_log"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["write_iolog"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_avg_msec"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_hist_msec"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_hist_coarseness"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_entries"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_max_value"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_offset"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_prio"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_compression"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_compression_cpus"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_store_compressed"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_unix_epoch"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_alternate_epoch"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["log_alternate_epoch_clock_id"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(
        &["per_job_logs"],
        "`weir compare --json FILE` writes what came of the run",
    ),
    noted(&["disable_lat"], "latencies are always measured"),
    noted(&["disable_clat"], "latencies are always measured"),
    noted(&["disable_slat"], "latencies are always measured"),
    noted(
        &["disable_bw_measurement", "disable_bw"],
        "latencies are always measured",
    ),
    noted(&["slat_percentiles"], "latencies are always measured"),
    noted(
        &["rate_cycle", "ratecycle"],
        "a rate is kept from request to request",
    ),
    noted(
        &["rate_min", "ratemin"],
        "a job that is slower goes on; a scenario's file can state it as an [[expect]]",
    ),
    noted(
        &["rate_iops_min"],
        "a job that is slower goes on; a scenario's file can state it as an [[expect]]",
    ),
    noted(
        &["max_latency"],
        "a job that is slower goes on; a scenario's file can state it as an [[expect]]",
    ),
    noted(
        &["thinktime_spin"],
        "a job thinks for its thinktime, however it passes it",
    ),
    noted(&["hipri"], "how answers are waited for costs nothing here"),
    noted(
        &["hipri_percentage"],
        "how answers are waited for costs nothing here",
    ),
    noted(
        &["registerfiles"],
        "what a system call costs is not modelled",
    ),
    noted(&["fixedbufs"], "what a system call costs is not modelled"),
    noted(
        &["sqthread_poll"],
        "what a system call costs is not modelled",
    ),
    noted(
        &["sqthread_poll_cpu"],
        "what a system call costs is not modelled",
    ),
    noted(&["nonvectored"], "what a system call costs is not modelled"),
    noted(&["force_async"], "what a system call costs is not modelled"),
    noted(&["nowait"], "what a system call costs is not modelled"),
    noted(
        &["softrandommap"],
        "a place once before any again takes no memory here",
    ),
    noted(
        &["fadvise_hint"],
        "clients tell the kernel how they read, as fio does unless told otherwise",
    ),
    noted(
        &["steadystate", "ss"],
        "a job runs for its runtime, steady or not",
    ),
    noted(
        &["steadystate_duration", "ss_dur"],
        "a job runs for its runtime, steady or not",
    ),
    noted(
        &["steadystate_ramp_time", "ss_ramp"],
        "a job runs for its runtime, steady or not",
    ),
    noted(&["readonly"], "a job that only reads needs no guard"),
    noted(&["exec_prerun"], "no command is run"),
    noted(&["exec_postrun"], "no command is run"),
    noted(&["cgroup_nodelete"], "no cgroup is made"),
    noted(&["do_verify"], "nothing is verified"),
    noted(&["verify_interval"], "nothing is verified"),
    noted(&["verify_offset"], "nothing is verified"),
    noted(&["verify_pattern"], "nothing is verified"),
    noted(&["verify_fatal"], "nothing is verified"),
    noted(&["verify_dump"], "nothing is verified"),
    noted(&["verify_async"], "nothing is verified"),
    noted(&["verify_async_cpus"], "nothing is verified"),
    noted(&["verify_backlog"], "nothing is verified"),
    noted(&["verify_backlog_batch"], "nothing is verified"),
    noted(&["experimental_verify"], "nothing is verified"),
    noted(&["verify_state_load"], "nothing is verified"),
    noted(&["verify_state_save"], "nothing is verified"),
    noted(&["zonecapacity"], "zoned drives are not modelled"),
    noted(&["read_beyond_wp"], "zoned drives are not modelled"),
    noted(&["max_open_zones"], "zoned drives are not modelled"),
    noted(&["job_max_open_zones"], "zoned drives are not modelled"),
    noted(&["ignore_zone_limits"], "zoned drives are not modelled"),
    noted(&["zone_reset_threshold"], "zoned drives are not modelled"),
    noted(&["zone_reset_frequency"], "zoned drives are not modelled"),
    noted(&["read_iolog_chunked"], "traces are not played"),
    noted(&["replay_no_stall"], "traces are not played"),
    noted(&["replay_redirect"], "traces are not played"),
    noted(&["replay_scale"], "traces are not played"),
    noted(&["replay_align"], "traces are not played"),
    noted(&["replay_time_scale"], "traces are not played"),
    noted(&["replay_skip"], "traces are not played"),
    noted(&["merge_blktrace_file"], "traces are not played"),
    noted(&["merge_blktrace_scalars"], "traces are not played"),
    noted(&["merge_blktrace_iters"], "traces are not played"),
    noted(&["trim_verify_zero"], "nothing is trimmed"),
    noted(&["trim_backlog"], "nothing is trimmed"),
    noted(&["trim_backlog_batch"], "nothing is trimmed"),
    refused(
        &["cgroup"],
        "write a scenario's file, where groups and contracts have words (`weir scenarios NAME` prints one)",
    ),
    refused(
        &["cgroup_weight"],
        "write a scenario's file with share = 200 (`weir scenarios shares` prints one)",
    ),
    refused(
        &["exitall"],
        "leave it out: every job runs for its own runtime",
    ),
    refused(&["fill_device", "fill_fs"], "write size"),
    refused(&["file_append"], "write offset"),
    refused(
        &["offset_align"],
        "write an offset that is a multiple of it",
    ),
    refused(&["opendir"], "name files with filename"),
    refused(
        &["create_only"],
        "leave it out: files are there before the run",
    ),
    refused(
        &["thinktime_blocks_type"],
        "leave it out: a job thinks when its requests are answered",
    ),
    refused(
        &["thinktime_iotime"],
        "leave it out, or write a scenario's file with on and off",
    ),
    refused(
        &["rate_ignore_thinktime"],
        "leave out thinktime or the rate",
    ),
    refused(
        &["io_submit_mode"],
        "write rate_iops, which is open loop here",
    ),
    refused(
        &["serialize_overlap"],
        "leave it out: requests that overlap go out together",
    ),
    refused(&["file_service_type"], "leave it out: files take turns"),
    refused(&["rw_sequencer"], "leave it out: every offset is new"),
    refused(
        &["bs_unaligned", "blocksize_unaligned"],
        "leave it out: offsets are multiples of the block",
    ),
    refused(&["write_barrier"], "write fdatasync"),
    refused(&["sync_file_range"], "write fdatasync"),
    refused(&["verify"], "leave it out: a modelled drive holds no data"),
    refused(
        &["verify_only"],
        "leave it out: a modelled drive holds no data",
    ),
    refused(&["trim_percentage"], "leave it out: trim is not played"),
    refused(
        &["read_iolog"],
        "write a job that does what the trace does: traces are not played",
    ),
    refused(
        &["latency_target"],
        "write an [[expect]] in a scenario's file",
    ),
    refused(
        &["latency_window"],
        "write an [[expect]] in a scenario's file",
    ),
    refused(
        &["latency_percentile"],
        "write an [[expect]] in a scenario's file",
    ),
    refused(&["latency_run"], "write an [[expect]] in a scenario's file"),
    refused(
        &["pre_read"],
        "leave it out: every run begins with an empty cache",
    ),
    refused(&["flow"], "write rate_iops for each job"),
    refused(&["flow_id"], "write rate_iops for each job"),
    refused(&["flow_sleep"], "write rate_iops for each job"),
    refused(&["atomic"], "leave it out: no write is torn here"),
    refused(&["uncached"], "write direct=1"),
    refused(
        &["cmd_type"],
        "leave it out: commands go through the block layer",
    ),
    refused(
        &["cmdprio_percentage"],
        "write two jobs, one with prioclass",
    ),
    refused(&["cmdprio_class"], "write two jobs, one with prioclass"),
    refused(&["cmdprio"], "write two jobs, one with prioclass"),
    refused(&["cmdprio_bssplit"], "write two jobs, one with prioclass"),
    refused(&["profile"], "write the jobs that the profile stands for"),
    refused(&["arguments"], ENGINE),
    refused(&["bindname"], ENGINE),
    refused(&["brick"], ENGINE),
    refused(&["busy_poll"], ENGINE),
    refused(&["clientname"], ENGINE),
    refused(&["clustername"], ENGINE),
    refused(&["conf"], ENGINE),
    refused(&["cpuchunks"], ENGINE),
    refused(&["cpuload"], ENGINE),
    refused(&["cpumode"], ENGINE),
    refused(&["donorname"], ENGINE),
    refused(&["exit_on_io_done"], ENGINE),
    refused(&["grace_time"], ENGINE),
    refused(&["hostname"], ENGINE),
    refused(&["inplace"], ENGINE),
    refused(&["interface"], ENGINE),
    refused(&["listen"], ENGINE),
    refused(&["mss"], ENGINE),
    refused(&["nodelay"], ENGINE),
    refused(&["pingpong"], ENGINE),
    refused(&["pool"], ENGINE),
    refused(&["port"], ENGINE),
    refused(&["program"], ENGINE),
    refused(&["protocol"], ENGINE),
    refused(&["rbdname"], ENGINE),
    refused(&["readfua"], ENGINE),
    refused(&["sg_write_mode"], ENGINE),
    refused(&["single-instance"], ENGINE),
    refused(&["skip_bad"], ENGINE),
    refused(&["std_redirect"], ENGINE),
    refused(&["stream_id"], ENGINE),
    refused(&["thp"], ENGINE),
    refused(&["touch_objects"], ENGINE),
    refused(&["ttl"], ENGINE),
    refused(&["uri"], ENGINE),
    refused(&["verb"], ENGINE),
    refused(&["volume"], ENGINE),
    refused(&["window_size"], ENGINE),
    refused(&["writefua"], ENGINE),
];

/// Values of refused options that mean the same as leaving the option out.
pub(super) const NEUTRAL: &[(&str, &[&str])] = &[
    ("exitall", &["0"]),
    ("fill_device", &["0"]),
    ("file_append", &["0"]),
    ("create_only", &["0"]),
    ("thinktime_blocks_type", &["complete"]),
    ("rate_ignore_thinktime", &["0"]),
    ("io_submit_mode", &["inline"]),
    ("serialize_overlap", &["0"]),
    ("file_service_type", &["roundrobin"]),
    ("rw_sequencer", &["sequential"]),
    ("bs_unaligned", &["0"]),
    ("write_barrier", &["0"]),
    ("verify", &["0", "none"]),
    ("verify_only", &["0"]),
    ("trim_percentage", &["0"]),
    ("latency_run", &["0"]),
    ("pre_read", &["0"]),
    ("atomic", &["0"]),
    ("uncached", &["0"]),
    ("cmdprio_percentage", &["0"]),
];

/// Values of played options that are refused: the option, the values, and why or what to do.
pub(crate) const VALUES: &[(&str, &str, &str)] = &[
    (
        "`rw`",
        "`trim`, `randtrim`, `trimwrite`, `randtrimwrite`",
        "trim is not played",
    ),
    (
        "`rw`",
        "a number after a colon, for example `randread:8`",
        "write `random_distribution` or `percentage_random`, or `zonemode=strided`",
    ),
    (
        "`ioengine`",
        "all but `libaio`, `io_uring`, `posixaio`, `linuxaio`, `psync`, `sync`, `vsync`, `pvsync`, `pvsync2`",
        "other engines are not modelled: no memory maps, networks, clusters or file system calls",
    ),
    ("`zonemode`", "`zbd`", "zoned drives are not modelled"),
    (
        "`random_distribution`",
        "`zoned`, `zoned_abs`",
        "write `zipf`, `pareto` or `normal`",
    ),
    (
        "`bs`, `bsrange`, `bssplit`",
        "sizes for reads and for writes that differ, in a job that does both",
        "write two jobs",
    ),
    (
        "`bs` and its like, `offset`",
        "with `direct=1`: not whole sectors of 512 bytes",
        "Linux refuses such a request (EINVAL); write a multiple of 512, or leave `direct=1` out",
    ),
    (
        "`offset`",
        "at or after the end of `filesize`, or of the drive",
        "fio refuses it; write a smaller one",
    ),
    (
        "`size`, `offset`",
        "a part of a file, as `50%`, without `filesize` and not of a device",
        "write bytes: how large the file is is not known",
    ),
    (
        "`filename`",
        "several, as `/dev/sda:/dev/sdb`, or jobs on different devices",
        "one drive is played at a time: put the jobs of each into a file of its own, and choose each drive with `--drive`",
    ),
    (
        "`iodepth`",
        "above 1 with an engine that makes one call at a time, or without `direct=1`",
        "write `ioengine=libaio` and `direct=1`",
    ),
    (
        "`thinktime`",
        "with `iodepth` above 1, or with a rate",
        "write `iodepth=1`, or a rate alone",
    ),
    (
        "`rw`",
        "writes without `direct=1` and without `fdatasync`",
        "write-back is not modelled; write `fdatasync=1` or `direct=1`",
    ),
    (
        "`nrfiles`, `sync`",
        "without `direct=1`",
        "write `direct=1`",
    ),
    ("`rate`", "with sizes that differ", "write `rate_iops`"),
    (
        "`startdelay`, `ramp_time`, `runtime`",
        "more than an hour together with the phases before",
        "write a shorter `runtime`",
    ),
    (
        "`bssplit`",
        "percentages that do not add up to 100, or more than 12 sizes",
        "write percentages of all requests, or fewer sizes",
    ),
    (
        "`rw`",
        "an offset after a colon, as `read:-8k`",
        "write `zonemode=strided` for steps forwards; steps backwards are not played",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once_and_neutral_values_are_of_refused_options() {
        let mut names: Vec<&str> = OPTIONS.iter().flat_map(|o| o.names).copied().collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|w| w[0] == w[1]);
        assert_eq!(twice, None);
        for (name, _) in NEUTRAL {
            let refused = |o: &FioOption| o.names[0] == *name && matches!(o.fate, Fate::Refused(_));
            assert!(OPTIONS.iter().any(refused), "{name}");
        }
    }
}
