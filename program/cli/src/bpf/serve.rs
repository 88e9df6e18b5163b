//! `sapwood bpf serve`: services the maps that programs write, of all pinned arenas of a machine.

use std::io::ErrorKind::PermissionDenied;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sapwood_bpf::layout::Kind;
use sapwood_bpf::{BpfArena, Bytes, Error as BpfError, Pinned, ProgramMap, WindowInfo};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

use super::arenas::find;
use super::metrics::ServeMetrics;
use super::served::{Pace, Served};
use crate::cli::bpf::ServeArgs;
use crate::errors::{Answer, Error, Outcome, complain};
use crate::service::Service;
use crate::span;

/// The longest time until a signal takes effect.
const PAUSE: Duration = Duration::from_millis(100);
/// The time between two looks at the pins and at the maps.
const LOOK: Duration = Duration::from_secs(1);

/// `serve`: services maps until a signal comes, and then leaves them.
pub fn run(args: &ServeArgs) -> Outcome {
    sapwood_bpf::check()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&asked))?;
    let mut daemon = Daemon::new(args)?;
    let mut service = Service::begin(args.service.metrics.as_ref(), &[])?;
    let metrics = ServeMetrics::new(service.metrics())?;
    daemon.look();
    service.ready(&daemon.status(), || metrics.update(&daemon))?;
    let mut looked = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if asked.swap(false, Ordering::Relaxed) {
            // The process that asked has until the next look.
            daemon.let_go();
            looked = Instant::now();
        }
        if looked.elapsed() >= LOOK {
            daemon.look();
            daemon.watch();
            service.status(&daemon.status());
            looked = Instant::now();
        }
        service.tick(|| metrics.update(&daemon));
        std::thread::sleep(PAUSE);
    }
    service.stopping(|| metrics.update(&daemon));
    daemon.leave();
    Ok(Answer::Yes)
}

/// What the command serves, and what it knows of the other pins.
pub struct Daemon {
    arenas: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    pace: Pace,
    pins: Vec<Pin>,
    /// The last fault of the search, so that it is reported once.
    fault: Option<String>,
    /// Maps that were taken over since the start.
    pub adopted: u64,
}

/// A pin that was found.
struct Pin {
    path: PathBuf,
    /// The number of its inode: another pin of the same path has another one.
    inode: u64,
    state: State,
}

/// What a pin is.
enum State {
    /// A program, a link or another map.
    Other,
    /// An arena that is closed for a moment, or another pin of one that is open.
    Again,
    /// An arena that cannot be opened now, and why.
    Failed(String),
    Open(Opened),
}

/// An arena that is open.
pub struct Opened {
    /// The pin.
    pub path: PathBuf,
    arena: BpfArena,
    /// The maps that this process serves.
    pub maps: Vec<Served>,
    /// The windows of maps that cannot be taken over.
    pub refused: Vec<WindowInfo>,
    /// How many maps another process has.
    pub owned: usize,
    fault: Option<String>,
}

impl Daemon {
    /// Checks the arguments. The directories must be in BPF file systems, and a named pin that is
    /// there must be an arena.
    fn new(args: &ServeArgs) -> Result<Daemon, Error> {
        let mut folders = args.all.clone();
        if folders.is_empty() && args.arenas.is_empty() {
            folders.push(PathBuf::from("/sys/fs/bpf"));
        }
        for folder in &folders {
            Pinned::open(folder)?;
        }
        for path in &args.arenas {
            match BpfArena::open(path) {
                Ok(_) => {}
                Err(_) if !path.exists() => complain(&format!("waiting for {}", path.display())),
                Err(error) => {
                    let path = path.display();
                    return Err(Error::Usage(format!("{path}: {error}")));
                }
            }
        }
        Ok(Daemon {
            arenas: args.arenas.clone(),
            folders,
            pace: Pace {
                every: Duration::from_millis(args.every),
                rest: Duration::from_millis(args.rest.max(args.every)),
            },
            pins: Vec::new(),
            fault: None,
            adopted: 0,
        })
    }

    /// Looks for pins that have come or gone, and for maps without an owner.
    fn look(&mut self) {
        let found = self.found();
        let mut kept = Vec::new();
        for mut pin in std::mem::take(&mut self.pins) {
            let is_there = found
                .iter()
                .any(|one| *one == (pin.path.clone(), pin.inode));
            match (is_there, &mut pin.state) {
                (true, _) => kept.push(pin),
                (false, State::Open(opened)) => {
                    opened.leave();
                    complain(&format!("{}: the pin is gone", pin.path.display()));
                }
                (false, _) => {}
            }
        }
        for (path, inode) in found {
            if !kept.iter().any(|pin| pin.path == path) {
                let state = State::Failed(String::new());
                kept.push(Pin { path, inode, state });
            }
        }
        self.pins = kept;
        for number in 0..self.pins.len() {
            let (before, after) = self.pins.split_at_mut(number);
            let Some((pin, after)) = after.split_first_mut() else {
                continue;
            };
            let others = before.iter().chain(&*after);
            pin.open(others.filter_map(Pin::opened));
            if let State::Open(opened) = &mut pin.state {
                self.adopted += opened.adopt(self.pace);
            }
        }
    }

    /// The pins that there are, with the numbers of their inodes.
    fn found(&mut self) -> Vec<(PathBuf, u64)> {
        let mut paths = self.arenas.clone();
        let mut fault = None;
        for folder in &self.folders {
            if let Err(error) = find(folder, &mut paths) {
                fault = Some(error.to_string());
            }
        }
        if fault != self.fault {
            if let Some(fault) = &fault {
                complain(fault);
            }
            self.fault = fault;
        }
        let inode = |path: &PathBuf| std::fs::metadata(path).ok().map(|found| found.ino());
        let found = paths.into_iter().filter_map(|path| {
            let inode = inode(&path)?;
            Some((path, inode))
        });
        let mut found: Vec<_> = found.collect();
        found.sort();
        found.dedup();
        found
    }

    /// Reports what lacks memory, and what programs hold back.
    fn watch(&mut self) {
        for opened in self.pins.iter_mut().filter_map(Pin::opened_mut) {
            for served in &mut opened.maps {
                served.watch(&opened.path);
            }
        }
    }

    /// The arenas that are open.
    pub fn opened(&self) -> impl Iterator<Item = &Opened> {
        self.pins.iter().filter_map(Pin::opened)
    }

    /// How many arenas cannot be opened.
    pub fn failed(&self) -> usize {
        let failed = |pin: &&Pin| matches!(pin.state, State::Failed(_));
        self.pins.iter().filter(failed).count()
    }

    /// What the command does now.
    fn status(&self) -> String {
        let (mut maps, mut arenas, mut owned) = (0, 0, 0);
        for opened in self.opened() {
            maps += opened.maps.len();
            arenas += usize::from(!opened.maps.is_empty());
            owned += opened.owned;
        }
        match owned {
            0 => format!("{maps} maps in {arenas} arenas"),
            _ => format!("{maps} maps in {arenas} arenas; others serve {owned}"),
        }
    }

    /// Leaves all maps and closes all arenas, so that another process can own them. The next look
    /// opens them again.
    fn let_go(&mut self) {
        complain("another process wants to change a map: all maps are left for a moment");
        self.leave();
        for pin in &mut self.pins {
            if let State::Open(_) = pin.state {
                pin.state = State::Again;
            }
        }
    }

    fn leave(&mut self) {
        for opened in self.pins.iter_mut().filter_map(Pin::opened_mut) {
            opened.leave();
        }
    }
}

impl Pin {
    fn opened(&self) -> Option<&Opened> {
        match &self.state {
            State::Open(opened) => Some(opened),
            _ => None,
        }
    }

    fn opened_mut(&mut self) -> Option<&mut Opened> {
        match &mut self.state {
            State::Open(opened) => Some(opened),
            _ => None,
        }
    }

    /// Opens the arena, if the pin is one and is not open. `others` are those that are.
    fn open<'o>(&mut self, mut others: impl Iterator<Item = &'o Opened>) {
        let before = match &self.state {
            State::Failed(before) => before.as_str(),
            State::Again => "",
            State::Other | State::Open(_) => return,
        };
        self.state = match BpfArena::open(&self.path) {
            Ok(arena) => State::Open(Opened {
                path: self.path.clone(),
                arena,
                maps: Vec::new(),
                refused: Vec::new(),
                owned: 0,
                fault: None,
            }),
            // The pin is a program, a link or another map.
            Err(BpfError::NotAnArena { .. }) => State::Other,
            Err(BpfError::Io { error, .. }) if error.kind() != PermissionDenied => State::Other,
            Err(BpfError::Address { .. })
                if others.any(|one| one.arena.is_pinned_at(&self.path).unwrap_or(false)) =>
            {
                State::Again
            }
            Err(error) => {
                let what = error.to_string();
                if before != what {
                    complain(&format!("{}: {what}", self.path.display()));
                }
                State::Failed(what)
            }
        };
    }
}

impl Opened {
    /// Takes over maps whose owner is gone, and returns how many.
    fn adopt(&mut self, pace: Pace) -> u64 {
        self.owned = 0;
        let windows = match self.arena.windows() {
            Ok(windows) => windows,
            Err(error) => {
                self.complain(error.to_string());
                return 0;
            }
        };
        let mut adopted = 0;
        // A window that is closed is forgotten, so that another one of its name counts as new.
        self.refused.retain(|refused| windows.contains(refused));
        for window in windows {
            let is_served = self.maps.iter().any(|served| *served.window() == window);
            if window.kind != Kind::KernelQp || is_served || self.refused.contains(&window) {
                continue;
            }
            let name = &window.name;
            let span = span!(INFO, "adopt", arena = %self.path.display(), map = %name);
            let map = ProgramMap::<Bytes>::adopt(&self.arena, name);
            drop(span);
            match map.and_then(|map| Served::start(map, pace)) {
                Ok(served) => {
                    let entries = served.map().len();
                    complain(&format!(
                        "{}: {name}: {entries} entries, served",
                        self.shown()
                    ));
                    self.maps.push(served);
                    adopted += 1;
                }
                Err(BpfError::Owned { .. }) => self.owned += 1,
                Err(error) => {
                    complain(&format!("{}: {name} is not served: {error}", self.shown()));
                    self.refused.push(window);
                }
            }
        }
        adopted
    }

    fn shown(&self) -> std::path::Display<'_> {
        let path: &Path = &self.path;
        path.display()
    }

    fn complain(&mut self, fault: String) {
        if self.fault.as_ref() != Some(&fault) {
            complain(&format!("{}: {fault}", self.shown()));
            self.fault = Some(fault);
        }
    }

    /// Leaves the maps to their programs, and to another owner.
    fn leave(&mut self) {
        for served in self.maps.drain(..) {
            served.leave();
        }
    }
}
