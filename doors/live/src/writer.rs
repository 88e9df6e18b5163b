//! The writer of a live map.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sapwood::qp::QpStore;
use sapwood_arena::{Arena, ArenaFull, ArenaOptions, Backing, HeaderMode};
use sapwood_qsbr::{Domain, DomainBuilder};

use crate::control::{Control, Wanted};
use crate::error::Error;
use crate::making::{self, Making, ReadBy, Rights};
use crate::place::Place;
use crate::raw::maps::{Left, LiveMap, Memory};
use crate::raw::process::{Ours, not_ours};
use crate::raw::region::Part;
use crate::slots::{LiveReaderInfo, Readers};
use crate::texts::LiveTexts;

/// A map that processes on this machine share: this process writes it, with all methods of the
/// structure `M`, and others read it ([`LiveReader`](crate::LiveReader)).
///
/// When the process ends, or the value is dropped, readers go on with what was written last, and
/// another process may [`open`](Self::open) the map. [`remove_map`](Self::remove_map) deletes it.
///
/// A child of `fork` can neither read nor write it by this value, which is its parent's: each use
/// panics, or is [`Error::Forked`]; [`ours`](Self::ours) never panics. The drop of the child's copy
/// changes nothing, and lets go of the child's part of the writer's lock. Else the child has that
/// part until its parent drops the map, or until the child ends or calls `exec`. Clones of the map,
/// its transactions and its snapshots are not checked: a child must not use those.
///
/// # Panics
/// All methods of the map panic in a child of `fork`.
pub struct Live<M: LiveMap> {
    map: Ours<M>,
    place: Place,
    /// The page has the lock of the writer.
    control: Arc<Control>,
    readers: Arc<Readers>,
    number: u64,
}

/// Builds a [`Live`] map.
///
/// ```
/// use sapwood::qp::PointMap;
/// use sapwood_live::Live;
/// # let folder = std::env::temp_dir().join(format!("sapwood-live-build-{}", std::process::id()));
/// let domain = sapwood_qsbr::Domain::builder().hard_limit(64 << 20);
/// let builder = Live::<PointMap<u64>>::builder().domain(domain).bytes(1 << 30);
/// let map = builder.map(|map| map.max_entries(1_000_000)).create(&folder)?;
/// # map.remove_map()?;
/// # Ok::<(), sapwood_live::Error>(())
/// ```
pub struct LiveBuilder<M: LiveMap> {
    domain: Option<DomainBuilder>,
    bytes: Option<usize>,
    evict_after: Option<Duration>,
    read_by: Option<ReadBy>,
    map: M::Builder,
}

impl<M: LiveMap> LiveBuilder<M> {
    /// The domain's settings, for example its limits of garbage. The builder adds the readers of
    /// other processes as a source of grace periods. Default: those of [`Domain::builder`].
    pub fn domain(mut self, domain: DomainBuilder) -> Self {
        self.domain = Some(domain);
        self
    }

    /// The most bytes of each part of the map's memory: a table of both families of addresses has
    /// two, of at most 1 GiB. Default, and most: 8 GiB.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Evicts a [`CheckedLiveReader`](crate::CheckedLiveReader) that a grace period has waited for
    /// this long. It is an error to that reader at its next answer, and memory is freed without it.
    /// Readers that trust the memory cannot be evicted. Default: no reader is evicted.
    pub fn evict_after(mut self, age: Duration) -> Self {
        self.evict_after = Some(age);
        self
    }

    /// Who may read the map, and be known to its writer: sets the modes of its files. Default:
    /// [`ReadBy::Owner`]; a map that is taken over keeps what it has.
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// use sapwood_live::{Live, ReadBy};
    /// # use std::os::unix::fs::PermissionsExt;
    /// # let folder = std::env::temp_dir().join(format!("sapwood-live-by-{}", std::process::id()));
    /// let store = Live::<QpStore<u64>>::builder().read_by(ReadBy::Everybody).create(&folder)?;
    /// let mode = folder.join("readers").metadata().unwrap().permissions().mode();
    /// assert_eq!(mode & 0o7777, 0o1777);
    /// # store.remove_map()?;
    /// # Ok::<(), sapwood_live::Error>(())
    /// ```
    pub fn read_by(mut self, who: ReadBy) -> Self {
        self.read_by = Some(who);
        self
    }

    /// Sets the choices that only this structure has, such as an index.
    pub fn map(mut self, set: impl FnOnce(M::Builder) -> M::Builder) -> Self {
        self.map = set(self.map);
        self
    }

    /// Makes an empty map in a directory. The directory comes to be together with the map: it is
    /// made beside, and renamed. Where it is there already, the map is there as soon as `control`
    /// is. What processes have left that died meanwhile is removed.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Owned`], when another process makes the map;
    /// [`Error::NoSpace`]; the system's error. Nothing is left of the map then.
    pub fn create(self, folder: impl AsRef<Path>) -> Result<Live<M>, Error> {
        let (live, unpublished) = self.create_unpublished(folder)?;
        unpublished.publish()?;
        Ok(live)
    }

    /// As [`create`](Self::create), but nobody finds the map until it is
    /// [published](Unpublished::publish), so that whoever finds it finds what it has by then.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// use sapwood_live::{Live, LiveReader};
    /// # let folder = std::env::temp_dir().join(format!("sapwood-live-un-{}", std::process::id()));
    /// let (store, unpublished) = Live::<QpStore<u64>>::builder().create_unpublished(&folder)?;
    /// let mut txn = store.begin();
    /// txn.insert("oak", 1)?;
    /// txn.commit();
    /// assert!(LiveReader::<QpStore<u64>>::open(&folder).is_err());
    /// unpublished.publish()?;
    /// assert!(LiveReader::<QpStore<u64>>::open(&folder).is_ok());
    /// # store.remove_map()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_unpublished(
        self,
        folder: impl AsRef<Path>,
    ) -> Result<(Live<M>, Unpublished), Error> {
        let place = Place::new(folder.as_ref());
        let making = Making::begin(&place, self.read_by.unwrap_or_default().into())?;
        let live = self.make(place, &making)?;
        let unpublished = Unpublished {
            readers: vec![Arc::clone(&live.readers)],
            making,
            texts: None,
            folder: folder.as_ref().to_owned(),
        };
        Ok((live, unpublished))
    }

    /// As [`create`](Self::create), with a store for the texts of the map's values in the directory
    /// [`LiveTexts::folder`]. Whoever finds the map finds its texts. Both have the same choices for
    /// memory and readers.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_with_texts(
        self,
        folder: impl AsRef<Path>,
        texts: LiveBuilder<QpStore<[u8]>>,
    ) -> Result<(Live<M>, LiveTexts), Error> {
        let (live, mut unpublished) = self.create_unpublished(folder)?;
        let texts = unpublished.texts(texts)?;
        unpublished.publish()?;
        Ok((live, texts))
    }

    /// Makes a map whose place is here when it is finished.
    fn make(self, place: Place, making: &Making) -> Result<Live<M>, Error> {
        let control = Control::make(&making.control(), M::KIND.0, &M::layouts())?;
        self.build(place, &making.dir, control, 1, None, M::create)
    }

    /// Takes over the map of a writer that has ended. It checks every node of what the writer left,
    /// copies it into new data, and points readers there. O(bytes of the map). The file system
    /// needs room for the copy beside what there is: as much as the entries take.
    ///
    /// A change that had returned is there. One that the writer's death interrupted is there as a
    /// whole, or not at all. A transaction of a table of routes is published root word by root
    /// word, so a part of it may be there.
    ///
    /// A store that an earlier version of this library made keeps its form, so that readers with
    /// that version go on. `remove_map` and `create` make one of the present form.
    ///
    /// # Errors
    /// [`Error::NotYet`], [`Error::NoMap`], [`Error::Owned`], [`Error::Kind`], [`Error::Layout`];
    /// [`Error::NoSpace`], [`Error::Damaged`] and the system's error: then the map stays as it is,
    /// for readers, too, and nothing is left of the copy.
    pub fn open(self, folder: impl AsRef<Path>) -> Result<Live<M>, Error> {
        let place = Place::new(folder.as_ref());
        let control = Control::inherit(&place, &Wanted::of::<M>())?;
        let path = place.control();
        let meta = std::fs::metadata(&path).map_err(Error::io("looking at", &path))?;
        let rights = match self.read_by {
            None => Rights::of(&meta),
            Some(who) => {
                let rights = Rights::from(who);
                rights.give_all(&place)?;
                rights
            }
        };
        let old = control.state().number();
        let parts = (0..M::parts()).map(|part| place.data(old, part));
        let left = Left {
            folder: folder.as_ref().to_owned(),
            parts: parts.collect(),
            layouts: control.layouts(M::parts()),
        };
        let inherit = |builder, domain: &Domain, memory: &mut dyn Memory| {
            M::inherit(builder, domain, memory, &left)
        };
        let dir = place.clone();
        let map = self.build(place, &dir, control, old + 1, Some(rights), inherit)?;
        map.readers.watch();
        // Readers that have them open keep them until they move.
        for part in &left.parts {
            let _ = std::fs::remove_file(part);
        }
        Ok(map)
    }

    /// Makes new data, and makes them the present ones. `dir`: where the files are made, which are
    /// in `place` later.
    fn build(
        self,
        place: Place,
        dir: &Place,
        control: Control,
        number: u64,
        rights: Option<Rights>,
        make: impl FnOnce(M::Builder, &Domain, &mut dyn Memory) -> Result<M, Error>,
    ) -> Result<Live<M>, Error> {
        let control = Arc::new(control);
        let is_new = rights.is_none();
        let readers = Readers::new(&place, &control, self.evict_after, is_new);
        let readers = Arc::new(readers);
        let mut files = Files {
            dir,
            number,
            bytes: self.bytes.unwrap_or(usize::MAX).min(8 << 30),
            rights: rights.unwrap_or_else(|| self.read_by.unwrap_or_default().into()),
            control: &control,
            readers: &readers,
            made: Vec::new(),
        };
        let domain = self.domain.unwrap_or_else(Domain::builder);
        let domain = domain.source(Arc::clone(&readers) as Arc<_>).build();
        let map = make(self.map, &domain, &mut files).map_err(|error| match error {
            Error::Map(full) if no_space(&full) => Error::NoSpace {
                what: "making the data of",
                path: place.path().to_owned(),
            },
            error => error,
        })?;
        files.made.clear();
        drop(files);
        control.set_data(number);
        Ok(Live {
            map: Ours::new(map),
            place,
            control,
            readers,
            number,
        })
    }
}

/// A map that nobody finds yet, made by [`LiveBuilder::create_unpublished`].
///
/// The drop removes its files; the [`Live`] map beside it goes on in its memory, and nobody ever
/// finds that.
#[must_use = "nobody finds the map before it is published"]
#[derive(Debug)]
pub struct Unpublished {
    readers: Vec<Arc<Readers>>,
    making: Making,
    /// The texts of its values, whose place is within that of the map.
    texts: Option<Making>,
    folder: PathBuf,
}

impl Unpublished {
    /// Makes a store for the texts of the map's values in the directory [`LiveTexts::folder`],
    /// which is found together with the map. O(1).
    ///
    /// # Errors
    /// As [`LiveBuilder::create`]; [`Error::Exists`] for a second one.
    pub fn texts(&mut self, texts: LiveBuilder<QpStore<[u8]>>) -> Result<LiveTexts, Error> {
        let folder = LiveTexts::folder(&self.folder);
        if self.texts.is_some() {
            return Err(Error::Exists { path: folder });
        }
        let making = self.making.within(LiveTexts::FOLDER)?;
        let store = texts.make(Place::new(&folder), &making)?;
        self.readers.push(Arc::clone(&store.readers));
        self.texts = Some(making);
        LiveTexts::new(store)
    }

    /// Puts the map into its place, where readers find it. O(1).
    ///
    /// # Errors
    /// [`Error::Exists`], when another process has made the map meanwhile, or [`Error::Owned`],
    /// when it is about to; the system's error. The files are removed then, as by a drop.
    /// [`Error::Forked`] in a child of `fork`, whose copy changes nothing, also when it is dropped.
    pub fn publish(self) -> Result<(), Error> {
        let Unpublished {
            readers,
            making,
            texts,
            ..
        } = self;
        let may_be_found = |is: bool| readers.iter().for_each(|all| all.may_be_found(is));
        // From here on there may be readers.
        may_be_found(true);
        let texts = texts.map_or(Ok(()), Making::finish);
        if let Err(error) = texts.and_then(|()| making.finish()) {
            may_be_found(false);
            return Err(error);
        }
        readers.iter().for_each(|readers| readers.watch());
        Ok(())
    }
}

/// Whether the map has no memory because the device has no space.
fn no_space(error: &sapwood::Error) -> bool {
    error.arena_full().is_some_and(ArenaFull::is_no_space)
}

impl<M: LiveMap> fmt::Debug for LiveBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveBuilder")
            .field("bytes", &self.bytes)
            .field("evict_after", &self.evict_after)
            .finish_non_exhaustive()
    }
}

/// The files of new data. The drop removes those that `made` has.
struct Files<'a> {
    dir: &'a Place,
    number: u64,
    bytes: usize,
    rights: Rights,
    control: &'a Arc<Control>,
    readers: &'a Arc<Readers>,
    made: Vec<PathBuf>,
}

impl Memory for Files<'_> {
    fn arena(&mut self, part: usize, layout: u64) -> Result<Arena, Error> {
        let path = self.dir.data(self.number, part);
        let io = |what| Error::io(what, &path);
        // What a writer left that died while it made them.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io("removing")(error));
            }
            _ => (),
        }
        // The backing says that the map stays when it is dropped.
        let options = ArenaOptions::default()
            .backing(Backing::File(path.clone()))
            .header(HeaderMode::Page)
            .layout_hash(layout)
            .limit(self.bytes);
        let of = (self.number, part);
        let region = Part::create(&path, self.bytes, of, (self.control, self.readers));
        let region = region.map_err(io("making"))?;
        self.made.push(path.clone());
        let arena = Arena::with_region(Box::new(region), options);
        let arena = arena.map_err(|full| io("making")(full.into()))?;
        self.rights.give(&path)?;
        Ok(arena)
    }
}

impl Drop for Files<'_> {
    fn drop(&mut self) {
        for path in &self.made {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl<M: LiveMap> Live<M> {
    /// A builder, which sets what [`create`](Self::create) and [`open`](Self::open) leave at its
    /// default.
    pub fn builder() -> LiveBuilder<M> {
        LiveBuilder {
            domain: None,
            bytes: None,
            evict_after: None,
            read_by: None,
            map: M::builder(),
        }
    }

    /// As [`LiveBuilder::create`].
    ///
    /// # Errors
    /// As [`LiveBuilder::create`].
    pub fn create(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().create(folder)
    }

    /// As [`LiveBuilder::open`].
    ///
    /// # Errors
    /// As [`LiveBuilder::open`].
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().open(folder)
    }

    /// The map, unless this process is a child of the one that opened it. O(1).
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn ours(&self) -> Result<&M, Error> {
        self.map.get().ok_or_else(|| Error::Forked {
            path: self.place.path().to_owned(),
        })
    }

    /// The readers in all processes. The names of dead ones are removed from the directory.
    ///
    /// # Panics
    /// In a child of `fork`.
    pub fn readers(&self) -> Vec<LiveReaderInfo> {
        if !self.map.is_ours() {
            not_ours();
        }
        self.readers.all()
    }

    /// How many times processes have taken the map over.
    pub fn generation(&self) -> u64 {
        self.number - 1
    }

    /// The directory.
    pub fn folder(&self) -> &Path {
        self.place.path()
    }

    /// Deletes the map and its directory; a directory that this process may not remove, such as a
    /// mount, stays empty. Readers that have it open go on with what was written last, and
    /// [`quiescent`](crate::LiveReader::quiescent) tells them.
    ///
    /// # Errors
    /// [`Error::Forked`], and the system's error.
    pub fn remove_map(self) -> Result<(), Error> {
        self.ours()?;
        // Nobody opens it any more from here on.
        self.control.set_data(0);
        making::remove(&self.place)
    }
}

impl<M: LiveMap> Deref for Live<M> {
    type Target = M;

    #[inline]
    fn deref(&self) -> &M {
        &self.map
    }
}

impl<M: LiveMap> Drop for Live<M> {
    fn drop(&mut self) {
        if !self.map.is_ours() {
            self.control.let_go();
        }
    }
}

impl<M: LiveMap> fmt::Debug for Live<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("kind", &M::KIND.1)
            .field("folder", &self.place.path())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}
