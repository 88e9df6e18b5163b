//! A copy without room, and primaries that hang beside others that do not.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use sapwood_lists::transfer::{
    Limits, Secondary, TransferError, Zone, ZoneState, follow, refresh_all,
};

use super::primary::*;
use super::{Rules, kept, told};

#[test]
fn a_copy_that_has_no_room_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let primary = Primary::new(None, version(7, &["a.test"], 1));
    let mut secondary = primary.secondary(None, folder.path());
    secondary.refresh().unwrap();
    let mut rules = Rules::new(&secondary);
    rules.load();
    let before = kept(&secondary, folder.path());
    // The new copy is written to a device that is full.
    let part = folder.path().join("rpz.test.part");
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    primary.set(version(8, &["b.test"], 1));
    let error = secondary.refresh().unwrap_err();
    assert!(matches!(error, TransferError::Copy { .. }), "{error}");
    assert!(
        error.to_string().contains("No space left on device"),
        "{error}"
    );
    assert_eq!(kept(&secondary, folder.path()), before);
    assert!(rules.load().is_unchanged() && rules.blocks("a.test"));
    let trouble = secondary.state().trouble.unwrap();
    assert!(trouble.contains("No space left on device"), "{trouble}");
    // When there is room again, the zone comes.
    assert!(secondary.refresh().unwrap());
    assert_eq!(secondary.state().trouble, None);
    rules.load();
    assert!(rules.blocks("b.test") && !rules.blocks("a.test"));
}

#[test]
fn a_primary_that_hangs_holds_up_no_other_zone() {
    let folder = tempfile::tempdir().unwrap();
    // Connections come, and nothing is said.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = |n: usize, answer: Duration| {
        let zone = Zone::new(&format!("n{n}.test"), silent.local_addr().unwrap(), None).unwrap();
        let limits = Limits { answer, ..limits() };
        Secondary::new(zone, folder.path(), limits).unwrap()
    };
    let begun = Instant::now();
    let asked = Arc::new(Mutex::new(None));
    let when = Arc::clone(&asked);
    let mut answers = version(7, &["a.test"], 2);
    let primary = Primary::new(
        None,
        Box::new(move |rtype, since| {
            when.lock().unwrap().get_or_insert_with(Instant::now);
            answers(rtype, since)
        }),
    );
    let second = Duration::from_secs(1);
    let mut zones: Vec<Secondary> = (0..6).map(|n| hanging(n, second)).collect();
    zones.push(primary.secondary(None, folder.path()));
    let done = refresh_all(&mut zones);
    let all = begun.elapsed();
    assert!(
        all > second && all < 4 * second,
        "{all:?} for six of a second each"
    );
    let asked = asked.lock().unwrap().unwrap() - begun;
    assert!(asked < second, "the last one waits for no other: {asked:?}");
    assert!(matches!(done.last(), Some(Ok(true))));
    let hung = done
        .iter()
        .filter(|done| matches!(done, Err(TransferError::Network(_))));
    assert_eq!((done.len(), hung.count()), (7, 6));
    assert_eq!(zones[6].state().serial, Some(7));

    // The same when they are followed.
    let minutes = Duration::from_secs(300);
    let first = follow(hanging(7, minutes), false, |_, _| {}).unwrap();
    let (tell, news) = mpsc::channel();
    let zone = zones.pop().unwrap();
    let followed = follow(zone, false, move |is_new, state| {
        let _ = tell.send((is_new, state.clone()));
    });
    let followed = followed.unwrap();
    primary.set(version(8, &["b.test"], 2));
    followed.wake();
    let (is_new, state) = told(&news);
    assert_eq!((is_new, state.serial), (true, Some(8)));
    assert_eq!(first.state(), ZoneState::default(), "it waits still");
}
