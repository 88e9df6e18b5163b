//! Readers of maps in an arena that another process, or programs, write.

use std::ffi::{c_char, c_int, c_void};

use sapwood_bpf::{Bytes, CheckedReader};

use crate::bpf::{name, sapwood_bpf_arena};
use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{bytes, place};
use crate::output::{hand_out, put, put_wanted, verified};
use crate::shared::sapwood_entry_fn;
use crate::value::{sapwood_bytes, sapwood_entry, sapwood_value};

/// The inside of the handle of a reader.
pub struct BpfReaderBody {
    reader: CheckedReader<Bytes>,
}

impl Body for BpfReaderBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swBr");
    const NAME: &'static str = "reader of an arena";
}

/// A function of C that is told of an entry.
type Each = unsafe extern "C" fn(entry: *const sapwood_entry, ctx: *mut c_void) -> c_int;

/// Calls a function of C for each entry until it returns another number than 0, and returns that.
///
/// # Safety
/// C gave both for this.
pub unsafe fn tell<E>(
    entries: impl IntoIterator<Item = Result<(Vec<u8>, Bytes), E>>,
    each: Each,
    ctx: *mut c_void,
) -> Outcome
where
    Failure: From<E>,
{
    for entry in entries {
        let (key, value) = entry?;
        let entry = sapwood_entry {
            key: sapwood_bytes::new(&key),
            value: sapwood_value {
                bytes: sapwood_bytes::new(&value.0),
            },
        };
        // SAFETY: the caller's promise; both live until it returns.
        let ended = unsafe { each(&raw const entry, ctx) };
        if ended != 0 {
            return Ok(ended);
        }
    }
    Ok(0)
}

/// Copies what was found, if it is wanted and there is room.
///
/// # Safety
/// `value` is NULL, or it has room for this many bytes.
pub unsafe fn copy_out(found: Option<Bytes>, value: *mut c_void, room: usize) -> Outcome {
    let Some(Bytes(found)) = found else {
        return Ok(-libc::ENOENT);
    };
    if value.is_null() {
        return Ok(0);
    }
    if found.len() > room {
        return Err(Failure::new(
            libc::E2BIG,
            format!("a value of {} bytes does not fit into {room}", found.len()),
        ));
    }
    // SAFETY: the caller's promise. There is room.
    unsafe { value.cast::<u8>().copy_from(found.as_ptr(), found.len()) };
    Ok(0)
}

c_api!(
    /// A reader of any map over byte strings in an arena, whoever writes it: another process,
    /// programs, or nobody, when the owner is dead. It checks every word, and gives copies, so it
    /// relies on nothing that lies there. Any number of processes read; the map's owner reads
    /// through the map's own handle. Any thread.
    ///   -EAGAIN  changes disturbed each attempt    -EPROTO  the memory is damaged
    ///   -ENOENT  the map was closed                -ENOTSUP the map has no order
    const SECTION: &str = "Readers of maps in an arena";

    pub type sapwood_bpf_reader = Handle<BpfReaderBody>;

    /// Opens the map of this name. -ENOENT: there is no such map over byte strings.
    fn sapwood_bpf_reader_open(
        arena: *const sapwood_bpf_arena,
        window_name: *const c_char,
        out: *mut *mut sapwood_bpf_reader,
    ) -> c_int {
        let out = place(out, "out")?;
        let body = Handle::shared(arena)?;
        let reader = body.arena.reader::<Bytes>(name(window_name, "the name")?)?;
        hand_out(out, BpfReaderBody { reader }, Handle::rules(arena))
    }

    /// One thread at a time.
    fn sapwood_bpf_reader_free(reader: *mut sapwood_bpf_reader) {
        free(reader)
    }

    /// Returns the bytes of each value; 0: they are byte strings, of any length.
    fn sapwood_bpf_reader_value_bytes(reader: *const sapwood_bpf_reader) -> c_int {
        let bytes = Handle::shared(reader)?.reader.value_bytes()?;
        Ok(bytes.unwrap_or(0) as c_int)
    }

    /// Stores the number of entries. O(entries), except of a store.
    fn sapwood_bpf_reader_len(reader: *const sapwood_bpf_reader, len: *mut usize) -> c_int {
        put(len, "len", Handle::shared(reader)?.reader.len()?)
    }

    /// Copies the value of a key to value, which has room bytes and may be NULL, and stores its
    /// length unless value_len is NULL. -ENOENT. -E2BIG: there is no room; the length is stored.
    fn sapwood_bpf_reader_get(
        reader: *const sapwood_bpf_reader,
        key: *const c_void,
        key_len: usize,
        value: *mut c_void,
        room: usize,
        value_len: *mut usize,
    ) -> c_int {
        let reader = &Handle::shared(reader)?.reader;
        let found = reader.get(bytes(key, key_len, "the key")?)?;
        if let Some(found) = &found {
            put_wanted(value_len, found.0.len());
        }
        copy_out(found, value, room)
    }

    /// Stores the sum of a key's counts on all processors, in a map that programs write and that
    /// was made with SAPWOOD_BPF_PER_PROCESSOR; -EINVAL in others. -ENOENT.
    fn sapwood_bpf_reader_sum(
        reader: *const sapwood_bpf_reader,
        key: *const c_void,
        key_len: usize,
        sum: *mut u64,
    ) -> c_int {
        let reader = &Handle::shared(reader)?.reader;
        if !reader.source().is_per_processor()? {
            let why = "the map has one value for all processors";
            return Err(Failure::new(libc::EINVAL, why.to_owned()));
        }
        match reader.get(bytes(key, key_len, "the key")?)? {
            Some(value) => put(sum, "sum", value.sum()),
            None => Ok(-libc::ENOENT),
        }
    }

    /// Calls each(entry, ctx) for all entries, in order if the map has one; returns 0, or what
    /// ended the walk. The key and the value (entry->value.bytes) are copies, which are valid until
    /// the callback returns. No key comes twice, and each that is there throughout comes.
    fn sapwood_bpf_reader_each(
        reader: *const sapwood_bpf_reader,
        each: sapwood_entry_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let reader = &Handle::shared(reader)?.reader;
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        tell(reader.unordered(), each, ctx)
    }

    /// The same for the entries whose keys begin with a prefix, and for those from a key on, in
    /// order. -ENOTSUP: the map has an index alone.
    fn sapwood_bpf_reader_each_prefix(
        reader: *const sapwood_bpf_reader,
        prefix: *const c_void,
        prefix_len: usize,
        each: sapwood_entry_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let reader = &Handle::shared(reader)?.reader;
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        tell(
            reader.prefix(bytes(prefix, prefix_len, "the prefix")?),
            each,
            ctx,
        )
    }

    fn sapwood_bpf_reader_each_from(
        reader: *const sapwood_bpf_reader,
        key: *const c_void,
        key_len: usize,
        each: sapwood_entry_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let reader = &Handle::shared(reader)?.reader;
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        tell(reader.from_key(bytes(key, key_len, "the key")?), each, ctx)
    }

    /// Checks every invariant of the map: 0, or -EUCLEAN with the first that does not hold. Nobody
    /// may write the map meanwhile.
    fn sapwood_bpf_reader_verify(reader: *const sapwood_bpf_reader) -> c_int {
        let found = Handle::shared(reader)?.reader.verify();
        verified(found.map(drop).map_err(|error| error.to_string()))
    }
);
