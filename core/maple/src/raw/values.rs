//! Where values lie.

use core::any::TypeId;
use core::marker::PhantomData;

/// Where values lie: in the leaves' slots, or in blocks of their own that slots refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// In slots, for `Copy` types only: slots are copied from leaf to leaf while readers may hold
    /// references into old leaves.
    InSlots,
    Apart,
    /// In boxes of their own, which slots point to: only in maps without readers.
    Boxed,
}

/// Whether values of this type lie in slots by default.
pub(crate) fn is_plain<V: 'static>() -> bool {
    macro_rules! one_of {
        ($($type:ty),*) => { [$(TypeId::of::<$type>()),*] };
    }
    let plain = one_of!(
        (),
        bool,
        char,
        u8,
        u16,
        u32,
        u64,
        usize,
        i8,
        i16,
        i32,
        i64,
        isize,
        f32,
        f64
    );
    plain.contains(&TypeId::of::<V>())
}

/// The block of a value that lies apart.
pub(crate) struct Apart<V>(PhantomData<V>);

impl<V> Apart<V> {
    /// Bytes of a block, which is aligned to 8: enough for a place in it with the type's alignment.
    pub(crate) const BYTES: usize = {
        let slack = if align_of::<V>() > 8 {
            align_of::<V>() - 8
        } else {
            0
        };
        let bytes = size_of::<V>() + slack;
        if bytes == 0 { 1 } else { bytes }
    };

    /// The value's place in the block. The arena does not move, so the place stays.
    #[inline(always)]
    pub(crate) fn place(p: *mut u8) -> *mut V {
        p.wrapping_add(p.align_offset(align_of::<V>())).cast()
    }
}
