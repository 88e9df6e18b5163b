//! The checked reader of a published table of prefixes, `sapwood::lpm::Fib`.

mod table;
mod verify;
mod walk;

use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr};

pub use ipnet;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood_format::{Window, header as page};

use self::table::Table;
use self::walk::{Prefix, Walk};
use crate::source::attempts;
use crate::value::NO_VALUE;
use crate::{CheckedValue, Source, Trouble, Values};

/// A reader of a table of IPv4 or IPv6 prefixes that a process publishes (`build_in` of
/// `sapwood::lpm::Fib`). The process may change the table meanwhile, or be dead. The reader returns
/// copies, and checks every word before it relies on it.
///
/// # What is promised
///
/// - Whatever bytes the window holds, and whatever is written meanwhile, the reader reads nothing
///   outside the window, and every operation ends, with a result or an error.
/// - A lookup reads one root word, and below it only what does not change any more: it answers as
///   the table did before a change or after it. A walk finds every prefix that is there throughout,
///   and each prefix that it finds was there at some time.
/// - Where the writer's grace periods do not wait for the reader, the writer may reuse the memory
///   that is read. The reader therefore reads the root word again, and begins anew if it has
///   changed. This detects nearly all such cases, but not all.
/// - While nobody writes, answers are exact, and [`verify`](Self::verify) checks that the table is
///   intact.
///
/// A new owner builds a table of what a dead process left:
///
/// ```
/// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
/// use sapwood::lpm::ipnet::{IpNet, Ipv4Net};
/// use sapwood::lpm::Ipv4Fib;
/// use sapwood_checked::lpm::CheckedFib;
/// # use sapwood_checked::{Fixed, Trouble};
/// # let path = std::env::temp_dir().join(format!("sapwood-left-{}", std::process::id()));
/// # let left = ArenaOptions::default()
/// #     .backing(Backing::File(path.clone()))
/// #     .header(HeaderMode::Page)
/// #     .layout_hash(Ipv4Fib::<u32>::layout_hash());
/// # let fib = Ipv4Fib::<u32>::builder().root_bits(12).build_in(Arena::create(left)?)?;
/// # fib.insert("10.0.0.0/8".parse()?, 7)?;
/// # let bytes = std::fs::read(&path)?;
/// # std::fs::remove_file(&path)?;
/// # let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
/// # let left: Vec<u64> = words.collect();
/// let left = CheckedFib::<_, u32>::new(Fixed(&left[..]))?;
/// left.verify()?;
/// let prefixes: Vec<(Ipv4Net, u32)> = left
///     .iter()
///     .map(|prefix| match prefix? {
///         (IpNet::V4(net), value) => Ok((net, value)),
///         (IpNet::V6(_), _) => unreachable!("the layout hash is that of an IPv4 table"),
///     })
///     .collect::<Result<_, Trouble>>()?;
/// let options = ArenaOptions::default()
///     .backing(Backing::Mmap { reserve: 1 << 20 })
///     .header(HeaderMode::Page)
///     .layout_hash(Ipv4Fib::<u32>::layout_hash());
/// let heir = Ipv4Fib::builder().root_bits(12).build_from_in(Arena::create(options)?, prefixes)?;
/// assert_eq!(heir.lookup([10, 1, 2, 3].into()).unwrap().1, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CheckedFib<S, V> {
    source: S,
    values: PhantomData<fn() -> V>,
}

impl<S: Source, V: CheckedValue> CheckedFib<S, V> {
    /// A reader of the table of this source.
    ///
    /// # Errors
    /// Those of the source; [`Trouble::Values`] when the values have another size, or the table was
    /// made with another type; [`Trouble::Damaged`].
    pub fn new(source: S) -> Result<Self, S::Error> {
        let reader = CheckedFib {
            source,
            values: PhantomData,
        };
        reader.with(|_| Ok(()))?;
        Ok(reader)
    }

    /// The source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// The table, as the header page has it now.
    fn table(&self) -> Result<Result<Table<S::Window>, Trouble>, S::Error> {
        let (window, _) = self.source.open()?;
        Ok(Table::new::<V>(window))
    }

    /// Repeats `read` until no change disturbs it.
    fn with<R>(
        &self,
        mut read: impl FnMut(&Table<S::Window>) -> Result<R, Trouble>,
    ) -> Result<R, S::Error> {
        attempts(&self.source, || {
            Ok(self.table()?.and_then(|table| read(&table)))
        })
    }

    /// The value of these bytes.
    fn value(&self, bytes: &[u8]) -> Result<V, S::Error> {
        V::of(bytes).ok_or_else(|| self.source.error(NO_VALUE))
    }

    /// Checks that the table has this layout hash: addresses of the same family, and values of the
    /// same type.
    ///
    /// # Errors
    /// [`Trouble::Values`]; those of [`new`](Self::new).
    pub fn check_layout(&self, expected: u64) -> Result<(), S::Error> {
        self.with(|table| match table.window.u64(page::LAYOUT_AT) {
            hash if hash == expected => Ok(()),
            hash => Err(Trouble::Values(Values::Layout {
                bytes: table.value_bytes,
                hash,
            })),
        })
    }

    /// Bits of an address, 32 or 128.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn width(&self) -> Result<u8, S::Error> {
        self.with(|table| Ok(table.width as u8))
    }

    /// Bits of an address that the root resolves.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn root_bits(&self) -> Result<u8, S::Error> {
        self.with(|table| Ok(table.bits as u8))
    }

    /// The longest prefix of an address: its length, and its value. `None` for an address of the
    /// other family.
    ///
    /// # Errors
    /// [`Trouble::Damaged`]; [`Trouble::Changed`] when changes disturbed every attempt; those of
    /// the source.
    pub fn lookup(&self, address: impl Into<IpAddr>) -> Result<Option<(u8, V)>, S::Error> {
        let (key, width) = match address.into() {
            IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let found = self.with(|table| match table.width == width {
            true => table.lookup(key),
            false => Ok(None),
        })?;
        let found = found.map(|(len, value)| Ok((len, self.value(&value)?)));
        found.transpose()
    }

    /// All prefixes that cover a prefix, itself included: their lengths and values, shortest first.
    /// None for a prefix of the other family. Bits after the length do not count.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn covering(&self, net: impl Into<IpNet>) -> Result<Vec<(u8, V)>, S::Error> {
        let net = net.into().trunc();
        let (key, width) = match net {
            IpNet::V4(net) => (u128::from(u32::from(net.addr())) << 96, 32),
            IpNet::V6(net) => (u128::from(net.addr()), 128),
        };
        let found = self.with(|table| match table.width == width {
            true => table.covering(key, net.prefix_len().into()),
            false => Ok(Vec::new()),
        })?;
        let value = |(len, value): (u8, Vec<u8>)| Ok((len, self.value(&value)?));
        found.into_iter().map(value).collect()
    }

    /// The value of exactly this prefix.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn get(&self, net: impl Into<IpNet>) -> Result<Option<V>, S::Error> {
        let net = net.into();
        let last = self.covering(net)?.pop();
        Ok(last.and_then(|(len, value)| (len == net.prefix_len()).then_some(value)))
    }

    /// All prefixes with their values, in the order of their bits and, of equal ones, their length.
    pub fn iter(&self) -> CheckedPrefixes<'_, S, V> {
        CheckedPrefixes {
            reader: self,
            table: None,
            walk: Walk::default(),
            after: None,
            given: 0,
            over: false,
        }
    }

    /// The number of prefixes that the table states.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn len(&self) -> Result<u64, S::Error> {
        self.with(|table| Ok(table.stated_len()))
    }

    /// Whether the table states that it has no prefix.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn is_empty(&self) -> Result<bool, S::Error> {
        Ok(self.len()? == 0)
    }

    /// Checks the table (`docs/lpm.md`): that lookups find the value of the longest prefix, that
    /// equal neighbours are stored once, and that no two blocks share a byte. Nobody may write the
    /// table meanwhile, because a change may look like damage.
    ///
    /// A change that the writer's death interrupted is not damage. The census then says that the
    /// table is [not settled](FibCensus::is_settled).
    ///
    /// # Errors
    /// [`Trouble::Damaged`], with the first invariant that does not hold, and its place.
    pub fn verify(&self) -> Result<FibCensus, S::Error> {
        self.source.refresh();
        let table = self.table()?;
        let census = table.and_then(|table| verify::verify(&table));
        self.source.still_valid()?;
        census.map_err(|trouble| self.source.error(trouble))
    }
}

/// The counts of a table that [`CheckedFib::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FibCensus {
    /// The number of prefixes.
    pub prefixes: usize,
    /// The number of prefixes that the table states.
    pub stated: u64,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of lone prefixes.
    pub lone: usize,
    /// The number of different values.
    pub values: usize,
    /// The number of root words that say something else than the root prefixes.
    pub unsettled: usize,
}

impl FibCensus {
    /// Whether no change was under way. A change of a prefix that is not longer than the root, and
    /// a commit, store more than one word; when the writer dies between them, lookups of some
    /// addresses answer as after the change, and others as before it. A walk finds each prefix as
    /// it was before or after it.
    pub fn is_settled(&self) -> bool {
        self.unsettled == 0 && self.stated == self.prefixes as u64
    }
}

impl<S: fmt::Debug, V> fmt::Debug for CheckedFib<S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedFib")
            .field("source", &self.source)
            .finish()
    }
}

/// The prefixes of a [`CheckedFib`] with their values. The iterator ends after an error.
pub struct CheckedPrefixes<'a, S: Source, V> {
    reader: &'a CheckedFib<S, V>,
    /// The table in which the walk stands, if it stands.
    table: Option<Table<S::Window>>,
    walk: Walk,
    after: Option<Prefix>,
    given: usize,
    over: bool,
}

impl<S: Source, V: CheckedValue> CheckedPrefixes<'_, S, V> {
    fn advance(&mut self) -> Result<Option<(IpNet, V)>, S::Error> {
        let (reader, after, walk) = (self.reader, self.after, &mut self.walk);
        let stood = self.table.take();
        let found = stood.and_then(|table| Some((walk.next(&table, after, true).ok()?, table)));
        let (found, table) = match found {
            Some(found) => {
                reader.source.still_valid()?;
                found
            }
            // An old place may lead nowhere, so only a walk from the root can tell damage.
            None => reader.with(|table| Ok((walk.next(table, after, false)?, table.clone())))?,
        };
        let Some((prefix, value)) = found else {
            return Ok(None);
        };
        self.given += 1;
        // Each prefix takes a word for its value.
        if self.given > table.window.len() / 4 {
            let trouble = Trouble::Damaged("more prefixes than room", table.root);
            return Err(reader.source.error(trouble));
        }
        let net = net_of(prefix, table.width);
        self.after = Some(prefix);
        self.table = Some(table);
        Ok(Some((net, reader.value(&value)?)))
    }
}

/// The prefix of these bits, which has no bits behind its length.
fn net_of((bits, len): Prefix, width: u32) -> IpNet {
    match width {
        32 => Ipv4Net::new_assert(Ipv4Addr::from((bits >> 96) as u32), len).into(),
        _ => Ipv6Net::new_assert(bits.into(), len).into(),
    }
}

impl<S: Source, V: CheckedValue> Iterator for CheckedPrefixes<'_, S, V> {
    type Item = Result<(IpNet, V), S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.advance().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl<S: Source, V: CheckedValue> std::iter::FusedIterator for CheckedPrefixes<'_, S, V> {}

impl<S: Source, V> fmt::Debug for CheckedPrefixes<'_, S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedPrefixes")
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}
