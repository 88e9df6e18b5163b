//! The owner of an arena, the windows of a dead owner, and the reclamation of memory that windows
//! no longer use.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::grace::KernelGrace;
use crate::layout::{Kind, page};
use crate::loader::Loader;
use crate::raw::arena::{Held, PAGE};
use crate::raw::space;

/// Bits of the process number in the owner's word. Linux has no larger process numbers.
const PID_BITS: u32 = 22;

const FREE_PAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/free-pages.bpf.o"));

/// The time at which a process started, in clock ticks since the machine booted; `None` when no
/// process has this number.
fn started(pid: u64) -> Result<Option<u64>, Error> {
    let path = format!("/proc/{pid}/stat");
    let stat = match std::fs::read_to_string(&path) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // ESRCH: the process ended during the read.
        Err(error) if error.raw_os_error() == Some(3) => return Ok(None),
        Err(error) => return Err(Error::io(format!("reading {path}"), error)),
    };
    // The name may hold any characters. Behind it come the state and, 19 fields further, the start.
    // Zombies count as dead.
    let mut fields = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_ascii_whitespace();
    let state = fields.next().unwrap_or("");
    if matches!(state, "Z" | "X") {
        return Ok(None);
    }
    let start = fields.nth(18).and_then(|field| field.parse().ok());
    start.map(Some).ok_or_else(|| {
        Error::io(
            format!("reading {path}"),
            io::Error::from(io::ErrorKind::InvalidData),
        )
    })
}

fn process_space() -> Result<u64, Error> {
    use std::os::unix::fs::MetadataExt;
    let path = "/proc/self/ns/pid";
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.ino()),
        Err(error) => Err(Error::io(format!("reading {path}"), error)),
    }
}

impl BpfArena {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.changes()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The process that owns the arena, or `None`. The owner makes windows and writes maps, until
    /// it drops its last handle or dies. Readers need no owner.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell whether the process lives.
    pub fn owner(&self) -> Result<Option<u32>, Error> {
        let word = self.memory().u64(page::OWNER_AT).load(Ordering::Acquire);
        Ok(match self.lives(word)? {
            true => Some((word & ((1 << PID_BITS) - 1)) as u32),
            false => None,
        })
    }

    /// Whether the owner in this word lives. An owner in another PID namespace counts as alive,
    /// because this process cannot see it.
    fn lives(&self, word: u64) -> Result<bool, Error> {
        let (pid, start) = (word & ((1 << PID_BITS) - 1), word >> PID_BITS);
        if word == 0 {
            return Ok(false);
        }
        let space = self.memory().u64(page::OWNER_SPACE_AT);
        if space.load(Ordering::Acquire) != process_space()? {
            return Ok(true);
        }
        Ok(started(pid)? == Some(start))
    }

    /// Makes this process the owner, unless another process is, and counts a new generation.
    pub(crate) fn claim(&self) -> Result<(), Error> {
        let memory = self.memory();
        let word = memory.u64(page::OWNER_AT);
        let pid = u64::from(std::process::id());
        let start = started(pid)?.unwrap_or_default();
        let me = start << PID_BITS | pid;
        loop {
            let owner = word.load(Ordering::Acquire);
            if owner == me && memory.claimed.load(Ordering::Relaxed) == me {
                return Ok(());
            }
            // An equal word that this process did not write since it mapped the arena may come from
            // another PID namespace. It does not make this process the owner.
            if owner != me && self.lives(owner)? {
                return Err(Error::Owned {
                    pid: (owner & ((1 << PID_BITS) - 1)) as u32,
                });
            }
            let swapped = word.compare_exchange(owner, me, Ordering::AcqRel, Ordering::Relaxed);
            if swapped.is_ok() {
                let space = memory.u64(page::OWNER_SPACE_AT);
                space.store(process_space()?, Ordering::Release);
                memory.claimed.store(me, Ordering::Relaxed);
                memory
                    .u64(page::GENERATION_AT)
                    .fetch_add(1, Ordering::AcqRel);
                return Ok(());
            }
        }
    }

    /// Forgets the owner. This is for an owner that is known to be dead and ran in another PID
    /// namespace, where this process cannot see its death.
    ///
    /// If that owner lives and writes, both owners damage each other's maps. Readers then get wrong
    /// answers, and both processes may crash.
    pub fn forget_owner(&self) {
        let word = self.memory().u64(page::OWNER_AT);
        word.store(0, Ordering::Release);
    }

    /// Removes a dead owner's window from the list. Programs no longer find its name and number.
    ///
    /// # Errors
    /// [`Error::NoWindow`], [`Error::Owned`]; [`Error::Name`] when the window is this process's
    /// own.
    pub fn remove_window(&self, name: &str) -> Result<(), Error> {
        let _changes = self.lock();
        self.claim()?;
        let info = self
            .windows()?
            .into_iter()
            .find(|info| info.name == name)
            .ok_or_else(|| Error::NoWindow {
                name: name.to_owned(),
                kind: "window",
                there: "see BpfArena::windows".to_owned(),
            })?;
        self.not_ours(&info)?;
        self.close_window(info.number);
        Ok(())
    }

    pub(crate) fn not_ours(&self, info: &WindowInfo) -> Result<(), Error> {
        let held = space::held(self.memory());
        match held.iter().any(|held| held.at == info.at) {
            true => Err(Error::Name {
                name: info.name.clone(),
                why: "this process has the window already",
            }),
            false => Ok(()),
        }
    }

    /// The window of a dead owner's map. The window is shortened to the part that has memory, which
    /// makes room for its successor.
    pub(crate) fn inherit(&self, name: &str, kind: Kind) -> Result<WindowInfo, Error> {
        let _changes = self.lock();
        self.claim()?;
        let mut info = self.window(name, kind)?;
        self.not_ours(&info)?;
        let word = |field| self.memory().entry(info.number, field);
        let used = word(page::WINDOW_USED).load(Ordering::Acquire) as usize;
        let used_of = word(page::WINDOW_USED_OF).load(Ordering::Acquire) as usize;
        let known = used_of == info.at && used % PAGE == 0;
        if known && (PAGE..info.len).contains(&used) {
            word(page::WINDOW_LEN).store(used as u64, Ordering::Release);
            info.len = used;
        }
        Ok(info)
    }

    /// Records that this process holds a window that another process made.
    pub(crate) fn hold(&self, info: &WindowInfo) {
        space::held(self.memory()).push(Held {
            number: info.number,
            at: info.at,
            len: info.len,
            region: false,
            listed: true,
        });
    }

    /// Publishes `new` in place of `old`, which has the same number and kind. Programs load the
    /// kind, which does not change, and then the place, which changes in one store. They see either
    /// window, and both are complete.
    pub(crate) fn replace_window(&self, old: &WindowInfo, new: &WindowInfo) {
        let set = |field, value: usize| {
            let word = self.memory().entry(new.number, field);
            word.store(value as u64, Ordering::Release);
        };
        // Readers in other processes load the place and the length separately. Every combination
        // must lie inside a window.
        set(page::WINDOW_LEN, old.len.min(new.len));
        set(page::WINDOW_AT, new.at);
        set(page::WINDOW_LEN, new.len);
    }

    /// Returns the memory of closed windows to the system, and returns how many bytes of address
    /// space are free and without memory. It waits 4 to 20 ms for the programs that are running,
    /// because they may still read that memory.
    ///
    /// A new window that needs such address space calls this by itself. When an arena is closed,
    /// the kernel frees the remaining memory at once and runs nothing else on that processor
    /// meanwhile: 2 to 3 ms for a million names. This method frees it in pieces.
    ///
    /// # Errors
    /// [`Error::Owned`], [`Error::NoGrace`], [`Error::Damaged`], and the kernel's error.
    pub fn reclaim(&self) -> Result<usize, Error> {
        let _changes = self.lock();
        self.claim()?;
        let clean = self.reclaim_locked()?;
        Ok(clean.iter().map(|(_, len)| len).sum())
    }

    /// Loads the program that frees pages, unless it is loaded already.
    pub(crate) fn load_freer(&self) -> Result<(), Error> {
        // A fuzzer's arena frees no pages.
        if cfg!(fuzzing) || self.memory().freer.get().is_some() {
            return Ok(());
        }
        let programs = Loader::open(self, FREE_PAGES)?
            .allow_sleepable("sw_free_pages")
            .load()?;
        let program = programs.program("sw_free_pages")?;
        let program = program.as_fd().try_clone_to_owned();
        let program = program.map_err(|error| Error::io("copying a descriptor", error))?;
        // Another thread may have loaded it first.
        let _ = self.memory().freer.set(program);
        Ok(())
    }

    /// Frees the memory of closed windows, and returns the free pieces: place and bytes. The caller
    /// holds the lock, so no other thread takes any of them.
    pub(crate) fn reclaim_locked(&self) -> Result<Vec<(usize, usize)>, Error> {
        let listed = self.listed()?;
        let fresh = space::fresh(self.memory());
        let gaps = space::gaps(self.memory(), &listed);
        let gaps: Vec<_> = gaps
            .into_iter()
            .filter(|(at, _)| *at < fresh)
            .map(|(at, len)| (at, len.min(fresh - at)))
            .collect();
        if gaps.is_empty() {
            return Ok(gaps);
        }
        KernelGrace::new()?.wait()?;
        self.load_freer()?;
        for (at, len) in &gaps {
            if !self.memory().free_pages(*at, at + len) {
                return Err(Error::last("giving pages back"));
            }
        }
        if let Some((at, len)) = gaps.last() {
            if at + len == fresh {
                space::set_fresh(self.memory(), *at);
            }
        }
        Ok(gaps)
    }

    /// The places and bytes of all windows, whoever owns them.
    pub(crate) fn listed(&self) -> Result<Vec<(usize, usize)>, Error> {
        let all = self.windows()?;
        Ok(all.iter().map(|info| (info.at, info.len)).collect())
    }
}
