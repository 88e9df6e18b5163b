//! The builder of maps that programs write.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use sapwood_format::header;

use super::ProgramMap;
use super::owner::Owner;
use super::plan::Plan;
use super::writes::Writer;
use crate::arena::BpfArena;
use crate::checked::{Bytes, StoredValue};
use crate::error::Error;
use crate::grace::KernelGrace;
use crate::layout::Kind;
use crate::layout::program_map as k;

/// The builder of a [`ProgramMap`].
///
/// ```no_run
/// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
/// use sapwood_bpf::ProgramMap;
/// let seen = ProgramMap::<u64>::builder(&arena, "seen")
///     .max_entries(10_000)
///     .with_index()
///     .prefill(16, 10_000)
///     .build()?;
/// # let _ = seen;
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct ProgramMapBuilder<V> {
    arena: BpfArena,
    name: String,
    plan: Plan,
    user_writes: bool,
    grace: Option<Arc<KernelGrace>>,
    values: PhantomData<fn() -> V>,
}

/// Whether the values of a map can have this many bytes: whole words.
pub(super) const fn is_value_size(bytes: usize) -> bool {
    bytes % 8 == 0 && bytes >= 8 && bytes <= k::VALUE_MAX
}

impl<V: StoredValue> ProgramMap<V> {
    /// A builder for a map of this name in the arena.
    ///
    /// Values are plain bytes, a multiple of 8, up to 4,096. Those of a `ProgramMap<Bytes>` have 8,
    /// or as many as [`value_bytes`](ProgramMapBuilder::value_bytes) says.
    pub fn builder(arena: &BpfArena, name: &str) -> ProgramMapBuilder<V> {
        const {
            assert!(
                match V::BYTES {
                    Some(bytes) => is_value_size(bytes),
                    None => true,
                },
                "values have whole words, up to 4,096 bytes"
            )
        };
        ProgramMapBuilder {
            arena: arena.clone(),
            name: name.to_owned(),
            plan: Plan::new(V::BYTES.unwrap_or(8)),
            user_writes: false,
            grace: None,
            values: PhantomData,
        }
    }
}

impl ProgramMapBuilder<Bytes> {
    /// The bytes of each value: a multiple of 8, up to 4,096. Default: 8. Programs write values of
    /// more than 64 bytes by `sw_qp_set_bytes` (`sapwood/qp_write_value.bpf.h`). A value and the
    /// longest key have 4,352 bytes together at most, with the one to three bytes of the key's
    /// length.
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
    /// use sapwood_bpf::{Bytes, ProgramMap};
    /// let pairs = ProgramMap::<Bytes>::builder(&arena, "pairs").value_bytes(16).build()?;
    /// pairs.insert("a", Bytes(vec![1; 16]))?.expect("the map has room");
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    pub fn value_bytes(mut self, bytes: usize) -> Self {
        self.plan.value_bytes = bytes;
        self
    }

    /// Counts for each processor: a value has a word for each processor that the kernel may have.
    /// Programs add to the word of their processor by `sw_qp_count`, so they do not wait for each
    /// other. [`ProgramMap::sum`] adds the words up.
    ///
    /// Up to 64 processors, each word has a cache line of its own, and an entry takes 64 bytes for
    /// each processor; with more processors the words lie closer. 512 processors is the most.
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
    /// use sapwood_bpf::{Bytes, ProgramMap};
    /// let sources = ProgramMap::<Bytes>::builder(&arena, "sources")
    ///     .per_processor(true)
    ///     .with_index()
    ///     .build()?;
    /// println!("{:?} packets", sources.sum([127, 0, 0, 1])?);
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    pub fn per_processor(mut self, counts: bool) -> Self {
        self.plan.per_processor = counts;
        self
    }
}

impl<V: StoredValue> ProgramMapBuilder<V> {
    /// The most entries. Default: 65,536.
    pub fn max_entries(mut self, most: usize) -> Self {
        self.plan.max_entries = most;
        self
    }

    /// Bytes of the longest key: 4,096 at most. Default: 254, the longest that lies in a program's
    /// `struct sw_key`. The bytes of longer keys lie in the arena (`key.bpf.h`). Programs that
    /// insert a longer key than this get `-EINVAL`.
    ///
    /// Memory is sized by [`mean_key`](Self::mean_key), and slabs, from which programs cut blocks,
    /// have room for the longest.
    pub fn longest_key(mut self, bytes: usize) -> Self {
        self.plan.longest = bytes;
        self
    }

    /// Bytes of a key on average. Default: 24, or less if all keys are shorter. A new map has the
    /// memory for [`max_entries`](Self::max_entries) keys of this mean at once, so that programs
    /// can insert all of them, and remove all of them, without any service in between.
    ///
    /// With an index alone, an entry takes its leaf and 14 bytes. A trie takes some 270 bytes more,
    /// because each insertion replaces a node, and a replaced node is used again only after a grace
    /// period, which service observes. [`grow`](Self::grow) takes less.
    pub fn mean_key(mut self, bytes: usize) -> Self {
        self.plan.mean = Some(bytes);
        self
    }

    /// Begins with little memory: enough for 128 insertions, and for as many entries of one size as
    /// a [`ring`](Self::ring) has blocks. Service supplies more as it is used. Programs that insert
    /// faster get `-ENOMEM`.
    pub fn grow(mut self, grow: bool) -> Self {
        self.plan.grow = grow;
        self
    }

    /// Lets entries leave by themselves: an insertion into a full map removes an entry that was not
    /// used for long, instead of `-E2BIG`. It is the one that was not used for the longest time
    /// among those of four buckets of the index, some forty. `sw_qp_use` and insertions mark an
    /// entry as used. The map must have an index alone ([`with_index`](Self::with_index)).
    ///
    /// The map has memory for twice as many entries, because what leaves is used again only after a
    /// grace period. With service each millisecond, programs can replace all entries in some 30 ms.
    /// If they are faster, or service is late, a new entry gets the memory of the one that left at
    /// once, if its key is as long. Then a program that found the old entry in the same run, on
    /// another processor, may read or change the value of the new one, as in the kernel's
    /// `BPF_MAP_TYPE_LRU_HASH`.
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
    /// use sapwood_bpf::ProgramMap;
    /// use std::time::Duration;
    /// let sources = ProgramMap::<u64>::builder(&arena, "sources")
    ///     .max_entries(100_000)
    ///     .mean_key(4)
    ///     .with_index()
    ///     .lru(true)
    ///     .max_idle(Duration::from_secs(60))
    ///     .build()?;
    /// # let _ = sources;
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    pub fn lru(mut self, lru: bool) -> Self {
        self.plan.lru = lru;
        self
    }

    /// The time without use after which an entry of a map with [`lru`](Self::lru) is gone: programs
    /// find it no more by `sw_qp_use`, and an insertion takes its place. The entry counts in
    /// [`len`](ProgramMap::len) until then. Times are counted in units of 1.05 ms.
    pub fn max_idle(mut self, time: Duration) -> Self {
        let ticks = (time.as_nanos() >> k::TICK).clamp(1, u128::from(u32::MAX / 2));
        self.plan.idle = ticks as u32;
        self
    }

    /// Gives the map an index. When neither this nor [`with_trie`](Self::with_trie) is called, the
    /// map has both.
    ///
    /// A map with an index alone may have no slot for a key (`-ENOSPC`) when dozens of keys have
    /// nearly equal hashes, which are secret and random.
    pub fn with_index(mut self) -> Self {
        self.plan.parts |= k::INDEX;
        self
    }

    /// The buckets of the index, of twelve keys each. Default: enough for all entries. With fewer,
    /// keys that find no slot are found by the trie, or, in a map without trie, are refused
    /// (`-ENOSPC`).
    pub fn index_buckets(mut self, buckets: usize) -> Self {
        self.plan.buckets = Some(buckets);
        self
    }

    /// Gives the map a trie.
    pub fn with_trie(mut self) -> Self {
        self.plan.parts |= k::TRIE;
        self
    }

    /// Bytes of address space, which are also the most that the map can take. Default: all that the
    /// arena has left.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.plan.bytes = Some(bytes);
        self
    }

    /// The most blocks of one size that lie ready for programs in a ring, rounded up to a power of
    /// two. Default: a 64th of the entries, 64 to 4,096. Rings take blocks that came back; in a map
    /// that [grows](Self::grow), they begin with a 32nd of that and grow as they are used. A block
    /// whose ring has none is cut off a slab.
    pub fn ring(mut self, blocks: usize) -> Self {
        self.plan.ring = Some(blocks);
        self
    }

    /// Fills all rings at the beginning, and not only after they were found half empty. That takes
    /// memory for blocks of all sizes: some 3 KiB for each block of a ring's size.
    pub fn full_rings(mut self) -> Self {
        self.plan.full = true;
        self
    }

    /// Makes leaves for this many entries with keys of this length ready at the beginning. A map
    /// with a trie needs clusters and branches, too, which are supplied as they are used.
    pub fn prefill(mut self, key_len: usize, entries: usize) -> Self {
        self.plan.prefill.push((key_len, entries));
        self
    }

    /// The source of the kernel's grace periods. Default: a [`KernelGrace`] of its own.
    pub fn grace(mut self, grace: &Arc<KernelGrace>) -> Self {
        self.grace = Some(Arc::clone(grace));
        self
    }

    /// Takes 64 KiB of the arena for changes by this process
    /// ([`write_many`](ProgramMap::write_many)) now. Otherwise the first change takes them, if the
    /// arena has them left then: a map without [`bytes`](Self::bytes) takes all.
    pub fn user_writes(mut self) -> Self {
        self.user_writes = true;
        self
    }

    /// Fault injection: every `n`th request for a block fails. Default: 0, never.
    pub fn fail_every(mut self, n: u64) -> Self {
        self.plan.fail_every = n;
        self
    }

    /// Builds an empty map.
    ///
    /// # Errors
    /// [`Error::Setting`] when there are no entries or too many, a key is too long, also beside its
    /// value, values have a size that no map has, entries of a trie shall leave by themselves, or a
    /// map shall count for too many processors, or with a size of values of its own;
    /// [`Error::NoRoom`] when the window has no room for all entries (or, when it grows, for its
    /// header); [`Error::Name`], [`Error::NoMemory`], [`Error::NoGrace`].
    pub fn build(self) -> Result<ProgramMap<V>, Error> {
        if !is_value_size(self.plan.value_bytes) {
            return Err(Error::Setting {
                what: "value_bytes",
                why: format!("8, 16 … {}, not {}", k::VALUE_MAX, self.plan.value_bytes),
            });
        }
        let plan = self.plan.checked()?;
        let grace = match self.grace {
            Some(grace) => grace,
            None => KernelGrace::new()?,
        };
        let writer = match self.user_writes {
            true => Some(Writer::create(&self.arena, &self.name)?),
            false => None,
        };
        let bytes = plan.bytes.unwrap_or_else(|| self.arena.bytes_left());
        let hash = header::layout_hash(
            plan.value_bytes,
            V::align().unwrap_or(8),
            header::SHARED_FORMAT,
        );
        let (header, mut window) = self.arena.make_window(&self.name, bytes, hash)?;
        // The header page is written; the rest of the window is this module's.
        drop(header);
        let owner = Owner::make(self.arena.memory(), &window, &plan, grace)?;
        window.open(Kind::KernelQp);
        Ok(ProgramMap::new(window, owner, writer))
    }
}
