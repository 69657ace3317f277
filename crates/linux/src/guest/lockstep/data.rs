//! The content of a modelled disk: written bytes, and zeroes elsewhere.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The granularity at which writes are tracked, in bytes.
const PART: u64 = 4096;

/// The content of a disk. Parts that were never written are not read from the file, because the
/// page cache would then fill with zeroes.
#[derive(Debug)]
pub(super) struct Data {
    file: File,
    /// A bitmap of the parts that were written.
    written: Vec<u64>,
}

impl Data {
    /// The content of a disk of `size` bytes. `file` must have that size and be all zeroes.
    pub(super) fn new(file: File, size: u64) -> Self {
        let words = size.div_ceil(PART * u64::from(u64::BITS));
        let written = vec![0; words as usize];
        Self { file, written }
    }

    pub(super) fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)?;
        for part in parts(bytes.len(), at) {
            if let Some(word) = self.written.get_mut(part / 64) {
                *word |= 1 << (part % 64);
            }
        }
        Ok(())
    }

    pub(super) fn read(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let is_written = |part: usize| {
            let word = self.written.get(part / 64);
            word.is_some_and(|word| word >> (part % 64) & 1 == 1)
        };
        // A range that is partly written is read from the file. Its other bytes are zeroes there.
        if parts(into.len(), at).any(is_written) {
            return self.file.read_exact_at(into, at);
        }
        into.fill(0);
        Ok(())
    }
}

/// Returns the numbers of the parts that a range of bytes touches.
fn parts(length: usize, at: u64) -> Range<usize> {
    let end = (at + length as u64).div_ceil(PART);
    (at / PART) as usize..end as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_are_read_back_and_the_rest_is_zeroes() {
        let data = tempfile::tempfile().unwrap();
        let size = 70 * PART;
        data.set_len(size).unwrap();
        let mut data = Data::new(data, size);
        let read = |data: &Data, at| {
            let mut bytes = [9; 1024];
            data.read(&mut bytes, at).unwrap();
            bytes
        };
        // The write ends part 64 and begins part 65.
        data.write(&[1; 1024], 65 * PART - 512).unwrap();
        assert_eq!(read(&data, 65 * PART - 512), [1; 1024]);
        assert_eq!(read(&data, 65 * PART)[..512], [1; 512]);
        assert_eq!(read(&data, 65 * PART)[512..], [0; 512]);
        // The unwritten bytes of a part that was written are zeroes of the file.
        assert_eq!(read(&data, 64 * PART), [0; 1024]);
        assert_eq!(read(&data, 66 * PART), [0; 1024]);
        assert_eq!(read(&data, size - 1024), [0; 1024]);
    }
}
