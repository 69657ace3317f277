//! Regions of a guest's memory: the checks of a table of regions, and the translation of addresses
//! of the front end's process.

/// A region of the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// The guest address of the first byte.
    pub guest: u64,
    /// The length of the region in bytes.
    pub size: u64,
    /// The address of the first byte in the front end's process, which is used to locate rings.
    pub user: u64,
    /// The position of the first byte in its descriptor.
    pub offset: u64,
}

/// The reason why a region is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegionError {
    /// The region has no bytes.
    #[error("a region of memory has no bytes")]
    Empty,
    /// The region ends beyond the last address, or beyond the last offset of a file.
    #[error("a region of memory extends beyond the last address")]
    Overflow,
    /// The region overlaps another one.
    #[error("a region of memory overlaps that of {size:#x} bytes at {guest:#x}", size = .0.size, guest = .0.guest)]
    Overlap(Region),
    /// There are as many regions as permitted. Contains the limit.
    #[error("more than {0} regions of memory")]
    TooMany(usize),
    /// There is no such region.
    #[error("unknown region of memory")]
    Unknown,
}

impl Region {
    pub(super) const LEN: usize = 32;

    /// Decodes a region from at least 32 bytes.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let field =
            |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Self {
            guest: field(0),
            size: field(8),
            user: field(16),
            offset: field(24),
        }
    }

    fn check(&self) -> Result<(), RegionError> {
        // The subtractions of 1 in this file rely on this check.
        if self.size == 0 {
            return Err(RegionError::Empty);
        }
        let ends = [self.guest, self.user].map(|start| start.checked_add(self.size - 1));
        let end = self.offset.checked_add(self.size);
        // Offsets of files are signed, so the end must not exceed 2^63 − 1.
        let end = end.filter(|end| i64::try_from(*end).is_ok());
        if ends.contains(&None) || end.is_none() {
            return Err(RegionError::Overflow);
        }
        Ok(())
    }

    fn overlaps(&self, other: &Self) -> bool {
        // Compares last bytes instead of ends, because a region may end at 2^64.
        let meet = |a: u64, b: u64| a <= b + (other.size - 1) && b <= a + (self.size - 1);
        meet(self.guest, other.guest) || meet(self.user, other.user)
    }

    /// Returns the position in this region of `length` bytes at an address of the front end's
    /// process. Returns `None` if they are not all in the region.
    pub fn find_user(&self, address: u64, length: u64) -> Option<u64> {
        let at = address.checked_sub(self.user)?;
        (at < self.size && length <= self.size - at).then_some(at)
    }
}

/// Checks a region that joins others, of which there may be at most `most` in total.
///
/// # Errors
/// Returns the reason why the region is refused.
pub fn check_joining(
    region: &Region,
    others: impl IntoIterator<Item = Region>,
    most: usize,
) -> Result<(), RegionError> {
    region.check()?;
    let mut count = 0;
    for other in others {
        count += 1;
        if region.overlaps(&other) {
            return Err(RegionError::Overlap(other));
        }
    }
    if count >= most {
        return Err(RegionError::TooMany(most));
    }
    Ok(())
}
