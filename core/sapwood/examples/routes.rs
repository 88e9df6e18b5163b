//! A route service. It chooses next hops by weight and flow, changes routes while packets are
//! forwarded, saves the table to a file and loads it again.
//!
//! `cargo run --release -p sapwood --example routes`

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use sapwood::route::{FlowHasher, FlowKey, Group, RouteTable};

type Failure = Box<dyn std::error::Error + Send + Sync>;
/// Next hops are numbers, so that they can be saved to a file.
type Routes = RouteTable<u32>;
const HOPS: [&str; 5] = ["upstream", "left", "right", "lab", "up"];

fn hop(name: &str) -> u32 {
    let at = HOPS.iter().position(|hop| *hop == name);
    at.expect("a next hop that is listed") as u32
}

/// The hash of a flow from a port of one client to a server.
fn flow(hasher: &FlowHasher, port: u16, server: SocketAddr) -> u64 {
    let client = SocketAddr::from(([192, 0, 2, 1], port));
    hasher.hash(&FlowKey::new(client, server, FlowKey::UDP))
}

/// Forwards packets until the flag stops it; returns how many.
fn forward(routes: &Routes, server: SocketAddr, stop: &AtomicBool) -> Result<u64, Failure> {
    let hasher = FlowHasher::random();
    let mut reader = routes.reader("port 0")?; // one for each thread
    let mut packets = 0u64;
    while !stop.load(Relaxed) {
        let view = reader.view();
        for port in 1_000..1_064 {
            let hop = view.lookup(server.ip(), flow(&hasher, port, server));
            assert!(hop.is_some(), "there is always a route");
            packets += 1;
        }
        // Announced once a turn, when no reference is held.
        reader.quiescent();
    }
    Ok(packets)
}

/// Runs the service through changes, a transaction and a file.
pub fn main() -> Result<(), Failure> {
    let server: SocketAddr = "10.1.2.3:53".parse()?;
    let routes = Routes::new()?;
    let group = |members: &[(&str, u32)]| {
        Group::new(members.iter().map(|(name, weight)| (hop(name), *weight)))
    };
    routes.insert("0.0.0.0/0".parse()?, group(&[("upstream", 1)]))?;
    routes.insert("10.0.0.0/8".parse()?, group(&[("left", 2), ("right", 1)]))?;
    routes.insert("2001:db8::/32".parse()?, group(&[("left", 1)]))?;

    // Two flows of three go to "left".
    let hasher = FlowHasher::new(1);
    let next = |port| routes.lookup(server.ip(), flow(&hasher, port, server));
    let left = (1_000..4_000).filter(|port| next(*port) == Some(hop("left")));
    let share = left.count() as f64 / 3_000.0;
    println!("{share:.2} of the flows go to \"left\"");
    assert!((0.6..0.73).contains(&share));

    // Routes change while packets are forwarded. Each change takes effect with one store.
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
        println!("{packets} packets during 597 changes");
        Ok(())
    })?;

    // Only the flows of a removed next hop change their next hop.
    routes.set_weight(&hop("right"), 1);
    let before: Vec<_> = (1_000..2_000).map(next).collect();
    routes.insert(
        "10.0.0.0/8".parse()?,
        group(&[("left", 2), ("right", 1), ("up", 1)]),
    )?;
    routes.remove_member(&hop("up"));
    assert_eq!(before, (1_000..2_000).map(next).collect::<Vec<_>>());

    // A transaction changes several routes. Readers see them by one commit for each family.
    let mut txn = routes.begin();
    for lab in 0..16u8 {
        txn.insert(format!("10.{lab}.0.0/16").parse()?, group(&[("lab", 1)]))?;
    }
    txn.remove("10.3.0.0/16".parse()?)?;
    txn.commit();
    assert_eq!(routes.len(), 18);

    // The table is saved, and the next process loads it. A truncated file is refused.
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
