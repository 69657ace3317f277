//! Decodes the fields of HTTP/2 (HPACK, RFC 7541) and encodes them again without compression.

use std::collections::VecDeque;

use super::MalformedHttp2;
use super::huffman;

/// The maximum length of a header block in bytes, compressed or not. Requests of the interface have
/// a few hundred bytes.
pub(super) const MOST: usize = 64 << 10;
/// The name of the field that is removed, and its index in the static table.
const AUTHORITY: (&[u8], usize) = (b":authority", 1);
/// The lengths of the names in the static table, from index 1 on (RFC 7541, appendix A).
const STATIC: [u8; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14,
    16, 13, 12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10,
    25, 17, 10, 4, 3, 16,
];
/// The number of bytes that a field counts in the table in addition to its own (RFC 7541, section
/// 4.1).
const OVERHEAD: usize = 32;
/// The size of the table, unless the server announces another (`SETTINGS_HEADER_TABLE_SIZE`).
const TABLE: usize = 4096;

/// The name of a field, as an index or as text.
#[derive(Clone, Debug)]
enum FieldName {
    /// An index into the static table.
    Static(usize),
    Literal(Vec<u8>),
}

#[derive(Clone, Debug)]
struct HeaderField {
    name: FieldName,
    value: Vec<u8>,
}

impl HeaderField {
    // `:authority` can also be spelled out, with or without entering the dynamic table.
    fn is_authority(&self) -> bool {
        match &self.name {
            FieldName::Static(place) => *place == AUTHORITY.1,
            FieldName::Literal(name) => name == AUTHORITY.0,
        }
    }

    /// Returns the size of the field in the table, in bytes.
    fn size(&self) -> usize {
        let name = match &self.name {
            FieldName::Static(place) => usize::from(STATIC[place - 1]),
            FieldName::Literal(name) => name.len(),
        };
        name + self.value.len() + OVERHEAD
    }

    /// Appends the field as a literal without indexing, which changes no table.
    fn put(&self, out: &mut Vec<u8>) {
        match &self.name {
            FieldName::Static(place) => put_integer(*place, 0, 4, out),
            FieldName::Literal(name) => {
                out.push(0);
                put_string(name, out);
            }
        }
        put_string(&self.value, out);
    }
}

/// The decoder of a client's header blocks, with the table of the fields that the client has sent.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The fields of the dynamic table, the newest first.
    table: VecDeque<HeaderField>,
    size: usize,
    max: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            max: TABLE,
        }
    }
}

impl Decoder {
    /// Decodes a header block, and returns it without `:authority` and without compression.
    ///
    /// # Errors
    /// Returns an error if the block cannot be decoded, or is too long. The connection must end
    /// then, because the table no longer agrees with the client's.
    pub(super) fn without_authority(
        &mut self,
        mut block: &[u8],
    ) -> Result<Vec<u8>, MalformedHttp2> {
        let mut out = Vec::with_capacity(block.len());
        while let Some(&first) = block.first() {
            self.field(first, &mut block, &mut out)
                .ok_or(MalformedHttp2::Fields)?;
            // Through the table, a few bytes can stand for a long field.
            if out.len() > MOST {
                return Err(MalformedHttp2::Long);
            }
        }
        Ok(out)
    }

    /// Decodes the next field, or the next change of the table's size.
    // The leading bits of the first byte tell the representations apart (RFC 7541, section 6).
    fn field(&mut self, first: u8, block: &mut &[u8], out: &mut Vec<u8>) -> Option<()> {
        if first & 0x80 != 0 {
            match integer(block, 7)? {
                place if place == AUTHORITY.1 => (),
                // An index into the static table is the same for both sides.
                place @ 1..=61 => put_integer(place, 0x80, 7, out),
                place => {
                    let field = self.dynamic(place)?;
                    if !field.is_authority() {
                        field.put(out);
                    }
                }
            }
            return Some(());
        }
        if first & 0xe0 == 0x20 {
            // The size must not exceed the limit that the server announced (RFC 7541, sections 4.2
            // and 6.3).
            self.max = integer(block, 5).filter(|&size| size <= TABLE)?;
            self.shrink();
            return Some(());
        }
        let indexed = first & 0x40 != 0;
        let name = match integer(block, if indexed { 6 } else { 4 })? {
            0 => FieldName::Literal(string(block)?),
            place if place <= STATIC.len() => FieldName::Static(place),
            place => self.dynamic(place)?.name.clone(),
        };
        let field = HeaderField {
            name,
            value: string(block)?,
        };
        // The field is still added to the table below, because later indices count it.
        if !field.is_authority() {
            field.put(out);
        }
        if indexed {
            self.size += field.size();
            self.table.push_front(field);
            self.shrink();
        }
        Some(())
    }

    /// Returns the field with an index beyond the static table.
    fn dynamic(&self, place: usize) -> Option<&HeaderField> {
        self.table.get(place.checked_sub(STATIC.len() + 1)?)
    }

    /// Removes the oldest fields until the table fits its size.
    fn shrink(&mut self) {
        while self.size > self.max {
            let oldest = self.table.pop_back();
            // Without a field, the size becomes 0, which ends the loop.
            self.size -= oldest.map_or(self.size, |field| field.size());
        }
    }
}

/// Decodes an integer that begins in the low bits of the first byte (RFC 7541, section 5.1).
fn integer(block: &mut &[u8], bits: u32) -> Option<usize> {
    let mut next = || {
        let (&byte, rest) = block.split_first()?;
        *block = rest;
        Some(usize::from(byte))
    };
    let most = (1 << bits) - 1;
    let mut value = next()? & most;
    if value == most {
        // Three bytes are enough for every valid length and index.
        for shift in [0, 7, 14] {
            let byte = next()?;
            value += (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        return None;
    }
    Some(value)
}

/// Decodes a string, which can be in the Huffman code (RFC 7541, section 5.2).
fn string(block: &mut &[u8]) -> Option<Vec<u8>> {
    let coded = block.first()? & 0x80 != 0;
    let length = integer(block, 7)?;
    let (bytes, rest) = block.split_at_checked(length)?;
    *block = rest;
    if coded {
        huffman::decode(bytes)
    } else {
        Some(bytes.to_vec())
    }
}

/// Appends an integer whose first byte has the bits of `kind` in front of it.
fn put_integer(value: usize, kind: u8, bits: u32, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if value < most {
        out.push(kind | value as u8);
        return;
    }
    out.push(kind | most as u8);
    let mut left = value - most;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn put_string(string: &[u8], out: &mut Vec<u8>) {
    put_integer(string.len(), 0, 7, out);
    out.extend_from_slice(string);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests of RFC 7541, appendix C.4, with Huffman codes and fields from the table. The
    /// second request has `cache-control`, whose name is in the static table.
    const REQUESTS: [&[u8]; 3] = [
        &[
            0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab,
            0x90, 0xf4, 0xff,
        ],
        &[
            0x82, 0x86, 0x84, 0xbe, 0x58, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf,
        ],
        &[
            0x82, 0x87, 0x85, 0xbf, 0x40, 0x88, 0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f,
            0x89, 0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf,
        ],
    ];

    #[test]
    fn blocks_leave_without_the_authority_and_without_compression() {
        let mut decoder = Decoder::default();
        let mut next = |nth: usize| decoder.without_authority(REQUESTS[nth]).expect("HPACK");
        assert_eq!(next(0), [0x82, 0x86, 0x84]);
        assert_eq!(
            next(1),
            [&[0x82, 0x86, 0x84, 0x0f, 9, 8][..], b"no-cache"].concat()
        );
        let custom = [
            &[0x82, 0x87, 0x85, 0, 10][..],
            b"custom-key",
            &[12],
            b"custom-value",
        ]
        .concat();
        assert_eq!(next(2), custom);
        // The sizes that the RFC states after each request depend on the names' lengths.
        assert_eq!((decoder.size, decoder.table.len()), (164, 3));
    }

    #[test]
    fn names_from_the_table_and_sizes_of_the_table_count() {
        let mut decoder = Decoder::default();
        let mut after = |block: &[u8]| decoder.without_authority(block);
        let named = [&[0x40, 10][..], b":authority", &[2], b"/s"].concat();
        assert_eq!(after(&named), Ok(vec![]));
        // The name with another value, and then the whole field.
        assert_eq!(after(&[0x0f, 47, 1, b'a', 0xbe]), Ok(vec![]));
        // An empty table has no field.
        assert_eq!(after(&[0x20, 0xbe]), Err(MalformedHttp2::Fields));
    }

    #[test]
    fn blocks_that_are_cut_or_name_nothing_or_grow_are_refused() {
        for request in REQUESTS {
            for length in 1..request.len() {
                // Some beginnings are valid blocks. None of them may panic.
                let _ = Decoder::default().without_authority(&request[..length]);
            }
        }
        for block in [
            &[0x80][..],
            &[0xbe],
            &[0x41],
            &[0x41, 2, b'/'],
            &[0x3f, 0xe2, 0x1f],
            &[0xff, 0xff, 0xff, 0xff, 0],
        ] {
            let refused = Decoder::default().without_authority(block);
            assert_eq!(refused, Err(MalformedHttp2::Fields), "{block:02x?}");
        }
        let field = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4000]].concat();
        let grows = [field, vec![0xbe; 20]].concat();
        assert_eq!(
            Decoder::default().without_authority(&grows),
            Err(MalformedHttp2::Long)
        );
    }
}
