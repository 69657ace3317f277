//! Merges: at the back or the front of a command, and the age of the result.

use super::super::Config;
use crate::Span;
use crate::elevator::scripted::MergingHost;
use std::vec::Vec;

#[test]
fn front_merges_need_the_tunable_or_the_last_merged_command() {
    for (front_merges, wanted) in [
        (true, Vec::from([(50, 1), (9, 3)])),
        (false, Vec::from([(50, 1), (10, 2), (9, 1)])),
    ] {
        let config = Config::default().front_merges(front_merges);
        let mut host = MergingHost::new(config);
        // 50 counts as merged last until another request merges.
        for block in [50, 10, 11] {
            host.ask(1, block);
        }
        // 60 merges with nothing. The command that 11 joined would be the last merged one, so 61
        // joins 60 before 9 arrives.
        for block in [60, 61] {
            host.ask(1, block);
        }
        host.ask(1, 9);
        let mut sent = host.drain(2);
        sent.retain(|s| s.0 != 60);
        assert_eq!(sent, wanted, "{front_merges}");
    }
}

#[test]
fn a_command_is_as_old_as_the_oldest_of_its_parts() {
    let config = Config::default()
        .fifo_batch(1)
        .read_expire(Span::from_millis(10));
    let mut host = MergingHost::new(config);
    // 20 waits from the beginning, and 17 and 18 become one command. 19 joins 20 in front, and then
    // all four blocks are one command.
    host.ask(0, 20);
    host.ask(5, 1200);
    host.ask(6, 17);
    host.ask(7, 18);
    host.ask(8, 19);
    // At 12 ms, only the command of 20 is overdue. By position, 1200 would be next.
    let sent = host.drain(12);
    assert_eq!(sent, [(17, 4), (1200, 1)]);
}

#[test]
fn a_front_merged_command_is_found_at_its_new_start() {
    let mut host = MergingHost::new(Config::default());
    // 61 makes another command the one that was merged last.
    for block in [10, 9, 60, 61, 8] {
        host.ask(1, block);
    }
    assert_eq!(host.drain(2), [(8, 3), (60, 2)]);
}
