//! Tables of prefixes that this process writes and programs look addresses up in.

use std::fmt;
use std::ops::Deref;

use sapwood::lpm::{Family, Fib, FibBuilder, IpFib, NextHop, Published, V4, V6};
use sapwood_qsbr::Domain;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::grace::kernel_domain;
use crate::layout::Kind;

/// A table of IPv4 prefixes in an arena.
pub type Ipv4Map<V> = FibMap<V4, V>;
/// A table of IPv6 prefixes in an arena.
pub type Ipv6Map<V> = FibMap<V6, V>;

/// A longest-prefix-match table in an arena: this process writes it, with all methods of [`Fib`], and BPF programs look addresses
/// up (`sapwood/lpm.bpf.h`). [`Ipv4Map`] and [`Ipv6Map`] are this.
///
/// Values are plain bytes, a multiple of 4. Equal ones are stored once, so programs must not write to them.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Ipv4Map};
/// let arena = BpfArena::create(256 << 20)?;
/// let fib = Ipv4Map::<u32>::builder(&arena, "routes").build()?;
/// fib.insert("10.0.0.0/8".parse()?, 1)?;
/// println!("programs name it {}", fib.window().number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FibMap<F: Family, V: NextHop> {
    fib: Fib<F, V>,
    arena: BpfArena,
    window: WindowInfo,
}

/// How a [`FibMap`] is made.
///
/// ```no_run
/// # use sapwood_bpf::{BpfArena, Ipv6Map};
/// # let arena = BpfArena::create(256 << 20)?;
/// // A small table: its root takes 32 KiB.
/// let fib = Ipv6Map::<u64>::builder(&arena, "customer").root_bits(12).bytes(1 << 20).build()?;
/// # let _ = fib;
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct FibMapBuilder<F: Family, V: NextHop> {
    arena: BpfArena,
    name: String,
    bytes: Option<usize>,
    domain: Option<Domain>,
    fib: FibBuilder<F, V>,
}

/// What the window of a table of this family holds.
fn kind<F: Family>() -> Kind {
    match F::WIDTH {
        32 => Kind::Lpm4,
        _ => Kind::Lpm6,
    }
}

impl<F: Family, V: NextHop + FromBytes + IntoBytes + Immutable> FibMapBuilder<F, V> {
    /// Bytes of address space, which are also the most that the table can take; the root takes `8 << root bits` of them. Default, and
    /// most: 1 GiB, or all that the arena has left.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Bits of an address that the root resolves with one load: 6, 12, 18 (the default, for full tables) or 24.
    ///
    /// # Panics
    /// With any other number.
    pub fn root_bits(mut self, bits: u8) -> Self {
        self.fib = self.fib.root_bits(bits);
        self
    }

    /// The domain whose grace periods are waited for. It must have the kernel as a source
    /// ([`KernelGrace`](crate::KernelGrace)), or programs may read what was freed: wrong answers, though never a fault. Default: one
    /// of its own, with the kernel.
    pub fn domain(mut self, domain: &Domain) -> Self {
        self.domain = Some(domain.clone());
        self
    }

    /// An empty table.
    ///
    /// # Errors
    /// [`Error::NoRoom`], [`Error::Name`], [`Error::NoGrace`] and others, when arena or domain have it not.
    pub fn build(self) -> Result<FibMap<F, V>, Error> {
        self.build_from(std::iter::empty())
    }

    /// A table of prefixes in any order; of equal ones, the last wins.
    ///
    /// # Errors
    /// As [`build`](Self::build), and those of [`FibBuilder::build_from`].
    pub fn build_from(
        self,
        prefixes: impl IntoIterator<Item = (F::Net, V)>,
    ) -> Result<FibMap<F, V>, Error> {
        let domain = match self.domain {
            Some(domain) => domain,
            None => kernel_domain()?,
        };
        let most = Published::BYTES_MAX.next_multiple_of(4096);
        let bytes = self.bytes.unwrap_or_else(|| self.arena.bytes_left());
        let hash = Published::layout_hash::<F, V>();
        let (memory, window) = self.arena.make_window(&self.name, bytes.min(most), hash)?;
        let fib = self.fib.domain(&domain).build_from_in(memory, prefixes);
        let fib = fib.inspect_err(|_| self.arena.let_go(&window))?;
        let kind = kind::<F>();
        self.arena.open_window(&window, kind);
        Ok(FibMap {
            fib,
            window: WindowInfo { kind, ..window },
            arena: self.arena,
        })
    }
}

impl<F: Family, V: NextHop + FromBytes + IntoBytes + Immutable> FibMap<F, V> {
    /// A table of this name in the arena, made to measure.
    pub fn builder(arena: &BpfArena, name: &str) -> FibMapBuilder<F, V> {
        FibMapBuilder {
            arena: arena.clone(),
            name: name.to_owned(),
            bytes: None,
            domain: None,
            fib: Fib::builder(),
        }
    }
}

impl<F: Family, V: NextHop> FibMap<F, V> {
    /// Its window: the number is how programs name it.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// The arena that it lies in.
    pub fn arena(&self) -> &BpfArena {
        &self.arena
    }
}

impl<F: Family, V: NextHop> Deref for FibMap<F, V> {
    type Target = Fib<F, V>;

    fn deref(&self) -> &Fib<F, V> {
        &self.fib
    }
}

impl<F: Family, V: NextHop> Drop for FibMap<F, V> {
    fn drop(&mut self) {
        // The memory stays as it is for programs that are running.
        self.arena.close_window(self.window.number);
    }
}

impl<F: Family, V: NextHop + fmt::Debug> fmt::Debug for FibMap<F, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FibMap")
            .field("window", &self.window)
            .field("fib", &self.fib)
            .finish()
    }
}

/// Tables of both families in one arena, with one domain: all methods of [`IpFib`].
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, IpMap};
/// let arena = BpfArena::create(256 << 20)?;
/// let routes = IpMap::<u32>::new(&arena, "routes", 64 << 20)?;
/// routes.insert("2001:db8::/32".parse()?, 1)?;
/// println!("{} and {}", routes.window4().number, routes.window6().number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IpMap<V: NextHop> {
    v4: Ipv4Map<V>,
    v6: Ipv6Map<V>,
    both: IpFib<V>,
}

impl<V: NextHop + FromBytes + IntoBytes + Immutable> IpMap<V> {
    /// Two empty tables of so many bytes of address space each, named with ".v4" and ".v6" behind the name. The grace periods are
    /// those of a domain of their own, with the kernel.
    ///
    /// # Errors
    /// As [`FibMapBuilder::build`].
    pub fn new(arena: &BpfArena, name: &str, bytes: usize) -> Result<IpMap<V>, Error> {
        let domain = kernel_domain()?;
        let v4 = FibMap::builder(arena, &format!("{name}.v4"));
        let v6 = FibMap::builder(arena, &format!("{name}.v6"));
        let v4 = v4.bytes(bytes).domain(&domain).build()?;
        let v6 = v6.bytes(bytes).domain(&domain).build()?;
        Ok(IpMap::of(v4, v6))
    }
}

impl<V: NextHop> IpMap<V> {
    /// Two tables that share a domain.
    ///
    /// # Panics
    /// When they do not.
    pub fn of(v4: Ipv4Map<V>, v6: Ipv6Map<V>) -> IpMap<V> {
        let both = IpFib::of(Fib::clone(&v4), Fib::clone(&v6));
        IpMap { v4, v6, both }
    }

    /// The window of the IPv4 table.
    pub fn window4(&self) -> &WindowInfo {
        self.v4.window()
    }

    /// The window of the IPv6 table.
    pub fn window6(&self) -> &WindowInfo {
        self.v6.window()
    }

    /// The arena that they lie in.
    pub fn arena(&self) -> &BpfArena {
        self.v4.arena()
    }
}

impl<V: NextHop> Deref for IpMap<V> {
    type Target = IpFib<V>;

    fn deref(&self) -> &IpFib<V> {
        &self.both
    }
}

impl<V: NextHop + fmt::Debug> fmt::Debug for IpMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpMap")
            .field("v4", &self.v4)
            .field("v6", &self.v6)
            .finish()
    }
}
