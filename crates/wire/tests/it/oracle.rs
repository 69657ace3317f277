//! Comparison of virtio's queue with rust-vmm's `virtio-queue`: the same driver and the same memory
//! must give the same results.

use proptest::prelude::*;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use weir_wire::ring::plain::{Memory, Regions};
use weir_wire::ring::split::{
    Areas, Buffer, BufferChain, Device, Driver, Settings, lengths, write_table,
};
use weir_wire::ring::{Shared, Store};

const SIZE: u16 = 8;
/// The addresses of the three areas, and of guest memory for tables.
const PLACES: [u64; 3] = [0x1000, 0x2000, 0x3000];
const TABLES: u64 = 0x4000;
const ALL: usize = 0x8000;

/// Both devices, each with a copy of the memory, and the driver that both serve.
struct Both {
    memory: Memory,
    guest: Regions,
    driver: Driver<Memory>,
    ours: Device<Memory>,
    theirs: Queue,
    their_memory: GuestMemoryMmap,
    chain: BufferChain,
    in_flight: Vec<u16>,
    /// The heads for which the driver waits, with the addresses of their tables.
    tables: Vec<(u16, u64)>,
}

impl Both {
    fn new(start: u16) -> Self {
        let memory = Memory::new(ALL);
        let settings = Settings::new(SIZE);
        let [descriptors, available, used] = [0, 1, 2].map(|area| {
            let place = PLACES[area] as usize;
            memory.part(place, lengths(SIZE)[area])
        });
        let areas = Areas {
            descriptors,
            available,
            used,
        };
        let mut guest = Regions::new();
        guest.add(0, memory.clone());
        let driver = Driver::at(areas.clone(), settings, start).expect("it fits");
        let mut theirs = Queue::new(SIZE).expect("a power of two");
        let halves = |place: u64| (Some(place as u32), Some((place >> 32) as u32));
        let [descriptors, available, used] = PLACES.map(halves);
        theirs.set_desc_table_address(descriptors.0, descriptors.1);
        theirs.set_avail_ring_address(available.0, available.1);
        theirs.set_used_ring_address(used.0, used.1);
        theirs.set_event_idx(true);
        theirs.set_next_avail(start);
        theirs.set_next_used(start);
        theirs.set_ready(true);
        let range = [(GuestAddress(0), ALL)];
        let mut both = Self {
            ours: Device::new(areas, settings, start).expect("it fits"),
            memory,
            guest,
            driver,
            theirs,
            their_memory: GuestMemoryMmap::from_ranges(&range).expect("there is memory"),
            chain: BufferChain::default(),
            in_flight: Vec::new(),
            tables: Vec::new(),
        };
        // The driver has set the used index and the event to the start, which the other copy must
        // have as well.
        for at in [2, 4 + 8 * u64::from(SIZE)] {
            let place = GuestAddress(PLACES[2] + at);
            let written = both.their_memory.write_obj(start.to_le(), place);
            written.expect("it is there");
        }
        // Our first publication always calls. From then on, both devices decide by the event.
        both.give(&[(1, true)], false);
        both.take().expect("the same");
        both.finish(0, 0).expect("the same");
        let _ = (
            both.ours.publish(),
            both.theirs.needs_notification(&both.their_memory),
        );
        both
    }

    /// Copies everything that the driver has written to the other memory.
    fn copy(&self) {
        let used = PLACES[2] as usize;
        for range in [0..used, TABLES as usize..ALL] {
            let mut bytes = vec![0; range.len()];
            self.memory.read(range.start, &mut bytes);
            let place = GuestAddress(range.start as u64);
            let written = self.their_memory.write_slice(&bytes, place);
            written.expect("it is there");
        }
    }

    fn give(&mut self, lengths: &[(u32, bool)], table: bool) {
        let mut buffers: Vec<_> = lengths
            .iter()
            .zip(1u64..)
            .map(|(&(length, writable), place)| Buffer {
                address: 0x10_0000 * place,
                length,
                writable,
            })
            .collect();
        buffers.sort_by_key(|buffer| buffer.writable);
        // Each chain gets a table of its own, so that a chain in flight never changes.
        let mut places = (0..).map(|place| TABLES + 0x100 * place);
        let free = |place: &u64| self.tables.iter().all(|(_, taken)| taken != place);
        let place = places.find(free).expect("there is no end of them");
        let given = if table {
            write_table(&self.guest, place, &buffers).expect("it is there");
            self.driver.add_table(place, buffers.len() as u16)
        } else {
            self.driver.add(&buffers)
        };
        if let Ok(head) = given {
            self.tables.push((head, place));
            let _ = self.driver.publish();
            self.copy();
        }
    }

    fn take(&mut self) -> Result<(), TestCaseError> {
        let ours = self
            .ours
            .take(&self.guest, &mut self.chain)
            .expect("it makes sense");
        let theirs = self.theirs.pop_descriptor_chain(&self.their_memory);
        prop_assert_eq!(
            ours,
            theirs
                .as_ref()
                .map(virtio_queue::DescriptorChain::head_index)
        );
        if let Some(chain) = theirs {
            let buffers: Vec<_> = chain
                .map(|descriptor| Buffer {
                    address: descriptor.addr().0,
                    length: descriptor.len(),
                    writable: descriptor.is_write_only(),
                })
                .collect();
            prop_assert_eq!(&self.chain.buffers, &buffers);
            self.in_flight.extend(ours);
        }
        Ok(())
    }

    fn finish(&mut self, which: usize, written: u32) -> Result<(), TestCaseError> {
        if self.in_flight.is_empty() {
            return Ok(());
        }
        let head = self.in_flight.swap_remove(which % self.in_flight.len());
        self.ours.finish(head, written);
        let theirs = self.theirs.add_used(&self.their_memory, head, written);
        prop_assert!(theirs.is_ok());
        Ok(())
    }

    fn publish(&mut self) -> Result<(), TestCaseError> {
        let theirs = self.theirs.needs_notification(&self.their_memory);
        prop_assert_eq!(self.ours.publish(), theirs.expect("it makes sense"));
        self.used_rings_agree()
    }

    fn arm(&mut self) -> Result<(), TestCaseError> {
        let theirs = self.theirs.enable_notification(&self.their_memory);
        prop_assert_eq!(self.ours.arm().ok(), theirs.ok());
        self.used_rings_agree()
    }

    /// Compares the used rings, but only after our device has published, because the other one
    /// writes its index with each head.
    fn used_rings_agree(&mut self) -> Result<(), TestCaseError> {
        let length = lengths(SIZE)[2];
        let (mut ours, mut theirs) = (vec![0; length], vec![0; length]);
        self.memory.read(PLACES[2] as usize, &mut ours);
        let read = self
            .their_memory
            .read_slice(&mut theirs, GuestAddress(PLACES[2]));
        read.expect("it is there");
        if self.ours.used_index().to_le_bytes() == ours[2..4] {
            prop_assert_eq!(ours, theirs);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn our_device_decides_as_rust_vmms(
        start: u16,
        steps in prop::collection::vec((0u8..7, any::<u16>(), any::<bool>()), 1..200),
    ) {
        let mut both = Both::new(start);
        for (step, drawn, flag) in steps {
            match step {
                0 | 1 => {
                    let buffers = [(u32::from(drawn) + 1, flag), (7, !flag), (1, true)];
                    both.give(&buffers[..=usize::from(drawn % 3)], drawn & 4 != 0);
                }
                2 => both.take()?,
                3 => both.finish(usize::from(drawn), u32::from(drawn))?,
                4 => both.publish()?,
                5 => both.arm()?,
                _ => {
                    while let Ok(Some(used)) = both.driver.take() {
                        both.tables.retain(|(head, _)| *head != used.head);
                    }
                    if flag {
                        let _ = both.driver.arm_after(drawn % 4);
                    } else {
                        // Garbage in the event must not have any effect except on the decision to
                        // call.
                        let event = PLACES[1] as usize + 4 + 2 * usize::from(SIZE);
                        both.memory.store16(event, drawn, Store::Relaxed);
                    }
                    both.copy();
                    both.publish()?;
                }
            }
        }
    }
}
