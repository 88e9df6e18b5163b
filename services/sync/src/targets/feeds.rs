//! Routes that follow into something that takes changes, and cannot be read.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;

use super::routes::routes;
use super::{Each, Target};
use crate::routes::{Hops, key, prefix};
use crate::{Changes, Error};

/// What takes the routes of a [`FeedTarget`]: the tables of a program, or of another machine.
pub trait RouteFeed: Send + 'static {
    /// Makes the changes of one commit, or none if it fails. Each prefix comes once; `None` removes
    /// its route.
    ///
    /// # Errors
    /// [`Error::Map`] when there is no memory left.
    fn feed(&mut self, changes: &[(IpNet, Option<Arc<Hops>>)]) -> Result<(), Error>;

    /// As [`Target::reclaim`].
    fn reclaim(&mut self) {}
}

/// Routes that follow into a [`RouteFeed`]. This target keeps them as the leader wrote them, in a
/// map of its own: 28 bytes for a route, and each list of next hops once. What readers see of a
/// commit is for the feed to say.
pub struct FeedTarget<F> {
    routes: BTreeMap<IpNet, Arc<Hops>>,
    known: HashSet<Arc<Hops>>,
    feed: F,
}

impl<F: RouteFeed> FeedTarget<F> {
    /// A target without routes. What it feeds must have none either.
    pub fn new(feed: F) -> Self {
        FeedTarget {
            routes: BTreeMap::new(),
            known: HashSet::new(),
            feed,
        }
    }

    /// What takes the routes.
    pub fn feed(&self) -> &F {
        &self.feed
    }

    /// One list for all routes that have the same one.
    fn shared(&mut self, hops: Hops) -> Arc<Hops> {
        if let Some(known) = self.known.get(&hops) {
            return Arc::clone(known);
        }
        let hops = Arc::new(hops);
        self.known.insert(Arc::clone(&hops));
        hops
    }
}

impl<F: RouteFeed> Target for FeedTarget<F> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        Some(self.routes.get(&prefix(key).ok()?)?.to_value())
    }

    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error> {
        let mut routes = self.routes.iter();
        routes.try_for_each(|(net, hops)| each(&key(*net), &hops.to_value()))
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        let routes = routes(changes)?.into_iter();
        let changes: Vec<_> = routes
            .map(|(net, hops)| (net, hops.map(|hops| self.shared(hops))))
            .collect();
        self.feed.feed(&changes)?;
        for (net, hops) in changes {
            match hops {
                Some(hops) => drop(self.routes.insert(net, hops)),
                None => drop(self.routes.remove(&net)),
            }
        }
        Ok(())
    }

    fn reclaim(&mut self) {
        // Lists that no route has.
        self.known.retain(|hops| Arc::strong_count(hops) > 1);
        self.feed.reclaim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps routes, and refuses those to "full".
    #[derive(Default)]
    struct Kept(Vec<(IpNet, Option<String>)>);

    impl RouteFeed for Kept {
        fn feed(&mut self, changes: &[(IpNet, Option<Arc<Hops>>)]) -> Result<(), Error> {
            let text = |hops: &Option<Arc<Hops>>| Some(hops.as_ref()?.text()?.to_owned());
            if changes
                .iter()
                .any(|(_, hops)| text(hops).as_deref() == Some("full"))
            {
                return Err(Error::Map("full".into()));
            }
            self.0 = changes
                .iter()
                .map(|(net, hops)| (*net, text(hops)))
                .collect();
            Ok(())
        }
    }

    fn changes(all: &[(&str, Option<&str>)]) -> Changes {
        let mut changes = Changes::new();
        for (net, text) in all {
            let key = key(net.parse().unwrap());
            match text {
                Some(text) => changes
                    .put(key, Hops::one(text).unwrap().to_value())
                    .unwrap(),
                None => changes.remove(key).unwrap(),
            }
        }
        changes
    }

    fn entries(target: &FeedTarget<Kept>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = Vec::new();
        let mut each = |key: &[u8], value: &[u8]| {
            all.push((key.to_vec(), value.to_vec()));
            Ok(())
        };
        target.for_each(&mut each).unwrap();
        all
    }

    #[test]
    fn a_feed_gets_each_prefix_once_and_a_refusal_changes_nothing() {
        let mut target = FeedTarget::new(Kept::default());
        let (a, b) = ("10.0.0.0/8", "2001:db8::/32");
        target
            .commit(&changes(&[(b, Some("x")), (a, Some("x")), (a, Some("y"))]))
            .unwrap();
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let fed = [
            (net(a), Some("y".to_owned())),
            (net(b), Some("x".to_owned())),
        ];
        assert_eq!(target.feed().0, fed);
        let before = entries(&target);
        assert_eq!(before.len(), 2);
        assert!(before.is_sorted());
        assert_eq!(target.get(&key(net(a))), Some(b"\x01y".to_vec()));
        let refused = target.commit(&changes(&[(b, None), (a, Some("full"))]));
        assert!(refused.is_err());
        assert_eq!(entries(&target), before);
        target.commit(&changes(&[(a, None)])).unwrap();
        assert_eq!(target.feed().0, [(net(a), None)]);
        assert_eq!(entries(&target).len(), 1);
        // "y" and "full" have no route any more.
        target.reclaim();
        assert_eq!(target.known.len(), 1);
        assert!(
            target
                .commit(&changes(&[("10.0.0.0/8", Some("y"))]))
                .is_ok()
        );
        let mut bad = Changes::new();
        bad.put([9], "x").unwrap();
        assert!(target.commit(&bad).is_err());
        assert_eq!(entries(&target).len(), 2);
    }
}
