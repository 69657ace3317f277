//! Fuzz target for `vhost-user`. It takes arbitrary bytes, assembles messages from them, and
//! asserts the invariants.
//!
//! The first [`CONTROL_LEN`] bytes select the number of descriptors with each message, in turn, and
//! the places at which the stream is cut. The rest is the stream. It is fed once in whole messages
//! and once in parts, and both must have the same result.

use weir_wire::vhost::*;

/// The number of bytes at the start of the input that are settings.
pub(crate) const CONTROL_LEN: usize = 8;

/// Drives the assembler with the stream, and the check of regions with the regions in it.
///
/// # Panics
/// If an invariant does not hold.
pub(crate) fn messages(data: &[u8]) {
    let Some((control, stream)) = data.split_first_chunk::<CONTROL_LEN>() else {
        return;
    };
    let whole = feed(stream, control, usize::MAX);
    let pieces = feed(stream, control, 1 + usize::from(control[7] & 15));
    assert_eq!(whole, pieces, "pieces change what is understood");
    let mut regions: Vec<Region> = Vec::new();
    for message in &whole.0 {
        let Ok(request) = &message.request else {
            continue;
        };
        check(request);
        if let VhostRequest::AddMemReg(region, _) = request
            && check_joining(region, regions.iter().copied(), 4).is_ok()
        {
            // The last byte of the region must be found, one byte more must not, and no other
            // region may contain it.
            let last = region.user + (region.size - 1);
            assert_eq!(region.find_user(last, 1), Some(region.size - 1));
            assert_eq!(region.find_user(last, 2), None);
            assert!(
                regions.iter().all(|r| r.find_user(last, 1).is_none()),
                "two regions hold one address"
            );
            regions.push(*region);
        }
    }
    assert!(regions.len() <= 4, "more regions than there may be");
}

type ParsedMessages = (Vec<Message<u32>>, Option<FrameError>);

fn feed(mut stream: &[u8], control: &[u8; CONTROL_LEN], most: usize) -> ParsedMessages {
    let mut assembler = Assembler::default();
    let mut messages = Vec::new();
    let mut token = 0;
    while !stream.is_empty() {
        let begins = !assembler.is_partial();
        let room = assembler.room();
        assert!(!room.is_empty(), "no room, and no message");
        let count = room.len().min(stream.len()).min(most);
        room[..count].copy_from_slice(&stream[..count]);
        stream = &stream[count..];
        // Descriptors arrive with the first bytes of their message.
        let descriptors = if begins {
            usize::from(control[messages.len() % CONTROL_LEN] & 15)
        } else {
            0
        };
        let first = token;
        token += descriptors as u32;
        match assembler.on_received(count, first..token) {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => {}
            Err(error) => return (messages, Some(error)),
        }
    }
    (messages, None)
}

fn check(request: &VhostRequest<u32>) {
    match request {
        VhostRequest::SetMemTable(table) => {
            assert!((1..=TABLE_REGIONS_MAX).contains(&table.len()));
            assert!(table.len() <= DESCRIPTORS_MAX);
        }
        VhostRequest::SetVringNum { size, .. } => {
            assert!(size.is_power_of_two() && *size <= QUEUE_SIZE_MAX);
        }
        VhostRequest::GetConfig { offset, size } => {
            assert!(*size > 0 && (offset + size) as usize <= CONFIG_MAX);
        }
        VhostRequest::SetConfig { offset, data } => {
            assert!(!data.is_empty() && *offset as usize + data.len() <= CONFIG_MAX);
        }
        _ => {}
    }
}
