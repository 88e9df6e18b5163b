//! tcx: links of programs to the traffic hooks of network interfaces.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libbpf_rs::libbpf_sys as sys;
use sapwood_bpf::{Error, Programs};

/// The hook of an interface at which a tc program sees packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TcxHook {
    /// Packets that the interface has received.
    Ingress,
    /// Packets that the kernel sends, before the qdisc.
    Egress,
}

/// A link of a tc program to a hook of a network interface. An interface has any number of links;
/// a new one comes behind those that are there. The drop detaches the program, unless the link is
/// pinned.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Loader};
/// use sapwood_xdp::{TcxHook, TcxLink, interface_index};
/// let arena = BpfArena::create(64 << 20)?;
/// let programs = Loader::open_file(&arena, "tc-depart.bpf.o")?.load()?;
/// let link = TcxLink::attach(&programs, "sw_depart", interface_index("eth0")?, TcxHook::Egress)?;
/// # drop(link);
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Debug)]
pub struct TcxLink {
    link: OwnedFd,
}

impl TcxLink {
    /// Attaches a program to the interface of this number, in the network namespace of the calling
    /// thread.
    ///
    /// # Errors
    /// [`Error::Missing`] when there is no such program; the system's error, for example when there
    /// is no such interface.
    pub fn attach(
        programs: &Programs,
        program: &str,
        interface: u32,
        hook: TcxHook,
    ) -> Result<TcxLink, Error> {
        let found = programs.program(program)?;
        let hook = match hook {
            TcxHook::Ingress => sys::BPF_TCX_INGRESS,
            TcxHook::Egress => sys::BPF_TCX_EGRESS,
        };
        let link = crate::raw::xdp::attach(found.as_fd(), interface, hook, 0);
        match link {
            Ok(link) => Ok(TcxLink { link }),
            Err(error) => Err(Error::io(format!("attaching {program}"), error)),
        }
    }

    /// Pins the link to a path of a bpf file system. A pinned link stays when this is dropped.
    ///
    /// # Errors
    /// The system's error.
    pub fn pin(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        sapwood_bpf::pin(self.fd(), path.as_ref())
    }

    /// The descriptor of the kernel's link.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
