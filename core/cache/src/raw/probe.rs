//! USDT probes for tracers: `sapwood:hit`, `insert`, `refresh`, `delete` and `full`, each with the
//! key's hash and the set's number.
//!
//! They need the feature `usdt`. A probe that nobody traces is one `nop`.

macro_rules! events {
    ($($name:ident: $text:literal;)*) => {$(
        #[doc = $text]
        #[inline(always)]
        pub(crate) fn $name(hash: u64, set: usize) {
            #[cfg(feature = "usdt")]
            ::probe::probe!(sapwood, $name, hash, set);
            #[cfg(not(feature = "usdt"))]
            let _ = (hash, set);
        }
    )*};
}
events! {
    hit: "A lookup was answered.";
    insert: "An entry was inserted.";
    refresh: "An entry was written again in its slot.";
    delete: "An entry was invalidated, swept or evicted; the hash is 0 where the key is not known.";
    full: "An entry that was still good was evicted for another.";
}
