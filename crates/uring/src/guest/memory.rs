//! The whole memory of a guest: regions at guest addresses, with gaps between them.

use std::rc::Rc;

use weir_wire::ring::{Guest, OutsideGuestError};
use weir_wire::vhost::Region;

use super::{GuestSlice, Mapping, MappingPart};

/// A region of guest memory that is mapped into this process.
#[derive(Clone, Debug)]
pub struct MappedRegion {
    /// The addresses of the region in the guest and in the VMM.
    pub region: Region,
    /// The mapping of the region in this process.
    pub mapping: Mapping,
}

/// The regions of a guest, none of which overlaps another.
///
/// Clones are cheap and keep the mappings alive, so that requests in progress keep their memory
/// even if the front end replaces the table of regions.
#[derive(Clone, Debug, Default)]
pub struct GuestMemory(Rc<Vec<MappedRegion>>);

impl GuestMemory {
    /// Creates the memory from regions in any order.
    pub fn new(mut regions: Vec<MappedRegion>) -> Self {
        regions.sort_by_key(|mapped| mapped.region.guest);
        Self(Rc::new(regions))
    }

    /// Returns the regions in the order of guest addresses.
    pub fn regions(&self) -> &[MappedRegion] {
        &self.0
    }

    /// Returns true if the memory of a region was truncated while it was mapped.
    pub fn is_broken(&self) -> bool {
        self.0.iter().any(|mapped| mapped.mapping.is_broken())
    }

    /// Returns the part at an address of the VMM's process, or `None` if it is not entirely in one
    /// region.
    pub fn user_part(&self, address: u64, bytes: usize) -> Option<MappingPart> {
        self.0.iter().find_map(|mapped| {
            let at = mapped.region.find_user(address, bytes as u64)?;
            mapped.mapping.part(at, bytes)
        })
    }

    /// Appends the slices of a range, one for each region that it spans, in order. `length` must
    /// not be 0.
    ///
    /// # Errors
    /// Returns [`OutsideGuestError`] if the range is not entirely in the guest's memory. Some
    /// slices may have been appended.
    pub fn slices(
        &self,
        mut address: u64,
        length: u32,
        into: &mut Vec<GuestSlice>,
    ) -> Result<(), OutsideGuestError> {
        let outside = OutsideGuestError {
            address,
            length: u64::from(length),
        };
        let mut left = length;
        while left > 0 {
            let (mapped, at) = self.find(address).ok_or(outside)?;
            let here = (mapped.region.size - at).min(u64::from(left)) as u32;
            into.push(mapped.mapping.slice(at, here).ok_or(outside)?);
            left -= here;
            // The range may end at the last address, so the next address is computed only if it is
            // needed.
            if left > 0 {
                address = address.checked_add(u64::from(here)).ok_or(outside)?;
            }
        }
        Ok(())
    }

    /// Returns the region that contains an address, and the position of the address in it.
    fn find(&self, address: u64) -> Option<(&MappedRegion, u64)> {
        // Only the last region that begins at or before the address can contain it, because regions
        // do not overlap.
        let behind = self.0.partition_point(|m| m.region.guest <= address);
        let mapped = self.0.get(behind.checked_sub(1)?)?;
        let at = address - mapped.region.guest;
        (at < mapped.region.size).then_some((mapped, at))
    }

    /// Calls `each` for every part of a range that is in one region, with the mapping, the position
    /// in it, and the bytes of the range.
    fn each(
        &self,
        address: u64,
        length: usize,
        mut each: impl FnMut(&Mapping, usize, std::ops::Range<usize>),
    ) -> Result<(), OutsideGuestError> {
        let outside = OutsideGuestError {
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

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutsideGuestError> {
        self.each(address, into.len(), |mapping, at, range| {
            mapping.read(at, &mut into[range]);
        })
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutsideGuestError> {
        self.each(address, from.len(), |mapping, at, range| {
            mapping.write(at, &from[range]);
        })
    }
}
