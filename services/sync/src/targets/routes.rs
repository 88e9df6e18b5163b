//! Tables of routes that follow.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use ipnet::IpNet;
use sapwood::lpm::{IpFib, NextHop};
use sapwood::route::{Group, RouteTable};
use sapwood_live::{Live, LiveTexts, Routes};

use super::names::BUDGET;
use super::{Each, Target};
use crate::routes::{Hops, key, prefix};
use crate::{Changes, Error};

/// The routes that a commit changes, each once; `None` removes a prefix.
pub(super) fn routes(changes: &Changes) -> Result<BTreeMap<IpNet, Option<Hops>>, Error> {
    let mut routes = BTreeMap::new();
    for change in changes.iter() {
        let net = prefix(change.key)?;
        let hops = change.value.map(Hops::from_value).transpose();
        routes.insert(net, hops.map_err(|error| named(net, error))?);
    }
    Ok(routes)
}

/// An error with the prefix that it is about.
fn named(net: IpNet, error: Error) -> Error {
    Error::Change(format!("{net}: {error}"))
}

/// What a table in memory has for a prefix: all of its next hops ([`Hops`]), or the text of the
/// only one (`Arc<str>`).
pub trait Hop: NextHop {
    /// The value of these next hops.
    ///
    /// # Errors
    /// [`Error::Change`] when they cannot be such a value.
    fn from_hops(hops: Hops) -> Result<Self, Error>;

    /// The next hops of this value.
    fn hops(&self) -> Hops;
}

impl Hop for Hops {
    fn from_hops(hops: Hops) -> Result<Self, Error> {
        Ok(hops)
    }

    fn hops(&self) -> Hops {
        self.clone()
    }
}

impl Hop for Arc<str> {
    fn from_hops(hops: Hops) -> Result<Self, Error> {
        Ok(single(&hops)?.into())
    }

    fn hops(&self) -> Hops {
        Hops::one(self).expect("it was checked when it came in")
    }
}

/// The text of the one next hop.
fn single(hops: &Hops) -> Result<&str, Error> {
    hops.text().ok_or_else(|| {
        Error::Change("a group of next hops, and this table holds one for each prefix".into())
    })
}

/// A table of this process that follows. `S` is what leads to the table: an
/// `Arc<IpFib<Arc<str>>>`, or an `Arc<IpFib<Hops>>`.
///
/// A commit is one transaction, which [publishes its changes root word by root
/// word](sapwood::lpm::IpTxn::commit): readers may see a part of it for a moment. A
/// [snapshot](IpFib::snapshot) has all of a commit or none. If a commit fails, nothing has changed.
pub struct FibTarget<S>(pub S);

impl<S, H> Target for FibTarget<S>
where
    S: Deref<Target = IpFib<H>> + Send + 'static,
    H: Hop,
{
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let hop = self.0.get(prefix(key).ok()?)?;
        Some(hop.hops().to_value())
    }

    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error> {
        let snapshot = self.0.snapshot();
        let mut routes = snapshot.iter();
        routes.try_for_each(|(net, hop)| each(&key(net), &hop.hops().to_value()))
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        let routes = routes(changes)?;
        let mut txn = self.0.begin();
        for (net, hops) in routes {
            // A transaction that is dropped leaves nothing.
            match hops {
                Some(hops) => {
                    let hop = H::from_hops(hops).map_err(|error| named(net, error))?;
                    txn.insert(net, hop)
                        .map_err(|rejected| Error::map(rejected.error))?;
                }
                None => drop(txn.remove(net).map_err(Error::map)?),
            }
        }
        txn.commit();
        Ok(())
    }

    fn reclaim(&mut self) {
        self.0.v4().reclaim(BUDGET);
        self.0.v6().reclaim(BUDGET);
    }
}

/// The group of next hops that have no backups.
fn group<H: NextHop>(
    net: IpNet,
    hops: &Hops,
    mut hop: impl FnMut(&str) -> H,
) -> Result<Group<H>, Error> {
    if hops.backups().len() > 0 {
        let what = "backups, and this table has none: follow into a table of Hops";
        return Err(named(net, Error::Change(what.into())));
    }
    Ok(Group::new(
        hops.members().map(|(text, weight)| (hop(text), weight)),
    ))
}

/// The next hops of a group.
fn hops_of<H: NextHop>(group: &Group<H>, text: impl Fn(&H) -> Option<Arc<str>>) -> Hops {
    let members = group
        .members()
        .filter_map(|(hop, weight)| Some((text(hop)?, weight)));
    Hops::group(members, []).expect("they were checked when they came in")
}

/// A table of this process with groups of next hops, which follows. `S` is what leads to the table:
/// an `Arc<RouteTable<Arc<str>>>`. A route with backups is an [`Error::Change`].
///
/// Readers may see a part of a commit for a moment, as with a [`FibTarget`]. If a commit fails,
/// nothing has changed.
pub struct GroupTarget<S>(pub S);

impl<S> Target for GroupTarget<S>
where
    S: Deref<Target = RouteTable<Arc<str>>> + Send + 'static,
{
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let group = self.0.get(prefix(key).ok()?)?;
        Some(hops_of(&group, |hop| Some(hop.clone())).to_value())
    }

    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error> {
        let snapshot = self.0.snapshot();
        let mut routes = snapshot.iter();
        routes.try_for_each(|(net, group)| {
            each(
                &key(net),
                &hops_of(group, |hop| Some(hop.clone())).to_value(),
            )
        })
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        let routes = routes(changes)?;
        let mut txn = self.0.begin();
        for (net, hops) in routes {
            match hops {
                Some(hops) => {
                    let group = group(net, &hops, |text| Arc::<str>::from(text))?;
                    txn.insert(net, group)
                        .map_err(|rejected| Error::map(rejected.error))?;
                }
                None => drop(txn.remove(net).map_err(Error::map)?),
            }
        }
        txn.commit();
        Ok(())
    }

    fn reclaim(&mut self) {
        self.0.reclaim(BUDGET);
    }
}

/// A live table that follows, and the texts of its next hops, as `sapwood routes serve` keeps them.
/// A group of next hops is an [`Error::Change`].
///
/// Readers may see a part of a commit for a moment, as with a [`FibTarget`]. If a commit fails,
/// nothing has changed.
pub struct LiveFibTarget {
    table: Live<IpFib<u32>>,
    texts: LiveTexts,
}

impl LiveFibTarget {
    /// A table and its texts, which this process has made or taken over.
    pub fn new(table: Live<IpFib<u32>>, mut texts: LiveTexts) -> Self {
        for (_, number) in table.snapshot().iter() {
            texts.used(*number);
        }
        LiveFibTarget { table, texts }
    }

    /// The table.
    pub fn table(&self) -> &Live<IpFib<u32>> {
        &self.table
    }

    /// Deletes the table and its texts.
    ///
    /// # Errors
    /// As [`Live::remove_map`].
    pub fn remove_map(self) -> Result<(), sapwood_live::Error> {
        // The directory of the texts lies in that of the table.
        self.table.remove_map()
    }

    fn value(&self, number: u32) -> Option<Vec<u8>> {
        let hops = Hops::one(self.texts.text(number)?);
        Some(hops.ok()?.to_value())
    }
}

impl Target for LiveFibTarget {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.value(self.table.get(prefix(key).ok()?)?)
    }

    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error> {
        for (net, number) in self.table.snapshot().iter() {
            // What a new owner finds without a text differs from any route, and is replaced.
            each(&key(net), &self.value(*number).unwrap_or_default())?;
        }
        Ok(())
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        let routes = routes(changes)?;
        let mut hops = Vec::new();
        for (net, new) in &routes {
            let text = new.as_ref().map(single).transpose();
            hops.extend(text.map_err(|error| named(*net, error))?);
        }
        let numbers = self.texts.numbers(hops).map_err(Error::map)?;
        let mut numbers = numbers.into_iter();
        let mut txn = self.table.begin();
        let (mut used, mut left) = (Vec::new(), Vec::new());
        for (net, new) in routes {
            let old = match new.and_then(|_| numbers.next()) {
                Some(number) => {
                    used.push(number);
                    let inserted = txn.insert(net, number);
                    inserted.map_err(|rejected| Error::map(rejected.error))?
                }
                None => txn.remove(net).map_err(Error::map)?,
            };
            left.extend(old.copied());
        }
        txn.commit();
        used.into_iter().for_each(|number| self.texts.used(number));
        left.into_iter().for_each(|number| self.texts.left(number));
        Ok(())
    }

    fn reclaim(&mut self) {
        self.table.v4().reclaim(BUDGET);
        self.table.v6().reclaim(BUDGET);
        self.texts.tidy(BUDGET);
    }
}

/// A live table with groups of next hops, which follows. Next hops are numbers, whose texts lie in
/// the table's directory as those of a [`LiveFibTarget`] do. A route with backups is an
/// [`Error::Change`].
///
/// Readers may see a part of a commit for a moment, as with a [`FibTarget`]. If a commit fails,
/// nothing has changed.
pub struct LiveGroupTarget {
    table: Live<Routes<u32>>,
    texts: LiveTexts,
}

impl LiveGroupTarget {
    /// A table and its texts, which this process has made or taken over.
    pub fn new(table: Live<Routes<u32>>, mut texts: LiveTexts) -> Self {
        for (_, group) in table.entries() {
            group.members().for_each(|(number, _)| texts.used(*number));
        }
        LiveGroupTarget { table, texts }
    }

    /// The table.
    pub fn table(&self) -> &Live<Routes<u32>> {
        &self.table
    }

    fn hops(&self, group: &Group<u32>) -> Hops {
        hops_of(group, |number| self.texts.text(*number).map(Arc::from))
    }
}

impl Target for LiveGroupTarget {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let group = self.table.get(prefix(key).ok()?)?;
        Some(self.hops(&group).to_value())
    }

    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error> {
        for (net, group) in self.table.entries() {
            each(&key(net), &self.hops(&group).to_value())?;
        }
        Ok(())
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        let routes = routes(changes)?;
        let texts = routes.values().flatten().flat_map(Hops::members);
        let numbers = self.texts.numbers(texts.map(|(text, _)| text));
        let mut numbers = numbers.map_err(Error::map)?.into_iter();
        let (mut used, mut left, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (net, hops) in routes {
            let mut next = |_: &str| {
                used.extend(numbers.next());
                used.last().copied().unwrap_or_default()
            };
            let group = hops.map(|hops| group(net, &hops, &mut next)).transpose()?;
            left.extend(self.table.get(net));
            all.push((net, group));
        }
        self.table.apply(all).map_err(Error::map)?;
        used.into_iter().for_each(|number| self.texts.used(number));
        for group in left {
            group
                .members()
                .for_each(|(number, _)| self.texts.left(*number));
        }
        Ok(())
    }

    fn reclaim(&mut self) {
        self.table.reclaim(BUDGET);
        self.texts.tidy(BUDGET);
    }
}
