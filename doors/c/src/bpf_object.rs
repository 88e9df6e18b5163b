//! Objects of BPF programs: loaded with an arena, attached, pinned.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::Link;
use sapwood_bpf::{Error, Loader, Pinned, Programs};

use crate::bpf::{name, sapwood_bpf_arena};
use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{bytes, items_mut, path, place};
use crate::output::{hand_out, put_wanted};

/// How far an object has come.
enum State {
    Open(Loader),
    Loaded(Programs),
    /// The kernel or the library refused it.
    Refused,
}

/// The inside of the handle of an object.
pub struct ObjectBody {
    /// The names of programs that are attached, and what keeps them so. Detached before they are
    /// unloaded.
    links: Vec<(String, Link)>,
    state: State,
}

impl Body for ObjectBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swBo");
    const NAME: &'static str = "object";
}

impl ObjectBody {
    fn open(loader: Loader) -> Self {
        ObjectBody {
            links: Vec::new(),
            state: State::Open(loader),
        }
    }

    /// The object before it is loaded.
    fn loader(&mut self) -> Outcome<&mut Loader> {
        match &mut self.state {
            State::Open(loader) => Ok(loader),
            State::Loaded(_) => Err(Failure::new(libc::EBUSY, "the object is loaded already")),
            State::Refused => Err(refused()),
        }
    }

    /// The object after it was loaded.
    fn programs(&self) -> Outcome<&Programs> {
        match &self.state {
            State::Loaded(programs) => Ok(programs),
            State::Open(_) => Err(Failure::invalid("the object is not loaded yet")),
            State::Refused => Err(refused()),
        }
    }

    fn load(&mut self) -> Outcome {
        self.loader()?;
        if let State::Open(loader) = std::mem::replace(&mut self.state, State::Refused) {
            self.state = State::Loaded(loader.load()?);
        }
        Ok(0)
    }

    /// Attaches these programs, or none of them.
    fn attach(&mut self, wanted: impl Fn(&str) -> bool) -> Outcome {
        let mut links = Vec::new();
        for program in self.programs()?.object().progs() {
            let name = program.name().to_string_lossy().into_owned();
            if !program.autoload() || !wanted(&name) {
                continue;
            }
            if self.links.iter().any(|(there, _)| *there == name) {
                let text = format!("the program {name:?} is attached already");
                return Err(Failure::new(libc::EEXIST, text));
            }
            let link = self.programs()?.program(&name)?.attach();
            let link = link.map_err(|error| Error::system(format!("attaching {name}"), error))?;
            links.push((name, link));
        }
        self.links.append(&mut links);
        Ok(0)
    }

    /// Pins the arena, the programs and the links in an empty directory.
    fn pin(&self, pinned: &Pinned) -> Result<(), Error> {
        if let State::Loaded(programs) = &self.state {
            pinned.pin_arena(programs.arena())?;
            pinned.pin_programs(programs)?;
        }
        for (name, link) in &self.links {
            pinned.pin_link(name, link.as_fd())?;
        }
        Ok(())
    }
}

fn refused() -> Failure {
    Failure::invalid("the object was refused when it was loaded: open it anew")
}

c_api!(
    /// An object of BPF programs, compiled with the headers in sapwood/, and loaded with an arena.
    /// A skeleton of libbpf does the same by itself, if it gets the arena: sapwood_bpf_arena_fd.
    /// One thread at a time.
    const SECTION: &str = "Objects of BPF programs";

    pub type sapwood_bpf_object = Handle<ObjectBody>;

    /// Opens an object that a file, or memory, has. -ENOEXEC: it is none, or it has variables of
    /// its own in the arena (section .addr_space.1). -EPROTO: it was compiled with headers of
    /// another version.
    fn sapwood_bpf_object_open(
        arena: *const sapwood_bpf_arena,
        file: *const c_char,
        out: *mut *mut sapwood_bpf_object,
    ) -> c_int {
        let out = place(out, "out")?;
        let loader = Loader::open_file(&Handle::shared(arena)?.arena, path(file)?)?;
        hand_out(out, ObjectBody::open(loader), Handle::rules(arena))
    }

    fn sapwood_bpf_object_open_memory(
        arena: *const sapwood_bpf_arena,
        object: *const c_void,
        object_len: usize,
        out: *mut *mut sapwood_bpf_object,
    ) -> c_int {
        let out = place(out, "out")?;
        let object = bytes(object, object_len, "the object")?;
        let loader = Loader::open(&Handle::shared(arena)?.arena, object)?;
        hand_out(out, ObjectBody::open(loader), Handle::rules(arena))
    }

    /// Detaches the programs that sapwood_bpf_object_attach attached, and unloads those that are
    /// not pinned.
    fn sapwood_bpf_object_free(object: *mut sapwood_bpf_object) {
        free(object)
    }

    /// Before the object is loaded: sets all constants of a section whose name begins with .rodata,
    /// as "const volatile int map SEC(".rodata.map");". -ENOENT: there is no such section, or it
    /// has another size.
    fn sapwood_bpf_object_constants(
        object: *mut sapwood_bpf_object,
        section: *const c_char,
        data: *const c_void,
        data_len: usize,
    ) -> c_int {
        let data = bytes(data, data_len, "the constants")?;
        let loader = Handle::exclusive(object)?.loader()?;
        loader.set_constants(name(section, "the section")?, data)?;
        Ok(0)
    }

    /// Before the object is loaded: leaves a program out. -ENOENT.
    fn sapwood_bpf_object_without(
        object: *mut sapwood_bpf_object,
        program: *const c_char,
    ) -> c_int {
        let program = name(program, "the program")?;
        let loader = Handle::exclusive(object)?.loader()?;
        let mut programs = loader.object_mut().progs_mut();
        let Some(mut found) = programs.find(|one| one.name() == program) else {
            let name = program.to_owned();
            return Err(Error::Missing {
                what: "program",
                name,
            }
            .into());
        };
        found.set_autoload(false);
        Ok(0)
    }

    /// Loads the programs. -ENOEXEC: the kernel refuses one, or one may sleep and the arena does
    /// not allow that. After a failure, the object can only be freed.
    fn sapwood_bpf_object_load(object: *mut sapwood_bpf_object) -> c_int {
        Handle::exclusive(object)?.load()
    }

    /// Opens an object of a file and loads it.
    fn sapwood_bpf_load(
        arena: *const sapwood_bpf_arena,
        file: *const c_char,
        out: *mut *mut sapwood_bpf_object,
    ) -> c_int {
        let out = place(out, "out")?;
        let loader = Loader::open_file(&Handle::shared(arena)?.arena, path(file)?)?;
        let mut object = ObjectBody::open(loader);
        object.load()?;
        hand_out(out, object, Handle::rules(arena))
    }

    /// Returns the descriptor of a loaded program, or of one of the object's maps of the kernel,
    /// which stays the library's: for bpf_link_create, bpf_map_lookup_elem, ... -ENOENT.
    fn sapwood_bpf_object_program(
        object: *const sapwood_bpf_object,
        program: *const c_char,
    ) -> c_int {
        let programs = Handle::shared(object)?.programs()?;
        Ok(programs
            .program(name(program, "the program")?)?
            .as_fd()
            .as_raw_fd())
    }

    fn sapwood_bpf_object_map(object: *const sapwood_bpf_object, map: *const c_char) -> c_int {
        let programs = Handle::shared(object)?.programs()?;
        Ok(programs.map(name(map, "the map")?)?.as_fd().as_raw_fd())
    }

    /// Attaches a program where its section says (SEC("tracepoint/...")), or all programs if it is
    /// NULL, until the object is freed. After a failure nothing more is attached. Programs for an
    /// interface need its number: sapwood_bpf_object_program and bpf_link_create. -EEXIST: it is
    /// attached.
    fn sapwood_bpf_object_attach(object: *mut sapwood_bpf_object, program: *const c_char) -> c_int {
        let object = Handle::exclusive(object)?;
        if program.is_null() {
            return object.attach(|_| true);
        }
        let program = name(program, "the program")?;
        object.programs()?.program(program)?;
        object.attach(|name| name == program)
    }

    /// Runs a program for packets once on this packet of 14 bytes or more, which it may change, and
    /// stores what it returns unless result is NULL.
    fn sapwood_bpf_object_run(
        object: *const sapwood_bpf_object,
        program: *const c_char,
        packet: *mut c_void,
        packet_len: usize,
        result: *mut u32,
    ) -> c_int {
        let packet = items_mut(packet.cast::<u8>(), packet_len, "the packet")?;
        let programs = Handle::shared(object)?.programs()?;
        put_wanted(result, programs.run(name(program, "the program")?, packet)?);
        Ok(0)
    }

    /// Pins the arena, the programs, and what attaches them, as arena, prog-NAME and link-NAME in a
    /// directory of a BPF file system. It is made if it is not there, and must be empty: -EEXIST.
    /// They go on when this process ends. The commands of `sapwood bpf` know such directories.
    /// After a failure nothing is pinned.
    fn sapwood_bpf_object_pin(object: *const sapwood_bpf_object, folder: *const c_char) -> c_int {
        let object = Handle::shared(object)?;
        object.programs()?;
        let pinned = Pinned::create(path(folder)?)?;
        if let Err(error) = object.pin(&pinned) {
            // What could not be pinned is the failure.
            let _ = pinned.remove();
            return Err(error.into());
        }
        Ok(0)
    }
);
