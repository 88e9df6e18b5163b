//! Misuses of the maps, and the panics and errors that report them. No misuse hangs or loses data.
//!
//! The compiler refuses two other misuses: a reference held across `quiescent`, and a view on
//! another thread (see the documentation of `Reader` and of `qsbr::Guard`).
//!
//! `cargo run --release -p sapwood --example misuse`

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use sapwood::qp::Error;
use sapwood::qp::{QpFile, QpMap, QpStore};
use sapwood::qsbr::{Domain, StallKind};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The message of the panic of `misuse`.
fn panic_of<R>(misuse: impl FnOnce() -> R) -> Result<String, Failure> {
    match catch_unwind(AssertUnwindSafe(misuse)) {
        Ok(_) => Err("nothing was refused".into()),
        Err(said) => Ok(*said.downcast::<&str>().map_or_else(
            |said| said.downcast::<String>().unwrap_or_default(),
            |said| Box::new((*said).to_owned()),
        )),
    }
}

/// A second transaction on the same thread panics, because it would wait for the first one.
fn two_transactions() -> Result<(), Failure> {
    let store = QpStore::<u32>::new()?;
    let mut first = store.begin();
    first.insert("a", 1)?;
    let said = panic_of(|| store.begin())?;
    println!("second transaction: {said}");
    assert!(said.contains("would wait for itself"));
    // The first transaction still works.
    first.commit();
    assert_eq!(store.get("a"), Some(1));
    Ok(())
}

/// A view by the guard of another domain panics, because this guard does not protect the store.
fn foreign_guard() -> Result<(), Failure> {
    let (one, two) = (QpStore::<u32>::new()?, QpStore::<u32>::new()?);
    let reader = one.domain().register("of the first store")?;
    let said = panic_of(|| two.view(reader.guard()))?;
    println!("foreign guard: {said}");
    assert!(said.contains("register the reader"));
    Ok(())
}

/// A snapshot that is never dropped brings garbage to the hard limit. Writes are refused, and the
/// domain names the snapshot.
fn snapshot_for_ever() -> Result<(), Failure> {
    let domain = Domain::builder()
        .hard_limit(16 << 10)
        .stall_after(Duration::from_millis(1))
        .build();
    let store = QpStore::builder().domain(&domain).build()?;
    let commit = |value: u32| -> Result<(), Error> {
        let mut txn = store.begin();
        for key in 0..8u8 {
            txn.insert([key], value)?;
        }
        txn.commit();
        Ok(())
    };
    commit(0)?;
    let kept = store.snapshot();
    let refused = (1..10_000).find_map(|value| commit(value).err());
    let refused = refused.ok_or("the limit holds")?;
    println!("snapshot kept: {refused}");
    assert!(matches!(refused, Error::GarbageLimit(_)));
    assert!(domain.garbage() <= 16 << 10);
    std::thread::sleep(Duration::from_millis(2));
    let stalls = domain.stalls();
    let named = stalls
        .iter()
        .find(|stall| stall.kind == StallKind::Snapshot);
    println!("stalled by: {}", named.ok_or("the snapshot is named")?);
    assert_eq!(
        store.oldest_snapshot().map(|oldest| oldest.version),
        Some(kept.version().get())
    );
    // Dropping the snapshot frees the garbage, and writes succeed again.
    drop(kept);
    store.reclaim(usize::MAX);
    commit(7)?;
    assert_eq!(store.get([3]), Some(7));
    Ok(())
}

/// Files of another value type, truncated files, and files of other programs are refused.
fn wrong_files() -> Result<(), Failure> {
    let path = std::env::temp_dir().join(format!("sapwood-misuse-{}", std::process::id()));
    let map: QpMap<u32> = (0..500u32).map(|i| (i.to_be_bytes(), i)).collect();
    map.save(&path)?;
    let whole = fs::read(&path)?;
    let mut said = Vec::new();
    said.extend(
        QpFile::<u64>::open(&path)
            .err()
            .map(|error| error.to_string()),
    );
    for bytes in [
        &whole[..whole.len() / 2],
        &whole[..10],
        b"not a map of ours",
        b"",
    ] {
        fs::write(&path, bytes)?;
        said.extend(
            QpFile::<u32>::open(&path)
                .err()
                .map(|error| error.to_string()),
        );
    }
    fs::remove_file(&path)?;
    said.extend(
        QpFile::<u32>::open(&path)
            .err()
            .map(|error| error.to_string()),
    );
    for said in &said {
        println!("file: {said}");
        assert!(said.contains(&path.display().to_string()));
    }
    assert_eq!(said.len(), 6);
    assert!(
        said[0].contains("4 bytes") && said[0].contains("u64"),
        "{}",
        said[0]
    );
    Ok(())
}

/// Runs each misuse once.
pub fn main() -> Result<(), Failure> {
    two_transactions()?;
    foreign_guard()?;
    snapshot_for_ever()?;
    wrong_files()
}
