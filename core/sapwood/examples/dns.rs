//! The zones of a name server on tokio. Queries find the zone of a name while a task commits
//! changes every ten milliseconds. At the end a diff of two snapshots tells a secondary server the
//! changes.
//!
//! `cargo run --release -p sapwood --example dns`

use std::sync::Arc;
use std::time::Duration;

use sapwood::key::{dns_name, dns_name_to_text};
use sapwood::qp::{Change, QpStore};
use tokio::sync::mpsc;
use tokio::time::interval;

type Failure = Box<dyn std::error::Error + Send + Sync>;
/// Zones by name in canonical order, so that a zone and the names below it are one range.
type Zones = QpStore<Serial>;
type Serial = u32;

/// The closest zone that encloses a name, with its serial number.
///
/// The result is copied before the next `.await`, because a view must not live across one.
fn zone_of(zones: &Zones, name: &str) -> Result<Option<(String, Serial)>, Failure> {
    let key = dns_name(name)?;
    let found = zones.read(|view| {
        let (zone, serial) = view.longest_prefix(&key)?;
        Some((dns_name_to_text(&zone), *serial))
    });
    Ok(match found {
        Some((zone, serial)) => Some((zone?, serial)),
        None => None,
    })
}

/// Collects changes, and commits them every ten milliseconds. A query sees all changes of a commit
/// or none.
async fn commit(
    zones: Arc<Zones>,
    mut changes: mpsc::Receiver<(String, Option<Serial>)>,
) -> Result<usize, Failure> {
    let mut clock = interval(Duration::from_millis(10));
    let mut commits = 0;
    loop {
        clock.tick().await;
        let ended = changes.is_closed();
        let mut waiting = Vec::new();
        while let Ok(change) = changes.try_recv() {
            waiting.push(change);
        }
        if !waiting.is_empty() {
            // The compiler refuses an `.await` between `begin` and `commit` in a spawned task.
            let mut txn = zones.begin();
            for (name, serial) in waiting {
                match serial {
                    Some(serial) => txn.insert(dns_name(name)?, serial).map(drop)?,
                    None => txn.remove(dns_name(name)?).map(drop)?,
                }
            }
            txn.commit();
            commits += 1;
        } else if ended {
            return Ok(commits);
        }
    }
}

/// The changes to send to a secondary server. The diff skips most of the unchanged zones.
fn difference(
    old: &sapwood::qp::QpSnapshot<Serial>,
    new: &sapwood::qp::QpSnapshot<Serial>,
) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for change in QpStore::diff(old, new) {
        let name = dns_name_to_text(change.key())?;
        lines.push(match change {
            Change::Added(_, serial) => format!("+ {name} {serial}"),
            Change::Removed(..) => format!("- {name}"),
            Change::Changed(_, old, new) => format!("* {name} {old} -> {new}"),
        });
    }
    Ok(lines)
}

async fn serve() -> Result<(), Failure> {
    let zones = Arc::new(Zones::new()?);
    let mut txn = zones.begin();
    for zone in ["org", "example.org", "dept.example.org", "net"] {
        txn.insert(dns_name(zone)?, 1)?;
    }
    txn.commit();
    // A secondary server has this version. The snapshot keeps old versions in memory until it is
    // dropped.
    let sent = zones.snapshot();

    let (changes, receiver) = mpsc::channel(64);
    let writer = tokio::spawn(commit(zones.clone(), receiver));
    let queries = tokio::spawn({
        let zones = zones.clone();
        async move {
            for _ in 0..1_000 {
                // The zone is that before the commits or after them, but it always ends with org.
                let (zone, _) = zone_of(&zones, "www.dept.Example.org")?.ok_or("no zone")?;
                assert!(zone.ends_with("org"), "{zone}");
                tokio::task::yield_now().await;
            }
            Ok::<_, Failure>(())
        }
    });
    changes.send(("example.org".into(), Some(2))).await?;
    changes.send(("lab.example.org".into(), Some(1))).await?;
    changes.send(("net".into(), None)).await?;
    drop(changes);
    queries.await??;
    let commits = writer.await??;
    println!("{commits} commits");

    let zone = |name| zone_of(&zones, name);
    assert_eq!(zone("mail.example.org")?, Some(("example.org".into(), 2)));
    assert_eq!(
        zone("a.lab.example.org")?,
        Some(("lab.example.org".into(), 1))
    );
    // Only whole labels match.
    assert_eq!(zone("www.examples.org")?, Some(("org".into(), 1)));
    assert_eq!(zone("example.net")?, None);

    let told = difference(&sent, &zones.snapshot())?;
    println!("{}", told.join("\n"));
    assert_eq!(
        told,
        ["- net", "* example.org 1 -> 2", "+ lab.example.org 1"]
    );
    Ok(())
}

/// Runs the server for 1,000 queries.
pub fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    runtime.block_on(serve())
}
