//! Chapter: building maps.

use std::collections::BTreeMap;

use sapwood::qp::QpMap;
use serde_json::{Value, json};

use super::{Chapter, Tour, figure, grouped, mega, timed};
use crate::errors::Error;
use crate::progress::Progress;

/// The chapter that builds a map of each set, key by key and from sorted entries.
pub struct Building;

impl Chapter for Building {
    fn name(&self) -> &'static str {
        "building"
    }

    fn title(&self) -> &'static str {
        "Building maps"
    }

    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        tour.say(
            "A QpMap has the interface of BTreeMap for byte strings, in one flat piece of memory. \
             Keys are inserted one by one in random order; then a second map is built from the \
             sorted entries. M/s is millions of keys a second. \"beyond\" is the bytes of memory \
             that a key takes beyond its own bytes; 8 of them are its value.\n ",
        )?;
        let mut progress = Progress::new("building", Some(3 * tour.sets.len() as u64), false);
        let mut sets = std::mem::take(&mut tour.sets);
        let (mut rows, mut figures) = (Vec::new(), Vec::new());
        for set in &mut sets {
            progress.doing(format!("building {}", set.name));
            set.oracle = set
                .keys
                .iter()
                .cloned()
                .zip(0..)
                .collect::<BTreeMap<_, _>>();
            progress.step();
            let (map, inserting) = timed(|| {
                let mut map = QpMap::new();
                for (key, value) in set.keys.iter().zip(0u64..) {
                    map.insert(key, value)?;
                }
                Ok::<_, sapwood::Error>(map)
            });
            let map = map?;
            progress.step();
            let (sorted, sorting) =
                timed(|| QpMap::from_sorted_iter(set.oracle.iter().map(|(k, v)| (k, *v))));
            let sorted = sorted?;
            progress.step();
            tour.check(map.len() == set.oracle.len(), || {
                format!("{}: length", set.name)
            })?;
            tour.check(sorted == map, || {
                format!("{}: the two maps are not equal", set.name)
            })?;
            for (map, how) in [(&map, "inserted"), (&sorted, "sorted")] {
                let verdict = map.verify();
                tour.check(verdict.is_ok(), || {
                    format!("{}, {how}: {verdict:?}", set.name)
                })?;
            }
            let each = |bytes: usize| bytes as f64 / set.keys.len() as f64;
            let own = each(set.key_bytes());
            let (inserted, packed) = (
                each(map.memory().total()) - own,
                each(sorted.memory().total()) - own,
            );
            let (insert, build) = (
                mega(set.keys.len(), inserting),
                mega(set.keys.len(), sorting),
            );
            rows.push(vec![
                set.name.clone(),
                grouped(set.keys.len()),
                figure(own),
                figure(insert),
                figure(build),
                figure(inserted),
                figure(packed),
            ]);
            figures.push(json!({
                "set": set.name,
                "insert_mops": insert,
                "sorted_build_mops": build,
                "bytes_per_key_beyond": inserted,
                "bytes_per_key_beyond_sorted": packed,
            }));
            set.map = map;
        }
        tour.sets = sets;
        drop(progress);
        tour.table(
            &[
                "keys",
                "number",
                "bytes a key",
                "insert M/s",
                "sorted M/s",
                "beyond, inserted",
                "beyond, sorted",
            ],
            &rows,
        )?;
        Ok(figures.into())
    }
}
