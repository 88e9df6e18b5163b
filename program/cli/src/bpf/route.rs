//! `sapwood bpf route`: forwards packets before the kernel's network stack while the command runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sapwood_bpf::{BpfArena, GroupMap, HopTables, IpMap, ProgramRouteCache};
use sapwood_routes::{RouteMirror, XdpRouter};
use sapwood_xdp::{RouteCounts, XdpMode, XdpRoute, interface_index};
use serde_json::{Map, Value};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::metrics::RouteMetrics;
use crate::cli::bpf::{Hops, RouteArgs};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::output::Output;
use crate::service::Service;
use crate::span;

/// The longest time until a signal takes effect.
const PAUSE: Duration = Duration::from_millis(100);
/// The time between two sweeps of the cache, and between two looks at the VLANs.
const SWEEP: Duration = Duration::from_secs(1);

/// `run`: forwards packets and prints the counts.
pub fn run(args: &RouteArgs) -> Outcome {
    sapwood_bpf::check()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let numbers = |names: &[String]| {
        let numbers = names
            .iter()
            .map(|name| Ok((name.clone(), interface_index(name)?)));
        numbers.collect::<Result<Vec<_>, Error>>()
    };
    let (interfaces, pass) = (numbers(&args.interfaces)?, numbers(&args.pass)?);
    let mut service = Service::begin(args.service.metrics.as_ref(), &[])?;
    let mut router = start(args)?;
    let metrics = RouteMetrics::new(service.metrics(), &router)?;
    let mode = args.generic.then_some(XdpMode::Generic);
    for (name, index) in interfaces {
        let _attach = span!(INFO, "attach", interface = %name);
        let asked = router.mode();
        let link = router.attach(index, mode)?;
        if let Some(why) = link.native_refused() {
            complain(&format!(
                "{name}: the driver takes no program ({why}); generic mode is slower"
            ));
        }
        complain(&format!("{name}: {asked}, {} mode", link.mode()));
    }
    for (_, index) in pass {
        router.attach_pass(index, mode)?;
    }
    metrics.vlans(router.update_vlans()?);
    let status = format!("{} interfaces", router.links().len());
    service.ready(&status, || metrics.update(&router))?;
    let ended = work(&router, args, &stop, &mut service, &metrics);
    service.stopping(|| metrics.update(&router));
    let counts = router.counts()?;
    let stats = router.cache().map(ProgramRouteCache::stats);
    drop(router);
    ended?;
    let mut out = Output::lines(args.json);
    show(&mut out, &counts)?;
    out.flush()?;
    if let Some(stats) = stats {
        complain(&format!(
            "cache: {} hits, {} misses, {} entries inserted, {} evicted, {} swept",
            stats.hit, stats.miss, stats.insert, stats.evict, stats.swept
        ));
    }
    Ok(Answer::Yes)
}

/// Loads the program that finds next hops as the arguments ask.
fn start(args: &RouteArgs) -> Result<XdpRouter, Error> {
    let _start = span!(INFO, "start", by = ?args.by);
    Ok(match args.by {
        Hops::Resolver => XdpRoute::resolver(&BpfArena::create(1 << 20)?)?.into(),
        Hops::Cache => {
            // Bytes of a cache line for each entry, and of one more for each sixteen, rounded up.
            let bytes = args.capacity.saturating_mul(80).saturating_add(4 << 20);
            let bytes = bytes.checked_next_multiple_of(4096).unwrap_or(usize::MAX);
            let cache = ProgramRouteCache::builder(&BpfArena::create(bytes)?, "flows")
                .capacity(args.capacity)
                .fresh(Duration::from_millis(args.fresh))
                .keep(Duration::from_millis(args.keep))
                .build()?;
            XdpRoute::cached(cache)?.into()
        }
        Hops::Table => {
            let arena = BpfArena::create(1 << 30)?;
            let groups = GroupMap::builder(&arena, "groups").build()?;
            let map = IpMap::new(&arena, "routes", 256 << 20)?;
            let tables = HopTables::new(map).with_groups(groups);
            XdpRouter::mirrored(RouteMirror::start(Arc::new(tables))?, args.flow_seed)?
        }
    })
}

/// Sweeps the cache, and reads the VLANs and the routes with an MTU each [`SWEEP`], until a signal
/// comes or the time has passed.
fn work(
    router: &XdpRouter,
    args: &RouteArgs,
    stop: &AtomicBool,
    service: &mut Service,
    metrics: &RouteMetrics,
) -> Result<(), Error> {
    let began = Instant::now();
    let mut swept = began;
    while !stop.load(Ordering::Relaxed) {
        if args
            .seconds
            .is_some_and(|most| began.elapsed().as_secs() >= most)
        {
            break;
        }
        if swept.elapsed() >= SWEEP {
            if let Some(cache) = router.cache() {
                let sweep = span!(DEBUG, "sweep", swept = tracing::field::Empty);
                let count = cache.sweep(ProgramRouteCache::now(), cache.capacity())?;
                sweep.record("swept", count);
            }
            metrics.vlans(router.update_vlans()?);
            router.update_mtus()?;
            swept = Instant::now();
        }
        service.tick(|| metrics.update(router));
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Prints counts: name, tab, number in each line, or one document.
fn show(out: &mut Output, counts: &RouteCounts) -> Result<(), Error> {
    if out.json {
        let fields = counts
            .iter()
            .map(|(verdict, count)| (verdict.name().replace('-', "_"), Value::from(count)));
        let mut document: Map<String, Value> = fields.collect();
        document.insert("forwarded".into(), counts.forwarded().into());
        document.insert("packets".into(), counts.total().into());
        return out.document(&document.into());
    }
    for (verdict, count) in counts.iter() {
        out.fields(&[verdict.name().as_bytes(), count.to_string().as_bytes()])?;
    }
    out.fields(&[b"forwarded", counts.forwarded().to_string().as_bytes()])?;
    out.fields(&[b"packets", counts.total().to_string().as_bytes()])
}
