//! Times of entries: nanoseconds modulo 2^63 (292 years), shifted left by one, for the bit that
//! marks negative entries.

/// A time that entries are compared with.
#[derive(Clone, Copy)]
pub(crate) struct Time(u64);

/// When an entry was resolved, and whether it says that there is no route.
#[derive(Clone, Copy)]
pub(crate) struct Stamp(pub u64);

/// A length of time, for [`Time::is_within`].
#[derive(Clone, Copy)]
pub(crate) struct Span(u64);

impl Span {
    /// This many nanoseconds, at most 2^62.
    pub(super) fn new(nanoseconds: u64) -> Self {
        debug_assert!(nanoseconds <= 1 << 62);
        Self(nanoseconds << 1)
    }
}

impl Time {
    #[inline(always)]
    pub(super) fn new(nanoseconds: u64) -> Self {
        // The lowest bit is set, so that a negative stamp of the same time is not of the future.
        Self(nanoseconds << 1 | 1)
    }

    #[inline(always)]
    pub(super) fn stamp(self, negative: bool) -> Stamp {
        Stamp(self.0 & !1 | u64::from(negative))
    }

    /// Whether a stamp is younger than `span`, and at most `ahead` in the future.
    #[inline(always)]
    pub(super) fn is_within(self, stamp: Stamp, span: Span, ahead: Span) -> bool {
        let age = self.0.wrapping_add(ahead.0).wrapping_sub(stamp.0);
        age < span.0 + ahead.0
    }

    /// The distance to a stamp, back or ahead.
    pub(super) fn distance(self, stamp: Stamp) -> u64 {
        let back = self.0.wrapping_sub(stamp.0) >> 1;
        back.min((1 << 63) - back)
    }
}

impl Stamp {
    #[inline(always)]
    pub(crate) fn negative(self) -> bool {
        self.0 & 1 != 0
    }

    /// By how much this is later than another one, modulo 2^63.
    pub(crate) fn after(self, other: Stamp) -> u64 {
        (self.0 & !1).wrapping_sub(other.0 & !1) >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let none = Span::new(0);
        for start in [0, 5, u64::MAX / 2 - 3, u64::MAX / 2, u64::MAX - 2] {
            for negative in [false, true] {
                let stamp = Time::new(start).stamp(negative);
                assert_eq!(stamp.negative(), negative);
                let at = |passed: i64| Time::new(start.wrapping_add_signed(passed));
                let within = |passed, ahead| at(passed).is_within(stamp, Span::new(10), ahead);
                assert!(within(0, none) && within(9, none));
                assert!(!within(10, none) && !within(-1, none) && !within(1 << 40, none));
                assert!(within(-3, Span::new(3)) && within(9, Span::new(3)));
                assert!(!within(-4, Span::new(3)) && !within(10, Span::new(3)));
                assert!(!at(0).is_within(stamp, none, none));
                assert_eq!((at(7).distance(stamp), at(-7).distance(stamp)), (7, 7));
                assert_eq!(at(7).stamp(true).after(stamp), 7);
                assert!(stamp.after(at(7).stamp(false)) > 1 << 62);
            }
        }
    }
}
