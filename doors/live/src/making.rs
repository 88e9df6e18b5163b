//! How a live map comes to be, and how it goes: whole, or not at all.
//!
//! A map is made in a directory beside its own, which is renamed when the map is whole. Where the
//! directory is there already, the files are made in it, and `control` comes last, by a rename. Its
//! maker holds the lock of the directory meanwhile, so that the next one can tell what a crash has
//! left, and removes that.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::control::Control;
use crate::error::Error;
use crate::place::{Place, identity, random, try_lock, try_lock_for_a_while};
use crate::raw::process::Process;

/// Who may read a live map, and be known to its writer as a reader.
///
/// Everybody whom the modes of the map's files let read them may read it with
/// [`CheckedLiveReader::open_unregistered`](crate::CheckedLiveReader::open_unregistered). A reader
/// that the writer waits for makes a file in the directory `readers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadBy {
    /// The writer's user, and root: `readers` has the mode 755, all other files 644.
    #[default]
    Owner,
    /// The members of the group with this number as well, and nobody else: the directory has the
    /// mode 750, its files 640, `readers` 1770, and all belong to the group.
    Group(u32),
    /// Every user: `readers` has the mode 1777, so that each removes only files of its own.
    Everybody,
}

/// The modes and the group of a map's files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    folder: u32,
    file: u32,
    readers: u32,
    group: Option<u32>,
}

impl From<ReadBy> for Rights {
    fn from(who: ReadBy) -> Rights {
        let (folder, file, readers, group) = match who {
            ReadBy::Owner => (0o755, 0o644, 0o755, None),
            ReadBy::Group(group) => (0o750, 0o640, 0o1770, Some(group)),
            ReadBy::Everybody => (0o755, 0o644, 0o1777, None),
        };
        Rights {
            folder,
            file,
            readers,
            group,
        }
    }
}

impl Rights {
    /// Those that the files of a map have.
    pub(crate) fn of(control: &Metadata) -> Rights {
        Rights {
            file: control.mode() & 0o644,
            // Where everybody may read, the group does not matter.
            group: (control.mode() & 0o004 == 0).then(|| control.gid()),
            ..ReadBy::Owner.into()
        }
    }

    /// Gives a file of the map its mode and its group.
    pub(crate) fn give(&self, path: &Path) -> Result<(), Error> {
        self.set(path, self.file)
    }

    /// Gives the directories of a map that is there, and its page, their modes and their group.
    pub(crate) fn give_all(&self, place: &Place) -> Result<(), Error> {
        self.set(&place.control(), self.file)?;
        self.set(&place.readers(), self.readers)?;
        self.set(place.path(), self.folder)
    }

    fn set(&self, path: &Path, mode: u32) -> Result<(), Error> {
        let meta = std::fs::metadata(path).map_err(Error::io("looking at", path))?;
        if self.group.is_some_and(|group| group != meta.gid()) {
            std::os::unix::fs::chown(path, None, self.group)
                .map_err(Error::io("giving to its group", path))?;
        }
        std::fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(Error::io("setting the mode of", path))
    }
}

/// A map that is being made. The drop removes what is there of it, unless it is finished.
#[derive(Debug)]
pub(crate) struct Making {
    /// Where it is made.
    pub(crate) dir: Place,
    /// Where it is to be.
    at: Place,
    rights: Rights,
    /// Its lock says that this process makes the map.
    _lock: File,
    is_beside: bool,
    /// The directories above that were made for it, the outermost first.
    above: Vec<PathBuf>,
    /// Whether the directory of readers was made for it.
    made_readers: bool,
    is_finished: bool,
    /// A child of `fork` has a copy, which must change nothing.
    of: Process,
}

impl Making {
    /// Begins a map in a directory that may be there, but has no map. Removes what is left of maps
    /// whose makers have died.
    pub(crate) fn begin(at: &Place, rights: Rights) -> Result<Making, Error> {
        loop {
            let path = at.path();
            let begun = match std::fs::metadata(path) {
                Ok(_) => Making::inside(at, rights)?,
                Err(error) if error.kind() == ErrorKind::NotFound => Making::beside(at, rights)?,
                Err(error) => return Err(Error::io("looking at", path)(error)),
            };
            let Some(mut making) = begun else { continue };
            making.make_readers()?;
            return Ok(making);
        }
    }

    /// None when the directory has gone meanwhile.
    fn inside(at: &Place, rights: Rights) -> Result<Option<Making>, Error> {
        let path = at.path();
        let lock = match open_folder(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::io("opening", path))?,
        };
        if !try_lock_for_a_while(&lock).map_err(Error::io("locking", path))? {
            let path = path.to_owned();
            return Err(Error::Owned { path });
        }
        if !is_at(&lock, path) {
            return Ok(None);
        }
        Control::make_way(at)?;
        remove_parts(path).map_err(Error::io("removing what a crash has left in", path))?;
        Ok(Some(Making {
            dir: at.clone(),
            at: at.clone(),
            rights,
            _lock: lock,
            is_beside: false,
            above: Vec::new(),
            made_readers: false,
            is_finished: false,
            of: Process::current(),
        }))
    }

    /// None when another process was in the way.
    fn beside(at: &Place, rights: Rights) -> Result<Option<Making>, Error> {
        let (parent, start) = beside_of(at.path());
        let mut above: Vec<PathBuf> = Vec::new();
        let missing = parent.ancestors().take_while(|folder| {
            !folder.as_os_str().is_empty() && std::fs::symlink_metadata(folder).is_err()
        });
        above.extend(missing.map(Path::to_owned));
        above.reverse();
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&parent);
        if let Err(error) = made {
            remove_empty(&above);
            return Err(Error::io("making", &parent)(error));
        }
        remove_dead(&parent, &start);
        let mut name = start;
        name.push(format!("{:016x}", random()));
        let dir = parent.join(name);
        let made = DirBuilder::new().mode(0o700).create(&dir);
        let lock = made.and_then(|()| open_folder(&dir));
        let lock = lock.and_then(|lock| Ok((try_lock(&lock)?, lock)));
        match lock {
            Ok((true, lock)) if is_at(&lock, &dir) => Ok(Some(Making {
                dir: Place::new(&dir),
                at: at.clone(),
                rights,
                _lock: lock,
                is_beside: true,
                above,
                made_readers: true,
                is_finished: false,
                of: Process::current(),
            })),
            // Another maker took the directory for that of a dead one, in the moment before the
            // lock.
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let _ = std::fs::remove_dir(&dir);
                remove_empty(&above);
                Err(Error::io("making", &dir)(error))
            }
        }
    }

    fn make_readers(&mut self) -> Result<(), Error> {
        let readers = self.dir.readers();
        match DirBuilder::new().mode(0o700).create(&readers) {
            Ok(()) => {
                self.made_readers = true;
                self.rights.set(&readers, self.rights.readers)
            }
            // Somebody has made it, with the modes that it is to have.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                match self.rights.readers == Rights::from(ReadBy::Owner).readers {
                    true => Ok(()),
                    false => self.rights.set(&readers, self.rights.readers),
                }
            }
            Err(error) => Err(Error::io("making", &readers)(error)),
        }
    }

    /// A map inside this one, which is there as soon as this one is.
    pub(crate) fn within(&self, name: &str) -> Result<Making, Error> {
        Making::begin(&Place::new(&self.dir.path().join(name)), self.rights)
    }

    /// Where `control` is made.
    pub(crate) fn control(&self) -> PathBuf {
        self.dir.path().join(NEW_CONTROL)
    }

    /// Puts the map into its place.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        if !self.of.is_current() {
            let path = self.at.path().to_owned();
            return Err(Error::Forked { path });
        }
        let (made, last) = (self.control(), self.dir.control());
        self.rights.give(&made)?;
        std::fs::rename(&made, &last).map_err(Error::io("making", &last))?;
        if self.is_beside {
            self.rights.set(self.dir.path(), self.rights.folder)?;
            let (from, to) = (self.dir.path(), self.at.path());
            match rename_new(from, to) {
                Err(error) if is_taken(&error) && to.is_dir() => {
                    let path = to.to_owned();
                    // Another maker was quicker, or makes the map in the directory now.
                    return Err(match self.at.control().exists() {
                        true => Error::Exists { path },
                        false => Error::Owned { path },
                    });
                }
                other => other.map_err(Error::io("making", to))?,
            }
        }
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if self.is_finished || !self.of.is_current() {
            return;
        }
        let dir = self.dir.path();
        if self.is_beside {
            let _ = std::fs::remove_dir_all(dir);
        } else {
            let _ = std::fs::remove_file(self.dir.control());
            let _ = remove_parts(dir);
            if self.made_readers {
                let _ = std::fs::remove_dir_all(self.dir.readers());
            }
        }
        remove_empty(&self.above);
    }
}

/// The name of `control` until the map is whole.
const NEW_CONTROL: &str = ".control";

/// Deletes a map's directory, so that nobody finds a part of it.
pub(crate) fn remove(at: &Place) -> Result<(), Error> {
    let path = at.path();
    let (parent, mut name) = beside_of(path);
    name.push(format!("{:016x}", random()));
    let dir = parent.join(name);
    if rename_new(path, &dir).is_ok() {
        return std::fs::remove_dir_all(&dir).map_err(Error::io("removing", &dir));
    }
    // The directory cannot be moved: it is a mount, perhaps, or that above it belongs to others.
    let control = at.control();
    std::fs::remove_file(&control).map_err(Error::io("removing", &control))?;
    match std::fs::remove_dir_all(path) {
        // Such a directory stays, without a map.
        Err(_) if std::fs::read_dir(path).is_ok_and(|mut left| left.next().is_none()) => Ok(()),
        other => other.map_err(Error::io("removing", path)),
    }
}

/// The directory above a map's, and how the names begin there of what is made or removed beside it.
fn beside_of(path: &Path) -> (PathBuf, OsString) {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut start = OsString::from(".");
    start.push(path.file_name().unwrap_or_default());
    start.push(".sapwood-");
    (parent, start)
}

fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

/// Whether an open directory is the one that is at this path.
fn is_at(folder: &File, path: &Path) -> bool {
    let found = (folder.metadata(), std::fs::metadata(path));
    matches!(found, (Ok(a), Ok(b)) if identity(&a) == identity(&b))
}

/// Renames a directory to a name that nothing has.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Such a rename can at most replace an empty directory.
        Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(from, to),
        other => Ok(other?),
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory
    )
}

/// Removes directories, the innermost first, unless others use them.
fn remove_empty(folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        let _ = std::fs::remove_dir(folder);
    }
}

/// Removes the directories of this user whose names begin so, and whose makers are dead.
fn remove_dead(parent: &Path, start: &OsString) {
    let user = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_so = name
            .as_encoded_bytes()
            .starts_with(start.as_encoded_bytes());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_so || !is_folder {
            continue;
        }
        let path = entry.path();
        let Ok(folder) = open_folder(&path) else {
            continue;
        };
        let is_ours = folder.metadata().is_ok_and(|meta| meta.uid() == user);
        if is_ours && try_lock(&folder).unwrap_or(false) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Removes the parts of a map that has no `control`, and its texts.
fn remove_parts(folder: &Path) -> io::Result<()> {
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    };
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(b"data-") || name == NEW_CONTROL.as_bytes() {
            gone(std::fs::remove_file(entry.path()))?;
        } else if name == b"texts" && Place::new(&entry.path()).is_left() {
            // The directory of readers stays, as that of the map does: somebody may have made it,
            // with the mode that it is to have.
            let texts = Place::new(&entry.path());
            gone(std::fs::remove_file(texts.control()))?;
            remove_parts(texts.path())?;
            let _ = std::fs::remove_dir(texts.path());
        }
    }
    Ok(())
}
