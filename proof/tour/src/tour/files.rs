//! Chapter: maps in files.

use std::fs;
use std::path::Path;

use sapwood::qp::QpFile;
use serde_json::{Value, json};

use super::data::{Flat, SAMPLE, as_entry};
use super::{Chapter, Tour, figure, grouped, mega, timed};
use crate::errors::Error;

/// The chapter that saves a map, opens and queries the file, and opens damaged copies.
pub struct Files;

impl Chapter for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn title(&self) -> &'static str {
        "Maps in files"
    }

    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        let folder = tempfile::tempdir().map_err(Error::write(&std::env::temp_dir()))?;
        let path = folder.path().join("names.qp");
        let sets = std::mem::take(&mut tour.sets);
        let largest = sets.iter().max_by_key(|set| set.keys.len());
        let set = largest.unwrap_or(&sets[0]);
        tour.say(format!(
            "Saving a map writes a new file and renames it over the old one, so that a reader \
             opens one of the two, whole. Opening maps the file into memory and copies nothing. \
             The {}:",
            set.name
        ))?;
        let (saved, saving) = timed(|| set.map.save(&path));
        saved.map_err(|e| Error::Tour(e.to_string()))?;
        let (checked, checking) = timed(|| QpFile::<u64>::open(&path));
        let (quick, opening) = timed(|| QpFile::<u64>::open_unverified(&path));
        let broken = |e: sapwood::qp::OpenError| Error::Wrong(format!("a saved map: {e}"));
        let (file, _) = (checked.map_err(broken)?, quick.map_err(broken)?);
        let theirs = set.oracle.iter().map(as_entry);
        tour.check(file.len() == set.oracle.len(), || "length of a file".into())?;
        tour.check(file.iter().eq(theirs), || "entries of a file".into())?;
        let asked = Flat::drawn(&set.keys, SAMPLE, 8);
        let sum: u64 = asked.iter().filter_map(|key| set.oracle.get(key)).sum();
        let (ours, hit) = timed(|| asked.iter().filter_map(|key| file.get(key)).sum::<u64>());
        tour.check(ours == sum, || "lookups in a file".into())?;
        let shape = file.shape().map_err(Error::Wrong)?;
        tour.say(format!(
            "  saved {} bytes ({} for each key beyond its own bytes) in {saving:.0?}, flushed to \
             the disk\n  \
             opened in {opening:.0?}, or in {checking:.0?} with a check of every byte and \
             branch\n  \
             {} million lookups a second; {:.1} branches above a leaf on average, {} at most",
            grouped(file.file_bytes()),
            figure((file.file_bytes() - shape.key_bytes) as f64 / file.len() as f64),
            figure(mega(asked.len(), hit)),
            shape.depth_mean,
            shape.depth_max,
        ))?;

        tour.say("\nDamaged files are refused:")?;
        // A smaller map, because many damaged copies of its file are written.
        let small = &sets[0];
        small
            .map
            .save(&path)
            .map_err(|e| Error::Tour(e.to_string()))?;
        let refused = refusals(tour, &path)?;
        tour.say(format!(
            "  ... {refused} damaged copies in all, and each was refused"
        ))?;
        let figures = json!({
            "set": set.name,
            "file_bytes": file.file_bytes(),
            "save_seconds": saving.as_secs_f64(),
            "open_micros": opening.as_secs_f64() * 1e6,
            "open_checked_seconds": checking.as_secs_f64(),
            "hit_mops": mega(asked.len(), hit),
            "refused": refused,
        });
        tour.sets = sets;
        Ok(figures)
    }
}

/// Damages copies of a file in several ways, and checks that none of them opens.
fn refusals(tour: &mut Tour, path: &Path) -> Result<usize, Error> {
    let whole = fs::read(path).map_err(Error::read(path))?;
    let copy = path.with_extension("damaged");
    let mut damages: Vec<(String, Vec<u8>)> = vec![
        ("cut in the middle".into(), whole[..whole.len() / 2].into()),
        (
            "without its last byte".into(),
            whole[..whole.len() - 1].into(),
        ),
        ("cut in its header".into(), whole[..100].into()),
        ("empty".into(), Vec::new()),
        ("some other file".into(), b"Not a map. ".repeat(1000)),
    ];
    let mut rng = fastrand::Rng::with_seed(9);
    for _ in 0..if tour.quick { 8 } else { 24 } {
        let (at, bit) = (rng.usize(..whole.len()), rng.u8(..8));
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        damages.push((format!("bit {bit} of byte {at} flipped"), bytes));
    }
    for (i, (what, bytes)) in damages.iter().enumerate() {
        fs::write(&copy, bytes).map_err(Error::write(&copy))?;
        let verdict = QpFile::<u64>::open(&copy);
        tour.check(verdict.is_err(), || {
            format!("a damaged file was opened: {what}")
        })?;
        if let Err(error) = verdict
            && i < 6
        {
            tour.say(format!("  {what}: {}", error.cause))?;
        }
    }
    Ok(damages.len())
}
