//! Point maps: what C sees of them. Their bodies are in `shared`.

use std::ffi::{c_int, c_uchar, c_void};

use crate::handle::free;
use crate::maps::{sapwood_memory, sapwood_options, sapwood_point};
use crate::reader::sapwood_reader;
use crate::shared::{self, insert, sapwood_entry_fn, shared_api};
use crate::value::{insertions, sapwood_bytes, sapwood_value};

shared_api!(
    sapwood_point:
    /// As the functions of sapwood_shared of these names.
    sapwood_point_new,
    sapwood_point_free,
    sapwood_point_get,
    sapwood_point_get_many,
    sapwood_point_len,
    sapwood_point_insert,
    sapwood_point_insert_new,
    sapwood_point_replace,
    sapwood_point_compare_exchange,
    sapwood_point_add,
    sapwood_point_remove,
    sapwood_point_reclaim,
    sapwood_point_memory,
    /// As sapwood_shared_each, in no order.
    sapwood_point_each;
);
