//! Maps over byte strings that programs write and this process supplies with memory.

use sapwood_format::header;
use std::fmt;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::arena::{BpfArena, WindowInfo};
use crate::checked::{Bytes, CheckedReader, CheckedValue, StoredValue, value_of};
use crate::error::Error;
use crate::grace::KernelGrace;
use crate::layout::Kind;
use crate::layout::program_map as k;
use crate::layout::root;
use crate::own_window::OwnWindow;

mod accounts;
mod adopt;
mod blocks;
mod builder;
mod doorbell;
mod owner;
mod plan;
mod read;
mod retired;
mod rings;
mod slabs;
mod verify;
mod writes;

use owner::Owner;
use read::Found;
use writes::Writer;

pub use accounts::{ProgramMapDrops, ProgramMapMemory, ProgramMapShape, Serviced};
pub use builder::ProgramMapBuilder;
pub use doorbell::Doorbell;
pub use writes::{Taken, Write, WriteError, Written};

/// The most attempts to take the first entry, while others take it each time.
const POP_TRIES: usize = 64;

/// An ordered map over byte strings that BPF programs change: they insert, replace and remove
/// (`sapwood/qp_write.bpf.h`), and look up as in a [`UserMap`](crate::UserMap)
/// (`sapwood/qp.bpf.h`). This process makes the map, supplies it with memory and takes retired
/// blocks back.
///
/// The number of entries is limited, as in the kernel's own maps. The map has an index, for lookups
/// of whole keys, or a trie, for order and prefixes, or both.
///
/// Programs take blocks for new entries from rings, which must be filled in time: call
/// [`service`](Self::service) often, or have a thread do it
/// ([`spawn_service`](Self::spawn_service)). A program that finds a ring empty gets an error and
/// changes nothing.
///
/// Values are plain bytes of one size: those of the type `V`, or, in a `ProgramMap<Bytes>`, as many
/// as the builder or the window says.
///
/// This process trusts nothing that programs write into the window: whatever the window holds, this
/// process reads and writes nothing outside it (tests `corrupt.rs` of `tests/program_map`).
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, ProgramMap};
/// use std::time::Duration;
/// let arena = BpfArena::create(256 << 20)?;
/// let flows = ProgramMap::<u64>::builder(&arena, "flows").max_entries(100_000).build()?;
/// let service = flows.spawn_service(Duration::from_millis(1))?;
/// println!("programs name it {}", flows.window().number);
/// # drop(service);
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct ProgramMap<V> {
    shared: Arc<Shared>,
    window: OwnWindow,
    /// What changes by this process need. The lock admits one run at a time.
    writer: Mutex<Option<Writer>>,
    values: PhantomData<fn() -> V>,
}

struct Shared {
    owner: Mutex<Owner>,
    /// Service waits for the owner.
    waits: AtomicBool,
    /// The service ends.
    ends: AtomicBool,
}

impl Shared {
    fn owner(&self) -> MutexGuard<'_, Owner> {
        // A thread that reads in a loop would get the lock again before a sleeping thread wakes up.
        for _ in 0..1000 {
            if !self.waits.load(Ordering::Relaxed) {
                break;
            }
            std::thread::yield_now();
        }
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self) -> Result<Serviced, Error> {
        self.waits.store(true, Ordering::Relaxed);
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        self.waits.store(false, Ordering::Relaxed);
        match self.ends.load(Ordering::Relaxed) {
            true => Ok(Serviced::default()),
            false => owner.step(),
        }
    }
}

impl<V: StoredValue> ProgramMap<V> {
    /// Takes over a map whose owner, another process, ended or was killed. Programs go on using the
    /// map, with all its entries. A `ProgramMap<Bytes>` takes over a map with values of any size.
    ///
    /// While this function looks for free blocks (some hundred nanoseconds an entry, after a grace
    /// period), programs find no window (`-EINVAL`). A process that dies meanwhile leaves the map
    /// closed.
    ///
    /// ```no_run
    /// use sapwood_bpf::{BpfArena, ProgramMap};
    /// let arena = BpfArena::open("/sys/fs/bpf/flows")?;
    /// let flows = ProgramMap::<u64>::adopt(&arena, "flows")?;
    /// # let _ = flows;
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoWindow`]; [`Error::Value`] when its values have another size; [`Error::Owned`]
    /// while the owner lives: two owners would supply the same memory twice; [`Error::Name`] when
    /// the owner is this process; [`Error::Damaged`] when the map is not whole: then it stays as it
    /// was; [`Error::NoGrace`].
    pub fn adopt(arena: &BpfArena, name: &str) -> Result<ProgramMap<V>, Error> {
        let _changes = arena.lock();
        let window = arena.window(name, Kind::KernelQp)?;
        let bytes = arena
            .memory()
            .u64(window.at + root(header::VALUE_BYTES) as usize)
            .load(Ordering::Acquire);
        let expected = |size: &usize| match V::BYTES {
            Some(bytes) => *size == bytes,
            None => builder::is_value_size(*size),
        };
        let value_bytes = usize::try_from(bytes).ok().filter(expected);
        let value_bytes = value_bytes.ok_or_else(|| Error::Value {
            name: name.to_owned(),
            why: format!("its values have {bytes} bytes"),
        })?;
        arena.claim()?;
        arena.not_ours(&window)?;
        let grace = KernelGrace::new()?;
        arena.close_window(window.number);
        let owner = grace.wait().and_then(|()| {
            Owner::adopt(arena.memory(), &window, value_bytes, grace)
                .map_err(|why| Error::Damaged(format!("{name}: {why}")))
        });
        arena.open_window(&window, Kind::KernelQp);
        let owner = owner?;
        let writer = Writer::adopt(arena, name);
        Ok(ProgramMap::new(
            OwnWindow::adopt(arena, window),
            owner,
            writer,
        ))
    }

    fn new(window: OwnWindow, owner: Owner, writer: Option<Writer>) -> ProgramMap<V> {
        ProgramMap {
            shared: Arc::new(Shared {
                owner: Mutex::new(owner),
                waits: AtomicBool::new(false),
                ends: AtomicBool::new(false),
            }),
            window,
            writer: Mutex::new(writer),
            values: PhantomData,
        }
    }

    /// Makes many changes, in this order, and returns one result for each. A program makes them, up
    /// to 512 in a run, while other programs write and service runs: each change is atomic by
    /// itself, and a refused change leaves the others as they are.
    ///
    /// A change that finds no memory waits for one step of service, and is tried once more. The
    /// first call loads the program, and takes 64 KiB of the arena (a window with the map's name
    /// and `.w`), unless [`user_writes`](ProgramMapBuilder::user_writes) took it before.
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
    /// use sapwood_bpf::{ProgramMap, Write, WriteError};
    /// let map = ProgramMap::<u64>::builder(&arena, "limits").user_writes().build()?;
    /// let done = map.write_many(&[Write::Insert(b"alice", 10), Write::Remove(b"bob")])?;
    /// assert_eq!(done, [Ok(()), Err(WriteError::Absent)]);
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Setting`] for a [`Write::CompareExchange`] in a map whose values have more than 8
    /// bytes, and for a value of another size than the map's: nothing is changed then.
    /// [`Error::NoRoom`], [`Error::TooManyWindows`],
    /// [`Error::Name`] and [`Error::NoMemory`] for the 64 KiB; [`Error::Refused`] for the program;
    /// [`Error::NoGrace`] by service; and the system's error. After an error of a later run, the
    /// changes of the earlier runs stay.
    pub fn write_many(&self, changes: &[Write<'_, V>]) -> Result<Vec<Written<(), V>>, Error> {
        let (longest, value_bytes) = {
            let owner = self.shared.owner();
            (owner.plan.longest, owner.plan.value_bytes)
        };
        changes
            .iter()
            .try_for_each(|change| change.check(value_bytes))?;
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => none.insert(Writer::create(self.arena(), &self.window.name)?),
        };
        let mut results = Vec::with_capacity(changes.len());
        // The number of the change that service has supplied with memory.
        let mut supplied = None;
        while results.len() < changes.len() {
            let before = results.len();
            let starved = writer.run(
                self.window.number,
                (longest, value_bytes),
                &changes[before..],
                &mut results,
            )?;
            let last = results.len();
            if starved && supplied != Some(last) {
                supplied = Some(last);
                results.pop();
                self.shared.step()?;
            } else if last == before {
                results.push(Err(writes::not_reached()));
            }
        }
        Ok(results)
    }

    fn write(&self, change: Write<'_, V>) -> Result<Written<(), V>, Error> {
        let mut results = self.write_many(&[change])?;
        Ok(results.pop().unwrap_or(Err(writes::not_reached())))
    }

    /// Inserts a key, or replaces its value. As [`write_many`](Self::write_many) with one change.
    ///
    /// # Errors
    /// Those of [`write_many`](Self::write_many); in the inner result, why the map refused.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: V) -> Result<Written<(), V>, Error> {
        self.write(Write::Insert(key.as_ref(), value))
    }

    /// Inserts a key that must be absent.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and [`WriteError::Exists`].
    pub fn insert_new(&self, key: impl AsRef<[u8]>, value: V) -> Result<Written<(), V>, Error> {
        self.write(Write::InsertNew(key.as_ref(), value))
    }

    /// Replaces the value of a key that must be present.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and [`WriteError::Absent`].
    pub fn replace(&self, key: impl AsRef<[u8]>, value: V) -> Result<Written<(), V>, Error> {
        self.write(Write::Replace(key.as_ref(), value))
    }

    /// Removes a key that must be present.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and [`WriteError::Absent`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Written<(), V>, Error> {
        self.write(Write::Remove(key.as_ref()))
    }

    /// Takes the entry with the least key: removes it, and returns its key and its value; `None`
    /// when the map is empty. Programs may take entries at the same time (`sw_qp_pop_first`): no
    /// two take one entry. If a program inserts a lesser key meanwhile, that one stays. If a
    /// program replaces the value meanwhile, the result has the old value or the new one.
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
    /// let queue = sapwood_bpf::ProgramMap::<u64>::builder(&arena, "queue").with_trie();
    /// let queue = queue.user_writes().bytes(16 << 20).build()?;
    /// while let Ok(Some((key, value))) = queue.pop_first()? {
    ///     println!("{key:?} {value}");
    /// }
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and those of [`get`](Self::get); [`Error::Setting`] in a map
    /// without a trie; [`WriteError::Busy`] also when others took the first entry in each of many
    /// attempts. Then nothing was taken.
    pub fn pop_first(&self) -> Result<Written<Option<Taken<V>>, V>, Error> {
        let reader = self.arena().reader::<V>(&self.window.name)?;
        for _ in 0..POP_TRIES {
            let Some(first) = reader.iter().next() else {
                return Ok(Ok(None));
            };
            let (key, value) = first?;
            match self.remove(&key)? {
                Ok(()) => return Ok(Ok(Some((key, value)))),
                // Another one has taken it.
                Err(WriteError::Absent) => (),
                Err(refused) => return Ok(Err(refused)),
            }
        }
        Ok(Err(WriteError::Busy))
    }

    /// Replaces the value of a key if it is the expected one. Values have 8 bytes.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and [`WriteError::Absent`], [`WriteError::Changed`].
    pub fn compare_exchange(
        &self,
        key: impl AsRef<[u8]>,
        expected: V,
        value: V,
    ) -> Result<Written<(), V>, Error> {
        let key = key.as_ref();
        self.write(Write::CompareExchange {
            key,
            expected,
            value,
        })
    }
}

impl<V> ProgramMap<V> {
    /// Its window, whose number programs use.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// The arena that it lies in.
    pub fn arena(&self) -> &BpfArena {
        self.window.arena()
    }

    /// Ends without closing the map. Programs go on using it, with the blocks that they have.
    /// Another owner can [adopt](ProgramMap::adopt) it after this process has closed the arena.
    pub fn leave(mut self) {
        let writer = self
            .writer
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = writer.take() {
            writer.leave();
        }
        self.window.leave();
    }

    /// The bytes of each value.
    pub fn value_bytes(&self) -> usize {
        self.shared.owner().plan.value_bytes
    }

    /// Whether values count for each processor
    /// ([`per_processor`](ProgramMapBuilder::per_processor)).
    pub fn is_per_processor(&self) -> bool {
        self.shared.owner().plan.each != 0
    }

    /// The number of entries, as programs count them.
    pub fn len(&self) -> usize {
        self.shared.owner().len()
    }

    /// Whether there are no entries, as programs count them.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the trie in order: all entries, those with a prefix, those from a key on. The reader
    /// checks everything that it reads, in this process, too.
    ///
    /// # Errors
    /// [`Error::Setting`] when the map has no trie.
    pub fn reader(&self) -> Result<CheckedReader<V>, Error>
    where
        V: CheckedValue,
    {
        match self.shared.owner().plan.parts & k::TRIE {
            0 => Err(Error::Setting {
                what: "reader",
                why: "the map has no trie, so no order".to_owned(),
            }),
            _ => self.arena().reader(&self.window.name),
        }
    }

    /// One step of service: fetches what programs gave up, frees what nobody reads any more, and
    /// fills the rings. It does not wait: a block that was given up is freed by a step some 10 ms
    /// later. Take one every millisecond or so while programs write.
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
    /// # let map = sapwood_bpf::ProgramMap::<u64>::builder(&arena, "seen").build()?;
    /// let done = map.service()?;
    /// if done.starved {
    ///     eprintln!("the window is full");
    /// }
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoGrace`] when the kernel refuses to wait for its readers: rings are filled with
    /// what there is, and nothing is freed any more.
    pub fn service(&self) -> Result<Serviced, Error> {
        self.shared.step()
    }

    /// A thread that services the map, every so often while programs write, and more seldom (up to
    /// every 16th time) when they do not. It ends when the handle is dropped.
    ///
    /// # Errors
    /// What the system says.
    pub fn spawn_service(&self, every: Duration) -> Result<ProgramMapService, Error> {
        let shared = Arc::clone(&self.shared);
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let thread = std::thread::Builder::new()
            .name("sapwood-service".into())
            .spawn(move || {
                let mut idle = 0;
                while !told.load(Ordering::Acquire) && !shared.ends.load(Ordering::Acquire) {
                    let done = shared.step()?;
                    idle = if done.is_idle() {
                        (idle + 1).min(15)
                    } else {
                        0
                    };
                    std::thread::park_timeout(every * (1 + idle));
                }
                Ok(())
            })
            .map_err(|error| Error::io("starting a thread", error))?;
        Ok(ProgramMapService {
            ends,
            wake: None,
            thread: Some(thread),
        })
    }

    /// The operations of programs that failed, for each processor. Programs may run meanwhile.
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
    /// # let map = sapwood_bpf::ProgramMap::<u64>::builder(&arena, "seen").build()?;
    /// for drops in map.drops() {
    ///     println!("{drops}");
    /// }
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    pub fn drops(&self) -> Vec<ProgramMapDrops> {
        self.shared.owner().drops()
    }

    /// Where the map's bytes are. While programs write, what they take and give up meanwhile may be
    /// counted in either place.
    ///
    /// # Errors
    /// [`Error::Damaged`] when what programs wrote cannot be.
    pub fn memory(&self) -> Result<ProgramMapMemory, Error> {
        self.shared.owner().memory()
    }

    /// Walks all of the map and checks everything: trie, index, counts, rings, and that each byte
    /// is where the accounts say. No program may write meanwhile.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the first thing that is not as it should be.
    pub fn verify(&self) -> Result<ProgramMapShape, Error> {
        self.shared.owner().verify().map_err(Error::Damaged)
    }
}

impl<V: CheckedValue> ProgramMap<V> {
    /// The value of a key. While it looks, service waits, so that nothing that it reads is used
    /// again.
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
    /// # let seen = sapwood_bpf::ProgramMap::<u64>::builder(&arena, "seen").build()?;
    /// println!("{:?}", seen.get("example.org")?);
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::Busy`] when programs change what is read again and again.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<V>, Error> {
        let owner = self.shared.owner();
        match owner.get(key.as_ref())? {
            Found::Value(bytes) => value_of(&bytes).map(Some),
            Found::Absent => Ok(None),
            Found::AskTrie => self.arena().reader::<V>(&self.window.name)?.get(key),
        }
    }

    /// Calls `f` with every entry, in any order. What programs insert or remove meanwhile may be
    /// among them or not; what is there throughout is, once. `f` may use the map.
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::Busy`] when programs change what is read again and again.
    pub fn for_each(&self, mut f: impl FnMut(&[u8], V)) -> Result<(), Error> {
        let parts = self.shared.owner().plan.parts;
        if parts & k::TRIE != 0 {
            for entry in self.arena().reader::<V>(&self.window.name)?.iter() {
                let (key, value) = entry?;
                f(&key, value);
            }
            return Ok(());
        }
        let mut bucket = 0;
        loop {
            let entries = self.shared.owner().some(&mut bucket)?;
            let Some(entries) = entries else {
                return Ok(());
            };
            for (key, bytes) in entries {
                f(&key, value_of(&bytes)?);
            }
        }
    }
}

impl ProgramMap<Bytes> {
    /// The counts of a key on each processor, in a map that counts
    /// [for each](ProgramMapBuilder::per_processor). Programs may add to them meanwhile.
    /// O(processors).
    ///
    /// # Errors
    /// [`Error::Setting`] when the map has one value for all processors; and those of
    /// [`get`](Self::get).
    pub fn counts(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u64>>, Error> {
        let each = self.shared.owner().plan.each;
        if each == 0 {
            return Err(Error::Setting {
                what: "counts",
                why: "the map has one value for all processors".to_owned(),
            });
        }
        let first = |words: &[u8]| u64::from_ne_bytes(std::array::from_fn(|i| words[i]));
        let of = |Bytes(value): Bytes| value.chunks_exact(each).map(first).collect();
        Ok(self.get(key)?.map(of))
    }

    /// The sum of the counts of a key on all processors, modulo 2^64. Programs may add to them
    /// meanwhile. O(processors). A [`CheckedReader`] gives it by [`Bytes::sum`].
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
    /// # use sapwood_bpf::{Bytes, ProgramMap};
    /// let sources = ProgramMap::<Bytes>::builder(&arena, "sources").per_processor(true).build()?;
    /// println!("{:?} packets", sources.sum([127, 0, 0, 1])?);
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`counts`](Self::counts).
    pub fn sum(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>, Error> {
        let counts = self.counts(key)?;
        Ok(counts.map(|counts| counts.into_iter().fold(0, u64::wrapping_add)))
    }
}

impl<V> Drop for ProgramMap<V> {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        // No step of service runs from here on.
        drop(self.shared.owner());
    }
}

impl<V> fmt::Debug for ProgramMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramMap")
            .field("window", self.window())
            .field("len", &self.len())
            .finish()
    }
}

/// A thread that services a [`ProgramMap`]; it ends when this is dropped.
#[derive(Debug)]
pub struct ProgramMapService {
    ends: Arc<AtomicBool>,
    /// Ends the rest of a thread that waits for a doorbell.
    wake: Option<Arc<OwnedFd>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl ProgramMapService {
    /// Ends the thread.
    ///
    /// # Errors
    /// Why it had ended before, if it had.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end().unwrap_or(Ok(()))
    }

    fn end(&mut self) -> Option<Result<(), Error>> {
        self.ends.store(true, Ordering::Release);
        if let Some(wake) = &self.wake {
            // It can only fail when the event is set already.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
        let thread = self.thread.take()?;
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl Drop for ProgramMapService {
    fn drop(&mut self) {
        self.end();
    }
}
