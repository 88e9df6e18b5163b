//! Measures a table of routes beside the rival, and compares all answers.

pub mod family;
pub mod lookups;
mod updates;

use std::time::Duration;

use serde_json::{Value, json};

use crate::errors::Error;
use crate::figures::{figure, grouped};
use crate::progress::Progress;
use family::Kind;
use lookups::Course;

/// The figures of a family, as text and as a document.
pub struct Measured {
    /// The rows of the table of lookups: one for `Fib` and one for the rival.
    pub rows: Vec<Vec<String>>,
    /// The text on building and updates.
    pub more: String,
    /// All figures.
    pub figures: Value,
    /// How many answers were compared.
    pub checks: u64,
}

/// The header of the rows.
pub const HEADER: [&str; 6] = [
    "M lookups/s",
    "random",
    "inside",
    "random, batch",
    "inside, batch",
    "MB",
];

/// Measures one family.
pub fn measure<F: Kind>(
    routes: Vec<(F::Net, u32)>,
    addresses: usize,
    slice: Duration,
    rounds: u64,
    progress: &mut Progress,
) -> Result<(Course<F>, Measured), Error> {
    progress.doing(format!("building {}", F::NAME));
    let course = Course::<F>::new(routes, addresses)?;
    progress.doing(format!("asking {}", F::NAME));
    let speeds = course.run(rounds, || progress.step())?;
    progress.doing(format!("changing {}", F::NAME));
    // Before the updates, whose garbage is no part of the table.
    let bytes = [course.fib.memory().total(), course.maps.bytes()];
    let updated = updates::run(&course, slice, rounds, || progress.step())?;
    let mb = bytes.map(|bytes| figure(bytes as f64 / 1e6));
    let [median, p999, worst] = updated.micros;
    let row = |name: &str, single: [f64; 2], batch: Option<[f64; 2]>, mb: &str| {
        let mut row = vec![format!("{} {name}", F::NAME)];
        row.extend(single.map(figure));
        row.extend(batch.map_or(["-".into(), "-".into()], |batch| batch.map(figure)));
        row.push(mb.into());
        row
    };
    let measured = Measured {
        rows: vec![
            row("Fib", speeds.single, Some(speeds.batch), &mb[0]),
            row("hash map per length", speeds.maps, None, &mb[1]),
        ],
        more: format!(
            "{}: {} routes, built in {:.0} ms (the hash maps in {:.0} ms)\n  \
             {} changes beside a reader: median {} µs, 99.9th percentile {} µs, worst {} µs,\n  \
             waits for a processor included\n  \
             the reader: {} million lookups a second alone, {} million beside the writer;\n  \
             every next hop was an old or a new one",
            F::NAME,
            grouped(course.routes.len()),
            course.built[0] * 1e3,
            course.built[1] * 1e3,
            grouped(updated.updates as usize),
            figure(median),
            figure(p999),
            figure(worst),
            figure(updated.alone),
            figure(updated.beside),
        ),
        figures: json!({
            "routes": course.routes.len(),
            "build_ms": course.built[0] * 1e3,
            "bytes": bytes[0],
            "bytes_per_route": bytes[0] as f64 / course.routes.len() as f64,
            "random_mlps": speeds.single[0],
            "intable_mlps": speeds.single[1],
            "random_batch_mlps": speeds.batch[0],
            "intable_batch_mlps": speeds.batch[1],
            "updates": updated.updates,
            "update_median_us": median,
            "update_p999_us": p999,
            "update_worst_us": worst,
            "reader_alone_mlps": updated.alone,
            "reader_beside_writer_mlps": updated.beside,
            "maps": {
                "build_ms": course.built[1] * 1e3,
                "bytes": bytes[1],
                "random_mlps": speeds.maps[0],
                "intable_mlps": speeds.maps[1],
            },
        }),
        checks: speeds.checks + updated.lookups,
    };
    Ok((course, measured))
}
