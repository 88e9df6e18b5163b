//! Maps over byte strings that BPF programs write, and that this process serves.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sapwood_bpf::{Bytes, Error, ProgramMap, ProgramMapService, WriteError, Written};

use crate::bpf::{must_be_new, name, sapwood_bpf_arena};
use crate::bpf_reader::{copy_out, tell};
use crate::c_api::c_api;
use crate::domain::{SAPWOOD_CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{bytes, extensible, given, place};
use crate::maps::SAPWOOD_INDEX;
use crate::output::{hand_out, put, put_extensible, verified};
use crate::shared::sapwood_entry_fn;
use crate::value::Mode;

/// The inside of the handle of a map that programs write.
pub struct ProgramMapBody {
    /// Ends before the map.
    service: Mutex<Option<ProgramMapService>>,
    map: ProgramMap<Bytes>,
}

impl Body for ProgramMapBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swBm");
    const NAME: &'static str = "map of BPF programs";
}

impl ProgramMapBody {
    fn new(map: ProgramMap<Bytes>) -> Self {
        ProgramMapBody {
            service: Mutex::new(None),
            map,
        }
    }

    fn service(&self) -> MutexGuard<'_, Option<ProgramMapService>> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

extensible!(
    sapwood_bpf_map_options,
    sapwood_bpf_serviced,
    sapwood_bpf_drops
);

/// What a change gives to C. What the caller asked about is an answer, and no failure.
fn answer(written: Result<Written<(), Bytes>, Error>) -> Outcome {
    match written? {
        Ok(()) => Ok(0),
        Err(refused) => why(refused),
    }
}

/// Why a change was not made.
fn why(refused: WriteError<Bytes>) -> Outcome {
    let code = match refused {
        WriteError::Exists => return Ok(-libc::EEXIST),
        WriteError::Absent => return Ok(-libc::ENOENT),
        WriteError::Changed { .. } => return Ok(-libc::ESTALE),
        WriteError::TooLong => libc::E2BIG,
        WriteError::Full | WriteError::NoSlot => libc::ENOSPC,
        WriteError::NoMemory => libc::ENOMEM,
        WriteError::Busy => libc::EBUSY,
        WriteError::Other(number) => c_int::try_from(-number).unwrap_or(libc::EIO),
        _ => libc::EIO,
    };
    Err(Failure::new(code, refused.to_string()))
}

/// A value of C, of as many bytes as the map's values have.
unsafe fn value_in(map: &ProgramMap<Bytes>, at: *const c_void, what: &str) -> Outcome<Bytes> {
    let at = place(at.cast_mut(), what)?;
    // SAFETY: C.
    Ok(Bytes(
        unsafe { bytes(at, map.value_bytes(), what) }?.to_vec(),
    ))
}

/// Inserts an entry.
unsafe fn insert(
    map: *const sapwood_bpf_map,
    (key, key_len): (*const c_void, usize),
    value: *const c_void,
    mode: Mode,
) -> Outcome {
    // SAFETY: C.
    unsafe {
        let map = &Handle::shared(map)?.map;
        let key = bytes(key, key_len, "the key")?;
        let value = value_in(map, value, "the value")?;
        answer(match mode {
            Mode::Put => map.insert(key, value),
            Mode::New => map.insert_new(key, value),
            Mode::Replace => map.replace(key, value),
        })
    }
}

c_api!(
    /// Programs insert, replace and remove entries (sapwood/qp_write.bpf.h), and look them up. This
    /// process makes the map, supplies it with memory (service), reads it, and may change it, too.
    ///
    /// Values are plain bytes of one size. What this process reads is checked and copied. Any
    /// thread, unless it is said otherwise.
    const SECTION: &str = "Maps that BPF programs write";

    pub type sapwood_bpf_map = Handle<ProgramMapBody>;

    /// maps that programs write: order and prefixes
    pub const SAPWOOD_BPF_TRIE: c_uint = 128;

    /// maps that programs write: takes 64 KiB of the arena now for changes by this process
    pub const SAPWOOD_BPF_WRITES: c_uint = 256;

    /// maps that programs write: begins with little memory, and takes more as service finds that it
    /// is used; programs that are faster get -ENOMEM
    pub const SAPWOOD_BPF_GROW: c_uint = 512;

    /// maps that programs write, with an index alone: a full map removes what was not used for long
    pub const SAPWOOD_BPF_LRU: c_uint = 1024;

    /// maps that programs write: a value has a count for each processor (sw_qp_count); value_bytes
    /// is 0
    pub const SAPWOOD_BPF_PER_PROCESSOR: c_uint = 2048;

    #[derive(Debug)]
    pub struct sapwood_bpf_map_options {
        /// sizeof(struct sapwood_bpf_map_options)
        pub size: usize,
        /// of address space, the most that the map can take; 0: all that the arena has left
        pub bytes: usize,
        /// 0: 65,536
        pub max_entries: usize,
        /// bytes, at most 4,096; 0: 254, the longest that lies in a program's struct sw_key
        pub longest_key: usize,
        /// a multiple of 8, at most 4,096; 0: 8
        pub value_bytes: usize,
        /// blocks of a size that lie ready for programs; 0: a 64th of the entries
        pub ring: usize,
        /// bytes of a key on average, by which the map's memory is sized; 0: 24, or longest_key
        pub mean_key: usize,
        /// milliseconds without use after which an entry is gone, with SAPWOOD_BPF_LRU; 0: never
        pub max_idle: usize,
        /// SAPWOOD_CHECKED; SAPWOOD_INDEX (whole keys), SAPWOOD_BPF_TRIE; with neither it has both
        pub flags: c_uint,
        /// 0
        pub reserved: c_uint,
    }

    /// Makes an empty map in a window of this name (1 to 24 bytes). This process becomes the
    /// arena's owner. -EINVAL: sizes that no map has; the message says which.
    fn sapwood_bpf_map_create(
        arena: *const sapwood_bpf_arena,
        window_name: *const c_char,
        options: *const sapwood_bpf_map_options,
        out: *mut *mut sapwood_bpf_map,
    ) -> c_int {
        let out = place(out, "out")?;
        let body = Handle::shared(arena)?;
        let options: sapwood_bpf_map_options = given(options)?;
        let known = SAPWOOD_CHECKED
            | SAPWOOD_INDEX
            | SAPWOOD_BPF_TRIE
            | SAPWOOD_BPF_WRITES
            | SAPWOOD_BPF_GROW
            | SAPWOOD_BPF_LRU
            | SAPWOOD_BPF_PER_PROCESSOR;
        known_flags(options.flags, known)?;
        let flag = |flag| options.flags & flag != 0;
        let window_name = name(window_name, "the name")?;
        must_be_new(&body.arena, window_name)?;
        let mut builder = ProgramMap::<Bytes>::builder(&body.arena, window_name);
        if options.bytes != 0 {
            builder = builder.bytes(options.bytes);
        }
        if options.max_entries != 0 {
            builder = builder.max_entries(options.max_entries);
        }
        if options.longest_key != 0 {
            builder = builder.longest_key(options.longest_key);
        }
        if options.value_bytes != 0 {
            builder = builder.value_bytes(options.value_bytes);
        }
        if options.ring != 0 {
            builder = builder.ring(options.ring);
        }
        if options.mean_key != 0 {
            builder = builder.mean_key(options.mean_key);
        }
        if options.max_idle != 0 {
            builder = builder.max_idle(Duration::from_millis(options.max_idle as u64));
        }
        builder = builder
            .grow(flag(SAPWOOD_BPF_GROW))
            .lru(flag(SAPWOOD_BPF_LRU))
            .per_processor(flag(SAPWOOD_BPF_PER_PROCESSOR));
        if flag(SAPWOOD_INDEX) {
            builder = builder.with_index();
        }
        if flag(SAPWOOD_BPF_TRIE) {
            builder = builder.with_trie();
        }
        if flag(SAPWOOD_BPF_WRITES) {
            builder = builder.user_writes();
        }
        let map = ProgramMapBody::new(builder.build()?);
        hand_out(
            out,
            map,
            Handle::rules(arena).or_checked(flag(SAPWOOD_CHECKED)),
        )
    }

    /// Takes over the map that a dead owner left, with all its entries, whatever the size of its
    /// values. Meanwhile, for a grace period and some hundred nanoseconds an entry, programs find
    /// no window. -EBUSY: the owner lives. -EPROTO: the map is not whole; it stays as it was.
    fn sapwood_bpf_map_open(
        arena: *const sapwood_bpf_arena,
        window_name: *const c_char,
        out: *mut *mut sapwood_bpf_map,
    ) -> c_int {
        let out = place(out, "out")?;
        let body = Handle::shared(arena)?;
        let map = ProgramMap::<Bytes>::adopt(&body.arena, name(window_name, "the name")?)?;
        hand_out(out, ProgramMapBody::new(map), Handle::rules(arena))
    }

    /// Ends the service, and closes the window: programs no longer find the map. One thread at a
    /// time.
    fn sapwood_bpf_map_free(map: *mut sapwood_bpf_map) {
        free(map)
    }

    /// Ends the service, frees the handle, and leaves the map to programs, which go on with the
    /// memory that they have, and to the next owner. One thread at a time.
    fn sapwood_bpf_map_leave(map: *mut sapwood_bpf_map) -> c_int {
        let ProgramMapBody { service, map } = Handle::take(map)?;
        drop(service);
        map.leave();
        Ok(0)
    }

    /// Returns the number of the map's window, by which programs name it. O(1).
    fn sapwood_bpf_map_number(map: *const sapwood_bpf_map) -> c_int {
        Ok(Handle::shared(map)?.map.window().number as c_int)
    }

    /// Returns the bytes of each value. O(1).
    fn sapwood_bpf_map_value_bytes(map: *const sapwood_bpf_map) -> c_int {
        Ok(Handle::shared(map)?.map.value_bytes() as c_int)
    }

    /// Stores the number of entries, as programs count them. O(1).
    fn sapwood_bpf_map_len(map: *const sapwood_bpf_map, len: *mut usize) -> c_int {
        put(len, "len", Handle::shared(map)?.map.len())
    }

    #[derive(Debug)]
    pub struct sapwood_bpf_serviced {
        /// sizeof(struct sapwood_bpf_serviced), set by the caller
        pub size: usize,
        /// blocks that programs gave up, and that were fetched
        pub fetched: usize,
        /// blocks that nobody reads any more, and that were freed
        pub freed: usize,
        /// blocks that were made ready for programs
        pub given: usize,
        /// 1: there was no memory for more: the window is full
        pub starved: usize,
    }

    /// One step of service: it fetches what programs gave up, frees what nobody reads any more, and
    /// makes blocks ready. It does not wait. Without service, insertions by programs fail with
    /// -ENOMEM after a while: take a step every millisecond or so while programs write, or see
    /// sapwood_bpf_map_serve. done may be NULL.
    fn sapwood_bpf_map_service(
        map: *const sapwood_bpf_map,
        done: *mut sapwood_bpf_serviced,
    ) -> c_int {
        let work = Handle::shared(map)?.map.service()?;
        if done.is_null() {
            return Ok(0);
        }
        let work = sapwood_bpf_serviced {
            size: size_of::<sapwood_bpf_serviced>(),
            fetched: work.fetched,
            freed: work.freed,
            given: work.given,
            starved: work.starved.into(),
        };
        put_extensible(done, "done", &work)
    }

    /// A thread of the library takes a step of service each every_us microseconds while programs
    /// write, and more seldom when they do not; in place of one that was begun before. 0 ends the
    /// thread, and returns why it had ended before, if it had.
    fn sapwood_bpf_map_serve(map: *const sapwood_bpf_map, every_us: u64) -> c_int {
        let body = Handle::shared(map)?;
        let mut service = body.service();
        if let Some(before) = service.take() {
            let ended = before.stop();
            if every_us == 0 {
                ended?;
            }
        }
        if every_us != 0 {
            *service = Some(body.map.spawn_service(Duration::from_micros(every_us))?);
        }
        Ok(0)
    }

    /// Copies the value of a key to value, which has room for the bytes of a value
    /// (sapwood_bpf_map_value_bytes) and may be NULL. -ENOENT. -EAGAIN: programs changed what was
    /// read again and again. -EPROTO: the memory is damaged.
    fn sapwood_bpf_map_get(
        map: *const sapwood_bpf_map,
        key: *const c_void,
        key_len: usize,
        value: *mut c_void,
    ) -> c_int {
        let map = &Handle::shared(map)?.map;
        let found = map.get(bytes(key, key_len, "the key")?)?;
        copy_out(found, value, map.value_bytes())
    }

    /// Stores the sum of a key's counts on all processors. Programs may count meanwhile. -ENOENT.
    /// -EINVAL: the map was made without SAPWOOD_BPF_PER_PROCESSOR. Others: as sapwood_bpf_map_get.
    fn sapwood_bpf_map_sum(
        map: *const sapwood_bpf_map,
        key: *const c_void,
        key_len: usize,
        sum: *mut u64,
    ) -> c_int {
        let map = &Handle::shared(map)?.map;
        match map.sum(bytes(key, key_len, "the key")?)? {
            Some(all) => put(sum, "sum", all),
            None => Ok(-libc::ENOENT),
        }
    }

    /// Calls each(entry, ctx) for all entries, in order if the map has a trie; returns 0, or what
    /// ended the walk. The key and the value (entry->value.bytes) are copies, which are valid until
    /// the callback returns. What programs insert or remove meanwhile may be among them or not;
    /// what is there throughout is, once. -EAGAIN and -EPROTO: as sapwood_bpf_map_get.
    fn sapwood_bpf_map_each(
        map: *const sapwood_bpf_map,
        each: sapwood_entry_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let map = &Handle::shared(map)?.map;
        let each = each.ok_or_else(|| Failure::null("the function"))?;
        if let Ok(reader) = map.reader() {
            return tell(reader.iter(), each, ctx);
        }
        let mut ended = 0;
        map.for_each(|key, value| {
            if ended == 0 {
                ended = tell::<Error>([Ok((key.to_vec(), value))], each, ctx).unwrap_or(0);
            }
        })?;
        Ok(ended)
    }

    /// Changes by this process, beside programs and service, each atomic by itself. value has as
    /// many bytes as the map's values. The first change takes 64 KiB of the arena, unless
    /// SAPWOOD_BPF_WRITES took them: -ENOSPC if they are not there. A system call each.
    ///   -E2BIG   the key is too long                   -ENOSPC  max_entries, or no slot for it
    ///   -ENOMEM  no memory, also after service         -EBUSY   other writers had the lock
    ///
    /// Inserts a key, or replaces its value: 0.
    fn sapwood_bpf_map_insert(
        map: *const sapwood_bpf_map,
        key: *const c_void,
        key_len: usize,
        value: *const c_void,
    ) -> c_int {
        insert(map, (key, key_len), value, Mode::Put)
    }

    /// -EEXIST: the key is there.
    fn sapwood_bpf_map_insert_new(
        map: *const sapwood_bpf_map,
        key: *const c_void,
        key_len: usize,
        value: *const c_void,
    ) -> c_int {
        insert(map, (key, key_len), value, Mode::New)
    }

    /// -ENOENT: the key is not there.
    fn sapwood_bpf_map_replace(
        map: *const sapwood_bpf_map,
        key: *const c_void,
        key_len: usize,
        value: *const c_void,
    ) -> c_int {
        insert(map, (key, key_len), value, Mode::Replace)
    }

    /// Replaces `current` by `value`, in a map with values of 8 bytes (-ENOTSUP). -ENOENT: the key
    /// is not there. -ESTALE: its value is another.
    fn sapwood_bpf_map_compare_exchange(
        map: *const sapwood_bpf_map,
        key: *const c_void,
        key_len: usize,
        current: *const c_void,
        value: *const c_void,
    ) -> c_int {
        let map = &Handle::shared(map)?.map;
        let key = bytes(key, key_len, "the key")?;
        let current = value_in(map, current, "the current value")?;
        answer(map.compare_exchange(key, current, value_in(map, value, "the value")?))
    }

    /// -ENOENT: the key is not there.
    fn sapwood_bpf_map_remove(
        map: *const sapwood_bpf_map,
        key: *const c_void,
        key_len: usize,
    ) -> c_int {
        let map = &Handle::shared(map)?.map;
        answer(map.remove(bytes(key, key_len, "the key")?))
    }

    /// Takes the entry with the least key: removes it, and calls each(entry, ctx) with it, once.
    /// each may be NULL, and what it returns means nothing. -ENOENT: the map is empty. -ENOTSUP: it
    /// has no trie. Programs may take entries at the same time (sw_qp_pop_first): no two take one.
    fn sapwood_bpf_map_pop_first(
        map: *const sapwood_bpf_map,
        each: sapwood_entry_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let taken = match Handle::shared(map)?.map.pop_first()? {
            Ok(None) => return Ok(-libc::ENOENT),
            Ok(Some(taken)) => taken,
            Err(refused) => return why(refused),
        };
        if let Some(each) = each {
            tell::<Error>([Ok(taken)], each, ctx)?;
        }
        Ok(0)
    }

    #[derive(Debug)]
    pub struct sapwood_bpf_drops {
        /// sizeof(struct sapwood_bpf_drops), set by the caller
        pub size: usize,
        /// -EBUSY: other writers held a lock
        pub busy: u64,
        /// -ENOMEM: service was late, or the window is full
        pub no_memory: u64,
        /// -E2BIG, -ENOSPC: the map was full, or the index had no slot
        pub full: u64,
    }

    /// Stores how many changes by programs failed since the map was made, by reason.
    fn sapwood_bpf_map_drops(map: *const sapwood_bpf_map, drops: *mut sapwood_bpf_drops) -> c_int {
        let mut sum = sapwood_bpf_drops::default();
        for drops in Handle::shared(map)?.map.drops() {
            sum.busy += drops.busy;
            sum.no_memory += drops.no_memory;
            sum.full += drops.full;
        }
        put_extensible(drops, "drops", &sum)
    }

    /// Walks all of the map and checks every invariant: 0, or -EUCLEAN with the first that does not
    /// hold. No program may write meanwhile.
    fn sapwood_bpf_map_verify(map: *const sapwood_bpf_map) -> c_int {
        let found = Handle::shared(map)?.map.verify();
        verified(found.map(drop).map_err(|error| error.to_string()))
    }
);
