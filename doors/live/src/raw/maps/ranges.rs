//! Live range maps.

use std::ptr::NonNull;

use sapwood::Builder;
use sapwood::maple::{MapleMap, MaplePublished, MapleView, PlainValue};
use sapwood_qsbr::Domain;

use super::{CheckedMap, Left, LiveMap, Memory, made};
use crate::checked::CheckedRanges;
use crate::error::Error;
use crate::raw::window::LiveSource;

// SAFETY: a change of a range map becomes visible by one store, and readers of other processes read
// as those of this process do.
unsafe impl<V: PlainValue> LiveMap for MapleMap<V> {
    type View<'r> = MapleView<'r, V>;
    type Builder = Builder<Self>;
    type Attached = MaplePublished<V>;
    const KIND: (u64, &'static str) = (8, "range map");

    fn layouts() -> Vec<u64> {
        vec![MapleMap::<V>::layout_hash()]
    }

    fn builder() -> Builder<Self> {
        MapleMap::builder()
    }

    fn create(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
    ) -> Result<Self, Error> {
        made(builder.domain(domain), memory)
    }

    fn inherit(
        builder: Builder<Self>,
        domain: &Domain,
        memory: &mut dyn Memory,
        left: &Left,
    ) -> Result<Self, Error> {
        let old = left.source(0)?.window;
        let arena = memory.arena(0, MapleMap::<V>::layout_hash())?;
        let map = builder.domain(domain).restore_in(arena, old);
        map.map_err(|cause| left.not_restored(0, cause))
    }

    unsafe fn attach(bases: &[NonNull<u8>]) -> Result<MaplePublished<V>, String> {
        // SAFETY: the caller's promise.
        unsafe { MaplePublished::new(bases[0]) }.map_err(|cause| cause.to_string())
    }

    #[inline]
    unsafe fn view<'r>(attached: &'r MaplePublished<V>) -> MapleView<'r, V> {
        // SAFETY: the callers' promises.
        unsafe { attached.view() }
    }
}

impl<V: PlainValue> CheckedMap for MapleMap<V> {
    type Checked<'r> = CheckedRanges<'r, V>;

    fn check(sources: &[LiveSource]) -> Result<Self::Checked<'_>, Error> {
        CheckedRanges::new(&sources[0])
    }
}
