//! The data of options, and the encoding of option replies.

use crate::nbd::constants::{
    BASE_ALLOCATION, INFO_BLOCK_SIZE, INFO_DESCRIPTION, INFO_NAME, OPTION_REPLY_MAGIC,
};
use crate::nbd::fields::Fields;

/// The data of an INFO or GO option.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct InfoRequest<'a> {
    pub(super) name: &'a str,
    pub(super) wants_name: bool,
    pub(super) wants_description: bool,
    pub(super) wants_block_sizes: bool,
}

impl<'a> InfoRequest<'a> {
    /// Parses the data, or returns `None` if it is malformed. Requests for unknown information are
    /// ignored, as the protocol demands (`proto.md`, Option types).
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::new(data);
        let name = fields.counted_string()?;
        let mut request = Self {
            name,
            ..Self::default()
        };
        for _ in 0..fields.u16()? {
            match fields.u16()? {
                INFO_NAME => request.wants_name = true,
                INFO_DESCRIPTION => request.wants_description = true,
                INFO_BLOCK_SIZE => request.wants_block_sizes = true,
                _ => {}
            }
        }
        fields.is_empty().then_some(request)
    }
}

/// The data of a `LIST_META_CONTEXT` or `SET_META_CONTEXT` option.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MetaRequest<'a> {
    pub(super) name: &'a str,
    /// True if there was no query, which in a list stands for all contexts.
    pub(super) unrestricted: bool,
    /// True if a query asks for the whole namespace `base`.
    pub(super) base_wildcard: bool,
    /// True if a query asks for `base:allocation`.
    pub(super) allocation: bool,
}

impl<'a> MetaRequest<'a> {
    /// Parses the data, or returns `None` if it is malformed. Queries for unknown contexts and
    /// namespaces are ignored, as the protocol demands (`proto.md`, Metadata querying).
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::new(data);
        let name = fields.counted_string()?;
        let queries = fields.u32()?;
        let mut request = Self {
            name,
            unrestricted: queries == 0,
            ..Self::default()
        };
        // A wrong count cannot prolong the loop beyond the data, because each query takes at least
        // its length field.
        for _ in 0..queries {
            match fields.counted_string()? {
                "base:" => request.base_wildcard = true,
                BASE_ALLOCATION => request.allocation = true,
                _ => {}
            }
        }
        fields.is_empty().then_some(request)
    }
}

/// Appends a reply to `option`. The data of the reply is the concatenation of `parts`.
pub(super) fn append_reply(out: &mut Vec<u8>, option: u32, reply: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&reply.to_be_bytes());
    out.extend_from_slice(&(length as u32).to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &[u8], count: u16, kinds: &[u16]) -> Vec<u8> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name);
        data.extend_from_slice(&count.to_be_bytes());
        data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
        data
    }

    #[test]
    fn info_requests_are_understood() {
        let data = info(b"disk", 4, &[INFO_BLOCK_SIZE, INFO_NAME, 4711, INFO_NAME]);
        let expected = InfoRequest {
            name: "disk",
            wants_name: true,
            wants_description: false,
            wants_block_sizes: true,
        };
        assert_eq!(InfoRequest::parse(&data), Some(expected));
    }

    #[test]
    fn malformed_info_requests_are_refused() {
        for data in [
            vec![],
            // Fewer requests than the count, and more.
            info(b"disk", 2, &[INFO_NAME]),
            info(b"disk", 0, &[INFO_NAME]),
            info(&[0xff], 0, &[]),
            info(b"a\0", 0, &[]),
            info(&[b'a'; 4097], 0, &[]),
            vec![0xff; 12],
        ] {
            assert_eq!(InfoRequest::parse(&data), None, "{data:?}");
        }
    }

    #[test]
    fn meta_requests_are_understood_and_bounded_by_their_data() {
        let mut data = vec![0, 0, 0, 1, b'd', 0, 0, 0, 2];
        for query in ["qemu:dirty-bitmap:x", BASE_ALLOCATION] {
            data.extend_from_slice(&(query.len() as u32).to_be_bytes());
            data.extend_from_slice(query.as_bytes());
        }
        let expected = MetaRequest {
            name: "d",
            unrestricted: false,
            base_wildcard: false,
            allocation: true,
        };
        assert_eq!(MetaRequest::parse(&data), Some(expected));
        // Every prefix is malformed, and so is additional data.
        for end in 0..data.len() {
            assert_eq!(MetaRequest::parse(&data[..end]), None, "cut at {end}");
        }
        data.push(0);
        assert_eq!(MetaRequest::parse(&data), None);
        assert_eq!(
            // A count of 2^32 − 1 queries ends with the data.
            MetaRequest::parse(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
            None
        );
    }
}
