//! The kernel's grace periods for programs that may sleep, and the functions of loaded programs.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::btf::{Btf, BtfType, TypeId};
use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{AsRawLibbpf, MapCore, MapHandle, MapType, Object};

use crate::error::Error;

/// The kernel's flag for programs that may sleep.
pub(crate) const SLEEPABLE: u32 = sys::BPF_F_SLEEPABLE;

/// A grace period that waits for programs which may sleep (tasks-trace RCU).
///
/// The beginning loads a sleepable program that refers to a map of its own, closes the map, and
/// unloads the program. The kernel drops the program's reference to the map after a tasks-trace
/// grace period, and frees the map's number with the last reference. So the period is over when no
/// map has this number.
pub(crate) struct SleepableGrace {
    map: u32,
}

impl SleepableGrace {
    /// Begins a grace period. Takes some milliseconds at most, and does not wait for programs.
    pub(crate) fn begin() -> Result<SleepableGrace, Error> {
        let options = sys::bpf_map_create_opts {
            sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
            ..Default::default()
        };
        let map = MapHandle::create(MapType::Array, Some("sw_sleep"), 4, 4, 1, &options)
            .map_err(|error| Error::system("making a map", error))?;
        let number = map
            .info()
            .map_err(|error| Error::system("asking for a map's number", error))?
            .info
            .id;
        let program = load(map.as_fd())?;
        // The program has the last reference to the map.
        drop(map);
        drop(program);
        Ok(SleepableGrace { map: number })
    }

    /// Whether the grace period is over.
    pub(crate) fn is_over(&self) -> Result<bool, Error> {
        // SAFETY: the call takes a number, and returns a descriptor or an error.
        let found = unsafe { sys::bpf_map_get_fd_by_id(self.map) };
        if found >= 0 {
            // SAFETY: the call above made this descriptor, which nothing else closes.
            drop(unsafe { OwnedFd::from_raw_fd(found) });
            return Ok(false);
        }
        match Error::last("looking for a map by its number") {
            Error::Io { error, .. } if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            error => Err(error),
        }
    }
}

/// Loads a sleepable program that returns 0 and refers to this map.
fn load(map: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    let instruction = |code: u8, registers: u8, number: i32| {
        let [a, b, c, d] = number.to_ne_bytes();
        u64::from_ne_bytes([code, registers, 0, 0, a, b, c, d])
    };
    let code = [
        // The address of the map, in two instructions.
        instruction(0x18, 0x11, map.as_raw_fd()),
        0,
        // r0 = 0
        instruction(0xb7, 0, 0),
        // exit
        instruction(0x95, 0, 0),
    ];
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as sys::size_t,
        prog_flags: SLEEPABLE,
        ..Default::default()
    };
    // SAFETY: the strings end in 0, the instructions are as many as the call says and have 8 bytes
    // each, and all pointers are valid during the call.
    let loaded = unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_SYSCALL,
            c"sw_sleep".as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            code.as_ptr().cast(),
            code.len() as sys::size_t,
            &raw mut options,
        )
    };
    if loaded < 0 {
        return Err(Error::last("loading a program that may sleep"));
    }
    // SAFETY: the call above made this descriptor, which nothing else closes.
    Ok(unsafe { OwnedFd::from_raw_fd(loaded) })
}

/// The names of the functions of a loaded program, of those that the compiler did not inline. Empty
/// when the object, whose program it is, was made without such names.
///
/// The names come from the object and not from the kernel, which gives them to processes with
/// `CAP_SYS_ADMIN` alone. Both number types in the same way.
pub(crate) fn functions(object: &Object, program: BorrowedFd<'_>) -> Result<Vec<String>, Error> {
    let ask = |info: &mut sys::bpf_prog_info| {
        let mut size = size_of::<sys::bpf_prog_info>() as u32;
        // SAFETY: `info` has `size` bytes for the kernel to fill. Its pointers are null, or have
        // room for as many items as it says.
        let code = unsafe {
            sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut *info).cast(), &raw mut size)
        };
        match code {
            0 => Ok(()),
            _ => Err(Error::last("asking for a program's functions")),
        }
    };
    let mut first = sys::bpf_prog_info::default();
    ask(&mut first)?;
    if first.nr_func_info == 0 || first.btf_id == 0 {
        return Ok(Vec::new());
    }
    let mut found = vec![sys::bpf_func_info::default(); first.nr_func_info as usize];
    let mut second = sys::bpf_prog_info {
        nr_func_info: first.nr_func_info,
        func_info_rec_size: size_of::<sys::bpf_func_info>() as u32,
        func_info: found.as_mut_ptr() as u64,
        ..Default::default()
    };
    ask(&mut second)?;
    // SAFETY: libbpf made this object and closes it when `object` is dropped. Nobody changes it
    // while it is borrowed here.
    let raw = unsafe { object.as_libbpf_object().as_ref() };
    let types = Btf::from_bpf_object(raw);
    let types = types.map_err(|error| Error::system("reading a program's types", error))?;
    let Some(types) = types else {
        return Ok(Vec::new());
    };
    let name = |info: &sys::bpf_func_info| {
        let function = types.type_by_id::<BtfType<'_>>(TypeId::from(info.type_id))?;
        function
            .name()
            .map(OsStr::to_string_lossy)
            .map(String::from)
    };
    Ok(found.iter().filter_map(name).collect())
}
