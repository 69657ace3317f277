//! The Huffman code for strings of HPACK (RFC 7541, appendix B).
//!
//! The code is canonical: codes of the same length are consecutive numbers in the order of their
//! symbols, and follow those of the shorter lengths. The lengths alone therefore define the code.

/// The length of the code of each byte, in bits. The symbol for the end of a string (30 bits, all
/// ones) has no entry, because it must not occur.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];
/// The length of the longest code, in bits.
const LONGEST: usize = 30;

/// The code in a form that is efficient to decode.
struct HuffmanCode {
    /// For each length: the first code, the number of codes, and the index of the first code's
    /// symbol.
    lengths: [(u32, u32, u32); LONGEST + 1],
    /// The symbols in the order of their codes.
    symbols: [u8; 256],
}

static CODE: HuffmanCode = code();

/// Derives the code from the lengths at compile time.
const fn code() -> HuffmanCode {
    let mut code = HuffmanCode {
        lengths: [(0, 0, 0); LONGEST + 1],
        symbols: [0; 256],
    };
    let (mut next, mut place, mut length) = (0, 0, 1);
    while length <= LONGEST {
        let (mut count, mut symbol) = (0, 0);
        while symbol < 256 {
            if LENGTHS[symbol] as usize == length {
                code.symbols[(place + count) as usize] = symbol as u8;
                count += 1;
            }
            symbol += 1;
        }
        code.lengths[length] = (next, count, place);
        // In a canonical code, the first code of the next length follows the last one of this
        // length.
        (next, place) = ((next + count) << 1, place + count);
        length += 1;
    }
    code
}

/// Decodes a string. Returns `None` if it is not in this code, or if its padding is not fewer than
/// eight ones.
pub(super) fn decode(string: &[u8]) -> Option<Vec<u8>> {
    // The shortest codes have 5 bits, which bounds the length of the result.
    let mut decoded = Vec::with_capacity(string.len() * 8 / 5);
    let (mut bits, mut length) = (0u32, 0usize);
    for byte in string {
        for bit in (0..8).rev() {
            bits = bits << 1 | u32::from(byte >> bit & 1);
            length += 1;
            let &(first, count, place) = CODE.lengths.get(length)?;
            if bits.checked_sub(first).is_some_and(|nth| nth < count) {
                decoded.push(CODE.symbols[(place + bits - first) as usize]);
                (bits, length) = (0, 0);
            }
        }
    }
    // RFC 7541, section 5.2: the padding is a prefix of the end symbol, that is, all ones.
    (length < 8 && bits + 1 == 1 << length).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn the_examples_of_the_rfc_are_decoded() {
        let host = [
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ];
        assert_eq!(decode(&host).as_deref(), Some(&b"www.example.com"[..]));
        assert_eq!(decode(&[0x64, 0x02]).as_deref(), Some(&b"302"[..]));
        assert_eq!(decode(&[]).as_deref(), Some(&b""[..]));
    }

    #[test]
    fn other_strings_are_refused() {
        // Padding with a zero, padding of eight ones, the end of a string, a code that is cut.
        for string in [
            &[0b0000_0110][..],
            &[0b0000_0111, 0xff],
            &[0xff; 4],
            &[0xff, 0xc0],
        ] {
            assert_eq!(decode(string), None, "{string:02x?}");
        }
    }
}
