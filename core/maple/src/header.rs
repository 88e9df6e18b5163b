//! The header page of a published map, as readers check it.

use sapwood_arena::{HEADER_LEN, Header, HeaderError, OpenError};
use sapwood_common::raw::asked::Asked;
use sapwood_format::maple::header;

use super::raw::values::Values;
use crate::OpenCause;

/// The values that a program asks for.
pub(super) fn asked<V>() -> Asked {
    Asked {
        name: core::any::type_name::<V>(),
        values: Some((size_of::<V>(), align_of::<V>())),
    }
}

/// What a reader must know of a map's leaves.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) values: Values,
    /// Bytes of a slot.
    pub(super) slot: usize,
}

/// Checks the header page of a memory of `actual` bytes.
pub(super) fn read_header<V: Send + Sync + 'static>(
    page: &[u8; HEADER_LEN],
    actual: u64,
) -> Result<Facts, OpenCause> {
    let hash = header::layout_hash(size_of::<V>(), align_of::<V>());
    let read = Header::decode_parts(page, actual, hash).map_err(|error| {
        let other = match error {
            HeaderError::Layout { found, .. } => {
                OpenCause::other_values(found, asked::<V>(), header::layout_hash)
            }
            _ => None,
        };
        other.unwrap_or(OpenCause::Image(OpenError::Header(error)))
    })?;
    let size = size_of::<V>() as u64;
    let facts = [header::VALUE_BYTES, header::SLOT, header::APART].map(|word| read.roots[word]);
    let values = match facts {
        [bytes, slot, 0] if bytes == size && slot == size && size <= 8 => Values::InSlots,
        [bytes, 4, 1] if bytes == size => Values::Apart,
        [bytes, slot, apart] => {
            return Err(OpenCause::Corrupt(format!(
                "the header says {bytes} bytes a value, {slot} a slot, apart {apart}"
            )));
        }
    };
    Ok(Facts {
        values,
        slot: facts[1] as usize,
    })
}
