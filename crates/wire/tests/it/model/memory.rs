//! Shared memory of the model checker, which can order every access as it likes.

use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};
use weir_wire::ring::{Load, OutsideGuestError, Shared, Store};

/// The content of a place in memory.
enum ModelCell {
    Index16(AtomicU16),
    Index32(AtomicU32),
    /// Bytes that are copied, as the number of one of the values that were ever written there.
    Bytes(AtomicUsize),
}

/// Memory of the model checker. Numbers are accessed as a whole, and bytes can be accessed in part.
/// Clones refer to the same memory.
#[derive(Clone)]
pub(crate) struct ModelMemory(Arc<ModelCells>);

struct ModelCells {
    length: usize,
    /// The position and the length of each place, with its content.
    places: Vec<(usize, usize, ModelCell)>,
    /// All values of bytes that were ever written. The list is not part of the model, only the
    /// choice of the visible value is.
    values: Mutex<Vec<Vec<u8>>>,
}

impl ModelMemory {
    /// Creates memory with 16-bit numbers, 32-bit numbers and ranges of bytes at the given offsets.
    /// All values are zero.
    pub(crate) fn new(index16: &[usize], index32: &[usize], bytes: &[(usize, usize)]) -> Self {
        let mut places = Vec::new();
        for at in index16 {
            places.push((*at, 2, ModelCell::Index16(AtomicU16::new(0))));
        }
        for at in index32 {
            places.push((*at, 4, ModelCell::Index32(AtomicU32::new(0))));
        }
        let mut values = Vec::new();
        for (at, length) in bytes {
            places.push((
                *at,
                *length,
                ModelCell::Bytes(AtomicUsize::new(values.len())),
            ));
            values.push(vec![0; *length]);
        }
        let ends = places.iter().map(|(at, length, _)| at + length);
        Self(Arc::new(ModelCells {
            length: ends.max().unwrap_or(0),
            places,
            values: Mutex::new(values),
        }))
    }

    /// Returns the place that contains the byte at `at`, and the position of the byte in it.
    fn place(&self, at: usize) -> (&ModelCell, usize) {
        let holds = |(start, length, _): &&(usize, usize, ModelCell)| {
            (*start..start + length).contains(&at)
        };
        let (start, _, place) = self
            .0
            .places
            .iter()
            .find(holds)
            .expect("there is something");
        (place, at - start)
    }

    fn value(&self, version: usize) -> Vec<u8> {
        self.0.values.lock().expect("nobody panics")[version].clone()
    }
}

impl Shared for ModelMemory {
    fn len(&self) -> usize {
        self.0.length
    }

    fn load16(&self, at: usize, order: Load) -> u16 {
        if let (ModelCell::Index16(index), 0) = self.place(at) {
            return index.load(order.into());
        }
        let mut bytes = [0; 2];
        self.read(at, &mut bytes);
        u16::from_le_bytes(bytes)
    }

    fn load32(&self, at: usize, order: Load) -> u32 {
        match self.place(at) {
            (ModelCell::Index32(index), 0) => index.load(order.into()),
            _ => panic!("no 32-bit number at {at}"),
        }
    }

    fn store16(&self, at: usize, value: u16, order: Store) {
        match self.place(at) {
            (ModelCell::Index16(index), 0) => index.store(value, order.into()),
            _ => self.write(at, &value.to_le_bytes()),
        }
    }

    fn store32(&self, at: usize, value: u32, order: Store) {
        match self.place(at) {
            (ModelCell::Index32(index), 0) => index.store(value, order.into()),
            _ => panic!("no 32-bit number at {at}"),
        }
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        match self.place(at) {
            (ModelCell::Bytes(version), start) => {
                // Relaxed: the ordering must come from the index and the fences of the ring, which
                // is to be checked.
                let value = self.value(version.load(Ordering::Relaxed));
                into.copy_from_slice(&value[start..start + into.len()]);
            }
            _ => panic!("no bytes at {at}"),
        }
    }

    fn write(&self, at: usize, from: &[u8]) {
        match self.place(at) {
            (ModelCell::Bytes(version), start) => {
                let mut value = self.value(version.load(Ordering::Relaxed));
                // A partial write must not change a value that the other side may still read, so it
                // creates a new one.
                value[start..start + from.len()].copy_from_slice(from);
                let mut values = self.0.values.lock().expect("nobody panics");
                values.push(value);
                let last = values.len() - 1;
                drop(values);
                version.store(last, Ordering::Relaxed);
            }
            _ => panic!("no bytes at {at}"),
        }
    }
}

/// A guest without memory except for the ring. Its requests have no tables, and their data is never
/// accessed.
pub(crate) struct EmptyGuest;

impl weir_wire::ring::Guest for EmptyGuest {
    fn contiguous(&self, _: u64, _: u64) -> Option<u64> {
        None
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutsideGuestError> {
        let length = into.len() as u64;
        Err(OutsideGuestError { address, length })
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutsideGuestError> {
        let length = from.len() as u64;
        Err(OutsideGuestError { address, length })
    }
}
