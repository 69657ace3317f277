//! Merging of requests into queued commands.

use super::super::Config;
use crate::Flags;
use crate::elevator::scripted::MergingHost;

#[test]
fn requests_join_commands_at_the_back_and_in_front() {
    let mut host = MergingHost::new(Config::default());
    // The requests 61, 31 and 6 change the command that was merged last.
    for block in [10, 60, 61, 11, 30, 31, 9, 5, 6, 8] {
        host.ask(1, block);
    }
    let mut sent = host.drain(2);
    sent.sort_unstable();
    assert_eq!(sent, [(5, 2), (8, 4), (30, 2), (60, 2)]);
}

/// A request joins no command of another stream, neither when it arrives nor when it has its tag
/// and is inserted.
#[test]
fn a_request_joins_no_command_of_another_stream_than_its_own() {
    let mut host = MergingHost::new(Config::default());
    for blocks in [&[10][..], &[11, 12, 9], &[30, 31, 29]] {
        host.open();
        for &block in blocks {
            host.ask(1, block);
        }
    }
    let mut sent = host.drain(2);
    sent.sort_unstable();
    assert_eq!(sent, [(9, 1), (10, 1), (11, 2), (29, 3)]);
}

/// A growing command does not take precedence from a preferred request.
#[test]
fn metadata_goes_before_a_grown_command() {
    let mut host = MergingHost::new(Config::default());
    host.ask_with(Flags::META, 1, 500);
    for block in [1010, 1011, 1012] {
        host.ask(1, block);
    }
    assert_eq!(host.drain(2), [(500, 1), (1010, 3)]);
}
