//! The guest's memory as regions: which tables of them make sense, and where an address of the front end's process lies.

/// A part of the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its first address as the guest has it.
    pub guest: u64,
    /// Bytes.
    pub size: u64,
    /// Its first address as the front end's process has it, in which rings are told.
    pub user: u64,
    /// Where it begins in its descriptor.
    pub offset: u64,
}

/// Why a table of regions is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegionError {
    /// It has no bytes.
    #[error("a region of memory has no bytes")]
    Empty,
    /// Its end is beyond what an address or the offset of a file can be.
    #[error("a region of memory extends beyond the last address")]
    Overflow,
    /// It overlaps another one.
    #[error("a region of memory overlaps that of {size:#x} bytes at {guest:#x}", size = .0.size, guest = .0.guest)]
    Overlap(Region),
    /// There are as many as there may be.
    #[error("more than {0} regions of memory")]
    TooMany(usize),
    /// There is no such region.
    #[error("unknown region of memory")]
    Unknown,
}

impl Region {
    pub(super) const LEN: usize = 32;

    /// From at least 32 bytes.
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
        if self.size == 0 {
            return Err(RegionError::Empty);
        }
        let ends = [self.guest, self.user].map(|start| start.checked_add(self.size - 1));
        let end = self.offset.checked_add(self.size);
        // What a file's offset can be.
        let end = end.filter(|end| i64::try_from(*end).is_ok());
        if ends.contains(&None) || end.is_none() {
            return Err(RegionError::Overflow);
        }
        Ok(())
    }

    fn overlaps(&self, other: &Self) -> bool {
        let meet = |a: u64, b: u64| a <= b + (other.size - 1) && b <= a + (self.size - 1);
        meet(self.guest, other.guest) || meet(self.user, other.user)
    }

    /// Where `length` bytes at an address of the front end's process lie in this region.
    pub fn find_user(&self, address: u64, length: u64) -> Option<u64> {
        let at = address.checked_sub(self.user)?;
        (at < self.size && length <= self.size - at).then_some(at)
    }
}

/// Checks a region that joins others, of which there may be `most` in all.
///
/// # Errors
/// What is wrong with it.
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
