//! Two words as sixteen bytes, stored at once.
//!
//! A copy of a value of 32 bytes reads sixteen at a time. If the bytes were written eight at a time
//! just before, the processor cannot forward them from its store buffer, and waits: five to eight
//! nanoseconds for each lookup, by notes of measurements.

/// The bytes of two words, the lower ones first.
#[inline(always)]
pub fn pair(low: u64, high: u64) -> [u8; 16] {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        use core::arch::x86_64::{__m128i, _mm_set_epi64x};
        // SAFETY: every x86-64 processor has SSE2; both types are sixteen bytes in which every bit
        // counts.
        unsafe {
            core::mem::transmute::<__m128i, [u8; 16]>(_mm_set_epi64x(high as i64, low as i64))
        }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    {
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }
}
