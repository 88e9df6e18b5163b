//! A connection tracker. Four threads count the packets of flows, the number of connections is
//! limited, and connections without recent packets are removed.
//!
//! `cargo run --release -p sapwood --example tracker`

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use sapwood::key::tuple;
use sapwood::qp::Error;
use sapwood::qp::PointMap;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The state of a connection. Readers change its atomics in place, without a new entry.
struct Connection {
    packets: AtomicU64,
    last: AtomicU64,
}

struct Tracker {
    connections: PointMap<Connection>,
    refused: AtomicU64,
}

impl Tracker {
    fn new(most: usize) -> Result<Self, Error> {
        Ok(Self {
            // Lookups have whole keys only, so the map is an index without a trie.
            connections: PointMap::builder().max_entries(most).build()?,
            refused: AtomicU64::new(0),
        })
    }

    /// Counts a packet of a flow at a time; returns whether the flow is tracked.
    fn packet(&self, flow: &[u8], now: u64) -> Result<bool, Error> {
        self.connections.read(|view| {
            let new = || Connection {
                packets: AtomicU64::new(0),
                last: AtomicU64::new(now),
            };
            match view.get_or_insert_with(flow, new) {
                Ok(connection) => {
                    connection.packets.fetch_add(1, Relaxed);
                    connection.last.fetch_max(now, Relaxed);
                    Ok(true)
                }
                // The table is full, so the packet passes without being tracked.
                Err(Error::Full { .. }) => {
                    self.refused.fetch_add(1, Relaxed);
                    Ok(false)
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Removes the connections whose last packet came before a time; returns how many.
    fn expire(&self, before: u64) -> Result<usize, Error> {
        let old = |connection: &Connection| connection.last.load(Relaxed) < before;
        let mut keys = Vec::new();
        let _: ControlFlow<()> = self.connections.for_each(|key, connection| {
            if old(connection) {
                keys.push(key.to_vec());
            }
            ControlFlow::Continue(())
        });
        let mut gone = 0;
        for key in keys {
            // The condition is checked again, because a packet may have come meanwhile.
            gone += usize::from(
                self.connections
                    .read(|view| view.remove_if(&key, old).map(|removed| removed.is_some()))?,
            );
        }
        Ok(gone)
    }
}

/// Tracks generated flows.
pub fn main() -> Result<(), Failure> {
    const FLOWS: u64 = 1_000;
    let tracker = Tracker::new(FLOWS as usize)?;
    let flow = |i: u64| tuple(([192, 0, 2, (i % 250) as u8], i as u16, 6u8));

    // Each of four threads counts a packet of every flow.
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for now in 0..FLOWS {
                        assert!(tracker.packet(&flow(now), now)?);
                    }
                    Ok::<_, Error>(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    assert_eq!(tracker.connections.len(), FLOWS as usize);
    let packets = tracker.connections.read(|view| {
        let connection = view.get(flow(7))?;
        Some(connection.packets.load(Relaxed))
    });
    assert_eq!(packets, Some(4));

    // The limit is exact.
    assert!(!tracker.packet(&flow(FLOWS), FLOWS)?);
    assert_eq!(tracker.refused.load(Relaxed), 1);

    // A connection with a new packet is not removed.
    tracker.packet(&flow(7), FLOWS)?;
    let gone = tracker.expire(FLOWS / 2)?;
    println!(
        "{gone} connections expired, {} left",
        tracker.connections.len()
    );
    assert_eq!(gone, FLOWS as usize / 2 - 1);
    assert!(tracker.packet(&flow(FLOWS), FLOWS)?);

    // No reader is left, so the removed connections can be freed.
    tracker.connections.reclaim(usize::MAX);
    tracker.connections.verify()?;
    Ok(())
}
