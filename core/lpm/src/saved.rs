//! Tables of plain values, saved as a [`FibFile`] and loaded from one.

use alloc::format;
use alloc::vec::Vec;
use std::path::Path;

use ipnet::IpNet;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::family::Family;
use super::fib::{Fib, NextHop};
use super::fib_file::{FibFile, FibFileBuilder, SavedHop};
use super::ip::IpFib;
use super::{FibSnapshot, IpSnapshot};
use crate::{Builder, OpenCause, OpenError, SaveError};

/// Saves prefixes with plain values.
fn save<'v, V: IntoBytes + Immutable + 'v>(
    mut prefixes: impl Iterator<Item = (IpNet, &'v V)>,
    path: &Path,
) -> Result<(), SaveError> {
    let mut file = FibFileBuilder::new();
    let filled = prefixes.try_for_each(|(net, value)| {
        let hop = file.hop(&SavedHop::of(value))?;
        file.insert(net, hop).map(drop)
    });
    filled.map_err(|error| SaveError::at(path)(error.into()))?;
    file.save(path)
}

impl<F: Family, V: NextHop + IntoBytes + Immutable> FibSnapshot<F, V> {
    /// Saves this version. The file is written beside `path`, flushed, and renamed, so `path`
    /// always names the whole old file or the whole new one. [`Builder::load`] makes a table of it,
    /// and a [`FibFile`] reads it without loading.
    ///
    /// Values of up to 8 bytes are saved as numbers ([`SavedHop::of`]).
    ///
    /// O(prefixes), and the writing of the file. It takes no lock.
    ///
    /// ```
    /// use sapwood::lpm::{FibFile, Ipv4Fib};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.fib", std::process::id()));
    /// let fib = Ipv4Fib::from_iter([("10.0.0.0/8".parse()?, 7u32)]);
    /// fib.snapshot().save(&path)?;
    /// let again = Ipv4Fib::<u32>::builder().load(&path)?;
    /// assert_eq!(again.lookup([10, 1, 2, 3].into()).unwrap().1, 7);
    /// let file = FibFile::open(&path)?;
    /// let hop = file.lookup_value("10.1.2.3".parse()?).unwrap();
    /// assert_eq!(file.hop(hop).unwrap().value(), Some(7u64));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        let prefixes = self.iter().map(|(net, value)| (net.into(), value));
        save(prefixes, path.as_ref())
    }
}

impl<V: NextHop + IntoBytes + Immutable> IpSnapshot<V> {
    /// Saves this version, as [`FibSnapshot::save`] does; [`Builder::load`] makes a table of it.
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        save(self.iter(), path.as_ref())
    }
}

/// Makes a table of the routes of a file.
fn load<V: NextHop + FromBytes, T>(
    path: &Path,
    make: impl FnOnce(Vec<(IpNet, V)>) -> Result<T, OpenCause>,
) -> Result<T, OpenError> {
    let holds = format!("values of {} bytes", size_of::<V>());
    let file = FibFile::open(path)?;
    let routes = file.routes_as(&holds, |hop| hop.value::<V>());
    routes.and_then(make).map_err(OpenError::at(path))
}

impl<F: Family, V: NextHop + FromBytes> Builder<Fib<F, V>> {
    /// Loads a table from a file whose next hops are numbers or plain values that the type has, as
    /// [`FibSnapshot::save`] and [`IpSnapshot::save`] write, after checking all of it.
    ///
    /// O(bytes of the file), and a table built of sorted prefixes.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong: [`OpenCause::NotHeld`] when the file has a prefix of the
    /// other family, a name, a group, a null route, or a value of another size.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn load(self, path: impl AsRef<Path>) -> Result<Fib<F, V>, OpenError> {
        load(path.as_ref(), |routes| {
            let own = routes
                .into_iter()
                .map(|(net, value)| match F::from_net(net) {
                    Some(net) => Ok((net, value)),
                    None => Err(OpenCause::NotHeld(format!("{net}, of the other family"))),
                });
            let own = own.collect::<Result<Vec<_>, _>>()?;
            self.build_from(own)
                .map_err(|error| OpenCause::Table(error.into()))
        })
    }
}

impl<V: NextHop + FromBytes> Builder<IpFib<V>> {
    /// Loads a table from a file whose next hops are numbers or plain values that the type has, as
    /// [`IpSnapshot::save`] and [`FibSnapshot::save`] write, after checking all of it.
    ///
    /// O(bytes of the file), and tables built of sorted prefixes.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong: [`OpenCause::NotHeld`] when the file has a name, a group,
    /// a null route, or a value of another size.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    pub fn load(self, path: impl AsRef<Path>) -> Result<IpFib<V>, OpenError> {
        load(path.as_ref(), |routes| {
            self.build_from(routes)
                .map_err(|error| OpenCause::Table(error.into()))
        })
    }
}
