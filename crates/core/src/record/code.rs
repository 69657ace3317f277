//! The encoding of values as bytes.

use super::VERSION;
use crate::{Instant, Span};
use alloc::vec::Vec;
use core::fmt;

/// An error in the bytes of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// The bytes at a position are not those of a record.
    At {
        /// The position of the error, in bytes from the beginning of the record.
        offset: u64,
        /// A description of the bytes that were expected at this position.
        expected: &'static str,
    },
    /// The record has a version of the layout that this program does not read. Has that version.
    Version(u32),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { offset, expected } => write!(f, "byte {offset}: expected {expected}"),
            Self::Version(found) => write!(
                f,
                "the recording has version {found}, but this program supports version {VERSION}"
            ),
        }
    }
}

impl core::error::Error for Malformed {}

/// The unread rest of a frame's body.
#[derive(Debug)]
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    /// The position of the first of `bytes` in the record.
    offset: u64,
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8], offset: u64) -> Self {
        Self { bytes, offset }
    }

    pub(super) fn malformed<T>(&self, expected: &'static str) -> Result<T, Malformed> {
        Err(Malformed::At {
            offset: self.offset,
            expected,
        })
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let Some((&first, rest)) = self.bytes.split_first() else {
            return self.malformed("more bytes in the frame");
        };
        self.bytes = rest;
        self.offset += 1;
        Ok(first)
    }

    /// Checks that the frame was read completely.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        // Bytes after the last value would be lost when the record is written again.
        if self.bytes.is_empty() {
            Ok(())
        } else {
            self.malformed("the end of the frame")
        }
    }
}

/// A value that can be written to a record and read from it.
pub(super) trait Code: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed>;
}

/// Writes a list of values after their number.
pub(super) fn put_all<T: Code>(values: &[T], out: &mut Vec<u8>) {
    (values.len() as u64).put(out);
    for value in values {
        value.put(out);
    }
}

/// Reads a list that [`put_all`] wrote and replaces the content of `values`. It allocates no more
/// than the remaining bytes can fill.
pub(super) fn take_all<T: Code>(
    values: &mut Vec<T>,
    input: &mut Input<'_>,
) -> Result<(), Malformed> {
    values.clear();
    let count = u64::take(input)?;
    // Every value takes at least one byte, so a false number is detected before memory is allocated
    // for it.
    if count > input.bytes.len() as u64 {
        return input.malformed("no more values than bytes");
    }
    for _ in 0..count {
        values.push(T::take(input)?);
    }
    Ok(())
}

impl Code for u64 {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        let mut left = *self;
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }

    #[inline]
    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = input.byte()?;
            let part = Self::from(byte & 0x7f);
            // The tenth byte has room for only one of the 64 bits.
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                // There is only one way to write each value, so that equal values are equal bytes.
                if part == 0 && shift > 0 {
                    break;
                }
                return Ok(value);
            }
        }
        input.malformed("a varint of 64 bits")
    }
}

macro_rules! narrower {
    ($($type:ty: $expected:literal)*) => {$(
        impl Code for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                u64::from(*self).put(out);
            }
            #[inline]
            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                Self::try_from(u64::take(input)?).or_else(|_| input.malformed($expected))
            }
        }
    )*};
}
narrower!(u32: "a varint of 32 bits" u16: "a varint of 16 bits" u8: "a varint of 8 bits");

impl Code for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Self::try_from(u64::take(input)?).or_else(|_| input.malformed("a size of this machine"))
    }
}

impl Code for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => input.malformed("0 or 1 before this"),
        }
    }
}

impl<T: Code> Code for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(if bool::take(input)? {
            Some(T::take(input)?)
        } else {
            None
        })
    }
}

impl<T: Code, E: Code> Code for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(if bool::take(input)? {
            Ok(T::take(input)?)
        } else {
            Err(E::take(input)?)
        })
    }
}

impl Code for () {
    fn put(&self, _out: &mut Vec<u8>) {}

    fn take(_input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(())
    }
}

impl Code for Instant {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_nanos().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self::from_nanos(u64::take(input)?))
    }
}

impl Code for Span {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_nanos().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self::from_nanos(u64::take(input)?))
    }
}

/// Encodes a structure as its fields, in the given order. Reading and writing name every field, so
/// a missing one does not compile.
macro_rules! fields {
    ($($type:path { $($field:ident),* $(,)? })*) => {$(
        impl Code for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(out);)*
                let _ = out;
            }
            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                let _ = &input;
                Ok(Self { $($field: Code::take(input)?),* })
            }
        }
    )*};
}

/// Encodes a structure as the number of its fields and the fields. Records of a build with more or
/// fewer fields are refused instead of being misread.
macro_rules! settings {
    ($($type:path { $($field:ident),* $(,)? })*) => {$(
        impl Code for $type {
            fn put(&self, out: &mut Vec<u8>) {
                const NAMES: &[&str] = &[$(stringify!($field)),*];
                let Self { $($field),* } = self;
                NAMES.len().put(out);
                $($field.put(out);)*
            }
            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                const NAMES: &[&str] = &[$(stringify!($field)),*];
                if usize::take(input)? != NAMES.len() {
                    return input.malformed(concat!(
                        "as many fields of ", stringify!($type), " as this build of weir has"
                    ));
                }
                Ok(Self { $($field: Code::take(input)?),* })
            }
        }
    )*};
}

/// Encodes an enumeration without data as one byte.
macro_rules! variants {
    ($($type:path { $($code:literal = $variant:ident),* $(,)? } $expected:literal)*) => {$(
        impl Code for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.push(match self { $(Self::$variant => $code),* });
            }
            #[inline]
            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                match input.byte()? {
                    $($code => Ok(Self::$variant),)*
                    _ => input.malformed(concat!("before this, ", $expected)),
                }
            }
        }
    )*};
}

/// Encodes an enumeration whose variants have fields (`A { x }`), one value (`B(x)`) or none (`C
/// {}`) as one byte and the values.
macro_rules! choices {
    ($($type:path { $($code:literal = $variant:ident { $($field:ident $(: $at:tt)?),* }),* $(,)? } $expected:literal)*) => {$(
        impl Code for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant { $($($at:)? $field),* } => {
                        out.push($code);
                        $($field.put(out);)*
                    })*
                }
            }
            fn take(input: &mut Input<'_>) -> Result<Self, Malformed> {
                match input.byte()? {
                    $($code => {
                        $(let $field = Code::take(input)?;)*
                        Ok(Self::$variant { $($($at:)? $field),* })
                    })*
                    _ => input.malformed(concat!("before this, ", $expected)),
                }
            }
        }
    )*};
}

pub(super) use {choices, fields, settings, variants};
