//! Per-writer queues of what waits for a grace period.

use core::fmt;

use crate::builder::GarbageLimit;
use crate::chunks::Chunks;
use crate::domain::{Domain, Generation};

struct Entry<T> {
    item: T,
    bytes: usize,
}

/// The oldest `len` entries that no older batch has.
#[derive(Clone, Copy)]
struct Batch {
    generation: Generation,
    tag: u64,
    len: usize,
}

/// What one writer has unlinked, in order, until no reader can hold it.
///
/// Items carry no list head and no stamp of their own: they gather in an open batch,
/// [`seal`](Self::seal) stamps the batch with one generation, and [`reclaim`](Self::reclaim) hands
/// them back oldest first. Every byte counts in [`Domain::garbage`] from `push` until it is handed
/// back.
///
/// `T` is a handle: a reference into an arena, a raw pointer. A queue of `Box`es is a mistake where
/// readers hold references into them, since moving a `Box` claims that there are none.
///
/// **Dropping a queue** drops what is left in it as values, without a grace period, and takes its
/// bytes off the domain's count. If `T` is a raw handle the memory behind it is not freed: the
/// owner reclaims or [`drain`](Self::drain)s first.
///
/// ```
/// use sapwood_qsbr::{Domain, RetireQueue};
///
/// let domain = Domain::new();
/// let mut reader = domain.register("reader")?;
/// let mut queue = RetireQueue::new(&domain);
///
/// // ... unlink two nodes, here known by number ...
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
    /// Bytes that the domain counts already, for items that are still to come.
    reserved: usize,
}

impl<T> RetireQueue<T> {
    /// An empty queue; allocates nothing until the first [`push`](Self::push).
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

    /// Counts `bytes` as garbage before there is any: for the items that are pushed next, whose
    /// bytes are then not counted again. What was reserved before and not used is part of it, so
    /// that afterwards at least `bytes` are reserved.
    ///
    /// It asks for the limit and counts in one step, so that writers that reserve before they
    /// unlink never take a domain over its hard limit, however many there are. What turns out not
    /// to be needed goes back with [`release`](Self::release). Without a hard limit it does
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`], whatever the policy: it never waits.
    ///
    /// ```
    /// # use sapwood_qsbr::{Domain, RetireQueue};
    /// let domain = Domain::builder().hard_limit(100).build();
    /// let mut queue = RetireQueue::new(&domain);
    /// queue.reserve(90)?; // the most that the change may unlink
    /// assert_eq!(domain.garbage(), 90);
    /// assert!(RetireQueue::<()>::new(&domain).reserve(20).is_err()); // another writer
    /// queue.push("a node", 40); // what it did unlink
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

    /// Gives back what is reserved beyond `keep` bytes.
    #[inline]
    pub fn release(&mut self, keep: usize) {
        if self.reserved > keep {
            self.domain.sub_garbage(self.reserved - keep);
            self.reserved = keep;
        }
    }

    /// Bytes that are reserved: counted as garbage for items that are still to come.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// Counts the bytes of items, as far as they were not reserved.
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
    /// It does not check the limits: [`reserve`](Self::reserve), or
    /// [`make_room`](Self::make_room), before the write.
    pub fn push(&mut self, item: T, bytes: usize) {
        self.entries.push_back(Entry { item, bytes });
        self.open += 1;
        self.count(bytes);
    }

    /// Adds many items to the open batch, and counts their bytes in one step: the domain's count is
    /// one that all writers share.
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
    /// Call it after the stores that unlink the batch's items: what is reachable afterwards is not
    /// protected.
    pub fn seal(&mut self) -> Option<Generation> {
        self.seal_tagged(0)
    }

    /// As [`seal`](Self::seal), and marks the batch with a number of the caller's, such as a
    /// version.
    ///
    /// [`reclaim_while`](Self::reclaim_while) shows it, so that a batch can be held back for a
    /// snapshot.
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
    /// Stops in the middle of a batch when the budget is used up. Items of the open batch are never
    /// handed out.
    ///
    /// # Panics
    ///
    /// Only if `f` does. The item that `f` was given counts as handed over; the others stay, and
    /// the accounting is right.
    pub fn reclaim(&mut self, budget: usize, f: impl FnMut(T)) -> usize {
        self.reclaim_while(budget, |_, _| true, f)
    }

    /// As [`reclaim`](Self::reclaim), but stops before the first batch that `keep_going` refuses.
    ///
    /// `keep_going` gets each batch's generation and tag, before the grace period is asked about,
    /// at most once per batch and call.
    ///
    /// # Panics
    ///
    /// Only if `keep_going` or `f` does; see [`reclaim`](Self::reclaim).
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
                // Everything is booked before `f` runs, so that its panic finds the books right.
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

    /// Makes room for `bytes` more garbage and [reserves](Self::reserve) it; under pressure it
    /// reclaims from this queue.
    ///
    /// This is what a writer with a queue of its own wants before a write. `Domain::admit` with
    /// [`LimitPolicy::Block`](crate::LimitPolicy::Block) would wait for room that only this queue
    /// can make. Above the soft limit it reclaims what it can; at the hard limit it fails or waits,
    /// by the domain's policy. The open batch is left alone.
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`] as for [`Domain::admit`]; also, under the blocking policy, when this
    /// queue's open batch is all that is left to wait for.
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
                // Garbage that is ours, and open or reserved, cannot shrink while we wait here.
                !self.batches.is_empty() || domain.garbage() > self.bytes + self.reserved
            })?;
        }
    }

    /// Hands over everything, the open batch too, **without waiting for a grace period**; returns
    /// how many.
    ///
    /// For an owner that is being dropped, or that otherwise knows that no reader is left. Nothing
    /// here is unsafe, as the items are only values; to free what they name while a reader holds it
    /// is the caller's `unsafe`.
    pub fn drain(&mut self, mut f: impl FnMut(T)) -> usize {
        let mut credit = Credit {
            domain: &self.domain,
            bytes: 0,
        };
        self.batches.clear();
        let mut handed = 0;
        while let Some(Entry { item, bytes }) = self.entries.pop_front() {
            // One open batch of what is left, should `f` panic.
            self.open = self.entries.len();
            self.bytes -= bytes;
            credit.bytes += bytes;
            handed += 1;
            f(item);
        }
        drop(credit);
        handed
    }

    /// How many items wait, those of the open batch included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many bytes wait, those of the open batch included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many items the open batch has.
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

/// Bytes to take off the domain's count in one go, on unwinding too.
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
