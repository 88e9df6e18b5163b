//! Links of programs to network interfaces.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;

/// Attaches a program to a hook of an interface of this thread's network namespace.
pub(crate) fn attach(
    program: BorrowedFd<'_>,
    interface: u32,
    hook: sys::bpf_attach_type,
    flags: u32,
) -> io::Result<OwnedFd> {
    let options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
        flags,
        ..Default::default()
    };
    // SAFETY: a descriptor, and options that outlive the call. Options that are not set are zero,
    // and none is a pointer.
    let fd = unsafe {
        sys::bpf_link_create(
            program.as_raw_fd(),
            interface as i32,
            hook,
            &raw const options,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
