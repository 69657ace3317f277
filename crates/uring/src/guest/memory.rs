//! All of a guest's memory: regions with gaps between them.

use std::rc::Rc;

use weir_wire::ring::{Guest, Outside};
use weir_wire::vhost::Region;

use super::{GuestSlice, Mapping, Part};

/// A region that is mapped.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// Where it is for the guest and for its monitor.
    pub region: Region,
    /// Where it is for us.
    pub mapping: Mapping,
}

/// The regions of a guest, none of which overlaps another. Clones are cheap, and keep what is mapped: requests under way have their
/// memory even if the table is exchanged under them.
#[derive(Clone, Debug, Default)]
pub struct GuestMemory(Rc<Vec<Mapped>>);

impl GuestMemory {
    /// Of these regions, in any order.
    pub fn new(mut regions: Vec<Mapped>) -> Self {
        regions.sort_by_key(|mapped| mapped.region.guest);
        Self(Rc::new(regions))
    }

    /// The regions, by the guest's addresses.
    pub fn regions(&self) -> &[Mapped] {
        &self.0
    }

    /// Memory was taken away under one of them.
    pub fn is_broken(&self) -> bool {
        self.0.iter().any(|mapped| mapped.mapping.is_broken())
    }

    /// What lies at an address of the monitor's process; `None` if it is not all in one region.
    pub fn user_part(&self, address: u64, bytes: usize) -> Option<Part> {
        self.0.iter().find_map(|mapped| {
            let at = mapped.region.find_user(address, bytes as u64)?;
            mapped.mapping.part(at, bytes)
        })
    }

    /// Appends the parts of a range that lie in one region each, in order. `length` is not 0.
    ///
    /// # Errors
    /// It is not all the guest's memory; some parts may have been appended.
    pub fn slices(
        &self,
        mut address: u64,
        length: u32,
        into: &mut Vec<GuestSlice>,
    ) -> Result<(), Outside> {
        let outside = Outside {
            address,
            length: u64::from(length),
        };
        let mut left = length;
        while left > 0 {
            let (mapped, at) = self.find(address).ok_or(outside)?;
            let here = (mapped.region.size - at).min(u64::from(left)) as u32;
            into.push(mapped.mapping.slice(at, here).ok_or(outside)?);
            left -= here;
            if left > 0 {
                address = address.checked_add(u64::from(here)).ok_or(outside)?;
            }
        }
        Ok(())
    }

    /// The region that has an address, and where in it.
    fn find(&self, address: u64) -> Option<(&Mapped, u64)> {
        let behind = self.0.partition_point(|m| m.region.guest <= address);
        let mapped = self.0.get(behind.checked_sub(1)?)?;
        let at = address - mapped.region.guest;
        (at < mapped.region.size).then_some((mapped, at))
    }

    /// Calls `each` for the parts of a range, with where the part is in it.
    fn each(
        &self,
        address: u64,
        length: usize,
        mut each: impl FnMut(&Mapping, usize, std::ops::Range<usize>),
    ) -> Result<(), Outside> {
        let outside = Outside {
            address,
            length: length as u64,
        };
        let mut done = 0;
        while done < length {
            let at = address.checked_add(done as u64).ok_or(outside)?;
            let (mapped, at) = self.find(at).ok_or(outside)?;
            let here = (mapped.region.size - at).min((length - done) as u64) as usize;
            each(&mapped.mapping, at as usize, done..done + here);
            done += here;
        }
        Ok(())
    }
}

impl Guest for GuestMemory {
    fn contiguous(&self, address: u64, length: u64) -> Option<u64> {
        let (mapped, at) = self.find(address)?;
        Some((mapped.region.size - at).min(length))
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Outside> {
        self.each(address, into.len(), |mapping, at, range| {
            mapping.read(at, &mut into[range]);
        })
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Outside> {
        self.each(address, from.len(), |mapping, at, range| {
            mapping.write(at, &from[range]);
        })
    }
}
