//! The writer of a live map.

use std::fmt;
use std::fs::Permissions;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use sapwood::qp::{QpFile, QpStore, Value};
use sapwood_arena::{Arena, ArenaOptions, Backing, HeaderMode};
use sapwood_qsbr::{Domain, DomainBuilder};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::Error;
use crate::place::{Control, Place};
use crate::slots::{LiveReaderInfo, Readers};

/// A store that processes on this machine share: this process writes it, with all methods of
/// [`QpStore`], and others read it ([`LiveReader`](crate::LiveReader)).
///
/// When the process ends, or the value is dropped, readers go on with the last commit, and another
/// process may [`open`](Self::open) the map. [`remove`](Self::remove) deletes it.
pub struct LiveStore<V: ?Sized + Value + Send + Sync + 'static> {
    store: QpStore<V>,
    place: Place,
    /// The page has the lock of the writer.
    control: Arc<Control>,
    readers: Arc<Readers>,
    number: u64,
}

/// Builds a [`LiveStore`].
///
/// ```
/// use sapwood_live::LiveStore;
/// # let folder = std::env::temp_dir().join(format!("sapwood-live-build-{}", std::process::id()));
/// let domain = sapwood_qsbr::Domain::builder().hard_limit(64 << 20);
/// let store = LiveStore::<u64>::builder().domain(domain).bytes(1 << 30).create(&folder)?;
/// # store.remove()?;
/// # Ok::<(), sapwood_live::Error>(())
/// ```
#[derive(Debug)]
pub struct LiveStoreBuilder<V: ?Sized> {
    domain: Option<DomainBuilder>,
    bytes: Option<usize>,
    values: PhantomData<fn() -> V>,
}

impl<V: ?Sized + Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static>
    LiveStoreBuilder<V>
{
    /// The domain's settings, for example its limits of garbage. The builder adds the readers of
    /// other processes as a source of grace periods. Default: those of [`Domain::builder`].
    pub fn domain(mut self, domain: DomainBuilder) -> Self {
        self.domain = Some(domain);
        self
    }

    /// The most bytes of the map's memory. Default, and most: 8 GiB.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Makes an empty map in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Owned`], and the system's error.
    pub fn create(self, folder: impl AsRef<Path>) -> Result<LiveStore<V>, Error> {
        let place = Place::new(folder.as_ref());
        for folder in [place.path().to_owned(), place.readers()] {
            let mut make = std::fs::DirBuilder::new();
            make.recursive(true).mode(0o755);
            make.create(&folder).map_err(Error::io("making", &folder))?;
        }
        let control = Control::write(&place, QpStore::<V>::layout_hash(), true)?;
        self.build(place, control, 1, |builder, arena| {
            Ok(builder.build_in(arena)?)
        })
    }

    /// Takes over the map of a writer that has ended. It checks every node of the last commit,
    /// copies it into new data, and points readers there. O(bytes of the map).
    ///
    /// A commit that had returned is there. One that the writer's death interrupted is there as a
    /// whole, or not at all.
    ///
    /// # Errors
    /// [`Error::NoMap`], [`Error::Owned`], [`Error::Layout`]; [`Error::Damaged`]: then the map
    /// stays as it is, for readers, too. And the system's error.
    pub fn open(self, folder: impl AsRef<Path>) -> Result<LiveStore<V>, Error> {
        let place = Place::new(folder.as_ref());
        let control = Control::write(&place, QpStore::<V>::layout_hash(), false)?;
        let old = control.data();
        if old == 0 {
            // The writer died before there was a map.
            return self.build(place, control, 1, |builder, arena| {
                Ok(builder.build_in(arena)?)
            });
        }
        let path = place.data(old);
        let damaged = |why: String| Error::Damaged {
            path: folder.as_ref().to_owned(),
            why,
        };
        let file = QpFile::<V>::open_published(&path).map_err(|e| damaged(e.to_string()))?;
        let restore = |builder: sapwood::Builder<QpStore<V>>, arena| {
            builder
                .restore_in(arena, &file)
                .map_err(|error| damaged(error.to_string()))
        };
        let store = self.build(place, control, old + 1, restore)?;
        // Readers that have it open keep it until they move.
        let _ = std::fs::remove_file(path);
        Ok(store)
    }

    /// Makes new data, and makes them the present ones.
    fn build(
        self,
        place: Place,
        control: Control,
        number: u64,
        make: impl FnOnce(sapwood::Builder<QpStore<V>>, Arena) -> Result<QpStore<V>, Error>,
    ) -> Result<LiveStore<V>, Error> {
        let control = Arc::new(control);
        let readers = Arc::new(Readers::new(&place, &control));
        let path = place.data(number);
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
            .layout_hash(QpStore::<V>::layout_hash())
            .limit(self.bytes.unwrap_or(usize::MAX).min(8 << 30));
        let arena = Arena::create(options).map_err(Error::io("making", &path))?;
        let only_ours = Permissions::from_mode(0o644);
        std::fs::set_permissions(&path, only_ours).map_err(Error::io("making", &path))?;
        let domain = self.domain.unwrap_or_else(Domain::builder);
        let domain = domain.source(Arc::clone(&readers) as Arc<_>).build();
        let store = make(QpStore::builder().domain(&domain), arena)?;
        control.set_data(number);
        Ok(LiveStore {
            store,
            place,
            control,
            readers,
            number,
        })
    }
}

impl<V: ?Sized + Value + FromBytes + IntoBytes + Immutable + Send + Sync + 'static> LiveStore<V> {
    /// A builder, which sets what [`create`](Self::create) and [`open`](Self::open) leave at its
    /// default.
    pub fn builder() -> LiveStoreBuilder<V> {
        LiveStoreBuilder {
            domain: None,
            bytes: None,
            values: PhantomData,
        }
    }

    /// As [`LiveStoreBuilder::create`].
    ///
    /// # Errors
    /// As [`LiveStoreBuilder::create`].
    pub fn create(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().create(folder)
    }

    /// As [`LiveStoreBuilder::open`].
    ///
    /// # Errors
    /// As [`LiveStoreBuilder::open`].
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().open(folder)
    }

    /// The readers in all processes. The names of dead ones are removed from the folder.
    pub fn readers(&self) -> Vec<LiveReaderInfo> {
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

    /// Deletes the map. Readers that have it open go on with the last commit.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(self) -> Result<(), Error> {
        let folder = self.place.path().to_owned();
        // Nobody opens it any more from here on.
        self.control.set_data(0);
        std::fs::remove_dir_all(&folder).map_err(Error::io("removing", &folder))
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> Deref for LiveStore<V> {
    type Target = QpStore<V>;

    fn deref(&self) -> &QpStore<V> {
        &self.store
    }
}

impl<V: ?Sized + Value + Send + Sync + 'static> fmt::Debug for LiveStore<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveStore")
            .field("folder", &self.place.path())
            .field("version", &self.store.version())
            .finish_non_exhaustive()
    }
}
