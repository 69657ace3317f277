use super::*;

const HOST: &str = "\
built io.weight io.latency io.prio.class
loadable bfq
tags /sys/block/sda 32
/sys/block/sda/dev = 8:0
/sys/block/sda/queue/scheduler = none [mq-deadline]
/sys/block/sda/queue/nr_requests = 64
/sys/block/sda/queue/rotational = 1
/sys/block/sda/queue/wbt_lat_usec = 75000
/sys/block/sda/queue/read_ahead_kb = 128
/sys/block/sda/queue/max_hw_sectors_kb ! 512
/sys/block/sda/queue/max_sectors_kb = 512
/sys/block/sda/queue/iosched/read_expire = 500
/sys/dev/block/8:0 -> ../../block/sda
/cg/cgroup.procs = 1
/cg/cgroup.controllers ! cpu io memory
/cg/cgroup.subtree_control =
/cg/io.cost.qos =
/cg/io.cost.model =
";

fn errno(result: io::Result<()>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

#[test]
fn a_new_scheduler_resets_its_dependent_files() {
    let mut host = FakeHost::new(HOST);
    let queue = |file: &str| format!("/sys/dev/block/8:0/queue/{file}");
    // A new elevator sets nr_requests to twice the 32 tags, so that the 100 is lost.
    host.write(&queue("nr_requests"), "100").unwrap();
    host.write(&queue("scheduler"), "bfq").unwrap();
    let is = |host: &FakeHost, file: &str| host.read(&queue(file)).unwrap();
    assert_eq!(is(&host, "scheduler"), "none mq-deadline [bfq]");
    assert_eq!(is(&host, "nr_requests"), "64");
    assert_eq!(is(&host, "wbt_lat_usec"), "0");
    assert!(!host.exists(&queue("iosched/read_expire")));
    host.write(&queue("iosched/timeout_sync"), "125").unwrap();
    // 125 ms are rounded up to ticks of 4 ms.
    assert_eq!(is(&host, "iosched/timeout_sync"), "128", "in ticks");
    assert_eq!(errno(host.write(&queue("scheduler"), "deadline")), Some(22));
    host.write(&queue("scheduler"), "none").unwrap();
    assert_eq!(is(&host, "wbt_lat_usec"), "75000");
    // Without an elevator, requests are limited by the 32 tags.
    assert_eq!(errno(host.write(&queue("nr_requests"), "33")), Some(22));
    assert_eq!(
        errno(host.write(&queue("max_sectors_kb"), "1024")),
        Some(22)
    );
    host.write(&queue("read_ahead_kb"), "130").unwrap();
    assert_eq!(is(&host, "read_ahead_kb"), "128");
}

#[test]
fn the_files_of_the_controller_come_and_go_with_it() {
    let mut host = FakeHost::new(HOST);
    host.make("/cg/a").unwrap();
    assert!(!host.exists("/cg/a/io.max"));
    assert_eq!(
        errno(host.write("/cg/a/cgroup.subtree_control", "+io")),
        Some(2)
    );
    host.write("/cg/cgroup.subtree_control", "+io").unwrap();
    host.write("/cg/a/io.max", "8:0 rbps=5 wiops=7").unwrap();
    assert_eq!(
        host.read("/cg/a/io.max").unwrap(),
        "8:0 rbps=5 wbps=max riops=max wiops=7"
    );
    host.write("/cg/a/io.max", "8:0 rbps=max wiops=max")
        .unwrap();
    assert_eq!(host.read("/cg/a/io.max").unwrap(), "");
    // 19: ENODEV, because there is no device 8:1. 34: ERANGE. 95: EOPNOTSUPP, because bfq is not
    // the elevator. 16: EBUSY.
    assert_eq!(errno(host.write("/cg/a/io.max", "8:1 rbps=5")), Some(19));
    assert_eq!(errno(host.write("/cg/a/io.max", "8:0 rbps=0")), Some(34));
    assert!(!host.exists("/cg/a/io.bfq.weight"), "it is not loaded");
    host.write("/sys/block/sda/queue/scheduler", "bfq").unwrap();
    host.write("/cg/a/io.bfq.weight", "8:0 300").unwrap();
    host.write("/sys/block/sda/queue/scheduler", "none")
        .unwrap();
    assert_eq!(host.read("/cg/a/io.bfq.weight").unwrap(), "default 100");
    assert_eq!(
        errno(host.write("/cg/a/io.bfq.weight", "8:0 300")),
        Some(95)
    );
    host.make("/cg/a/b").unwrap();
    host.put("/cg/a/cgroup.procs", "77");
    assert_eq!(
        errno(host.write("/cg/a/cgroup.subtree_control", "+io")),
        Some(16)
    );
    assert_eq!(errno(host.remove("/cg/a")), Some(16));
    host.remove("/cg/a/b").unwrap();
    host.put("/cg/a/cgroup.procs", "");
    host.remove("/cg/a").unwrap();
    host.write("/cg/cgroup.subtree_control", "-io").unwrap();
    assert_eq!(host.texts(), {
        let mut as_before = FakeHost::new(HOST);
        as_before.put("/sys/block/sda/queue/scheduler", "[none] mq-deadline bfq");
        as_before.put("/sys/block/sda/queue/nr_requests", "32");
        as_before.remove_tree("/sys/block/sda/queue/iosched");
        as_before.texts()
    });
}

#[test]
fn io_cost_switches_write_back_throttling_off() {
    let mut host = FakeHost::new(HOST);
    let wbt = "/sys/block/sda/queue/wbt_lat_usec";
    host.write("/cg/io.cost.qos", "8:0 enable=1 ctrl=auto")
        .unwrap();
    assert_eq!(host.read(wbt).unwrap(), "0");
    host.write("/cg/io.cost.qos", "8:0 enable=0 ctrl=auto")
        .unwrap();
    assert_eq!(host.read(wbt).unwrap(), "75000");
}

#[test]
fn a_process_is_killed_before_or_after_a_change() {
    for after in [false, true] {
        let mut host = FakeHost::new(HOST);
        host.kill(1, after);
        let work = || {
            host.make("/cg/a").unwrap();
            host.make("/cg/b").unwrap();
        };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        assert!(ended.unwrap_err().is::<Killed>());
        assert!(!host.cancel_kill(), "it is over");
        assert_eq!(host.exists("/cg/b"), after);
    }
}
