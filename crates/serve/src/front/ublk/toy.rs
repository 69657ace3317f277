//! A substitute for the driver in tests. `/dev/null` accepts uring commands and completes each
//! immediately, as if there were another request. It discards written data. The test provides the
//! descriptors.

use std::fs::File;
use std::io::Write;
use std::sync::mpsc::channel;

use weir_uring::{Arena, DriverMemory};
use weir_wire::ublk::{UblkDescriptor, UblkRules, descriptors_len};

use super::queue::{AttachingQueue, UblkQueue};
use crate::shard::{Attach, AttachError, FrontEnd};

/// A queue whose requests never end.
#[derive(Debug)]
pub(crate) struct FakeUblkQueue {
    pub(crate) rules: UblkRules,
    /// The descriptors, one for each place.
    pub(crate) descriptors: Vec<UblkDescriptor>,
}

impl Attach for FakeUblkQueue {
    fn attach(self: Box<Self>, _arena: &Arena) -> Result<Box<dyn FrontEnd>, AttachError> {
        let depth = self.descriptors.len() as u16;
        let mut file = tempfile();
        file.write_all(&self.descriptors.concat()).unwrap();
        file.set_len(descriptors_len(depth) as u64).unwrap();
        let descriptors = DriverMemory::new(&file, 0, descriptors_len(depth)).unwrap();
        let null = File::options().read(true).write(true).open("/dev/null");
        let agreed = AttachingQueue {
            device: null.unwrap().into(),
            number: 0,
            depth,
            rules: self.rules,
            ready: channel().0,
        };
        Ok(Box::new(UblkQueue::new(agreed, descriptors)))
    }
}

/// Creates an anonymous file.
fn tempfile() -> File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    rustix::fs::memfd_create("descriptors", flags)
        .unwrap()
        .into()
}
