//! `routes bench`: measures the library on a table of the user.

pub mod family;
pub mod lookups;
mod updates;

use std::io::Write;
use std::time::Duration;

use sapwood::lpm::{V4, V6};
use serde_json::{Value, json};

use crate::cli::routes::BenchArgs;
use crate::errors::{Answer, Error, Outcome};
use crate::figures::{figure, grouped, table};
use crate::output::document;
use crate::progress::Progress;
use crate::routes::load::Routes;
use family::Kind;
use lookups::Course;

/// The time that a reader reads in each round, alone and beside the writer.
const SLICE: Duration = Duration::from_millis(200);

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

/// Loads the routes, measures, and prints the figures.
pub fn run(args: &BenchArgs) -> Outcome {
    let routes = Routes::load_some(&args.input, &args.source)?;
    let next_hops = routes.names.len();
    let families = u64::from(!routes.v4.is_empty()) + u64::from(!routes.v6.is_empty());
    let mut progress = Progress::new("measuring", Some(families * args.rounds * 3), false);
    let mut all = Vec::new();
    if !routes.v4.is_empty() {
        all.push(("ipv4", measure_one::<V4>(routes.v4, args, &mut progress)?));
    }
    if !routes.v6.is_empty() {
        all.push(("ipv6", measure_one::<V6>(routes.v6, args, &mut progress)?));
    }
    drop(progress);
    let checks: u64 = all.iter().map(|(_, measured)| measured.checks).sum();
    if args.json {
        let mut whole = json!({
            "file": args.input.to_string_lossy(),
            "next_hops": next_hops,
            "rounds": args.rounds,
            "checks": checks,
        });
        for (family, measured) in all {
            whole[family] = measured.figures;
        }
        return document(&whole);
    }
    let rows: Vec<_> = all
        .iter()
        .flat_map(|(_, measured)| measured.rows.clone())
        .collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", table(&HEADER, &rows))?;
    for (_, measured) in &all {
        writeln!(out, "\n{}", measured.more)?;
    }
    writeln!(
        out,
        "\n{} answers checked, all right.",
        grouped(checks as usize)
    )?;
    out.flush()?;
    Ok(Answer::Yes)
}

fn measure_one<F: Kind>(
    routes: Vec<(F::Net, u32)>,
    args: &BenchArgs,
    progress: &mut Progress,
) -> Result<Measured, Error> {
    let addresses = usize::try_from(args.addresses).unwrap_or(usize::MAX);
    Ok(measure::<F>(routes, addresses, SLICE, args.rounds, progress)?.1)
}
