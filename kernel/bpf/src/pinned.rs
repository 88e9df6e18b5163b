//! An arena, its programs and their links, pinned in one directory so that they outlive their
//! owner.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, MapCore, Program};

use crate::arena::BpfArena;
use crate::error::Error;
use crate::loader::{ARENA_MAP, Programs};
use crate::support;

/// The type of a BPF file system, as `statfs` returns it.
const BPFFS: u64 = 0xcafe_4a11;

const PROGRAM: &str = "prog-";
const MAP: &str = "map-";

/// A directory of a BPF file system in which an arena, its programs and their links are pinned, as
/// `arena`, `prog-NAME`, `map-NAME` and `link-NAME`. They go on working when the process that made
/// them ends.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Loader, UserMap, Pinned};
/// // The first time.
/// let pinned = Pinned::create("/sys/fs/bpf/names")?;
/// let arena = BpfArena::create(256 << 20)?;
/// let programs = Loader::open_file(&arena, "xdp-names.bpf.o")?.load()?;
/// pinned.pin_arena(&arena)?;
/// pinned.pin_programs(&programs)?;
/// # drop((arena, programs));
/// // Another process, later.
/// let arena = Pinned::open("/sys/fs/bpf/names")?.arena()?;
/// let names = UserMap::<u64>::builder(&arena, "blocked").take_over()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pinned {
    folder: PathBuf,
}

/// The kind of a pinned object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PinKind {
    /// A link, which attaches a program. The program is detached when the last reference to the
    /// link goes.
    Link,
    /// A program.
    Program,
    /// A map of the kernel.
    Map,
    /// The arena.
    Arena,
}

impl fmt::Display for PinKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PinKind::Link => "link",
            PinKind::Program => "program",
            PinKind::Map => "map",
            PinKind::Arena => "arena",
        })
    }
}

/// A program that was pinned.
#[derive(Debug)]
pub struct PinnedProgram {
    fd: OwnedFd,
}

/// Whether a path is on a BPF file system: [`Error::NoBpffs`] if it is not.
pub(crate) fn is_bpffs(path: &Path) -> Result<(), Error> {
    let doing = || format!("looking at {}", path.display());
    match rustix::fs::statfs(path) {
        Ok(system) if system.f_type as u64 == BPFFS => Ok(()),
        Ok(_) => Err(Error::NoBpffs(path.to_owned())),
        Err(error) => Err(Error::io(doing(), error.into())),
    }
}

impl Pinned {
    /// The name of the arena's pin.
    pub const ARENA: &str = "arena";
    /// What the names of links' pins begin with.
    pub const LINK: &str = "link-";

    /// Makes a directory for pins, unless there is one. Its parent must exist in a BPF file system.
    ///
    /// # Errors
    /// [`Error::NoBpffs`], and the system's error, for example when the parent is missing or the
    /// directory holds pins already.
    pub fn create(folder: impl Into<PathBuf>) -> Result<Pinned, Error> {
        support::check()?;
        let folder = folder.into();
        if let Some(above) = folder.parent() {
            is_bpffs(above)?;
        }
        let doing = || format!("making the directory {}", folder.display());
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::io(doing(), error));
            }
            _ => {}
        }
        let pinned = Pinned { folder };
        match pinned.names()?.is_empty() {
            true => Ok(pinned),
            false => Err(Error::io(
                format!("pinning in {}", pinned.folder.display()),
                std::io::Error::new(std::io::ErrorKind::AlreadyExists, "it holds pins already"),
            )),
        }
    }

    /// Opens a directory that holds pins.
    ///
    /// # Errors
    /// [`Error::NoBpffs`], and the system's error.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Pinned, Error> {
        support::check()?;
        let folder = folder.into();
        is_bpffs(&folder)?;
        Ok(Pinned { folder })
    }

    /// A directory that the caller knows to hold pins. Nothing is checked.
    pub fn at(folder: PathBuf) -> Pinned {
        Pinned { folder }
    }

    /// The path of the directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names of all pins in the directory, in alphabetic order: `arena`, `link-…`, `prog-…`,
    /// and any others.
    ///
    /// # Errors
    /// The system's error.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let doing = || format!("reading {}", self.folder.display());
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(|error| Error::io(doing(), error))? {
            let entry = entry.map_err(|error| Error::io(doing(), error))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Pins the arena.
    ///
    /// # Errors
    /// The system's error, for example when an arena is pinned here already.
    pub fn pin_arena(&self, arena: &BpfArena) -> Result<(), Error> {
        self.pin(Pinned::ARENA, arena.fd())
    }

    /// Pins a map, program or link under this file name.
    ///
    /// # Errors
    /// The system's error, for example when the name is taken.
    pub fn pin(&self, name: &str, fd: BorrowedFd<'_>) -> Result<(), Error> {
        support::pin(fd, &self.folder.join(name))
    }

    /// The arena.
    ///
    /// # Errors
    /// As [`BpfArena::open`].
    pub fn arena(&self) -> Result<BpfArena, Error> {
        BpfArena::open(self.folder.join(Pinned::ARENA))
    }

    /// Pins all loaded programs of an object under their names.
    ///
    /// # Errors
    /// The system's error, for example when a program of this name is pinned here already. The
    /// programs before it stay pinned.
    pub fn pin_programs(&self, programs: &Programs) -> Result<(), Error> {
        for program in programs.object().progs() {
            let name = program.name().to_string_lossy().into_owned();
            if program.autoload() {
                self.pin(&format!("{PROGRAM}{name}"), program.as_fd())?;
            }
        }
        Ok(())
    }

    /// Pins the arena, all loaded programs of an object, and the maps that it declares: all of
    /// them, or none. Programs are `prog-NAME` and maps `map-NAME`. An arena that is pinned here
    /// already stays as it is. Sections of variables are not pinned: a BPF file system refuses
    /// their names.
    ///
    /// Returns the names and the kinds of the new pins.
    ///
    /// ```no_run
    /// use sapwood_bpf::{BpfArena, Loader, Pinned};
    /// let arena = BpfArena::open("/sys/fs/bpf/seen/arena")?;
    /// let programs = Loader::open_file(&arena, "seen.bpf.o")?.load()?;
    /// for (name, kind) in Pinned::open("/sys/fs/bpf/seen")?.pin_all(&programs)? {
    ///     println!("{kind} {name}");
    /// }
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// The system's error, for example when a name is taken, or another arena is pinned here. Then
    /// the directory is as it was.
    pub fn pin_all(&self, programs: &Programs) -> Result<Vec<(String, PinKind)>, Error> {
        let mut done = Vec::new();
        match self.pin_each(programs, &mut done) {
            Ok(()) => Ok(done),
            Err(error) => {
                for (name, _) in done {
                    let _ = std::fs::remove_file(self.folder.join(name));
                }
                Err(error)
            }
        }
    }

    fn pin_each(
        &self,
        programs: &Programs,
        done: &mut Vec<(String, PinKind)>,
    ) -> Result<(), Error> {
        let mut pin = |name: String, kind, fd: BorrowedFd<'_>| {
            self.pin(&name, fd)?;
            done.push((name, kind));
            Ok::<_, Error>(())
        };
        let arena = programs.arena();
        let place = self.folder.join(Pinned::ARENA);
        let is_there = std::fs::symlink_metadata(&place).is_ok();
        if !is_there {
            pin(Pinned::ARENA.to_owned(), PinKind::Arena, arena.fd())?;
        } else if !arena.is_pinned_at(&place)? {
            let other = std::io::Error::new(
                std::io::ErrorKind::AlreadyExists,
                "another arena is pinned there",
            );
            return Err(Error::io(
                format!("pinning in {}", self.folder.display()),
                other,
            ));
        }
        for program in programs.object().progs() {
            if program.autoload() {
                let name = format!("{PROGRAM}{}", program.name().to_string_lossy());
                pin(name, PinKind::Program, program.as_fd())?;
            }
        }
        for map in programs.object().maps() {
            let name = map.name().to_string_lossy();
            // A section of variables has a dot in its name.
            if name != ARENA_MAP && !name.contains('.') {
                pin(format!("{MAP}{name}"), PinKind::Map, map.as_fd())?;
            }
        }
        Ok(())
    }

    /// Opens a pinned program.
    ///
    /// # Errors
    /// The system's error.
    pub fn program(&self, name: &str) -> Result<PinnedProgram, Error> {
        let path = self.folder.join(format!("{PROGRAM}{name}"));
        let fd =
            Program::fd_from_pinned_path(&path).map_err(|error| Error::pinned(&path, error))?;
        Ok(PinnedProgram { fd })
    }

    /// Pins a link, which attaches a program, under a name.
    ///
    /// # Errors
    /// The system's error, for example when a link of this name is pinned here already.
    pub fn pin_link(&self, name: &str, link: BorrowedFd<'_>) -> Result<(), Error> {
        self.pin(&format!("{}{name}", Pinned::LINK), link)
    }

    /// Opens a pinned link.
    ///
    /// # Errors
    /// The system's error.
    pub fn link(&self, name: &str) -> Result<Link, Error> {
        let path = self.folder.join(format!("{}{name}", Pinned::LINK));
        Link::open(&path).map_err(|error| Error::pinned(&path, error))
    }

    /// All pins of the directory with their kinds, whatever their names, in the order in which they
    /// can be removed.
    ///
    /// # Errors
    /// [`Error::NotPins`] when the directory has no arena of this library, or anything that is not
    /// a pin; the system's error.
    pub fn kinds(&self) -> Result<Vec<(String, PinKind)>, Error> {
        let refuse = |why: String| Error::NotPins {
            folder: self.folder.clone(),
            why,
        };
        let mut all = Vec::new();
        for name in self.names()? {
            match self.kind(&name)? {
                Some(kind) => all.push((name, kind)),
                None => return Err(refuse(format!("it holds {name:?}, which is no pin"))),
            }
        }
        all.sort_by(|(a, one), (b, two)| (one, a).cmp(&(two, b)));
        match all.last() {
            Some((_, PinKind::Arena)) => Ok(all),
            _ => Err(refuse("there is no arena in it".to_owned())),
        }
    }

    fn kind(&self, name: &str) -> Result<Option<PinKind>, Error> {
        let path = self.folder.join(name);
        let metadata = std::fs::symlink_metadata(&path)
            .map_err(|error| Error::io(format!("looking at {}", path.display()), error))?;
        if !metadata.is_file() {
            return Ok(None);
        }
        // `Link::open` opens objects of any kind, and the kernel tells the kind.
        let Ok(object) = Link::open(&path) else {
            return Ok(None);
        };
        let number = object.as_fd().as_raw_fd();
        let what = rustix::fs::readlink(format!("/proc/self/fd/{number}"), [])
            .map_err(|error| Error::io(format!("looking at {}", path.display()), error.into()))?;
        drop(object);
        Ok(match what.to_bytes() {
            what if what.ends_with(b"bpf-link") || what.ends_with(b"bpf_link") => {
                Some(PinKind::Link)
            }
            what if what.ends_with(b"bpf-prog") => Some(PinKind::Program),
            what if what.ends_with(b"bpf-map") => match BpfArena::open(&path) {
                // The arena has another version, or this process has it mapped already.
                Ok(_) | Err(Error::Version { .. } | Error::Address { .. }) => Some(PinKind::Arena),
                Err(Error::NotAnArena { .. }) => Some(PinKind::Map),
                Err(error) => return Err(error),
            },
            _ => None,
        })
    }

    /// Detaches the programs, removes all pins and the directory, and returns what was pinned.
    /// Programs are detached even if others hold their links. The kernel then frees programs, maps
    /// and the arena when they have no other user.
    ///
    /// # Errors
    /// As [`kinds`](Self::kinds), in which case nothing has changed; the system's error.
    pub fn take_down(self) -> Result<Vec<(String, PinKind)>, Error> {
        let all = self.kinds()?;
        let links = all.iter().filter(|(_, kind)| *kind == PinKind::Link);
        self.detach(links.map(|(name, _)| name))?;
        self.remove_pins(all.iter().map(|(name, _)| name))?;
        Ok(all)
    }

    /// Detaches the programs of these links, even if others hold the links. The programs are
    /// detached when this returns. The removal of a pin detaches later.
    ///
    /// # Errors
    /// The system's error, for example when a name is no link's.
    pub fn detach<'n>(&self, links: impl Iterator<Item = &'n String>) -> Result<(), Error> {
        for name in links {
            let path = self.folder.join(name);
            let link = Link::open(&path).map_err(|error| Error::pinned(&path, error))?;
            // Some kinds of links cannot be detached. Those go with the last reference.
            let _ = link.detach();
        }
        Ok(())
    }

    /// Removes all pins, then the directory. Links come first, then programs, then the arena. A
    /// program without another user is detached, then unloaded.
    ///
    /// # Errors
    /// The system's error, for example when the directory holds anything else.
    pub fn remove(self) -> Result<(), Error> {
        let names = self.names()?;
        let of_kind = |kind| names.iter().filter(move |name| name.starts_with(kind));
        self.remove_pins(
            [Pinned::LINK, PROGRAM, MAP, Pinned::ARENA]
                .into_iter()
                .flat_map(of_kind),
        )
    }

    /// Removes these pins in this order, then the directory.
    ///
    /// # Errors
    /// The system's error, for example when the directory holds anything else.
    pub fn remove_pins<'n>(&self, names: impl Iterator<Item = &'n String>) -> Result<(), Error> {
        let removing =
            |path: &Path, error| Error::io(format!("removing {}", path.display()), error);
        for name in names {
            let path = self.folder.join(name);
            std::fs::remove_file(&path).map_err(|error| removing(&path, error))?;
        }
        std::fs::remove_dir(&self.folder).map_err(|error| removing(&self.folder, error))
    }
}

impl PinnedProgram {
    /// Runs the program on a packet (`BPF_PROG_TEST_RUN`), and returns the program's result. `out`
    /// receives the packet that leaves the program.
    ///
    /// # Errors
    /// The system's error.
    pub fn run(&self, packet: &[u8], out: &mut [u8]) -> Result<u32, Error> {
        crate::raw::arena::run(self.as_fd(), packet, out)
            .map_err(|error| Error::io("running a pinned program", error))
    }
}

impl AsFd for PinnedProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
