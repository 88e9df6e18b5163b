//! XDP: links of programs to network interfaces.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libbpf_rs::libbpf_sys as sys;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use sapwood_bpf::{Error, Programs};

/// The place at which an XDP program sees packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum XdpMode {
    /// In the interface's driver, before the kernel allocates a socket buffer.
    Native,
    /// In the kernel's generic code. This is slower, and works with any interface.
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

/// A link of a program to a network interface. The drop detaches the program, unless the link is
/// pinned.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Loader};
/// use sapwood_xdp::{XdpLink, interface_index};
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
    /// Attaches a program to the interface of this number, in the network namespace of the calling
    /// thread.
    ///
    /// With `None` as the mode, this tries native mode first, then generic mode if the driver
    /// refuses ([`native_refused`](Self::native_refused) has the reason).
    ///
    /// # Errors
    /// [`Error::Missing`] when there is no such program; the system's error, for example when there
    /// is no such interface, or it has a program already.
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
            let link = crate::raw::xdp::attach(program.as_fd(), interface, sys::BPF_XDP, flags)?;
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
                // Errors that generic mode would give, too.
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

    /// The number of the interface.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// The mode in which the program is attached.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// The reason why the driver refused native mode, if it was tried.
    pub fn native_refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Pins the link. The program then stays on the interface when this process ends, until the
    /// path is removed.
    ///
    /// # Errors
    /// The system's error, for example when the path is taken, or not in a BPF file system.
    pub fn pin(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        sapwood_bpf::pin(self.fd(), path.as_ref())
    }

    /// The descriptor of the kernel's link.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// The links of an object's programs. The drop detaches the programs.
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

    /// Detaches the programs from an interface. Returns whether there were any.
    pub(crate) fn detach(&mut self, interface: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|link| link.interface() != interface);
        self.0.len() < before
    }

    pub(crate) fn all(&self) -> &[XdpLink] {
        &self.0
    }
}

/// The number of a network interface, in the network namespace of the calling thread.
///
/// ```
/// if let Ok(number) = sapwood_xdp::interface_index("lo") {
///     assert!(number > 0);
/// }
/// ```
///
/// # Errors
/// The system's error, for example when no interface has this name.
pub fn interface_index(name: &str) -> Result<u32, Error> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)
        .or_else(|_| socket(AddressFamily::UNIX, SocketType::DGRAM, None));
    any.and_then(|socket| netdevice::name_to_index(socket, name))
        .map_err(|error| Error::io(format!("network interface {name}"), error.into()))
}
