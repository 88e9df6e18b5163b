//! Programs on network interfaces: XDP.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libbpf_rs::libbpf_sys as sys;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};

use crate::error::Error;
use crate::loader::Programs;
use crate::support;

/// Where an XDP program sees packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum XdpMode {
    /// In the interface's driver, before the kernel has made anything of them.
    Native,
    /// In the kernel's own code, for any interface: slower.
    Generic,
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        })
    }
}

/// A program on a network interface. It is taken off when this is dropped, unless it was pinned.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Loader, XdpLink, interface_index};
/// let arena = BpfArena::create(64 << 20)?;
/// let programs = Loader::open_file(&arena, "filter.bpf.o")?.load()?;
/// let link = XdpLink::attach(&programs, "filter", interface_index("eth0")?, None)?;
/// println!("{} mode", link.mode());
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Debug)]
pub struct XdpLink {
    link: OwnedFd,
    interface: u32,
    mode: XdpMode,
    refused: Option<String>,
}

impl XdpLink {
    /// Puts a program on the interface of this number, in the network namespace that the calling
    /// thread is in.
    ///
    /// Without a mode: in native mode, and where the driver refuses, in generic mode
    /// ([`native_refused`](Self::native_refused) says why).
    ///
    /// # Errors
    /// [`Error::Missing`] when there is no such program; what the system says: that there is no
    /// such interface, or that it has a program already.
    pub fn attach(
        programs: &Programs,
        program: &str,
        interface: u32,
        mode: Option<XdpMode>,
    ) -> Result<XdpLink, Error> {
        let program = programs.program(program)?;
        let attach = |mode, refused| {
            let flags = match mode {
                XdpMode::Native => sys::XDP_FLAGS_DRV_MODE,
                XdpMode::Generic => sys::XDP_FLAGS_SKB_MODE,
            };
            let link = crate::raw::xdp::attach(program.as_fd(), interface, flags)?;
            Ok(XdpLink {
                link,
                interface,
                mode,
                refused,
            })
        };
        let attached = match mode {
            Some(mode) => attach(mode, None),
            None => attach(XdpMode::Native, None).or_else(|error: std::io::Error| {
                // What generic mode would not help against.
                let known = [Errno::BUSY, Errno::EXIST, Errno::NODEV, Errno::PERM];
                match error.raw_os_error() {
                    Some(code) if known.iter().any(|one| one.raw_os_error() == code) => Err(error),
                    _ => attach(XdpMode::Generic, Some(error.to_string())),
                }
            }),
        };
        attached.map_err(|error| {
            Error::io(format!("putting a program on interface {interface}"), error)
        })
    }

    /// The interface's number.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// Where the program sees packets.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Why it is not in native mode, if that was tried.
    pub fn native_refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Pins the link: the program stays on the interface, whatever becomes of this process, until
    /// the path is removed.
    ///
    /// # Errors
    /// What the system says: that the path is taken, or not under a BPF file system.
    pub fn pin(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        support::pin(self.fd(), path.as_ref())
    }

    /// The kernel's link.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// Where the programs of an object are. They are taken off when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct XdpLinks(Vec<XdpLink>);

impl XdpLinks {
    /// As [`XdpLink::attach`].
    pub(crate) fn attach(
        &mut self,
        programs: &Programs,
        program: &str,
        interface: u32,
        mode: Option<XdpMode>,
    ) -> Result<&XdpLink, Error> {
        let link = XdpLink::attach(programs, program, interface, mode)?;
        self.0.push(link);
        Ok(&self.0[self.0.len() - 1])
    }

    /// Takes the programs off an interface; whether there were any.
    pub(crate) fn detach(&mut self, interface: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|link| link.interface() != interface);
        self.0.len() < before
    }

    pub(crate) fn all(&self) -> &[XdpLink] {
        &self.0
    }
}

/// The number of a network interface, in the network namespace that the calling thread is in.
///
/// ```
/// if let Ok(number) = sapwood_bpf::interface_index("lo") {
///     assert!(number > 0);
/// }
/// ```
///
/// # Errors
/// What the system says: that there is none of this name.
pub fn interface_index(name: &str) -> Result<u32, Error> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)
        .or_else(|_| socket(AddressFamily::UNIX, SocketType::DGRAM, None));
    any.and_then(|socket| netdevice::name_to_index(socket, name))
        .map_err(|error| Error::io(format!("network interface {name}"), error.into()))
}
