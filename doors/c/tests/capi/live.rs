//! Live maps, driven through the C functions as other maps: readers of both kinds answer as the
//! naive oracle does, and so do they after another writer has taken the map over.

use std::ffi::{CString, c_int, c_void};
use std::ptr::{from_ref, null, null_mut};

use sapwood_capi::live::*;
use sapwood_capi::live_read::*;
use sapwood_capi::live_reader::*;
use sapwood_capi::live_writers::*;
use sapwood_capi::maps::*;
use sapwood_capi::point_map::sapwood_point_free;
use sapwood_capi::reader::sapwood_reader_new;
use sapwood_capi::shared_map::sapwood_shared_free;
use sapwood_capi::store::sapwood_store_free;
use sapwood_capi::value::*;
use sapwood_capi::view::*;
use sapwood_model::keys::KeyPool;
use sapwood_model::oracle::ByteMap;

use crate::door::{Door, Driver, Kind, NOTHING, raw};

/// `SAPWOOD_LIVE_CHECKED`.
const CHECKS: u32 = 32;

/// The structures, by their numbers in `enum sapwood_live_kind`.
const STORE: c_int = 1;
const SHARED: c_int = 2;
const POINT: c_int = 3;

/// A live map's folder and two readers: one that trusts the memory, one that checks it.
pub struct LiveEnds {
    structure: c_int,
    path: CString,
    live: *mut sapwood_live,
    near: *mut sapwood_live_reader,
    far: *mut sapwood_live_reader,
    _folder: tempfile::TempDir,
}

/// Makes a map, or takes it over.
fn door(
    structure: c_int,
    path: &CString,
    options: &sapwood_options,
    take_over: bool,
) -> (*mut sapwood_live, Door) {
    let mut live = null_mut();
    let (at, options, to) = (path.as_ptr(), from_ref(options), &raw mut live);
    macro_rules! made {
        ($create:ident, $open:ident) => {{
            let mut made = null_mut();
            let verb = if take_over { $open } else { $create };
            // SAFETY: the arguments are as the header asks for.
            unsafe { assert_eq!(verb(at, null(), options, to, &raw mut made), 0) };
            made
        }};
    }
    let door = match structure {
        STORE => Door::Store(
            made!(sapwood_store_live_create, sapwood_store_live_open),
            null_mut(),
        ),
        SHARED => Door::Shared(made!(sapwood_shared_live_create, sapwood_shared_live_open)),
        _ => Door::Point(made!(sapwood_point_live_create, sapwood_point_live_open)),
    };
    (live, door)
}

/// A driver of a live map.
fn driver(structure: c_int, kind: Kind, index: u32) -> Driver {
    let folder = tempfile::tempdir().unwrap();
    let path = CString::new(folder.path().join("live").to_str().unwrap()).unwrap();
    let options = sapwood_options {
        values: kind as c_int,
        flags: index,
        ..Default::default()
    };
    let (live, door) = door(structure, &path, &options, false);
    let (mut domain, mut reader) = (null_mut(), null_mut());
    let (mut near, mut far) = (null_mut(), null_mut());
    let values = kind as c_int;
    // SAFETY: as above.
    unsafe {
        assert_eq!(sapwood_live_domain(live, &raw mut domain), 0);
        let name = c"oracle".as_ptr();
        assert_eq!(sapwood_reader_new(domain, name, &raw mut reader), 0);
        let open = |flags, out| {
            let opened = sapwood_live_reader_open(path.as_ptr(), structure, values, flags, out);
            assert_eq!(opened, 0);
        };
        open(0, &raw mut near);
        open(CHECKS, &raw mut far);
    }
    Driver {
        door,
        kind,
        domain,
        reader,
        ledger: std::sync::Arc::default(),
        made: 0,
        live: Some(LiveEnds {
            structure,
            path,
            live,
            near,
            far,
            _folder: folder,
        }),
    }
}

type Entries = Vec<(Vec<u8>, u64)>;

unsafe extern "C" fn collect(entry: *const sapwood_entry, ctx: *mut c_void) -> c_int {
    // SAFETY: both are what `sapwood_live_each` was given or gives.
    unsafe {
        let (kind, entries) = &mut *ctx.cast::<(Kind, Entries)>();
        let key = (*entry).key;
        let key = std::slice::from_raw_parts(key.data.cast::<u8>(), key.len);
        entries.push((key.to_vec(), kind.read(&(*entry).value)));
    }
    0
}

type Copies = unsafe extern "C" fn(
    *const sapwood_live_reader,
    *const c_void,
    usize,
    *mut sapwood_copy,
) -> c_int;

impl LiveEnds {
    /// An entry that a reader copies out.
    fn copied(
        &self,
        reader: *mut sapwood_live_reader,
        kind: Kind,
        copy: Copies,
        key: &[u8],
    ) -> Option<(Vec<u8>, u64)> {
        let ((data, len), mut number) = (raw(key), [0_u8; 8]);
        let mut room = vec![0_u8; 70_000];
        let mut out = sapwood_copy {
            size: size_of::<sapwood_copy>(),
            key: room.as_mut_ptr().cast(),
            key_room: room.len(),
            key_len: 0,
            value: number.as_mut_ptr().cast(),
            value_room: number.len(),
            value_len: 0,
        };
        // SAFETY: as above.
        match unsafe { copy(reader, data, len, &raw mut out) } {
            0 => {
                assert_eq!(out.value_len, 8);
                room.truncate(out.key_len);
                let number = match kind {
                    Kind::Bytes => u64::from_le_bytes(number),
                    _ => u64::from_ne_bytes(number),
                };
                Some((room, number))
            }
            result => {
                assert_eq!(result, -libc::ENOENT);
                None
            }
        }
    }

    /// All entries, in order.
    fn all(&self, reader: *mut sapwood_live_reader, kind: Kind) -> Entries {
        let mut all = (kind, Entries::new());
        let ctx = (&raw mut all).cast();
        // SAFETY: as above.
        unsafe { assert_eq!(sapwood_live_each(reader, Some(collect), ctx), 0) };
        let mut entries = all.1;
        if self.structure == POINT {
            entries.sort();
        }
        entries
    }

    /// What both readers say of a key.
    fn look_up(&self, kind: Kind, oracle: &ByteMap<u64>, key: &[u8]) {
        let owned = |entry: Option<(&[u8], &u64)>| entry.map(|(key, &n)| (key.to_vec(), n));
        let exact = oracle.get(key).map(|&n| (key.to_vec(), n));
        let ((data, len), mut value) = (raw(key), NOTHING.value);
        // SAFETY: as above.
        let found = unsafe { sapwood_live_get(self.near, data, len, &raw mut value) };
        let found = (found == 0).then(|| kind.read(&value));
        assert_eq!(found.as_ref(), oracle.get(key), "{}", key.escape_ascii());
        for reader in [self.near, self.far] {
            let copied = |copy: Copies| self.copied(reader, kind, copy, key);
            assert_eq!(copied(sapwood_live_copy), exact);
            if self.structure != POINT {
                assert_eq!(
                    copied(sapwood_live_copy_after),
                    owned(oracle.successor(key))
                );
                let longest = copied(sapwood_live_copy_longest_prefix);
                assert_eq!(longest, owned(oracle.longest_prefix(key)));
            }
        }
    }

    fn view(&self) -> Option<sapwood_view> {
        if self.structure == POINT {
            return None;
        }
        let mut view = std::mem::MaybeUninit::<sapwood_view>::uninit();
        // SAFETY: as above; the function writes it.
        unsafe {
            assert_eq!(sapwood_live_view(self.near, view.as_mut_ptr()), 0);
            Some(view.assume_init())
        }
    }

    pub fn quiescent(&self) {
        // SAFETY: as above.
        unsafe {
            assert_eq!(sapwood_live_reader_quiescent(self.near), 0);
            assert_eq!(sapwood_live_reader_quiescent(self.far), 0);
        }
    }

    /// Frees the folder's handle, which is the writer's last one, and takes the map over.
    pub fn inherit(self, kind: Kind, oracle: &ByteMap<u64>) {
        let options = sapwood_options {
            values: kind as c_int,
            ..Default::default()
        };
        let wanted: Entries = (oracle.iter()).map(|(key, &n)| (key.to_vec(), n)).collect();
        // SAFETY: as above.
        unsafe {
            sapwood_live_free(self.live);
            assert_eq!(sapwood_live_reader_has_writer(self.near), 0);
            let (live, door) = door(self.structure, &self.path, &options, true);
            for reader in [self.near, self.far] {
                let mut generation = 9;
                assert_eq!(self.all(reader, kind), wanted, "what the dead writer left");
                assert_eq!(sapwood_live_reader_quiescent(reader), 0);
                let asked = sapwood_live_reader_generation(reader, &raw mut generation);
                assert_eq!((asked, generation), (0, 1));
                assert_eq!(self.all(reader, kind), wanted, "what the heir has");
                sapwood_live_reader_free(reader);
            }
            match door {
                Door::Store(store, _) => sapwood_store_free(store),
                Door::Shared(map) => sapwood_shared_free(map),
                Door::Point(map) => sapwood_point_free(map),
                Door::Map(_) => unreachable!("an owned map is not live"),
            }
            assert_eq!(sapwood_live_remove(live), 0);
        }
    }
}

impl Driver {
    /// Compares what readers of a live map see, which is what was committed.
    pub fn look_through_readers(&self, committed: &ByteMap<u64>, pool: &mut KeyPool) {
        let Some(live) = &self.live else { return };
        let key = pool.key();
        live.look_up(self.kind, committed, &key);
        if let Some(view) = live.view() {
            self.neighbours(committed, &key, &view);
            self.closest(committed, &key, &view);
        }
        if pool.rng().u32(..20) == 0 {
            let wanted: Entries = (committed.iter()).map(|(k, &n)| (k.to_vec(), n)).collect();
            assert_eq!(live.all(live.near, self.kind), wanted);
            assert_eq!(live.all(live.far, self.kind), wanted);
            // The driver resumes paused walks in views of its own, which see open transactions.
            let in_transaction = matches!(self.door, Door::Store(_, txn) if !txn.is_null());
            if let Some(view) = live.view().filter(|_| !in_transaction) {
                self.walk(committed, pool, &view);
            }
        }
    }
}

#[test]
fn readers_of_live_stores_answer_as_the_oracle() {
    for (seed, kind) in [Kind::Numbers, Kind::Bytes].into_iter().enumerate() {
        driver(STORE, kind, 0).drive(seed as u64 + 41, 300);
    }
}

#[test]
fn readers_of_live_shared_maps_answer_as_the_oracle() {
    for (seed, kind) in [Kind::Numbers, Kind::Bytes].into_iter().enumerate() {
        for index in [0, SAPWOOD_INDEX] {
            driver(SHARED, kind, index).drive(seed as u64 + 51, 300);
        }
    }
}

#[test]
fn readers_of_live_point_maps_answer_as_the_oracle() {
    for (seed, kind) in [Kind::Numbers, Kind::Bytes].into_iter().enumerate() {
        driver(POINT, kind, 0).drive(seed as u64 + 61, 300);
    }
}
