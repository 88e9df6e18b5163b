//! The writer of a live map.

use std::fmt;
use std::fs::Permissions;
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sapwood_arena::{Arena, ArenaOptions, Backing, HeaderMode};
use sapwood_qsbr::{Domain, DomainBuilder};

use crate::error::Error;
use crate::place::{Control, Place};
use crate::raw::maps::{Left, LiveMap, Memory};
use crate::raw::process::{Ours, not_ours};
use crate::slots::{LiveReaderInfo, Readers};

/// A map that processes on this machine share: this process writes it, with all methods of the
/// structure `M`, and others read it ([`LiveReader`](crate::LiveReader)).
///
/// When the process ends, or the value is dropped, readers go on with what was written last, and
/// another process may [`open`](Self::open) the map. [`remove_map`](Self::remove_map) deletes it.
///
/// A child of `fork` can neither read nor write it by this value, which is its parent's: each use
/// panics, or is [`Error::Forked`]; [`ours`](Self::ours) never panics. The drop of the child's copy
/// changes nothing, and lets go of the writer's lock, which the child holds otherwise until it ends
/// or calls `exec`. Clones of the map, its transactions and its snapshots are not checked: a child
/// must not use those.
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
    /// two. Default, and most: 8 GiB.
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

    /// Sets the choices that only this structure has, such as an index.
    pub fn map(mut self, set: impl FnOnce(M::Builder) -> M::Builder) -> Self {
        self.map = set(self.map);
        self
    }

    /// Makes an empty map in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Owned`], and the system's error.
    pub fn create(self, folder: impl AsRef<Path>) -> Result<Live<M>, Error> {
        let place = Place::new(folder.as_ref());
        for folder in [place.path().to_owned(), place.readers()] {
            let mut make = std::fs::DirBuilder::new();
            make.recursive(true).mode(0o755);
            make.create(&folder).map_err(Error::io("making", &folder))?;
        }
        let control = Control::write(&place, M::KIND, &M::layouts(), true)?;
        self.build(place, control, 1, M::create)
    }

    /// Takes over the map of a writer that has ended. It checks every node of what the writer left,
    /// copies it into new data, and points readers there. O(bytes of the map).
    ///
    /// A change that had returned is there. One that the writer's death interrupted is there as a
    /// whole, or not at all. A transaction of a table of routes is published root word by root
    /// word, so a part of it may be there.
    ///
    /// # Errors
    /// [`Error::NoMap`], [`Error::Owned`], [`Error::Kind`], [`Error::Layout`]; [`Error::Damaged`]:
    /// then the map stays as it is, for readers, too. And the system's error.
    pub fn open(self, folder: impl AsRef<Path>) -> Result<Live<M>, Error> {
        let place = Place::new(folder.as_ref());
        let control = Control::write(&place, M::KIND, &M::layouts(), false)?;
        let old = control.data();
        if old == 0 {
            // The writer died before there was a map.
            return self.build(place, control, 1, M::create);
        }
        let parts = (0..M::parts()).map(|part| place.data(old, part));
        let left = Left {
            folder: folder.as_ref().to_owned(),
            parts: parts.collect(),
        };
        let inherit = |builder, domain: &Domain, memory: &mut dyn Memory| {
            M::inherit(builder, domain, memory, &left)
        };
        let map = self.build(place, control, old + 1, inherit)?;
        // Readers that have them open keep them until they move.
        for part in &left.parts {
            let _ = std::fs::remove_file(part);
        }
        Ok(map)
    }

    /// Makes new data, and makes them the present ones.
    fn build(
        self,
        place: Place,
        control: Control,
        number: u64,
        make: impl FnOnce(M::Builder, &Domain, &mut dyn Memory) -> Result<M, Error>,
    ) -> Result<Live<M>, Error> {
        let control = Arc::new(control);
        let readers = Arc::new(Readers::new(&place, &control, self.evict_after));
        let mut files = Files {
            place: &place,
            number,
            bytes: self.bytes.unwrap_or(usize::MAX).min(8 << 30),
        };
        let domain = self.domain.unwrap_or_else(Domain::builder);
        let domain = domain.source(Arc::clone(&readers) as Arc<_>).build();
        let map = make(self.map, &domain, &mut files)?;
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

impl<M: LiveMap> fmt::Debug for LiveBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveBuilder")
            .field("bytes", &self.bytes)
            .field("evict_after", &self.evict_after)
            .finish_non_exhaustive()
    }
}

/// The files of new data.
struct Files<'a> {
    place: &'a Place,
    number: u64,
    bytes: usize,
}

impl Memory for Files<'_> {
    fn arena(&mut self, part: usize, layout: u64) -> Result<Arena, Error> {
        let path = self.place.data(self.number, part);
        // What a writer left that died while it made them.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("removing", &path)(error));
            }
            _ => (),
        }
        let options = ArenaOptions::default()
            .backing(Backing::File(path.clone()))
            .header(HeaderMode::Page)
            .layout_hash(layout)
            .limit(self.bytes);
        let arena = Arena::create(options).map_err(Error::io("making", &path))?;
        let only_ours = Permissions::from_mode(0o644);
        std::fs::set_permissions(&path, only_ours).map_err(Error::io("making", &path))?;
        Ok(arena)
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

    /// The readers in all processes. The names of dead ones are removed from the folder.
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

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.place.path()
    }

    /// Deletes the map. Readers that have it open go on with what was written last.
    ///
    /// # Errors
    /// [`Error::Forked`], and the system's error.
    pub fn remove_map(self) -> Result<(), Error> {
        self.ours()?;
        let folder = self.place.path().to_owned();
        // Nobody opens it any more from here on.
        self.control.set_data(0);
        std::fs::remove_dir_all(&folder).map_err(Error::io("removing", &folder))
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
