//! A route service: next hops by weight and flow, changed while packets are forwarded, saved to a
//! file and loaded again.
//!
//! `cargo run --release -p sapwood --example routes`

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use sapwood::route::{FlowHasher, FlowKey, Group, RouteTable};

type Failure = Box<dyn std::error::Error + Send + Sync>;
/// Next hops by number, so that a file holds them.
type Routes = RouteTable<u32>;
const HOPS: [&str; 5] = ["upstream", "left", "right", "lab", "up"];

fn hop(name: &str) -> u32 {
    let at = HOPS.iter().position(|hop| *hop == name);
    at.expect("a next hop that is listed") as u32
}

/// A flow from a port of one client to a server.
fn flow(hasher: &FlowHasher, port: u16, server: SocketAddr) -> u64 {
    let client = SocketAddr::from(([192, 0, 2, 1], port));
    hasher.hash(&FlowKey::new(client, server, FlowKey::UDP))
}

/// Forwards packets until it is told to stop; returns how many.
fn forward(routes: &Routes, server: SocketAddr, stop: &AtomicBool) -> Result<u64, Failure> {
    let hasher = FlowHasher::random();
    let mut reader = routes.reader("port 0")?; // one per thread
    let mut packets = 0u64;
    while !stop.load(Relaxed) {
        let view = reader.view();
        for port in 1_000..1_064 {
            let hop = view.lookup(server.ip(), flow(&hasher, port, server));
            assert!(hop.is_some(), "there is always a route");
            packets += 1;
        }
        // Once a turn: nothing is held here.
        reader.quiescent();
    }
    Ok(packets)
}

/// Runs the service for a moment.
pub fn main() -> Result<(), Failure> {
    let server: SocketAddr = "10.1.2.3:53".parse()?;
    let routes = Routes::new()?;
    let group = |members: &[(&str, u32)]| {
        Group::new(members.iter().map(|(name, weight)| (hop(name), *weight)))
    };
    routes.insert("0.0.0.0/0".parse()?, group(&[("upstream", 1)]))?;
    routes.insert("10.0.0.0/8".parse()?, group(&[("left", 2), ("right", 1)]))?;
    routes.insert("2001:db8::/32".parse()?, group(&[("left", 1)]))?;

    // Two flows of three go left.
    let hasher = FlowHasher::new(1);
    let next = |port| routes.lookup(server.ip(), flow(&hasher, port, server));
    let left = (1_000..4_000).filter(|port| next(*port) == Some(hop("left")));
    let share = left.count() as f64 / 3_000.0;
    println!("{share:.2} of the flows go left");
    assert!((0.6..0.73).contains(&share));

    // Changes beside packets: each takes effect with one store.
    let stop = AtomicBool::new(false);
    thread::scope(|scope| -> Result<(), Failure> {
        let port = scope.spawn(|| forward(&routes, server, &stop));
        for weight in 1..200 {
            routes.set_weight(&hop("right"), weight);
            routes.insert("10.1.0.0/16".parse()?, group(&[("lab", weight)]))?;
            routes.remove("10.1.0.0/16".parse()?)?;
        }
        stop.store(true, Relaxed);
        let packets = port.join().expect("no thread panics")?;
        println!("{packets} packets beside 597 changes");
        Ok(())
    })?;

    // Only the flows of a next hop that goes move.
    routes.set_weight(&hop("right"), 1);
    let before: Vec<_> = (1_000..2_000).map(next).collect();
    routes.insert(
        "10.0.0.0/8".parse()?,
        group(&[("left", 2), ("right", 1), ("up", 1)]),
    )?;
    routes.remove_member(&hop("up"));
    assert_eq!(before, (1_000..2_000).map(next).collect::<Vec<_>>());

    // Several routes at once: readers see them with one commit for each family.
    let mut txn = routes.begin();
    for lab in 0..16u8 {
        txn.insert(format!("10.{lab}.0.0/16").parse()?, group(&[("lab", 1)]))?;
    }
    txn.remove("10.3.0.0/16".parse()?)?;
    txn.commit();
    assert_eq!(routes.len(), 18);

    // Saved, and loaded by the next process. A torn file is refused.
    let file = std::env::temp_dir().join(format!("sapwood-routes-{}", std::process::id()));
    routes.snapshot().save(&file)?;
    let loaded = Routes::builder().load(&file)?;
    let whole = fs::read(&file)?;
    fs::write(&file, &whole[..whole.len() / 2])?;
    let refused = Routes::builder().load(&file).expect_err("half a file");
    println!("{refused}");
    fs::remove_file(&file)?;
    assert!(loaded.snapshot().iter().eq(routes.snapshot().iter()));
    let v6: IpAddr = "2001:db8::1".parse()?;
    assert_eq!(loaded.lookup(v6, 0), Some(hop("left")));
    loaded.verify()?;
    Ok(())
}
