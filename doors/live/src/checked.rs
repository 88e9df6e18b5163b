//! Readers that check what they read.

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use sapwood::lpm::NextHop;
use sapwood::route::{Decision, Group, PackedGroup};
use sapwood_checked::lpm::CheckedFib;
use sapwood_checked::maple::CheckedMaple;
use sapwood_checked::{Bytes, CheckedReader, CheckedValue, TRIES};
use zerocopy::FromBytes;

use crate::control::State;
use crate::error::Error;
use crate::place::Place;
use crate::raw::maps::CheckedMap;
use crate::raw::reader::{ComesOnline, How, LiveOffline, Slot, within};
use crate::raw::window::{LiveSource, LiveWindow};

/// A reader of a live map that checks every word before it relies on it, and returns copies. It may
/// read a map that anybody can write, and it can be evicted.
///
/// - Whatever lies in the memory, and whatever is written there meanwhile, it reads nothing outside
///   the map's files, and every operation ends.
/// - A writer that was built with [`evict_after`](crate::LiveBuilder::evict_after) does not wait
///   for it any longer than that. From then on its answers are [`Error::Evicted`], until it calls
///   [`quiescent`](Self::quiescent): so no answer comes from memory that the writer has used again.
/// - Files that other users can write are read by system calls, because a file that becomes shorter
///   would be a fault in mapped memory. That is slow. Files of this user and of root are mapped.
///
/// Lookups take longer than those of a [`LiveReader`](crate::LiveReader), which trusts the memory.
///
/// ```
/// use sapwood::qp::QpShared;
/// use sapwood_live::{CheckedLiveReader, Live};
/// # let folder = std::env::temp_dir().join(format!("sapwood-live-check-{}", std::process::id()));
/// let map = Live::<QpShared<u64>>::create(&folder)?;
/// map.insert("example.org", 7)?;
///
/// // In another process:
/// let mut reader = CheckedLiveReader::<QpShared<u64>>::open(&folder)?;
/// assert_eq!(reader.view()?.get("example.org")?, Some(7));
/// reader.quiescent()?;
/// # drop(reader);
/// # map.remove_map()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CheckedLiveReader<M: CheckedMap> {
    sources: Vec<LiveSource>,
    /// The number of the data.
    number: u64,
    ours: bool,
    slot: Slot,
    map: PhantomData<fn() -> M>,
}

impl<M: CheckedMap> CheckedLiveReader<M> {
    /// Opens the live map in a directory.
    ///
    /// # Errors
    /// [`Error::NotYet`] when there is no map in the directory; [`Error::Unregistered`] when this
    /// process may not make a file in the directory `readers`; [`Error::NoMap`]; [`Error::Kind`];
    /// [`Error::Layout`]; [`Error::Damaged`]; [`Error::NoSpace`]; the system's error.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_place(Place::new(folder.as_ref()), true)
    }

    /// As [`open`](Self::open), and waits this long for a map that is not there yet.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Error::NotYet`] after this time.
    pub fn open_within(folder: impl AsRef<Path>, limit: Duration) -> Result<Self, Error> {
        within(limit, || Self::open(folder.as_ref()))
    }

    /// As [`open`](Self::open), with a descriptor of the directory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_at(folder: OwnedFd) -> Result<Self, Error> {
        Self::open_place(Place::at(folder), true)
    }

    /// As [`open`](Self::open), and writes nothing: for a directory on a file system that is
    /// mounted read-only, or one of another user who lets nobody register.
    ///
    /// The writer does not know of such a reader, and does not wait for it. Its answers are
    /// [`Error::Evicted`] as soon as the writer has used memory again that was replaced since the
    /// last [`quiescent`](Self::quiescent), which is after each change or two where no other reader
    /// holds memory back. [`read`](Self::read) asks again then. So it suits short questions, and
    /// walks over maps that seldom change.
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// use sapwood_live::{CheckedLiveReader, Live};
    /// # let folder = std::env::temp_dir().join(format!("sapwood-live-un-{}", std::process::id()));
    /// let store = Live::<QpStore<u64>>::create(&folder)?;
    /// let mut txn = store.begin();
    /// txn.insert("example.org", 7)?;
    /// txn.commit();
    ///
    /// // In another process:
    /// let mut reader = CheckedLiveReader::<QpStore<u64>>::open_unregistered(&folder)?;
    /// assert_eq!(reader.read(|map| map.get("example.org"))?, Some(7));
    /// assert!(store.readers().is_empty());
    /// # drop(reader);
    /// # store.remove_map()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open), but for [`Error::Unregistered`] and [`Error::NoSpace`].
    pub fn open_unregistered(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_place(Place::new(folder.as_ref()), false)
    }

    /// As [`open_unregistered`](Self::open_unregistered), and waits this long for a map that is not
    /// there yet.
    ///
    /// # Errors
    /// As [`open_unregistered`](Self::open_unregistered); [`Error::NotYet`] after this time.
    pub fn open_unregistered_within(
        folder: impl AsRef<Path>,
        limit: Duration,
    ) -> Result<Self, Error> {
        within(limit, || Self::open_unregistered(folder.as_ref()))
    }

    /// As [`open_unregistered`](Self::open_unregistered), with a descriptor of the directory.
    ///
    /// # Errors
    /// As [`open_unregistered`](Self::open_unregistered).
    pub fn open_unregistered_at(folder: OwnedFd) -> Result<Self, Error> {
        Self::open_place(Place::at(folder), false)
    }

    fn open_place(place: Place, register: bool) -> Result<Self, Error> {
        let ours = match place.belongs_to_us() {
            Ok(()) => true,
            Err(Error::Foreign { .. }) => false,
            Err(error) => return Err(error),
        };
        let how = match register {
            true => How::Checking { ours },
            false => How::Unregistered { ours },
        };
        let mut last = None;
        for _ in 0..TRIES {
            let slot = Slot::open::<M>(place.clone(), how)?;
            let (sources, state) = sources(&slot, M::parts(), ours)?;
            let mut reader = CheckedLiveReader {
                sources,
                number: state.number(),
                ours,
                slot,
                map: PhantomData,
            };
            // A busy writer uses memory again while the map is opened, so the look is repeated.
            match reader.read(|_| Ok(())) {
                Ok(()) => return Ok(reader),
                Err(error @ (Error::Evicted { .. } | Error::Busy { .. })) => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| place.not_yet()))
    }

    /// The map, for reading. Each call of its methods sees the newest map.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Evicted`], and in a child of `fork` [`Error::Forked`], as all
    /// answers there.
    pub fn view(&self) -> Result<M::Checked<'_>, Error> {
        self.slot.check()?;
        M::check(&self.sources)
    }

    /// Calls `f` with the newest map, and calls it again when the reader is evicted meanwhile, or
    /// changes disturb it.
    ///
    /// # Errors
    /// Those of `f` and of [`quiescent`](Self::quiescent); [`Error::Evicted`] or [`Error::Busy`]
    /// after 64 calls that changes disturbed.
    pub fn read<R>(
        &mut self,
        mut f: impl FnMut(M::Checked<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut tries = TRIES;
        loop {
            self.quiescent()?;
            tries -= 1;
            match self.view().and_then(&mut f) {
                Err(Error::Evicted { .. } | Error::Busy { .. }) if tries > 0 => {
                    // A writer that changes the map all the time lets others in between.
                    std::thread::yield_now();
                }
                done => return done,
            }
        }
    }

    /// Announces that the reader holds nothing. A reader that was evicted is back. If another
    /// process has taken the map over, the reader moves to its data.
    ///
    /// # Errors
    /// [`Error::Removed`] when the map was removed: then [`reopen`](Self::reopen) moves to the one
    /// that may have been made in its place. As [`open`](Self::open), for the data of the new
    /// owner. Then the reader stays where it is.
    pub fn quiescent(&mut self) -> Result<(), Error> {
        self.slot.check()?;
        self.slot.say(self.slot.period());
        if self.slot.state().number() != self.number {
            let (sources, state) = sources(&self.slot, M::parts(), self.ours)?;
            M::check(&sources)?;
            (self.sources, self.number) = (sources, state.number());
        }
        Ok(())
    }

    /// Takes the reader offline, until the result is dropped. It then holds nothing back.
    pub fn offline(&mut self) -> LiveOffline<'_> {
        self.slot.say(0);
        LiveOffline { reader: self }
    }

    /// Opens the map that is in the directory now: see
    /// [`LiveReader::reopen`](crate::LiveReader::reopen).
    ///
    /// # Errors
    /// As [`open`](Self::open). Then the reader stays where it is.
    pub fn reopen(&mut self) -> Result<(), Error> {
        *self = Self::open_place(self.slot.place.clone(), self.slot.is_known())?;
        Ok(())
    }

    /// Whether the directory still has the map that this reader reads: see
    /// [`LiveReader::is_current`](crate::LiveReader::is_current).
    pub fn is_current(&self) -> bool {
        self.slot.is_current()
    }

    /// How many times other processes have taken the map over.
    pub fn generation(&self) -> u64 {
        self.number.saturating_sub(1)
    }

    /// Whether the map's writer lives: see
    /// [`LiveReader::has_writer`](crate::LiveReader::has_writer).
    ///
    /// # Errors
    /// The system's error.
    pub fn has_writer(&self) -> Result<bool, Error> {
        self.slot.has_writer()
    }
}

impl<M: CheckedMap> ComesOnline for CheckedLiveReader<M> {
    fn come_online(&mut self) {
        self.slot.come_online();
    }
}

fn sources(slot: &Slot, parts: usize, ours: bool) -> Result<(Vec<LiveSource>, State), Error> {
    slot.open_data(parts, |path, of| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(LiveSource {
            window: LiveWindow::open(path, ours)?,
            of,
            name: name.into_owned(),
            folder: slot.place.path().to_owned(),
            slot: Some(slot.announced().clone()),
        })
    })
}

impl<M: CheckedMap> fmt::Debug for CheckedLiveReader<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedLiveReader")
            .field("folder", &self.slot.place.path())
            .field("data", &self.number)
            .finish_non_exhaustive()
    }
}

/// A live table of both families of addresses, as a checked reader shows it.
#[derive(Debug)]
pub struct CheckedIp<'r, V> {
    pub(crate) v4: CheckedFib<&'r LiveSource, V>,
    pub(crate) v6: CheckedFib<&'r LiveSource, V>,
}

impl<'r, V: CheckedValue> CheckedIp<'r, V> {
    /// The longest prefix of an address: its length, and its value.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Busy`], [`Error::Evicted`].
    pub fn lookup(&self, addr: IpAddr) -> Result<Option<(u8, V)>, Error> {
        match addr {
            IpAddr::V4(_) => self.v4.lookup(addr),
            IpAddr::V6(_) => self.v6.lookup(addr),
        }
    }

    /// All prefixes that cover a prefix, itself included: their lengths and values, shortest first.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn covering(&self, net: IpNet) -> Result<Vec<(u8, V)>, Error> {
        match net {
            IpNet::V4(_) => self.v4.covering(net),
            IpNet::V6(_) => self.v6.covering(net),
        }
    }

    /// The value of exactly this prefix.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn get(&self, net: IpNet) -> Result<Option<V>, Error> {
        match net {
            IpNet::V4(_) => self.v4.get(net),
            IpNet::V6(_) => self.v6.get(net),
        }
    }

    /// All prefixes with their values, IPv4 first. The iterator of a family ends after an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<(IpNet, V), Error>> {
        self.v4.iter().chain(self.v6.iter())
    }

    /// The table of IPv4 prefixes.
    pub fn v4(&self) -> &CheckedFib<&'r LiveSource, V> {
        &self.v4
    }

    /// The table of IPv6 prefixes.
    pub fn v6(&self) -> &CheckedFib<&'r LiveSource, V> {
        &self.v6
    }
}

/// Live [`Routes`](crate::Routes), as a checked reader shows them.
#[derive(Debug)]
pub struct CheckedRoutes<'r, H> {
    pub(crate) fib: CheckedIp<'r, u32>,
    pub(crate) groups: CheckedReader<&'r LiveSource, Bytes>,
    pub(crate) hops: PhantomData<fn() -> H>,
}

impl<H: NextHop + FromBytes> CheckedRoutes<'_, H> {
    /// The next hop of a flow to an address. `None` where there is no prefix, or the group has no
    /// member with any weight.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Busy`], [`Error::Evicted`].
    pub fn lookup(&self, addr: IpAddr, flow: u64) -> Result<Option<H>, Error> {
        let found = self.fib.lookup(addr)?;
        let of = |(_, number)| self.numbered(number, |group| group.member(flow));
        Ok(found.map(of).transpose()?.flatten())
    }

    /// What becomes of a packet of a flow to an address: its next hop, or why it has none.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn decide(&self, addr: IpAddr, flow: u64) -> Result<Decision<H>, Error> {
        match self.fib.lookup(addr)? {
            Some((_, number)) => self.numbered(number, |group| group.decide(flow)),
            None => Ok(Decision::NoRoute),
        }
    }

    /// The longest prefix of an address: its length, and its group.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn route(&self, addr: IpAddr) -> Result<Option<(u8, Group<H>)>, Error> {
        let Some((len, number)) = self.fib.lookup(addr)? else {
            return Ok(None);
        };
        match self.numbered(number, |group| group.to_group())? {
            Some(group) => Ok(Some((len, group))),
            None => Err(self.groups.source().damaged("a group with equal members")),
        }
    }

    fn numbered<R>(
        &self,
        number: u32,
        of: impl FnOnce(PackedGroup<'_, H>) -> R,
    ) -> Result<R, Error> {
        let bytes = self.groups.get(number.to_be_bytes())?;
        let group = bytes
            .as_ref()
            .and_then(|Bytes(bytes)| PackedGroup::new(bytes));
        let why = || format!("group {number} is missing or no group");
        group
            .map(of)
            .ok_or_else(|| self.groups.source().damaged(why()))
    }
}

/// A live range map, as a checked reader shows it.
pub type CheckedRanges<'r, V> = CheckedMaple<&'r LiveSource, V>;
