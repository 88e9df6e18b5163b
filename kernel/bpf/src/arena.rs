//! The arena: one memory for all maps of a BPF object, divided into one window for each map.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use sapwood_arena::{Arena, ArenaOptions, HeaderMode, Region};

use crate::error::Error;
use crate::layout::{Kind, page};
use crate::own_window::OwnWindow;
use crate::raw::arena::{Memory, PAGE};
use crate::raw::sleep::SleepableGrace;
use crate::raw::space;
use crate::raw::window::Window;
use crate::support;

/// Memory that BPF programs and this process share.
///
/// An arena is divided into *windows*. Each window holds one map. Programs refer to the window by
/// its number, and people by its name. The arena and each window reserve address space when they
/// are made. A map takes memory page by page as it grows.
///
/// A clone of a handle costs one count. The kernel keeps the arena while a process has it mapped, a
/// program uses it, or it is pinned.
///
/// ```no_run
/// use sapwood_bpf::BpfArena;
/// let arena = BpfArena::create(256 << 20)?;
/// arena.pin("/sys/fs/bpf/names")?;
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Clone)]
pub struct BpfArena {
    memory: Arc<Memory>,
    /// Held by the thread that changes the windows.
    changes: Arc<Mutex<()>>,
}

/// An entry of the arena's list of windows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowInfo {
    /// The number by which programs refer to the window.
    pub number: u32,
    /// What the window holds.
    pub kind: Kind,
    /// The place of the window, in bytes from the arena's beginning.
    pub at: usize,
    /// The window's bytes of address space.
    pub len: usize,
    /// The window's name.
    pub name: String,
}

impl BpfArena {
    /// Makes an arena with this many bytes of address space: whole pages, at least 8 KiB and at
    /// most 4 GiB.
    ///
    /// # Errors
    /// [`Error::Capabilities`], [`Error::Kernel`], [`Error::NoBtf`], [`Error::Size`],
    /// [`Error::Address`], and the system's error.
    pub fn create(bytes: usize) -> Result<BpfArena, Error> {
        support::check()?;
        let memory = Memory::create(bytes)?;
        memory.write_page()?;
        Ok(BpfArena::new(memory))
    }

    /// Opens an arena that a process pinned at this path.
    ///
    /// # Errors
    /// [`Error::NotAnArena`], [`Error::Version`], [`Error::Address`], those of
    /// [`check`](crate::check), and the system's error.
    pub fn open(path: impl AsRef<Path>) -> Result<BpfArena, Error> {
        support::check()?;
        let memory = Memory::open_pinned(path.as_ref())?;
        memory.check_page()?;
        Ok(BpfArena::new(memory))
    }

    fn new(memory: Memory) -> BpfArena {
        BpfArena {
            memory: Arc::new(memory),
            changes: Arc::default(),
        }
    }

    /// Pins the arena. It then outlives this process, until the path is removed.
    ///
    /// # Errors
    /// The system's error, for example when the path is taken, or not in a BPF file system.
    pub fn pin(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        support::pin(self.fd(), path.as_ref())
    }

    /// Whether the map that is pinned at this path is this arena. An arena may have several pins,
    /// but a process opens it once.
    ///
    /// ```no_run
    /// let arena = sapwood_bpf::BpfArena::open("/sys/fs/bpf/names")?;
    /// assert!(arena.is_pinned_at("/sys/fs/bpf/names")?);
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// The system's error, also when no map is pinned there.
    pub fn is_pinned_at(&self, path: impl AsRef<Path>) -> Result<bool, Error> {
        self.memory.is_pinned_at(path.as_ref())
    }

    /// The arena's bytes of address space.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// The largest piece of address space that no window has, in bytes.
    pub fn bytes_left(&self) -> usize {
        let gaps = self
            .listed()
            .map(|listed| space::gaps(&self.memory, &listed));
        let largest = gaps
            .ok()
            .and_then(|gaps| gaps.into_iter().map(|gap| gap.1).max());
        largest.unwrap_or(0)
    }

    /// Copies the arena's contents: the header page and all windows. C programs in user space read
    /// such a copy as `sw_base`, and tests compare it. The copy takes memory for pages that were
    /// never touched. It is not one consistent state while a process or a program writes.
    ///
    /// ```no_run
    /// # let arena = sapwood_bpf::BpfArena::create(64 << 20)?;
    /// std::fs::write("arena.img", arena.image())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn image(&self) -> Vec<u8> {
        let used = self.memory.u64(page::USED_AT).load(Ordering::Acquire);
        let words = (used as usize).min(self.bytes()) / 8;
        let mut image = Vec::with_capacity(words * 8);
        for word in 0..words {
            let word = self.memory.u64(8 * word).load(Ordering::Relaxed);
            image.extend_from_slice(&word.to_ne_bytes());
        }
        image
    }

    /// The address at which the arena is mapped. It is the same in every process.
    pub fn address(&self) -> usize {
        self.memory.base().addr().get()
    }

    /// The descriptor of the kernel's map.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// A new descriptor of the kernel's map.
    ///
    /// # Errors
    /// The system's error.
    pub fn try_clone_fd(&self) -> Result<OwnedFd, Error> {
        self.memory.handle()
    }

    pub(crate) fn changes(&self) -> &Mutex<()> {
        &self.changes
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The number of owners that the arena has had.
    pub fn generation(&self) -> u64 {
        self.memory.u64(page::GENERATION_AT).load(Ordering::Acquire)
    }

    /// Allows programs that may sleep to use the arena: those of type `syscall`, and those whose
    /// sections end in `.s`. The arena remembers it, for all later owners, too; it cannot be taken
    /// back. Any process that has the arena may call this, at any time.
    ///
    /// From then on, each grace period of each process that has the arena also waits for such
    /// programs: see [`KernelGrace`](crate::KernelGrace). A program that sleeps for long holds all
    /// removed memory back, and functions that wait for a grace period wait for it.
    ///
    /// ```no_run
    /// use sapwood_bpf::{BpfArena, Loader};
    /// let arena = BpfArena::create(64 << 20)?;
    /// arena.allow_sleepable()?;
    /// let programs = Loader::open_file(&arena, "files.bpf.o")?.load()?;
    /// # let _ = programs;
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// The system's error, when the kernel does not load the program by which grace periods wait.
    pub fn allow_sleepable(&self) -> Result<(), Error> {
        SleepableGrace::begin()?;
        self.memory.allow_sleepable();
        Ok(())
    }

    /// Whether programs that may sleep may use the arena.
    pub fn allows_sleepable(&self) -> bool {
        self.memory.allows_sleepable()
    }

    /// All windows, in order of their numbers.
    ///
    /// # Errors
    /// [`Error::Damaged`] when an entry of the list breaks the format.
    pub fn windows(&self) -> Result<Vec<WindowInfo>, Error> {
        let mut all = Vec::new();
        for number in 0..page::WINDOWS_MAX as u32 {
            if let Some(info) = self.entry(number)? {
                all.push(info);
            }
        }
        Ok(all)
    }

    /// The window of this name and this kind.
    ///
    /// # Errors
    /// [`Error::NoWindow`], [`Error::Damaged`].
    pub fn window(&self, name: &str, kind: Kind) -> Result<WindowInfo, Error> {
        let all = self.windows()?;
        let found = all
            .iter()
            .find(|info| info.name == name && info.kind == kind);
        found.cloned().ok_or_else(|| Error::NoWindow {
            name: name.to_owned(),
            kind: kind.name(),
            there: match all.len() {
                0 => "it has no windows".to_owned(),
                _ => {
                    let names = all
                        .iter()
                        .map(|info| format!("{:?} ({})", info.name, info.kind.name()));
                    format!("it has {}", names.collect::<Vec<_>>().join(", "))
                }
            },
        })
    }

    /// The current place and bytes of the window with this number and kind; `None` when there is no
    /// such window.
    pub(crate) fn window_place(
        &self,
        number: u32,
        kind: Kind,
    ) -> Result<Option<(usize, usize)>, Error> {
        match self.place(number)? {
            Some((there, at, len)) if there == kind => Ok(Some((at, len))),
            _ => Ok(None),
        }
    }

    fn place(&self, number: u32) -> Result<Option<(Kind, usize, usize)>, Error> {
        let kind = self.memory.entry_kind(number).load(Ordering::Acquire);
        let damaged = |what: String| Error::Damaged(format!("window {number}: {what}"));
        let kind = Kind::from_number(kind).ok_or_else(|| damaged(format!("kind {kind}")))?;
        if kind == Kind::None {
            return Ok(None);
        }
        let word = |field| self.memory.entry(number, field).load(Ordering::Acquire);
        let (at, len) = (word(page::WINDOW_AT), word(page::WINDOW_LEN));
        let inside = at
            .checked_add(len)
            .is_some_and(|end| end <= self.memory.len() as u64);
        let whole = at % PAGE as u64 == 0 && len % PAGE as u64 == 0;
        if !inside || !whole || at < PAGE as u64 || len < PAGE as u64 {
            return Err(damaged(format!("{len} bytes at {at}")));
        }
        Ok(Some((kind, at as usize, len as usize)))
    }

    fn entry(&self, number: u32) -> Result<Option<WindowInfo>, Error> {
        let Some((kind, at, len)) = self.place(number)? else {
            return Ok(None);
        };
        let mut name = Vec::new();
        for word in 0..page::NAME_MAX / 8 {
            let word = self.memory.entry(number, page::WINDOW_NAME + 8 * word);
            name.extend(word.load(Ordering::Relaxed).to_le_bytes());
        }
        let end = name.iter().position(|&byte| byte == 0);
        name.truncate(end.unwrap_or(name.len()));
        Ok(Some(WindowInfo {
            number,
            kind,
            at,
            len,
            name: String::from_utf8(name)
                .map_err(|_| Error::Damaged(format!("window {number}: its name is no text")))?,
        }))
    }

    /// Makes a window of `bytes` (rounded up to pages) for one map. Returns an arena of
    /// `sapwood-arena`, whose header page has this layout hash, and the window. [`OwnWindow::open`]
    /// publishes the window to programs.
    ///
    /// # Errors
    /// [`Error::NoRoom`], [`Error::TooManyWindows`], [`Error::Name`], [`Error::NoMemory`].
    pub(crate) fn make_window(
        &self,
        name: &str,
        bytes: usize,
        layout_hash: u64,
    ) -> Result<(Arena, OwnWindow), Error> {
        let (region, window) = self.cut_window(name, bytes)?;
        Ok((self.arena_in(region, layout_hash)?, window))
    }

    fn arena_in(&self, region: Window, layout_hash: u64) -> Result<Arena, Error> {
        let options = ArenaOptions::default()
            .header(HeaderMode::Page)
            .layout_hash(layout_hash)
            .limit(region.capacity());
        self.load_freer()?;
        Arena::with_region(Box::new(region), options).map_err(|_| Error::NoMemory { bytes: PAGE })
    }

    /// Makes a window as [`make_window`](Self::make_window) does, which [`OwnWindow::replace`] can
    /// publish in place of `old`.
    pub(crate) fn make_successor(
        &self,
        old: &WindowInfo,
        bytes: usize,
        layout_hash: u64,
    ) -> Result<(Arena, OwnWindow), Error> {
        let changes = self.lock();
        let (region, window) = self.cut(&old.name, old.number, bytes)?;
        drop(changes);
        Ok((self.arena_in(region, layout_hash)?, window))
    }

    /// Makes a window as [`make_window`](Self::make_window) does, but without a header page and
    /// without memory.
    ///
    /// # Errors
    /// [`Error::NoRoom`], [`Error::TooManyWindows`], [`Error::Name`].
    pub(crate) fn cut_window(
        &self,
        name: &str,
        bytes: usize,
    ) -> Result<(Window, OwnWindow), Error> {
        let _changes = self.lock();
        self.claim()?;
        let refuse = |why| Error::Name {
            name: name.to_owned(),
            why,
        };
        if name.is_empty() || name.len() > page::NAME_MAX || name.contains('\0') {
            return Err(refuse("it has 1 to 24 bytes, none of them 0"));
        }
        let all = self.windows()?;
        if all.iter().any(|info| info.name == name) {
            return Err(refuse("there is one of this name"));
        }
        let mut taken: Vec<u32> = all.iter().map(|info| info.number).collect();
        taken.extend(space::held(&self.memory).iter().map(|held| held.number));
        let number = (0..page::WINDOWS_MAX as u32)
            .find(|number| !taken.contains(number))
            .ok_or(Error::TooManyWindows(page::WINDOWS_MAX))?;
        self.cut(name, number, bytes)
    }

    /// Cuts a window. The caller holds the lock and owns the arena.
    fn cut(&self, name: &str, number: u32, bytes: usize) -> Result<(Window, OwnWindow), Error> {
        let no_room = || Error::NoRoom {
            name: name.to_owned(),
            bytes,
            left: self.bytes_left(),
        };
        let len = bytes.max(PAGE).checked_next_multiple_of(PAGE);
        let len = len.filter(|len| *len <= self.bytes_left());
        let len = len.ok_or_else(no_room)?;
        let mut region = space::cut(&self.memory, &self.listed()?, &[], number, len);
        if region.is_none() {
            // There is room, but earlier windows used some of it.
            let clean = self.reclaim_locked()?;
            region = space::cut(&self.memory, &self.listed()?, &clean, number, len);
        }
        let region = region.ok_or_else(no_room)?;
        let info = WindowInfo {
            number,
            kind: Kind::None,
            at: region.at(),
            len,
            name: name.to_owned(),
        };
        Ok((region, OwnWindow::new(self, info)))
    }

    /// Publishes a window of this kind to programs and other processes.
    pub(crate) fn open_window(&self, info: &WindowInfo, kind: Kind) {
        let mut name = [0u8; page::NAME_MAX];
        name[..info.name.len()].copy_from_slice(info.name.as_bytes());
        let set = |field, value: u64| {
            let word = self.memory.entry(info.number, field);
            word.store(value, Ordering::Relaxed);
        };
        for (i, word) in name.chunks_exact(8).enumerate() {
            let word = word.try_into().map_or(0, u64::from_le_bytes);
            set(page::WINDOW_NAME + 8 * i, word);
        }
        set(page::WINDOW_LEN, info.len as u64);
        set(page::WINDOW_AT, info.at as u64);
        let place = self.memory.entry_kind(info.number);
        place.store(kind as u32, Ordering::Release);
    }

    /// Forgets a window that this process cut. A window that is in the list stays there.
    pub(crate) fn discard_window(&self, info: &WindowInfo) {
        space::release(&self.memory, |held| {
            if held.at == info.at {
                held.listed = false;
            }
        });
    }

    /// Removes a window from the list, so that programs no longer find its number.
    /// [`reclaim`](Self::reclaim) frees the memory once no program can be reading it.
    pub(crate) fn close_window(&self, number: u32) {
        let place = self.memory.entry_kind(number);
        place.store(Kind::None as u32, Ordering::Release);
        space::release(&self.memory, |held| {
            if held.number == number {
                held.listed = false;
            }
        });
    }
}

impl std::fmt::Debug for BpfArena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BpfArena")
            .field("bytes", &self.bytes())
            .field("windows", &self.windows())
            .finish()
    }
}
