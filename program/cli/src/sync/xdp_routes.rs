//! Routes that follow into the tables by which a program in the kernel forwards packets.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use sapwood_bpf::{BpfArena, GroupMap, HopTables, IpMap};
use sapwood_routes::{Gateway, RouteInjector, RouteMirror, XdpRouter};
use sapwood_sync::routes::Hops;
use sapwood_sync::{Error as SyncError, FeedTarget, RouteFeed};
use sapwood_xdp::XdpMode;

use super::xdp::{bytes, interfaces, say_mode};
use crate::bpf::metrics::RouteMetrics;
use crate::cli::sync::XdpArgs;
use crate::errors::{Error, complain};
use crate::service::Service;

/// Bytes of the arena that the tables leave to others: the groups of next hops.
const ROOM: usize = 8 << 20;
/// The time between two looks at the figures and the VLANs.
const LOOK: Duration = Duration::from_secs(1);
/// The most garbage that a look frees.
const BUDGET: usize = 1 << 20;

/// The router of a follower.
pub struct Router {
    program: XdpRouter,
    metrics: RouteMetrics,
    /// The routes whose values are no addresses.
    texts: Arc<AtomicUsize>,
    looked: Instant,
    /// What was told last.
    told: (u64, u64),
    failure: Option<String>,
}

impl Router {
    /// Attaches a router that has the kernel's routes only. Routes go into it by the target.
    pub fn start(
        args: &XdpArgs,
        service: &Service,
    ) -> Result<(Self, FeedTarget<Injection>), Error> {
        if args.pin.is_some() {
            let why = "--pin keeps a filter of names; a router ends with its follower, because \
                       nobody else follows the neighbours";
            return Err(Error::Usage(why.into()));
        }
        sapwood_bpf::check()?;
        let (interfaces, bytes) = (interfaces(args)?, bytes(args)?);
        let arena = BpfArena::create(bytes.saturating_add(ROOM))?;
        let groups = GroupMap::builder(&arena, "groups").build()?;
        let map = IpMap::new(&arena, "routes", bytes / 2)?;
        let tables = HopTables::new(map).with_groups(groups);
        let mirror = RouteMirror::start(Arc::new(tables))?;
        let injection = Injection {
            injector: mirror.injector(),
            texts: HashSet::new(),
            count: Arc::default(),
        };
        let mut program = XdpRouter::mirrored(mirror, 0)?;
        let metrics = RouteMetrics::new(service.metrics(), &program)?;
        let mode = args.generic.then_some(XdpMode::Generic);
        for (name, index) in interfaces {
            say_mode(name, program.attach(index, mode)?);
        }
        let router = Router {
            metrics,
            program,
            texts: Arc::clone(&injection.count),
            looked: Instant::now(),
            told: (0, 0),
            failure: None,
        };
        Ok((router, FeedTarget::new(injection)))
    }

    /// The routes that are left to the kernel, and those of them whose values are no addresses, if
    /// that has changed.
    pub fn look(&mut self) -> Result<Option<(u64, u64)>, Error> {
        let Some(mirror) = self.program.mirror() else {
            return Ok(None);
        };
        let stats = mirror.stats();
        if stats.failure != self.failure {
            if let Some(failure) = &stats.failure {
                complain(&format!("the tables: {failure}"));
            }
            self.failure = stats.failure;
        }
        if self.looked.elapsed() >= LOOK {
            let map = mirror.tables().map();
            map.v4().reclaim(BUDGET);
            map.v6().reclaim(BUDGET);
            self.metrics.vlans(self.program.update_vlans()?);
            self.metrics.update(&self.program);
            self.looked = Instant::now();
        }
        let now = (stats.unresolved, self.texts.load(Ordering::Relaxed) as u64);
        Ok((std::mem::replace(&mut self.told, now) != now).then_some(now))
    }

    /// Detaches the router.
    pub fn end(self) -> Result<(), Error> {
        let counts = self.program.counts()?;
        complain(&format!(
            "{} packets, {} of them forwarded",
            counts.total(),
            counts.forwarded()
        ));
        Ok(())
    }
}

/// What takes a follower's routes into the tables.
pub struct Injection {
    injector: RouteInjector,
    /// The prefixes whose values are no addresses.
    texts: HashSet<IpNet>,
    count: Arc<AtomicUsize>,
}

impl RouteFeed for Injection {
    fn feed(&mut self, changes: &[(IpNet, Option<Arc<Hops>>)]) -> Result<(), SyncError> {
        let found: Vec<_> = changes
            .iter()
            .map(|(net, hops)| (*net, hops.as_ref().map(|hops| gateways(hops))))
            .collect();
        let injected = found.iter().map(|(net, found)| {
            let none = || Arc::from([]);
            (*net, found.clone().map(|found| found.unwrap_or_else(none)))
        });
        let done = self.injector.inject(injected);
        done.map_err(|error| SyncError::Map(error.to_string()))?;
        for (net, found) in found {
            match found {
                Some(None) => self.texts.insert(net),
                _ => self.texts.remove(&net),
            };
        }
        self.count.store(self.texts.len(), Ordering::Relaxed);
        Ok(())
    }
}

/// The gateways of next hops whose texts are addresses.
fn gateways(hops: &Hops) -> Option<Arc<[Gateway]>> {
    let members = hops.members().map(|(text, weight)| (text, weight, false));
    let backups = hops.backups().map(|(text, weight)| (text, weight, true));
    let gateways = members.chain(backups).map(|(text, weight, backup)| {
        let address: IpAddr = text.parse().ok()?;
        Some(Gateway {
            address,
            weight,
            backup,
        })
    });
    let gateways: Option<Vec<_>> = gateways.collect();
    gateways.filter(|all| !all.is_empty()).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_gateways() {
        let shown = |hops: Hops| {
            let found = gateways(&hops)?;
            let show = |one: &Gateway| (one.address.to_string(), one.weight, one.backup);
            Some(found.iter().map(show).collect::<Vec<_>>())
        };
        let one = |text| shown(Hops::one(text).unwrap());
        assert_eq!(one("192.0.2.1"), Some(vec![("192.0.2.1".into(), 1, false)]));
        assert_eq!(one("fe80::1"), Some(vec![("fe80::1".into(), 1, false)]));
        for text in ["", "7", "192.0.2.1/32", "eth0", "192.0.2.1 "] {
            assert_eq!(one(text), None, "{text:?}");
        }
        let group = Hops::group([("192.0.2.2", 3), ("192.0.2.1", 1)], [("192.0.2.9", 1)]);
        let wanted = [
            ("192.0.2.1", 1, false),
            ("192.0.2.2", 3, false),
            ("192.0.2.9", 1, true),
        ];
        let wanted = wanted.map(|(text, weight, backup)| (text.to_owned(), weight, backup));
        assert_eq!(shown(group.unwrap()), Some(wanted.into()));
        assert_eq!(
            shown(Hops::group([("192.0.2.1", 1), ("x", 1)], []).unwrap()),
            None
        );
        assert_eq!(shown(Hops::group::<&str>([], []).unwrap()), None);
    }
}
