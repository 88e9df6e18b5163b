//! Chapter: routes, and a route cache.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use sapwood::lpm::{V4, V6};
use sapwood::route::RouteCache;
use sapwood_model::data::routes::{NEXT_HOPS, next_hops, routes_v4, routes_v6};
use serde_json::{Value, json};

use super::{Chapter, Tour, figure, grouped, timed};
use crate::cli::routes::SourceArgs;
use crate::errors::{Error, shown};
use crate::prefixes::family::Kind;
use crate::prefixes::lookups::Course;
use crate::prefixes::{HEADER, Measured, measure};
use crate::progress::Progress;
use crate::routes::load::Routes as Table;

/// The chapter on longest-prefix match, and on a cache of a slow resolver's answers.
pub struct Routes;

/// How many prefixes of each family a generated table has.
const GENERATED: [usize; 2] = [300_000, 60_000];
const QUICK: [usize; 2] = [60_000, 12_000];
/// The time of one answer of the slow resolver.
const SLOW: Duration = Duration::from_micros(2);
/// How many entries the cache has.
const CAPACITY: usize = 8192;
/// How many flows come back.
const FLOWS: usize = 4096;
/// How many packets share one reading of the clock.
const BURST: usize = 32;
/// A next hop that no route has.
const DETOUR: u32 = u32::MAX;

impl Chapter for Routes {
    fn name(&self) -> &'static str {
        "routes"
    }

    fn title(&self) -> &'static str {
        "Routes"
    }

    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        let mut progress = Progress::new("routes", Some(21), false);
        let (table, how) = match tour.routes.take() {
            Some(yours) => yours,
            None => generated(tour),
        };
        tour.say(format!(
            "{how}\n\
             Ipv4Fib and Ipv6Fib find the longest prefix of an address: 18 bits by one load, then \
             6 bits a step. The rival is a hash map for each prefix length; a lookup tries the \
             longest length first. Addresses are random ones, and ones inside prefixes of the \
             table; batches have 32. All answers are compared.\n "
        ))?;
        let mut figures = json!({ "how": how });
        let mut all = Vec::new();
        let v4 = family::<V4>(tour, table.v4, &mut progress, &mut all)?;
        let v6 = family::<V6>(tour, table.v6, &mut progress, &mut all)?;
        drop(progress);
        let rows: Vec<_> = all.iter().flat_map(|(_, seen)| seen.rows.clone()).collect();
        tour.table(&HEADER, &rows)?;
        for (name, seen) in all {
            tour.say(format!("\n{}", seen.more))?;
            figures[name] = seen.figures;
        }
        figures["cache"] = match (&v6, &v4) {
            (Some(course), _) => cache(tour, course)?,
            (_, Some(course)) => cache(tour, course)?,
            _ => Value::Null,
        };
        Ok(figures)
    }
}

/// Measures a family, if it has routes.
fn family<F: Kind>(
    tour: &mut Tour,
    routes: Vec<(F::Net, u32)>,
    progress: &mut Progress,
    all: &mut Vec<(String, Measured)>,
) -> Result<Option<Course<F>>, Error> {
    if routes.is_empty() {
        return Ok(None);
    }
    let (addresses, slice) = match tour.quick {
        true => (100_000, Duration::from_millis(40)),
        false => (250_000, Duration::from_millis(120)),
    };
    let (course, seen) = measure::<F>(routes, addresses, slice, 3, progress)?;
    tour.checks += seen.checks;
    all.push((F::NAME.to_lowercase(), seen));
    Ok(Some(course))
}

/// The user's table, and the sentence that describes it.
pub fn yours(file: &Path) -> Result<(Table, String), Error> {
    let table = Table::load_some(file, &SourceArgs::default())?;
    let how = format!(
        "{} IPv4 and {} IPv6 routes of {}.",
        grouped(table.v4.len()),
        grouped(table.v6.len()),
        shown(file)
    );
    Ok((table, how))
}

/// A table generated in the proportions of the global one; each prefix has one of 64 next hops.
fn generated(tour: &Tour) -> (Table, String) {
    let [v4, v6] = if tour.quick { QUICK } else { GENERATED };
    let count = |most: usize| most.min(tour.limit);
    let mut table = Table::default();
    let prefixes = routes_v4(count(v4), 1);
    let hops = next_hops(prefixes.len(), 2);
    table.v4 = prefixes.into_iter().map(V4::join).zip(hops).collect();
    let prefixes = routes_v6(count(v6), 1);
    let hops = next_hops(prefixes.len(), 3);
    table.v6 = prefixes.into_iter().map(V6::join).zip(hops).collect();
    let how = format!(
        "A generated table in the proportions of the global one: {} IPv4 and {} IPv6 prefixes, \
         with {NEXT_HOPS} next hops drawn by Zipf's law. With --routes the tour uses your table \
         instead.",
        grouped(table.v4.len()),
        grouped(table.v6.len()),
    );
    (table, how)
}

/// A flow: its address and its hash.
type Flow = (u128, u32);

/// Measures a cache of a slow resolver's answers.
fn cache<F: Kind>(tour: &mut Tour, course: &Course<F>) -> Result<Value, Error> {
    let packets = if tour.quick { 50_000 } else { 200_000 };
    tour.say(format!(
        "\nA RouteCache keeps the answers of a slow resolver, here one of {SLOW:.0?}, for 100 ms \
         from before the question. Of {} packets, four in five belong to {FLOWS} flows, and each \
         other one to a flow of its own. The cache has {CAPACITY} entries, and its memory never \
         grows.",
        grouped(packets)
    ))?;
    let fib = &course.fib;
    let mut reader = fib
        .reader("resolver")
        .map_err(|e| Error::Tour(e.to_string()))?;
    let mut rng = fastrand::Rng::with_seed(4);
    let mut draw = || {
        let address = course.inside[rng.usize(..course.inside.len())];
        (F::left(address), rng.u32(..))
    };
    let flows: Vec<Flow> = (0..FLOWS).map(|_| draw()).collect();
    let mut which = fastrand::Rng::with_seed(5);
    let traffic: Vec<Flow> = (0..packets)
        .map(|_| match which.u8(..5) {
            0 => draw(),
            _ => flows[which.usize(..FLOWS)],
        })
        .collect();
    let view = reader.view();
    let direct = |flow: &Flow| view.lookup_value(F::address(flow.0)).copied().ok_or(());
    let slow = |flow: &Flow| {
        let began = Instant::now();
        while began.elapsed() < SLOW {
            std::hint::spin_loop();
        }
        direct(flow)
    };
    let add = |sum: u64, hop: u32| sum.wrapping_mul(31).wrapping_add(hop.into());
    let each = |time: Duration, count: usize| time.as_nanos() as f64 / count as f64;

    let (wanted, straight) = timed(|| {
        traffic
            .iter()
            .map(direct)
            .map(|h| h.unwrap_or(DETOUR))
            .fold(0, add)
    });
    let asked = packets / 10;
    let (_, without) = timed(|| {
        traffic[..asked]
            .iter()
            .map(slow)
            .filter(Result::is_ok)
            .count()
    });
    let cache: RouteCache<Flow, u32> = RouteCache::new(CAPACITY);
    let clock = Instant::now();
    let now = || clock.elapsed().as_nanos() as u64;
    let memory = cache.memory();
    let (sum, with) = timed(|| {
        let mut sum = 0;
        for burst in traffic.chunks(BURST) {
            let now = now();
            for flow in burst {
                let hop = cache.get_or_resolve(flow, cache.hash(flow), now, slow);
                sum = add(sum, hop.unwrap_or(DETOUR));
            }
        }
        black_box(sum)
    });
    tour.checks += packets as u64;
    tour.check(sum == wanted, || "the cache gives another next hop".into())?;
    let stats = cache.stats();
    tour.check(stats.hit + stats.miss == packets as u64, || {
        format!("the cache counts wrongly: {stats:?}")
    })?;
    let gone = stats.evict + stats.swept + stats.invalidated;
    tour.check(stats.insert - gone == stats.occupancy as u64, || {
        format!("the cache's entries: {stats:?}")
    })?;
    tour.check(cache.memory() == memory, || "the cache has grown".into())?;
    let share = stats.hit as f64 * 100.0 / packets as f64;
    tour.say(format!(
        "  {} ns a packet by the resolver; {} ns with the cache, which answers {share:.0} % of \
         the packets;\n  \
         {} ns by a table of all routes instead, without a resolver\n  \
         entries of the cache: {} inserted, {} evicted, {} refreshed; {} bytes",
        figure(each(without, asked)),
        figure(each(with, packets)),
        figure(each(straight, packets)),
        grouped(stats.insert as usize),
        grouped(stats.evict as usize),
        grouped(stats.refresh as usize),
        grouped(memory),
    ))?;
    after_a_change(tour, course, &cache, &flows[0], now())?;
    reader.quiescent();
    Ok(json!({
        "packets": packets,
        "resolver_ns": each(without, asked),
        "cached_ns": each(with, packets),
        "table_ns": each(straight, packets),
        "hit_percent": share,
        "inserted": stats.insert,
        "evicted": stats.evict,
        "refreshed": stats.refresh,
        "bytes": memory,
    }))
}

/// Checks the cache's answers for a route that has changed: the old answer while it is fresh, and
/// the new one after that or after an invalidation.
fn after_a_change<F: Kind>(
    tour: &mut Tour,
    course: &Course<F>,
    cache: &RouteCache<Flow, u32>,
    flow: &Flow,
    now: u64,
) -> Result<(), Error> {
    let fib = &course.fib;
    let address = F::address(flow.0);
    let Some((net, hop)) = fib.lookup(address) else {
        return Ok(());
    };
    let resolve = |_: &Flow| Ok::<_, ()>(fib.lookup(address).map_or(0, |(_, hop)| hop));
    let ask = |now| {
        cache
            .get_or_resolve(flow, cache.hash(flow), now, resolve)
            .ok()
    };
    // Inserted anew, so that the answer is fresh however much time has passed.
    cache.insert(flow, cache.hash(flow), now, hop);
    fib.insert(net, DETOUR).map_err(sapwood::Error::from)?;
    let fresh = 100_000_000;
    tour.check(ask(now + fresh / 2) == Some(hop), || {
        "a fresh answer".into()
    })?;
    tour.check(ask(now + fresh + 1) == Some(DETOUR), || {
        "an answer that is no longer fresh".into()
    })?;
    fib.insert(net, hop).map_err(sapwood::Error::from)?;
    cache.invalidate_all();
    tour.check(ask(now + fresh + 2) == Some(hop), || {
        "an invalidated answer".into()
    })?;
    tour.say(format!(
        "  the next hop of {net} changes: the cache gives the old one for 100 ms at most, or \
         until invalidate_all, which is one store",
    ))
}
