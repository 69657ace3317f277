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
    "use another ioengine, for example libaio; the engine of this option is not supported";

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
    noted(&["group_reporting"], "each client is recorded separately"),
    noted(&["new_group"], "each client is recorded separately"),
    noted(
        &["unified_rw_reporting"],
        "each client is recorded separately",
    ),
    noted(&["stats"], "each client is recorded separately"),
    noted(&["description"], "the option is a comment"),
    noted(&["name"], "a job has the name of its section"),
    noted(
        &["thread"],
        "processes and threads do not differ in the model",
    ),
    noted(
        &["directory"],
        "files are placed one after the other on the chosen drive",
    ),
    noted(
        &["unique_filename"],
        "files are placed one after the other on the chosen drive",
    ),
    noted(&["lockfile"], "no other program uses the files"),
    noted(&["uid"], "no other program uses the files"),
    noted(&["gid"], "no other program uses the files"),
    noted(&["allow_mounted_write"], "no other program uses the files"),
    noted(
        &["randseed"],
        "seeds are derived from the scenario's name, so that all policies get the same work",
    ),
    noted(&["randrepeat"], "runs are always repeatable"),
    noted(&["allrandrepeat"], "runs are always repeatable"),
    noted(&["random_generator"], "Weir uses its own random numbers"),
    noted(&["refill_buffers"], "the written data has no influence"),
    noted(&["zero_buffers"], "the written data has no influence"),
    noted(&["scramble_buffers"], "the written data has no influence"),
    noted(&["buffer_pattern"], "the written data has no influence"),
    noted(
        &["buffer_compress_percentage"],
        "the written data has no influence",
    ),
    noted(
        &["buffer_compress_chunk"],
        "the written data has no influence",
    ),
    noted(&["dedupe_percentage"], "the written data has no influence"),
    noted(&["dedupe_mode"], "the written data has no influence"),
    noted(
        &["dedupe_working_set_percentage"],
        "the written data has no influence",
    ),
    noted(&["dedupe_global"], "the written data has no influence"),
    noted(&["write_hint"], "the written data has no influence"),
    noted(&["clat_percentiles"], "percentiles are always reported"),
    noted(&["lat_percentiles"], "percentiles are always reported"),
    noted(
        &["block_error_percentiles"],
        "percentiles are always reported",
    ),
    noted(&["percentile_list"], "percentiles are always the same"),
    noted(&["disk_util"], "it is always reported"),
    noted(&["invalidate"], "each run begins with an empty cache"),
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
    noted(&["fallocate"], "files exist before the run"),
    noted(&["create_serialize"], "files exist before the run"),
    noted(&["overwrite"], "files exist before the run"),
    noted(&["create_fsync"], "files exist before the run"),
    noted(&["openfiles"], "files exist before the run"),
    noted(&["create_on_open"], "files exist before the run"),
    noted(&["allow_file_create"], "files exist before the run"),
    noted(&["unlink"], "no file is created that could be removed"),
    noted(
        &["unlink_each_loop"],
        "no file is created that could be removed",
    ),
    noted(&["exitall_on_error"], "no request fails"),
    noted(&["continue_on_error"], "no request fails"),
    noted(&["ignore_error"], "no request fails"),
    noted(&["error_dump"], "no request fails"),
    noted(&["exit_what"], "no job ends before its time"),
    noted(&["unit_base"], "the option concerns fio's output"),
    noted(&["significant_figures"], "the option concerns fio's output"),
    noted(&["bwavgtime"], "the option concerns fio's output"),
    noted(&["iopsavgtime"], "the option concerns fio's output"),
    noted(&["eta_newline"], "the option concerns fio's output"),
    noted(&["eta"], "the option concerns fio's output"),
    noted(&["output"], "the option concerns fio's output"),
    noted(&["output-format"], "the option concerns fio's output"),
    noted(&["minimal"], "the option concerns fio's output"),
    noted(&["status-interval"], "the option concerns fio's output"),
    noted(
        &["iodepth_batch", "iodepth_batch_submit"],
        "requests that are due together are sent together",
    ),
    noted(
        &["iodepth_batch_complete_max"],
        "replies are processed when they arrive",
    ),
    noted(
        &["userspace_reap"],
        "replies are processed when they arrive",
    ),
    noted(
        &["end_fsync"],
        "the time after a job's last request is not measured",
    ),
    noted(
        &["fsync_on_close"],
        "the time after a job's last request is not measured",
    ),
    noted(&["ioscheduler"], "the policy is chosen with --policy"),
    noted(
        &["write_bw_log"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["write_lat_log"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["write_iops_log"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["write_hist_log"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["write_iolog"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_avg_msec"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_hist_msec"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_hist_coarseness"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_entries"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_max_value"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_offset"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_prio"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_compression"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_compression_cpus"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_store_compressed"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_unix_epoch"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_alternate_epoch"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["log_alternate_epoch_clock_id"],
        "`weir compare --json FILE` writes the results",
    ),
    noted(
        &["per_job_logs"],
        "`weir compare --json FILE` writes the results",
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
        "the rate is applied to each request",
    ),
    noted(
        &["rate_min", "ratemin"],
        "a slower job continues; a scenario file can require it with [[expect]]",
    ),
    noted(
        &["rate_iops_min"],
        "a slower job continues; a scenario file can require it with [[expect]]",
    ),
    noted(
        &["max_latency"],
        "a slower job continues; a scenario file can require it with [[expect]]",
    ),
    noted(
        &["thinktime_spin"],
        "the way in which a job spends its thinktime is not modelled",
    ),
    noted(
        &["hipri"],
        "the cost of waiting for replies is not modelled",
    ),
    noted(
        &["hipri_percentage"],
        "the cost of waiting for replies is not modelled",
    ),
    noted(
        &["registerfiles"],
        "the cost of system calls is not modelled",
    ),
    noted(&["fixedbufs"], "the cost of system calls is not modelled"),
    noted(
        &["sqthread_poll"],
        "the cost of system calls is not modelled",
    ),
    noted(
        &["sqthread_poll_cpu"],
        "the cost of system calls is not modelled",
    ),
    noted(&["nonvectored"], "the cost of system calls is not modelled"),
    noted(&["force_async"], "the cost of system calls is not modelled"),
    noted(&["nowait"], "the cost of system calls is not modelled"),
    noted(
        &["softrandommap"],
        "a random map takes no memory in the model",
    ),
    noted(
        &["fadvise_hint"],
        "clients always give the kernel this hint, which is fio's default",
    ),
    noted(
        &["steadystate", "ss"],
        "a job always runs for its full runtime",
    ),
    noted(
        &["steadystate_duration", "ss_dur"],
        "a job always runs for its full runtime",
    ),
    noted(
        &["steadystate_ramp_time", "ss_ramp"],
        "a job always runs for its full runtime",
    ),
    noted(&["readonly"], "no data can be overwritten"),
    noted(&["exec_prerun"], "no command is run"),
    noted(&["exec_postrun"], "no command is run"),
    noted(&["cgroup_nodelete"], "no cgroup is made"),
    noted(&["do_verify"], "data is not verified"),
    noted(&["verify_interval"], "data is not verified"),
    noted(&["verify_offset"], "data is not verified"),
    noted(&["verify_pattern"], "data is not verified"),
    noted(&["verify_fatal"], "data is not verified"),
    noted(&["verify_dump"], "data is not verified"),
    noted(&["verify_async"], "data is not verified"),
    noted(&["verify_async_cpus"], "data is not verified"),
    noted(&["verify_backlog"], "data is not verified"),
    noted(&["verify_backlog_batch"], "data is not verified"),
    noted(&["experimental_verify"], "data is not verified"),
    noted(&["verify_state_load"], "data is not verified"),
    noted(&["verify_state_save"], "data is not verified"),
    noted(&["zonecapacity"], "zoned drives are not modelled"),
    noted(&["read_beyond_wp"], "zoned drives are not modelled"),
    noted(&["max_open_zones"], "zoned drives are not modelled"),
    noted(&["job_max_open_zones"], "zoned drives are not modelled"),
    noted(&["ignore_zone_limits"], "zoned drives are not modelled"),
    noted(&["zone_reset_threshold"], "zoned drives are not modelled"),
    noted(&["zone_reset_frequency"], "zoned drives are not modelled"),
    noted(&["read_iolog_chunked"], "traces are not supported"),
    noted(&["replay_no_stall"], "traces are not supported"),
    noted(&["replay_redirect"], "traces are not supported"),
    noted(&["replay_scale"], "traces are not supported"),
    noted(&["replay_align"], "traces are not supported"),
    noted(&["replay_time_scale"], "traces are not supported"),
    noted(&["replay_skip"], "traces are not supported"),
    noted(&["merge_blktrace_file"], "traces are not supported"),
    noted(&["merge_blktrace_scalars"], "traces are not supported"),
    noted(&["merge_blktrace_iters"], "traces are not supported"),
    noted(&["trim_verify_zero"], "trim is not modelled"),
    noted(&["trim_backlog"], "trim is not modelled"),
    noted(&["trim_backlog_batch"], "trim is not modelled"),
    refused(
        &["cgroup"],
        "define groups and contracts in a scenario file instead; `weir scenarios NAME` prints one to start from",
    ),
    refused(
        &["cgroup_weight"],
        "set a share, for example share = 200, in a scenario file instead; `weir scenarios shares` prints one to start from",
    ),
    refused(&["exitall"], "remove it; each job runs for its own runtime"),
    refused(&["fill_device", "fill_fs"], "use size instead"),
    refused(&["file_append"], "use offset instead"),
    refused(&["offset_align"], "set an offset that is a multiple of it"),
    refused(&["opendir"], "use filename instead"),
    refused(&["create_only"], "remove it; files exist before the run"),
    refused(
        &["thinktime_blocks_type"],
        "remove it; a job pauses when its requests are completed",
    ),
    refused(
        &["thinktime_iotime"],
        "remove it, or use on and off in a scenario file",
    ),
    refused(&["rate_ignore_thinktime"], "remove thinktime or the rate"),
    refused(
        &["io_submit_mode"],
        "use rate_iops instead, which is open loop in Weir",
    ),
    refused(
        &["serialize_overlap"],
        "remove it; overlapping requests are sent together",
    ),
    refused(&["file_service_type"], "remove it; files are used in turn"),
    refused(
        &["rw_sequencer"],
        "remove it; each request has a new offset",
    ),
    refused(
        &["bs_unaligned", "blocksize_unaligned"],
        "remove it; offsets are multiples of the block size",
    ),
    refused(&["write_barrier"], "use fdatasync instead"),
    refused(&["sync_file_range"], "use fdatasync instead"),
    refused(&["verify"], "remove it; a modelled drive holds no data"),
    refused(
        &["verify_only"],
        "remove it; a modelled drive holds no data",
    ),
    refused(&["trim_percentage"], "remove it; trim is not supported"),
    refused(
        &["read_iolog"],
        "write a job that does the same as the trace; traces are not supported",
    ),
    refused(
        &["latency_target"],
        "use [[expect]] in a scenario file instead",
    ),
    refused(
        &["latency_window"],
        "use [[expect]] in a scenario file instead",
    ),
    refused(
        &["latency_percentile"],
        "use [[expect]] in a scenario file instead",
    ),
    refused(
        &["latency_run"],
        "use [[expect]] in a scenario file instead",
    ),
    refused(
        &["pre_read"],
        "remove it; each run begins with an empty cache",
    ),
    refused(&["flow"], "use rate_iops in each job instead"),
    refused(&["flow_id"], "use rate_iops in each job instead"),
    refused(&["flow_sleep"], "use rate_iops in each job instead"),
    refused(&["atomic"], "remove it; the model has no torn writes"),
    refused(&["uncached"], "set direct=1"),
    refused(
        &["cmd_type"],
        "remove it; commands are sent through the block layer",
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
        "trim is not supported",
    ),
    (
        "`rw`",
        "a number after a colon, for example `randread:8`",
        "write `random_distribution` or `percentage_random`, or `zonemode=strided`",
    ),
    (
        "`ioengine`",
        "all but `libaio`, `io_uring`, `posixaio`, `linuxaio`, `psync`, `sync`, `vsync`, `pvsync`, `pvsync2`",
        "other engines are not supported, for example those for memory maps, networks, clusters or file system calls",
    ),
    ("`zonemode`", "`zbd`", "zoned drives are not supported"),
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
        "Linux refuses such a request (EINVAL); write a multiple of 512, or remove `direct=1`",
    ),
    (
        "`offset`",
        "at or after the end of `filesize`, or of the drive",
        "fio refuses it; reduce the offset",
    ),
    (
        "`size`, `offset`",
        "a part of a file, for example `50%`, without `filesize` and not of a device",
        "write bytes, because the size of the file is unknown",
    ),
    (
        "`filename`",
        "several, for example `/dev/sda:/dev/sdb`, or jobs on different devices",
        "all jobs must use one drive; put the jobs of each device into a file of its own, and choose the drive with `--drive`",
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
        "an offset after a colon, for example `read:-8k`",
        "use `zonemode=strided` for steps forwards; steps backwards are not supported",
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
