//! The loader of programs that use an arena.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Once;

use libbpf_rs::{
    MapCore, MapFlags, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramInput, ProgramType,
};

use crate::arena::BpfArena;
use crate::counts::add_counts;
use crate::error::Error;
use crate::layout::page;
use crate::raw::sleep::{self, SLEEPABLE};
use crate::support;

/// The name of the map that `arena.bpf.h` declares.
pub(crate) const ARENA_MAP: &str = "sw_arena";

/// An object of BPF programs, before it is loaded with an arena.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Loader};
/// let arena = BpfArena::create(64 << 20)?;
/// let programs = Loader::open_file(&arena, "xdp-names.bpf.o")?.load()?;
/// # let _ = programs;
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct Loader {
    object: OpenObject,
    arena: BpfArena,
    sleepable: Vec<String>,
}

impl Loader {
    /// Opens a compiled object, for example one of `include_bytes!`.
    ///
    /// # Errors
    /// When the bytes are not an object of BPF programs, or the object does not declare the arena;
    /// [`Error::Version`] when it was compiled with the headers of another version;
    /// [`Error::ArenaVariables`] when it has variables of its own in the arena.
    pub fn open(arena: &BpfArena, object: &[u8]) -> Result<Loader, Error> {
        Loader::opened(
            arena,
            collected(|| ObjectBuilder::default().open_memory(object)),
        )
    }

    /// Opens a compiled object from a file.
    ///
    /// # Errors
    /// As [`open`](Self::open), and the system's error.
    pub fn open_file(arena: &BpfArena, path: impl AsRef<Path>) -> Result<Loader, Error> {
        let path = path.as_ref();
        if let Err(error) = std::fs::metadata(path) {
            return Err(Error::io(format!("opening {}", path.display()), error));
        }
        Loader::opened(
            arena,
            collected(|| ObjectBuilder::default().open_file(path)),
        )
    }

    fn opened(
        arena: &BpfArena,
        opened: (libbpf_rs::Result<OpenObject>, String),
    ) -> Result<Loader, Error> {
        support::check()?;
        let (object, said) = opened;
        let mut object = object.map_err(|error| match too_many_variables(&said) {
            Some(bytes) => Error::ArenaVariables { bytes },
            None => Error::Refused(format!("{error:#}\n{said}")),
        })?;
        let mut found = false;
        for mut map in object.maps_mut() {
            if map.name() == ARENA_MAP {
                // The headers write their version there.
                if map.max_entries() != page::VERSION {
                    return Err(Error::Version {
                        found: page::VERSION,
                        expected: map.max_entries(),
                    });
                }
                // libbpf keeps those of the section `.addr_space.1` as the map's first contents. It
                // copies them into no arena that it did not make, and points the programs at the
                // arena's first or last page, which are not theirs.
                if let Some(variables) = map.initial_value() {
                    return Err(Error::ArenaVariables {
                        bytes: variables.len(),
                    });
                }
                map.set_max_entries((arena.bytes() / 4096) as u32)
                    .and_then(|()| map.reuse_fd(arena.fd()))
                    .map_err(|error| Error::system("giving the object its arena", error))?;
                found = true;
            }
        }
        if !found {
            return Err(Error::Missing {
                what: "map",
                name: ARENA_MAP.to_owned(),
            });
        }
        Ok(Loader {
            object,
            arena: arena.clone(),
            sleepable: Vec::new(),
        })
    }

    /// Allows a program that may sleep, in an arena that does not allow them
    /// ([`BpfArena::allow_sleepable`]). The program must read maps only between `bpf_rcu_read_lock`
    /// and `bpf_rcu_read_unlock`. Grace periods wait for these sections in any case. All programs
    /// of type `syscall` may sleep.
    pub fn allow_sleepable(mut self, program: &str) -> Loader {
        self.sleepable.push(program.to_owned());
        self
    }

    /// Excludes a program from loading.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn without(mut self, program: &str) -> Result<Loader, Error> {
        let mut found = false;
        for mut one in self.object.progs_mut() {
            if one.name() == program {
                one.set_autoload(false);
                found = true;
            }
        }
        match found {
            true => Ok(self),
            false => Err(Error::Missing {
                what: "program",
                name: program.to_owned(),
            }),
        }
    }

    /// Sets the sizes of one of the kernel's maps: the bytes of a key, the bytes of a value, and
    /// the maximum number of entries.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn size_map(
        mut self,
        name: &str,
        key: u32,
        value: u32,
        entries: u32,
    ) -> Result<Loader, Error> {
        let mut maps = self.object.maps_mut();
        let mut map = maps
            .find(|map| map.name() == name)
            .ok_or_else(|| Error::Missing {
                what: "map",
                name: name.to_owned(),
            })?;
        map.set_key_size(key)
            .and_then(|()| map.set_value_size(value))
            .and_then(|()| map.set_max_entries(entries))
            .map_err(|error| Error::system(format!("sizing the map {name}"), error))?;
        drop(maps);
        Ok(self)
    }

    /// The object, for changes before the loading, for example of its constants.
    pub fn object_mut(&mut self) -> &mut OpenObject {
        &mut self.object
    }

    /// Sets the constants of a section whose name begins with `.rodata`: the bytes of all of them.
    /// A constant that a program declares in a section of its own is found whatever the compiler
    /// does with the others.
    ///
    /// ```no_run
    /// # use sapwood_bpf::{BpfArena, Loader};
    /// # let arena = BpfArena::create(64 << 20)?;
    /// // const volatile __u32 settings[2] SEC(".rodata.settings") = {};
    /// let mut loader = Loader::open_file(&arena, "program.bpf.o")?;
    /// let settings = [7u32, 8].map(u32::to_ne_bytes).concat();
    /// loader.set_constants(".rodata.settings", &settings)?;
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Missing`] when there is no such section, or it has another size.
    pub fn set_constants(&mut self, section: &str, value: &[u8]) -> Result<(), Error> {
        let mut maps = self.object.maps_mut();
        let found = maps.find(|map| map.name().to_string_lossy().ends_with(section));
        let set = found.is_some_and(|mut map| map.set_initial_value(value).is_ok());
        match set {
            true => Ok(()),
            false => Err(Error::Missing {
                what: "section of constants",
                name: section.to_owned(),
            }),
        }
    }

    /// Loads all programs. Programs that may sleep need an arena that allows them
    /// ([`BpfArena::allow_sleepable`]). They can be preempted by programs on their processor, so
    /// they must not use route caches, or make keys of more than 254 bytes by `key.bpf.h`. They
    /// write maps by `qp_write_sleepable.bpf.h` alone, which disables preemption for the time of a
    /// change, and needs Linux 6.15.
    ///
    /// # Errors
    /// [`Error::Sleepable`]; [`Error::SleepableCalls`]; [`Error::Capabilities`], when the process
    /// lacks some that the programs may need; [`Error::Refused`], with the end of the verifier's
    /// log.
    pub fn load(self) -> Result<Programs, Error> {
        let allowed = self.arena.allows_sleepable();
        let allowed = |name: &String| allowed || self.sleepable.contains(name);
        let mut sleeping = Vec::new();
        for program in self.object.progs() {
            let name = program.name().to_string_lossy().into_owned();
            let section = program.section().to_string_lossy();
            let kind = section.split('/').next().unwrap_or_default();
            let sleeps = kind.ends_with(".s") || program.prog_type() == ProgramType::Syscall;
            if program.autoload() && sleeps {
                if !allowed(&name) {
                    return Err(Error::Sleepable(name));
                }
                sleeping.push(name);
            }
        }
        let object = self.object;
        let (loaded, said) = collected(|| object.load());
        let object = loaded.map_err(|error| {
            let missing = support::missing_capabilities();
            // Without its capabilities, a program is refused before the verifier looks at it, or
            // for what only such programs may do.
            match error.kind() {
                libbpf_rs::ErrorKind::PermissionDenied if !missing.is_empty() => {
                    Error::Capabilities { missing }
                }
                _ => Error::Refused(format!("{error:#}\n{}", tail(&said))),
            }
        })?;
        for program in object.progs() {
            // The flag may be set even if the section's name does not show it.
            let name = program.name().to_string_lossy().into_owned();
            let flag = program.autoload() && program.flags() & SLEEPABLE != 0;
            if flag && !allowed(&name) {
                return Err(Error::Sleepable(name));
            }
            if flag || sleeping.contains(&name) {
                check_calls(&object, name, program.as_fd())?;
            }
        }
        Ok(Programs {
            object,
            arena: self.arena,
        })
    }
}

/// Refuses a sleepable program with a function of the headers that needs a processor for itself.
/// The compiler does not inline these functions. A program without names of functions is refused,
/// too. Those that change maps are admitted where the object's header disables preemption around
/// them (`qp_write_sleepable.bpf.h`), which gives them other names.
fn check_calls(object: &Object, program: String, fd: BorrowedFd<'_>) -> Result<(), Error> {
    let functions = sleep::functions(object, fd)?;
    let awake = functions.iter().any(|name| name.starts_with("sw_awake_"));
    // `sw_kqp_hash` is a part of lookups, too.
    let changes = |name: &str| name.starts_with("sw_kqp_") && name != "sw_kqp_hash";
    let others = ["sw_route_", "sw_key_put_part"];
    let refused = match functions.is_empty() {
        true => Some("functions without names".to_owned()),
        false => functions.into_iter().find(|name| {
            !awake && changes(name) || others.iter().any(|prefix| name.starts_with(prefix))
        }),
    };
    match refused {
        Some(function) => Err(Error::SleepableCalls { program, function }),
        None => Ok(()),
    }
}

/// Loaded programs. The drop unloads those that are neither attached nor pinned.
pub struct Programs {
    object: Object,
    arena: BpfArena,
}

impl Programs {
    /// The arena that the programs use.
    pub fn arena(&self) -> &BpfArena {
        &self.arena
    }

    /// The object, for all methods of libbpf-rs.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The object, for methods that attach or pin.
    pub fn object_mut(&mut self) -> &mut Object {
        &mut self.object
    }

    /// Runs a program once on this packet (`BPF_PROG_TEST_RUN`), and returns the program's result.
    /// The program may change the packet. It must be of a networking type. A packet has at least 14
    /// bytes, and less than a page.
    ///
    /// # Errors
    /// [`Error::Missing`], and the system's error.
    pub fn run(&self, program: &str, packet: &mut [u8]) -> Result<u32, Error> {
        let given = packet.to_vec();
        let input = ProgramInput {
            data_in: Some(&given),
            data_out: Some(packet),
            ..Default::default()
        };
        let output = self
            .program(program)?
            .test_run(input)
            .map_err(|error| Error::system(format!("running {program}"), error))?;
        Ok(output.return_value)
    }

    /// Updates an entry of one of the kernel's maps by a system call.
    ///
    /// # Errors
    /// [`Error::Missing`], and the system's error.
    pub fn update(&self, map: &str, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.map(map)?
            .update(key, value, MapFlags::ANY)
            .map_err(|error| Error::system(format!("updating {map}"), error))
    }

    /// The first `N` counts of a `BPF_MAP_TYPE_PERCPU_ARRAY` of `u64`s, each summed over all CPUs.
    ///
    /// # Errors
    /// [`Error::Missing`], and the system's error.
    pub fn counts<const N: usize>(&self, map: &str) -> Result<[u64; N], Error> {
        let mut sums = [0; N];
        add_counts(&self.map(map)?, &mut sums)?;
        Ok(sums)
    }

    /// A program by its name.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn program(&self, name: &str) -> Result<libbpf_rs::ProgramMut<'_>, Error> {
        let found = self
            .object
            .progs_mut()
            .find(|program| program.name() == name);
        found.ok_or_else(|| Error::Missing {
            what: "program",
            name: name.to_owned(),
        })
    }

    /// A map by its name.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, Error> {
        let found = self.object.maps().find(|map| map.name() == name);
        found.ok_or_else(|| Error::Missing {
            what: "map",
            name: name.to_owned(),
        })
    }
}

thread_local! {
    /// The messages of libbpf on this thread since the collection began.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `f`, and returns libbpf's messages instead of printing them.
fn collected<R>(f: impl FnOnce() -> R) -> (R, String) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Info, |_, text| {
            SAID.with_borrow_mut(|said| said.push_str(&text));
        })));
    });
    SAID.take();
    let result = f();
    (result, SAID.take())
}

/// The bytes of an object's variables in the arena, if libbpf says that there are more than the
/// pages that the headers name.
fn too_many_variables(said: &str) -> Option<usize> {
    let (_, bytes) = said.split_once("global __arena variables of size ")?;
    bytes.split_whitespace().next()?.parse().ok()
}

/// The last lines, which have the verifier's reason.
fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
