//! `sapwood report`: one page about the shapes of saved maps.

mod maps;
pub mod page;
mod shape;

use serde_json::json;

use crate::cli::report::ReportArgs;
use crate::errors::{Answer, Error, Outcome};
use crate::output::document;
use crate::progress::Progress;
use crate::target::{replace, target};
use shape::Shape;

/// Reads the maps and writes the page, or prints the document.
pub fn run(args: &ReportArgs) -> Outcome {
    let target = match &args.output {
        Some(output) => {
            let given = args.maps.iter().map(|map| target(output, Some(map)));
            let checked: Result<Vec<_>, _> = given.collect();
            checked?.pop().map(|target| (target, output))
        }
        None => None,
    };
    let mut shapes: Vec<Shape> = Vec::new();
    let mut progress = Progress::new("reading", Some(args.maps.len() as u64), false);
    for map in &args.maps {
        progress.doing(format!("walking {}", map.display()));
        if shapes.iter().all(|shape| shape.path != *map) {
            shapes.push(Shape::read(map)?);
        }
        progress.step();
    }
    drop(progress);
    if let Some((target, output)) = target {
        let page = maps::page(&shapes);
        replace(&target, page.as_bytes()).map_err(Error::write(output))?;
    }
    match args.json {
        true => {
            let maps: Vec<_> = shapes.iter().map(Shape::json).collect();
            document(&json!({ "maps": maps }))
        }
        false => Ok(Answer::Yes),
    }
}
