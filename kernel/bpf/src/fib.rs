//! Tables of prefixes: this process writes them, and programs look addresses up in them.

use std::fmt;
use std::ops::Deref;

use sapwood::lpm::{Family, Fib, IpFib, NextHop, V4, V6};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::grace::kernel_domain;
use crate::layout::Kind;
use crate::raw::arena::PAGE;
use crate::window_map::{MapInWindow, WindowMap, WindowMapBuilder};

/// A table of IPv4 prefixes in an arena.
pub type Ipv4Map<V> = FibMap<V4, V>;
/// A table of IPv6 prefixes in an arena.
pub type Ipv6Map<V> = FibMap<V6, V>;

/// A longest-prefix-match table in an arena. This process writes it, with all methods of [`Fib`],
/// and BPF programs look addresses up in it (`sapwood/lpm.bpf.h`). [`Ipv4Map`] and [`Ipv6Map`] are
/// aliases for it.
///
/// Values are plain bytes, and their size is a multiple of 4. Equal values are stored once, so
/// programs must not write to them. A table has at most 1 GiB.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, Ipv4Map};
/// let arena = BpfArena::create(256 << 20)?;
/// let fib = Ipv4Map::<u32>::builder(&arena, "routes").build()?;
/// fib.insert("10.0.0.0/8".parse()?, 1)?;
/// println!("programs name it {}", fib.window().number);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type FibMap<F, V> = WindowMap<Fib<F, V>>;

/// Builds a [`FibMap`].
///
/// ```no_run
/// # use sapwood_bpf::{BpfArena, Ipv6Map};
/// # let arena = BpfArena::create(256 << 20)?;
/// // A small table: its root takes 32 KiB.
/// let fib = Ipv6Map::<u64>::builder(&arena, "customer").root_bits(12).bytes(1 << 20).build()?;
/// # let _ = fib;
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub type FibMapBuilder<F, V> = WindowMapBuilder<Fib<F, V>>;

impl<F: Family, V: NextHop + FromBytes + IntoBytes + Immutable> FibMapBuilder<F, V> {
    /// Sets how many bits of an address the root resolves with one load: 6, 12, 18 (the default,
    /// for full tables) or 24. The root takes `8 << bits` bytes of the window.
    ///
    /// # Panics
    /// When `bits` is any other number.
    pub fn root_bits(mut self, bits: u8) -> Self {
        self.map = self.map.root_bits(bits);
        self
    }

    /// Builds a table from prefixes in any order. Of equal prefixes, the last one counts.
    ///
    /// # Errors
    /// As [`build`](Self::build), and those of `Builder::build_from`.
    pub fn build_from(
        self,
        prefixes: impl IntoIterator<Item = (F::Net, V)>,
    ) -> Result<FibMap<F, V>, Error> {
        self.build_by(|fib, memory| Ok(fib.build_from_in(memory, prefixes)?))
    }
}

impl<F: Family, V: NextHop + FromBytes + IntoBytes + Immutable> MapInWindow for Fib<F, V> {
    const KIND: Kind = match F::WIDTH {
        32 => Kind::Lpm4,
        _ => Kind::Lpm6,
    };

    const BYTES_MAX: usize = sapwood_format::lpm::MAX_BYTES.next_multiple_of(PAGE);
}

/// One table for each address family, in one arena and with one domain. It has all methods of
/// [`IpFib`].
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
    /// Makes two empty tables with `bytes` of address space each. Their names are `name` followed
    /// by ".v4" and ".v6". They share a new domain that has the kernel as a source of grace
    /// periods.
    ///
    /// # Errors
    /// As [`FibMapBuilder::build`].
    pub fn new(arena: &BpfArena, name: &str, bytes: usize) -> Result<IpMap<V>, Error> {
        let domain = kernel_domain()?;
        let v4 = FibMap::builder(arena, &format!("{name}.v4"));
        let v6 = FibMap::builder(arena, &format!("{name}.v6"));
        let v4 = v4.bytes(bytes).domain(&domain).build()?;
        let v6 = v6.bytes(bytes).domain(&domain).build()?;
        Ok(IpMap::from_maps(v4, v6))
    }
}

impl<V: NextHop> IpMap<V> {
    /// Joins two tables that share a domain.
    ///
    /// # Panics
    /// When the tables have different domains.
    pub fn from_maps(v4: Ipv4Map<V>, v6: Ipv6Map<V>) -> IpMap<V> {
        let both = IpFib::from_tables(Fib::clone(&v4), Fib::clone(&v6));
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

    /// The arena that holds the tables.
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
