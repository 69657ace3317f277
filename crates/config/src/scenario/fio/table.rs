//! All options of `fio`'s job files, and the treatment of each.

use std::sync::LazyLock;

/// The treatment of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OptionTreatment {
    /// The option has the same effect as in `fio`.
    Played,
    /// The option has no effect here, for this reason.
    Noted(&'static str),
    /// The option is refused, with this advice.
    Refused(&'static str),
}

/// An option with all of its names, beginning with the usual one.
#[derive(Clone, Debug)]
pub(crate) struct FioOption {
    /// The names of the option.
    pub(crate) names: Vec<&'static str>,
    /// The treatment of the option.
    pub(crate) fate: OptionTreatment,
    /// The values that make a refused option the same as no option.
    pub(super) neutral: Vec<&'static str>,
}

/// The options of fio 3.33, and those options of its command line that are common in job files.
pub(crate) static OPTIONS: LazyLock<Vec<FioOption>> = LazyLock::new(|| {
    let noted = NOTED
        .iter()
        .map(|(why, all)| (OptionTreatment::Noted(why), *all));
    let refused = REFUSED
        .iter()
        .map(|(help, all)| (OptionTreatment::Refused(help), *all));
    let fates = std::iter::once((OptionTreatment::Played, PLAYED))
        .chain(noted)
        .chain(refused);
    fates
        .flat_map(|(fate, all)| all.split_whitespace().map(move |words| option(words, fate)))
        .collect()
});

/// Parses an entry of the tables below: the names, and optionally the values that make a refused
/// option the same as no option (`NAME|OTHER-NAME=VALUE,VALUE`).
fn option(words: &'static str, fate: OptionTreatment) -> FioOption {
    let (names, neutral) = words.split_once('=').unwrap_or((words, ""));
    FioOption {
        names: names.split('|').collect(),
        fate,
        // `split` would return an empty value for an option without values.
        neutral: neutral.split_terminator(',').collect(),
    }
}

/// The options that are played.
const PLAYED: &str = "rw|readwrite bs|blocksize bsrange|blocksize_range bssplit ba|blockalign size io_size|io_limit filesize \
         loops offset|fileoffset offset_increment filename filename_format nrfiles|nr_files ioengine iodepth \
         iodepth_low iodepth_batch_complete_min|iodepth_batch_complete direct buffered fsync fdatasync sync \
         rwmixread rwmixwrite numjobs startdelay|start_delay runtime|timeout time_based ramp_time number_ios \
         thinktime thinktime_blocks rate rate_iops rate_process random_distribution percentage_random \
         norandommap zonemode zonesize zoneskip zonerange prio prioclass stonewall|wait_for_previous wait_for \
         include kb_base read_iolog replay_no_stall replay_time_scale replay_scale replay_align replay_redirect \
         replay_skip";

/// The options that have no effect here, grouped by the reason.
const NOTED: &[(&str, &str)] = &[
    (
        "each client is recorded separately",
        "group_reporting new_group unified_rw_reporting stats",
    ),
    ("the option is a comment", "description"),
    ("a job has the name of its section", "name"),
    ("processes and threads do not differ in the model", "thread"),
    (
        "files are placed one after the other on the chosen drive",
        "directory unique_filename",
    ),
    (
        "no other program uses the files",
        "lockfile uid gid allow_mounted_write",
    ),
    (
        "seeds are derived from the scenario's name, so that all policies get the same work",
        "randseed",
    ),
    ("runs are always repeatable", "randrepeat allrandrepeat"),
    ("Weir uses its own random numbers", "random_generator"),
    (
        "the written data has no influence",
        "refill_buffers zero_buffers scramble_buffers buffer_pattern buffer_compress_percentage \
         buffer_compress_chunk dedupe_percentage dedupe_mode dedupe_working_set_percentage dedupe_global \
         write_hint",
    ),
    (
        "percentiles are always reported",
        "clat_percentiles lat_percentiles block_error_percentiles",
    ),
    ("percentiles are always the same", "percentile_list"),
    ("it is always reported", "disk_util"),
    ("each run begins with an empty cache", "invalidate"),
    ("time is virtual", "clocksource gtod_reduce gtod_cpu"),
    (
        "processors are not modelled",
        "cpus_allowed cpus_allowed_policy cpumask nice numa_cpu_nodes numa_mem_policy",
    ),
    (
        "memory is not modelled",
        "lockmem mem|iomem mem_align|iomem_align hugepage-size",
    ),
    (
        "files exist before the run",
        "fallocate create_serialize overwrite create_fsync openfiles create_on_open allow_file_create",
    ),
    (
        "no file is created that could be removed",
        "unlink unlink_each_loop",
    ),
    (
        "no request fails",
        "exitall_on_error continue_on_error ignore_error error_dump",
    ),
    ("no job ends before its time", "exit_what"),
    (
        "the option concerns fio's output",
        "unit_base significant_figures bwavgtime iopsavgtime eta_newline eta output output-format minimal \
         status-interval",
    ),
    (
        "requests that are due together are sent together",
        "iodepth_batch|iodepth_batch_submit",
    ),
    (
        "replies are processed when they arrive",
        "iodepth_batch_complete_max userspace_reap",
    ),
    (
        "the time after a job's last request is not measured",
        "end_fsync fsync_on_close",
    ),
    ("the policy is chosen with --policy", "ioscheduler"),
    (
        "`weir compare --json FILE` writes the results",
        "write_bw_log write_lat_log write_iops_log write_hist_log write_iolog log_avg_msec log_hist_msec \
         log_hist_coarseness log_entries log_max_value log_offset log_prio log_compression log_compression_cpus \
         log_store_compressed log_unix_epoch log_alternate_epoch log_alternate_epoch_clock_id per_job_logs",
    ),
    (
        "latencies are always measured",
        "disable_lat disable_clat disable_slat disable_bw_measurement|disable_bw slat_percentiles",
    ),
    (
        "the rate is applied to each request",
        "rate_cycle|ratecycle",
    ),
    (
        "a slower job continues; a scenario file can require it with [[expect]]",
        "rate_min|ratemin rate_iops_min max_latency",
    ),
    (
        "the way in which a job spends its thinktime is not modelled",
        "thinktime_spin",
    ),
    (
        "the cost of waiting for replies is not modelled",
        "hipri hipri_percentage",
    ),
    (
        "the cost of system calls is not modelled",
        "registerfiles fixedbufs sqthread_poll sqthread_poll_cpu nonvectored force_async nowait",
    ),
    ("a random map takes no memory in the model", "softrandommap"),
    (
        "clients always give the kernel this hint, which is fio's default",
        "fadvise_hint",
    ),
    (
        "a job always runs for its full runtime",
        "steadystate|ss steadystate_duration|ss_dur steadystate_ramp_time|ss_ramp",
    ),
    ("no data can be overwritten", "readonly"),
    ("no command is run", "exec_prerun exec_postrun"),
    ("no cgroup is made", "cgroup_nodelete"),
    (
        "data is not verified",
        "do_verify verify_interval verify_offset verify_pattern verify_fatal verify_dump verify_async \
         verify_async_cpus verify_backlog verify_backlog_batch experimental_verify verify_state_load \
         verify_state_save",
    ),
    (
        "zoned drives are not modelled",
        "zonecapacity read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits zone_reset_threshold \
         zone_reset_frequency",
    ),
    (
        "the memory for a recorded load depends on its requests only",
        "read_iolog_chunked",
    ),
    (
        "trim is not modelled",
        "trim_verify_zero trim_backlog trim_backlog_batch",
    ),
];

/// The options that are refused, grouped by the advice.
const REFUSED: &[(&str, &str)] = &[
    (
        "define groups and contracts in a scenario file instead; `weir scenarios NAME` prints one to start from",
        "cgroup",
    ),
    (
        "set a share, for example share = 200, in a scenario file instead; `weir scenarios shares` prints one to start from",
        "cgroup_weight",
    ),
    ("remove it; each job runs for its own runtime", "exitall=0"),
    ("use size instead", "fill_device|fill_fs=0"),
    ("use offset instead", "file_append=0"),
    ("set an offset that is a multiple of it", "offset_align"),
    ("use filename instead", "opendir"),
    ("remove it; files exist before the run", "create_only=0"),
    (
        "remove it; a job pauses when its requests are completed",
        "thinktime_blocks_type=complete",
    ),
    (
        "remove it, or use on and off in a scenario file",
        "thinktime_iotime",
    ),
    ("remove thinktime or the rate", "rate_ignore_thinktime=0"),
    (
        "use rate_iops instead, which is open loop in Weir",
        "io_submit_mode=inline",
    ),
    (
        "remove it; overlapping requests are sent together",
        "serialize_overlap=0",
    ),
    (
        "remove it; files are used in turn",
        "file_service_type=roundrobin",
    ),
    (
        "remove it; each request has a new offset",
        "rw_sequencer=sequential",
    ),
    (
        "remove it; offsets are multiples of the block size",
        "bs_unaligned|blocksize_unaligned=0",
    ),
    ("use fdatasync instead", "write_barrier=0 sync_file_range"),
    (
        "remove it; a modelled drive holds no data",
        "verify=0,none verify_only=0",
    ),
    ("remove it; trim is not supported", "trim_percentage=0"),
    (
        "merge the traces with `fio --merge-blktrace-only`, and play the merged file",
        "merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters",
    ),
    (
        "use [[expect]] in a scenario file instead",
        "latency_target latency_window latency_percentile latency_run=0",
    ),
    (
        "remove it; each run begins with an empty cache",
        "pre_read=0",
    ),
    (
        "use rate_iops in each job instead",
        "flow flow_id flow_sleep",
    ),
    ("remove it; the model has no torn writes", "atomic=0"),
    ("set direct=1", "uncached=0"),
    (
        "remove it; commands are sent through the block layer",
        "cmd_type",
    ),
    (
        "write two jobs, one with prioclass",
        "cmdprio_percentage=0 cmdprio_class cmdprio cmdprio_bssplit",
    ),
    ("write the jobs that the profile stands for", "profile"),
    (
        ENGINE,
        "arguments bindname brick busy_poll clientname clustername conf cpuchunks cpuload cpumode donorname \
         exit_on_io_done grace_time hostname inplace interface listen mss nodelay pingpong pool port program \
         protocol rbdname readfua sg_write_mode single-instance skip_bad std_redirect stream_id thp \
         touch_objects ttl uri verb volume window_size writefua",
    ),
];

/// The advice for an option of an engine that is not modelled.
const ENGINE: &str =
    "use another ioengine, for example libaio; the engine of this option is not supported";

/// The refused values of played options. Each row has the option, the values, and the reason or
/// advice.
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
        "`read_iolog`",
        "a missing or damaged file, or several files such as `a:b`",
        "the message names the line or the byte; write a job for each file",
    ),
    (
        "`read_iolog`",
        "without `direct=1`, or with `rate`, `rate_iops` or `thinktime`",
        "write `direct=1`; the recorded times determine the pace",
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
    fn option_names_are_unique_and_only_refused_options_have_neutral_values() {
        let mut names: Vec<&str> = OPTIONS.iter().flat_map(|o| o.names.clone()).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|w| w[0] == w[1]);
        assert_eq!(twice, None);
        let is_refused = |o: &FioOption| matches!(o.fate, OptionTreatment::Refused(_));
        assert!(
            OPTIONS
                .iter()
                .all(|o| o.neutral.is_empty() || is_refused(o))
        );
    }
}
