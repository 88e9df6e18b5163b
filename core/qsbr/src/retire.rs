//! Retire queues: the garbage of one writer, which waits for grace periods.

use core::fmt;

use crate::builder::GarbageLimit;
use crate::chunks::Chunks;
use crate::domain::{Domain, Generation};

struct Entry<T> {
    item: T,
    bytes: usize,
}

/// A batch: the oldest `len` entries that no older batch has.
#[derive(Clone, Copy)]
struct Batch {
    generation: Generation,
    tag: u64,
    len: usize,
}

/// A queue of the items that one writer has unlinked, until no reader can hold them.
///
/// Items have no list head and no stamp of their own. They collect in an open batch,
/// [`seal`](Self::seal) stamps the batch with one generation, and [`reclaim`](Self::reclaim) hands
/// the items back, oldest first. The bytes of an item count in [`Domain::garbage`] from `push`
/// until it is handed back.
///
/// `T` is a handle, such as a reference into an arena or a raw pointer. It must not be a `Box` into
/// which readers hold references, since moving a `Box` asserts that there are none.
///
/// **Dropping a queue** drops its items as values, without a grace period, and subtracts their
/// bytes from the domain's count. If `T` is a raw handle, the memory behind it is not freed: the
/// owner must reclaim or [`drain`](Self::drain) first.
///
/// ```
/// use sapwood_qsbr::{Domain, RetireQueue};
///
/// let domain = Domain::new();
/// let mut reader = domain.register("reader")?;
/// let mut queue = RetireQueue::new(&domain);
///
/// // ... unlink two nodes, with the numbers 7 and 8 ...
/// queue.push(7_u32, 40);
/// queue.push(8_u32, 24);
/// queue.seal();
/// assert_eq!(domain.garbage(), 64);
///
/// let mut free = Vec::new();
/// assert_eq!(queue.reclaim(100, |node| free.push(node)), 0); // `reader` may hold them
/// reader.quiescent();
/// assert_eq!(queue.reclaim(100, |node| free.push(node)), 2);
/// assert_eq!((free, domain.garbage()), (vec![7, 8], 0));
/// # Ok::<(), sapwood_qsbr::TooManyReaders>(())
/// ```
pub struct RetireQueue<T> {
    domain: Domain,
    entries: Chunks<Entry<T>>,
    batches: Chunks<Batch>,
    /// Entries at the back that no batch has yet.
    open: usize,
    bytes: usize,
    /// Bytes that the domain counts already, for items that are pushed later.
    reserved: usize,
}

impl<T> RetireQueue<T> {
    /// An empty queue, which allocates nothing until the first [`push`](Self::push).
    pub fn new(domain: &Domain) -> Self {
        Self {
            domain: domain.clone(),
            entries: Chunks::new(),
            batches: Chunks::new(),
            open: 0,
            bytes: 0,
            reserved: 0,
        }
    }

    /// Reserves room for garbage: counts `bytes` now for the items that are pushed next, whose
    /// bytes are then not counted again. Bytes that were reserved before and not used are part of
    /// them, so that afterwards at least `bytes` are reserved.
    ///
    /// O(1): one atomic step where there is a hard limit.
    ///
    /// It checks the limit and counts in one step. So any number of writers that reserve before
    /// they unlink keep a domain within its hard limit. [`release`](Self::release) gives unused
    /// bytes back. Without a hard limit it does nothing.
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`], whatever the policy: it does not wait.
    ///
    /// ```
    /// # use sapwood_qsbr::{Domain, RetireQueue};
    /// let domain = Domain::builder().hard_limit(100).build();
    /// let mut queue = RetireQueue::new(&domain);
    /// queue.reserve(90)?; // the most bytes that the change may unlink
    /// assert_eq!(domain.garbage(), 90);
    /// assert!(RetireQueue::<()>::new(&domain).reserve(20).is_err()); // another writer
    /// queue.push("a node", 40); // the bytes that it did unlink
    /// queue.release(0);
    /// assert_eq!((queue.reserved(), domain.garbage()), (0, 40));
    /// # queue.drain(drop);
    /// # Ok::<(), sapwood_qsbr::GarbageLimit>(())
    /// ```
    #[inline]
    pub fn reserve(&mut self, bytes: usize) -> Result<(), GarbageLimit> {
        if self.domain.hard_limit().is_none() || bytes <= self.reserved {
            return Ok(());
        }
        self.domain.try_add_garbage(bytes - self.reserved)?;
        self.reserved = bytes;
        Ok(())
    }

    /// Gives back the reserved bytes beyond `keep`.
    #[inline]
    pub fn release(&mut self, keep: usize) {
        if self.reserved > keep {
            self.domain.sub_garbage(self.reserved - keep);
            self.reserved = keep;
        }
    }

    /// Bytes that are reserved: they count as garbage for items that are pushed later.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// Counts the bytes of items that were not reserved.
    fn count(&mut self, bytes: usize) {
        let ready = bytes.min(self.reserved);
        self.reserved -= ready;
        self.bytes += bytes;
        if bytes > ready {
            self.domain.add_garbage(bytes - ready);
        }
    }

    /// Adds `item` to the open batch and counts its `bytes` as garbage.
    ///
    /// O(1), and one atomic addition if the bytes were not reserved.
    ///
    /// It does not check the limits: call [`reserve`](Self::reserve) or
    /// [`make_room`](Self::make_room) before the write.
    pub fn push(&mut self, item: T, bytes: usize) {
        self.entries.push_back(Entry { item, bytes });
        self.open += 1;
        self.count(bytes);
    }

    /// Adds many items to the open batch, and counts their bytes in one step, because all writers
    /// share the domain's count.
    ///
    /// ```
    /// # use sapwood_qsbr::{Domain, RetireQueue};
    /// # let domain = Domain::new();
    /// let mut queue = RetireQueue::new(&domain);
    /// queue.extend([(1, 40), (2, 24)]);
    /// assert_eq!((queue.len(), domain.garbage()), (2, 64));
    /// # queue.drain(drop);
    /// ```
    pub fn extend(&mut self, items: impl IntoIterator<Item = (T, usize)>) {
        let mut sum = 0;
        for (item, bytes) in items {
            self.entries.push_back(Entry { item, bytes });
            self.open += 1;
            sum += bytes;
        }
        self.count(sum);
    }

    /// Closes the open batch and starts its grace period; `None` if it is empty.
    ///
    /// As [`Domain::advance`].
    ///
    /// Call it after the stores that unlink the batch's items. It does not protect items that are
    /// still reachable.
    pub fn seal(&mut self) -> Option<Generation> {
        self.seal_tagged(0)
    }

    /// As [`seal`](Self::seal), but also marks the batch with a number of the caller's, such as a
    /// version.
    ///
    /// [`reclaim_while`](Self::reclaim_while) passes it on, so that the caller can hold a batch
    /// back for a snapshot.
    pub fn seal_tagged(&mut self, tag: u64) -> Option<Generation> {
        if self.open == 0 {
            return None;
        }
        let generation = self.domain.advance();
        self.batches.push_back(Batch {
            generation,
            tag,
            len: self.open,
        });
        self.open = 0;
        Some(generation)
    }

    /// Hands at most `budget` items whose grace period is over to `f`, oldest first, and returns
    /// how many.
    ///
    /// O(items handed out), and [`Domain::elapsed`] for each batch.
    ///
    /// It stops in the middle of a batch when the budget is used up. It does not hand out items of
    /// the open batch.
    ///
    /// # Panics
    ///
    /// When `f` panics. The item that `f` got counts as handed over; the others stay, and the
    /// accounts are right.
    pub fn reclaim(&mut self, budget: usize, f: impl FnMut(T)) -> usize {
        self.reclaim_while(budget, |_, _| true, f)
    }

    /// As [`reclaim`](Self::reclaim), but stops before the first batch that `keep_going` refuses.
    ///
    /// `keep_going` gets each batch's generation and tag, before the grace period is checked, at
    /// most once for each batch and call.
    ///
    /// # Panics
    ///
    /// When `keep_going` or `f` panics; see [`reclaim`](Self::reclaim).
    ///
    /// ```
    /// # use sapwood_qsbr::{Domain, RetireQueue};
    /// # let domain = Domain::new();
    /// let mut queue = RetireQueue::new(&domain);
    /// for version in 1..=3 {
    ///     queue.push(version * 10, 1);
    ///     queue.seal_tagged(version);
    /// }
    /// let oldest_snapshot = 2;
    /// let mut freed = Vec::new();
    /// queue.reclaim_while(100, |_, version| version <= oldest_snapshot, |item| freed.push(item));
    /// assert_eq!(freed, [10, 20]);
    /// # queue.drain(drop);
    /// ```
    pub fn reclaim_while(
        &mut self,
        budget: usize,
        mut keep_going: impl FnMut(Generation, u64) -> bool,
        mut f: impl FnMut(T),
    ) -> usize {
        let mut credit = Credit {
            domain: &self.domain,
            bytes: 0,
        };
        let mut handed = 0;
        while handed < budget {
            let Some(batch) = self.batches.front_mut() else {
                break;
            };
            if !keep_going(batch.generation, batch.tag) || !self.domain.elapsed(batch.generation) {
                break;
            }
            while batch.len > 0 && handed < budget {
                // The accounts are updated before `f` runs, so that they are right if it panics.
                batch.len -= 1;
                handed += 1;
                let Some(Entry { item, bytes }) = self.entries.pop_front() else {
                    unreachable!("batches count entries")
                };
                self.bytes -= bytes;
                credit.bytes += bytes;
                f(item);
            }
            if batch.len == 0 {
                self.batches.pop_front();
            }
        }
        drop(credit);
        handed
    }

    /// Makes room for `bytes` more garbage and [reserves](Self::reserve) it. When there is no room,
    /// it reclaims from this queue.
    ///
    /// A writer with a queue of its own calls this before a write. `Domain::admit` with
    /// [`LimitPolicy::Block`](crate::LimitPolicy::Block) would wait for room that only this queue
    /// can make. Above the soft limit this reclaims what it can. At the hard limit it fails or
    /// waits, by the domain's policy. It does not touch the open batch.
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`] as for [`Domain::admit`]; also, under the blocking policy, when only this
    /// queue's open batch is left to wait for.
    pub fn make_room(&mut self, bytes: usize, mut f: impl FnMut(T)) -> Result<(), GarbageLimit> {
        if self.domain.over_soft_limit() {
            self.reclaim(usize::MAX, &mut f);
        }
        let domain = self.domain.clone();
        loop {
            let Err(full) = self.reserve(bytes) else {
                return Ok(());
            };
            if bytes > full.limit {
                return Err(full);
            }
            self.reclaim(usize::MAX, &mut f);
            domain.admit_with(full.requested, || {
                self.reclaim(usize::MAX, &mut f);
                // This queue's open and reserved garbage cannot shrink while its writer waits here.
                !self.batches.is_empty() || domain.garbage() > self.bytes + self.reserved
            })?;
        }
    }

    /// Hands over all items, those of the open batch included, **without waiting for a grace
    /// period**; returns how many.
    ///
    /// O(items).
    ///
    /// It is for an owner that is being dropped, or that knows that no reader is left. This is not
    /// unsafe, as the items are only values. To free the memory that they name while a reader holds
    /// it is the caller's `unsafe`.
    pub fn drain(&mut self, mut f: impl FnMut(T)) -> usize {
        let mut credit = Credit {
            domain: &self.domain,
            bytes: 0,
        };
        self.batches.clear();
        let mut handed = 0;
        while let Some(Entry { item, bytes }) = self.entries.pop_front() {
            // If `f` panics, the remaining items are one open batch.
            self.open = self.entries.len();
            self.bytes -= bytes;
            credit.bytes += bytes;
            handed += 1;
            f(item);
        }
        drop(credit);
        handed
    }

    /// Gives back the memory that an empty queue keeps for its next items, some 20 KiB.
    pub fn give_back(&mut self) {
        if self.is_empty() && self.batches.is_empty() {
            self.entries.clear();
            self.batches.clear();
        }
    }

    /// The number of items that wait, those of the open batch included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes that wait, those of the open batch included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of items in the open batch.
    pub fn open_len(&self) -> usize {
        self.open
    }

    /// The domain whose grace periods this queue waits for.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }
}

impl<T> Drop for RetireQueue<T> {
    fn drop(&mut self) {
        self.domain.sub_garbage(self.bytes + self.reserved);
    }
}

impl<T> fmt::Debug for RetireQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetireQueue")
            .field("len", &self.len())
            .field("bytes", &self.bytes)
            .field("batches", &self.batches.len())
            .field("open", &self.open)
            .finish()
    }
}

/// Bytes to subtract from the domain's count in one step, also on unwinding.
struct Credit<'d> {
    domain: &'d Domain,
    bytes: usize,
}

impl Drop for Credit<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.domain.sub_garbage(self.bytes);
        }
    }
}
