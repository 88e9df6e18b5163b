//! Shared maps: what C sees of them. Their bodies are in `shared`.

use std::ffi::{c_int, c_uchar, c_void};

use crate::handle::{Handle, free};
use crate::maps::{sapwood_memory, sapwood_options, sapwood_shared};
use crate::ordered::Source;
use crate::reader::sapwood_reader;
use crate::shared::{self, insert, sapwood_entry_fn, shared_api};
use crate::value::{insertions, map_kinds, sapwood_bytes, sapwood_value};
use crate::view::{Anchor, sapwood_view};

shared_api!(
    sapwood_shared:
    /// Makes an empty map. O(1).
    sapwood_shared_new,
    /// Nobody may use the map, or what was read from it. Its pointers are retired.
    sapwood_shared_free,
    /// As the functions of stores of these names, in what is newest.
    sapwood_shared_get,
    sapwood_shared_get_many,
    sapwood_shared_len,
    /// As the functions of stores of these names.
    sapwood_shared_insert,
    sapwood_shared_insert_new,
    sapwood_shared_replace,
    /// Replaces `current` by `value`. -ENOENT: the key is absent. -ESTALE: its value is another.
    sapwood_shared_compare_exchange,
    /// Adds to a number, modulo 2^64, and stores the sum unless `sum` is NULL. An absent key is
    /// inserted with delta: the function returns 1. -ENOTSUP: other values.
    sapwood_shared_add,
    /// -ENOENT: the key is not there.
    sapwood_shared_remove,
    /// Frees at most `most` nodes that no reader uses any more, and returns how many.
    sapwood_shared_reclaim,
    /// It stops all writers for a moment.
    sapwood_shared_memory,
    /// Calls each(entry, ctx) for all entries, in order; returns 0, or what ended the walk.
    sapwood_shared_each;

    /// Makes a view. Each call with it sees what is newest then.
    fn sapwood_shared_view(map: *const sapwood_shared, reader: *const sapwood_reader, view: *mut sapwood_view) -> c_int {

        // The view's anchor says until when it may be used.
            let (body, through) = (Handle::shared(map)?, Handle::shared(reader)?);
                let source = map_kinds!(&body.map, map => {
                Source::Shared(map.view(through.guard(map.domain())?))
            });
            let anchor = Anchor::reader(map, reader, through.epoch());
            sapwood_view::write(view, anchor, source)
    }
);
