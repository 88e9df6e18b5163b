//! Snapshots of a map, in an object store.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use sapwood::qp::{QpFile, QpSnapshot};
use serde::{Deserialize, Serialize};

use crate::log::checked_name;
use crate::{Digest, Error, Head, Kind, LogId};

/// The format of manifests that this version writes, and the latest one that it reads. Format 2 is
/// format 1, but the maps are saved in format 3, which earlier versions cannot read.
const FORMAT: u32 = 2;

/// Where the snapshots of a map are.
///
/// A snapshot is a saved map ([`QpFile`]), in an object `MAP/COMMIT-TERM-LOG.qp`. Its manifest, an
/// object of the same name with the ending `.json`, is written last. The newest snapshot of a log
/// is that of the highest commit, whichever was written last. It and the one before it are kept.
/// Those of another log, which had this name before, go when this one has two.
#[derive(Debug, Clone)]
pub struct Snapshots {
    store: Arc<dyn ObjectStore>,
    map: String,
}

/// What a manifest says about a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of the manifest.
    pub format: u32,
    /// What is in the map.
    pub kind: Kind,
    /// The log.
    #[serde(default)]
    pub log: Option<LogId>,
    /// The leader's term.
    pub epoch: u64,
    /// The number of the newest commit in the snapshot.
    pub commit: u64,
    /// The digest of the map, in hexadecimal.
    #[serde(with = "hexadecimal")]
    pub digest: Digest,
    /// Its entries.
    pub entries: u64,
    /// The name of the object.
    pub object: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its BLAKE3 hash.
    pub blake3: String,
    /// The commit of the snapshot before, below which the log may have ended; 0 without one.
    pub before: u64,
}

/// How often a manifest is looked for that is deleted meanwhile.
const TRIES: usize = 5;

/// A snapshot or a manifest, as its name tells.
struct Object {
    commit: u64,
    epoch: u64,
    log: Option<LogId>,
    is_manifest: bool,
    name: String,
}

impl Object {
    /// `None` for a name of something else.
    fn from_name(name: &str) -> Option<Object> {
        let (numbers, ending) = name.split_once('.')?;
        let (commit, epoch) = numbers.split_once('-')?;
        let (epoch, log) = match epoch.split_once('-') {
            Some((epoch, log)) => (epoch, Some(log.parse().ok()?)),
            None => (epoch, None),
        };
        Some(Object {
            commit: u64::from_str_radix(commit, 16).ok()?,
            epoch: u64::from_str_radix(epoch, 16).ok()?,
            log,
            is_manifest: match ending {
                "json" => true,
                "qp" => false,
                _ => return None,
            },
            name: name.into(),
        })
    }
}

impl Snapshots {
    /// The snapshots of a map in an object store.
    ///
    /// # Errors
    /// [`Error::Change`] for a name that cannot be one.
    pub fn new(store: Arc<dyn ObjectStore>, map: &str) -> Result<Self, Error> {
        checked_name(map)?;
        Ok(Snapshots {
            store,
            map: map.into(),
        })
    }

    /// The snapshots of a map below a directory, which is made if it is missing.
    ///
    /// # Errors
    /// [`Error::Change`] for a name that cannot be one, [`Error::Io`].
    pub fn in_folder(folder: impl AsRef<Path>, map: &str) -> Result<Self, Error> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let store = LocalFileSystem::new_with_prefix(folder)
            .map_err(|error| failed(&folder.display().to_string(), error))?;
        Self::new(Arc::new(store), map)
    }

    fn path(&self, name: &str) -> ObjectPath {
        ObjectPath::from_iter([self.map.as_str(), name])
    }

    fn place(&self, name: &str) -> String {
        format!("{}/{}", self.store, self.path(name))
    }

    /// The manifest of a log's newest snapshot; `None` when there is none yet.
    ///
    /// # Errors
    /// [`Error::Newer`], [`Error::Damaged`], and those of the object store.
    pub async fn newest(&self, log: Option<LogId>) -> Result<Option<Manifest>, Error> {
        self.newest_where(|object| object.log == log).await
    }

    /// The manifest of the newest snapshot that another log of this name has left.
    ///
    /// # Errors
    /// As [`newest`](Self::newest).
    pub async fn newest_of_others(&self, log: Option<LogId>) -> Result<Option<Manifest>, Error> {
        self.newest_where(|object| object.log != log).await
    }

    async fn newest_where(
        &self,
        is_wanted: impl Fn(&Object) -> bool,
    ) -> Result<Option<Manifest>, Error> {
        // A manifest that is listed can be deleted before it is read, when two newer ones came.
        for _ in 0..TRIES {
            let all = self.objects().await?;
            let mut manifests: Vec<_> = all.into_iter().filter(|it| it.is_manifest).collect();
            manifests.retain(&is_wanted);
            let newest = manifests
                .into_iter()
                .max_by_key(|object| (object.commit, object.epoch));
            let Some(newest) = newest else {
                return Ok(None);
            };
            if let Some(manifest) = self.manifest(&newest.name).await? {
                return Ok(Some(manifest));
            }
        }
        Err(Error::Unavailable {
            place: self.place(""),
            what: "each manifest is deleted before it can be read".into(),
        })
    }

    /// The manifest of a name; `None` when it is not there.
    async fn manifest(&self, name: &str) -> Result<Option<Manifest>, Error> {
        let place = self.place(name);
        let got = match self.store.get(&self.path(name)).await {
            Ok(got) => got.bytes().await,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(&place, error)),
        };
        let bytes = got.map_err(|error| failed(&place, error))?;
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let damaged = |error: serde_json::Error| Error::damaged(&place, error.to_string());
        let Format { format } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if format > FORMAT {
            return Err(Error::Newer {
                place,
                found: format,
                known: FORMAT,
            });
        }
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// Writes a snapshot of a log's commit, then its manifest; deletes those that are older than
    /// the one before.
    ///
    /// A leader that was deposed meanwhile does no harm: its snapshot is one of an earlier commit,
    /// which is not the newest, and it deletes none that is newer than what it had found.
    ///
    /// # Errors
    /// [`Error::NoSpace`] and those of the object store. The former snapshot stays the newest one.
    pub async fn save(
        &self,
        kind: Kind,
        head: Head,
        digest: Digest,
        snapshot: QpSnapshot<[u8]>,
    ) -> Result<Manifest, Error> {
        let Head {
            log, epoch, commit, ..
        } = head;
        let before = match self.newest(log).await? {
            // Nothing was published since: the log has ended where it had.
            Some(newest) if newest.commit >= commit => newest.before,
            newest => newest.map_or(0, |newest| newest.commit),
        };
        let mut name = format!("{commit:016x}-{epoch:x}");
        if let Some(log) = log {
            name = format!("{name}-{log}");
        }
        let object = format!("{name}.qp");
        let entries = snapshot.len() as u64;
        let saved = tokio::task::spawn_blocking(move || saved(&snapshot));
        let bytes = saved.await.map_err(|_| Error::Closed(self.map.clone()))??;
        let manifest = Manifest {
            format: FORMAT,
            kind,
            log,
            epoch,
            commit,
            digest,
            entries,
            bytes: bytes.len() as u64,
            blake3: blake3::hash(&bytes).to_hex().to_string(),
            before,
            object,
        };
        let put = |name: &str, bytes: Vec<u8>| {
            let (path, place) = (self.path(name), self.place(name));
            async move {
                let put = self.store.put(&path, bytes.into()).await;
                put.map(drop).map_err(|error| failed(&place, error))
            }
        };
        put(&manifest.object, bytes).await?;
        let text = serde_json::to_vec_pretty(&manifest).expect("plain data");
        put(&format!("{name}.json"), text).await?;
        self.delete_before(log, before).await?;
        Ok(manifest)
    }

    /// Deletes a log's snapshots of commits before this one, manifests first; and those of other
    /// logs, when this commit has one.
    async fn delete_before(&self, log: Option<LogId>, commit: u64) -> Result<(), Error> {
        let mut old = self.objects().await?;
        old.retain(|object| match object.log == log {
            true => object.commit < commit,
            false => commit > 0,
        });
        old.sort_by_key(|object| !object.is_manifest);
        for Object { name, .. } in old {
            match self.store.delete(&self.path(&name)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(failed(&self.place(&name), error)),
            }
        }
        Ok(())
    }

    /// The snapshots and the manifests that are there.
    async fn objects(&self) -> Result<Vec<Object>, Error> {
        let folder = ObjectPath::from(self.map.as_str());
        let list = self.store.list(Some(&folder)).try_collect().await;
        let list: Vec<_> = list.map_err(|error| failed(&self.place(""), error))?;
        let names = list.iter().filter_map(|found| found.location.filename());
        Ok(names.filter_map(Object::from_name).collect())
    }

    /// Fetches and opens a snapshot.
    ///
    /// # Errors
    /// [`Error::Damaged`] when it is not what the manifest says, and those of the object store;
    /// [`Error::Gap`] when it has been deleted, because two newer ones came.
    pub async fn open(&self, manifest: &Manifest) -> Result<QpFile<[u8]>, Error> {
        let place = self.place(&manifest.object);
        let mut file = tempfile::NamedTempFile::new().map_err(Error::io(std::env::temp_dir()))?;
        let got = match self.store.get(&self.path(&manifest.object)).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => {
                return Err(Error::Gap {
                    map: self.map.clone(),
                    wanted: manifest.commit,
                });
            }
            Err(error) => return Err(failed(&place, error)),
        };
        let mut parts = got.into_stream();
        let mut hasher = blake3::Hasher::new();
        while let Some(part) = parts
            .try_next()
            .await
            .map_err(|error| failed(&place, error))?
        {
            hasher.update(&part);
            file.write_all(&part).map_err(Error::io(file.path()))?;
        }
        if hasher.finalize().to_hex().as_str() != manifest.blake3 {
            return Err(Error::damaged(place, "its hash is not the manifest's"));
        }
        let open = move || QpFile::open(file.path());
        let opened = tokio::task::spawn_blocking(open).await;
        let opened = opened.map_err(|_| Error::Closed(self.map.clone()))?;
        opened.map_err(|error| Error::damaged(place, error.to_string()))
    }
}

/// The bytes of a saved snapshot.
fn saved(snapshot: &QpSnapshot<[u8]>) -> Result<Vec<u8>, Error> {
    let folder = tempfile::tempdir().map_err(Error::io(std::env::temp_dir()))?;
    let path = folder.path().join("snapshot.qp");
    snapshot.save(&path).map_err(|error| Error::Io {
        path: path.clone(),
        source: std::io::Error::other(error),
    })?;
    let mut bytes = Vec::new();
    let mut file = std::fs::File::open(&path).map_err(Error::io(&path))?;
    file.read_to_end(&mut bytes).map_err(Error::io(&path))?;
    Ok(bytes)
}

/// What an object store's error means.
fn failed(place: &str, error: object_store::Error) -> Error {
    let what = error.to_string();
    let place = place.to_owned();
    match error {
        object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => Error::Denied { place, what },
        // The local directory hides the system's error in a text.
        _ if what.contains("No space left") => Error::NoSpace { place, what },
        _ => Error::Unavailable { place, what },
    }
}

mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Digest;

    pub fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(digest)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(from)?;
        let number = u128::from_str_radix(&text, 16).map_err(serde::de::Error::custom)?;
        Ok(Digest(number))
    }
}
