//! The operations in flight: a bounded table of slots with generations.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::operation::Operation;
use crate::ring::OpId;

/// A fixed number of slots for operations. Each slot also has an `X`, which stays when the
/// operation changes.
pub(crate) struct OperationTable<X> {
    /// The number of this table, which is unique within the process.
    ring: u64,
    slots: Vec<OperationSlot<X>>,
    free: Vec<u32>,
}

pub(crate) struct OperationSlot<X> {
    generation: u32,
    pub(crate) operation: Option<Operation>,
    pub(crate) extra: X,
}

impl<X: Default> OperationTable<X> {
    /// Creates a table of `capacity` slots, which must be fewer than 2^32.
    pub(crate) fn new(capacity: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let slots = std::iter::repeat_with(|| OperationSlot {
            generation: 0,
            operation: None,
            extra: X::default(),
        });
        Self {
            ring: NEXT.fetch_add(1, Ordering::Relaxed),
            slots: slots.take(capacity).collect(),
            free: (0..capacity as u32).rev().collect(),
        }
    }
}

impl<X> OperationTable<X> {
    /// Returns the number of operations in the table.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds an operation, or returns it if there is no free slot.
    pub(crate) fn insert(&mut self, operation: Operation) -> Result<OpId, Operation> {
        let Some(index) = self.free.pop() else {
            return Err(operation);
        };
        operation.set_busy(true);
        let slot = &mut self.slots[index as usize];
        slot.operation = Some(operation);
        let name = u64::from(slot.generation) << 32 | u64::from(index);
        Ok(self.id(name))
    }

    /// Returns the ID of the operation with this name in this table.
    pub(crate) fn id(&self, name: u64) -> OpId {
        let ring = self.ring;
        OpId { ring, name }
    }

    /// Returns the slot of an operation that is still in the table.
    pub(crate) fn get(&mut self, id: OpId) -> Option<&mut OperationSlot<X>> {
        let own = id.ring == self.ring;
        let slot = self.slots.get_mut(id.name as u32 as usize)?;
        let there = slot.generation == (id.name >> 32) as u32 && slot.operation.is_some();
        (own && there).then_some(slot)
    }

    /// Removes an operation from the table.
    pub(crate) fn remove(&mut self, id: OpId) -> Option<Operation> {
        let slot = self.get(id)?;
        // The new generation makes the old ID invalid. It repeats only after 2^32 operations of the
        // same slot.
        slot.generation = slot.generation.wrapping_add(1);
        let operation = slot.operation.take()?;
        operation.set_busy(false);
        self.free.push(id.name as u32);
        Some(operation)
    }

    /// Returns the IDs of all operations in the table.
    pub(crate) fn ids(&self) -> Vec<OpId> {
        let used = self.slots.iter().zip(0u64..);
        used.filter(|(slot, _)| slot.operation.is_some())
            .map(|(slot, index)| self.id(u64::from(slot.generation) << 32 | index))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Handle;
    use crate::operation::OperationKind;
    use crate::payload::Payload;

    fn operation(user: u64) -> Operation {
        let (end, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let handle = Handle::new(end.into()).unwrap();
        Operation::new(user, &handle, OperationKind::PollReadable, Payload::None)
    }

    #[test]
    fn a_full_table_gives_the_operation_back() {
        let mut table = OperationTable::<()>::new(1);
        let first = table.insert(operation(1)).unwrap();
        assert_eq!(table.insert(operation(2)).unwrap_err().user, 2);
        assert_eq!(table.remove(first).unwrap().user, 1);
        assert!(table.insert(operation(2)).is_ok());
    }

    #[test]
    fn an_id_of_another_table_finds_no_operation() {
        let (mut one, mut two) = (OperationTable::<()>::new(1), OperationTable::<()>::new(1));
        one.insert(operation(1)).unwrap();
        let foreign = two.insert(operation(2)).unwrap();
        // Both IDs have the same slot and generation, but different tables.
        assert!(one.get(foreign).is_none() && one.remove(foreign).is_none());
        assert_eq!(one.len(), 1);
    }

    #[test]
    fn an_old_name_does_not_reach_the_next_operation() {
        let mut table = OperationTable::<()>::new(1);
        let old = table.insert(operation(1)).unwrap();
        table.remove(old).unwrap();
        let new = table.insert(operation(2)).unwrap();
        assert!(table.get(old).is_none() && table.remove(old).is_none());
        assert_eq!((table.len(), table.ids()), (1, vec![new]));
    }
}
