//! The arguments of `sapwood report` and their help.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// What the command does, for its help.
pub const ABOUT: &str = "Makes one HTML page of records of benchmarks and of saved maps.

The page needs no network and has no scripts. Of each record, a CSV or JSON file that \
\"sapwood-bench\" writes with --csv or --json, it shows each of Sapwood's engines beside the best \
peer as ratios, the growth with threads and sizes and the latencies as lines, the memory, and all \
figures of each case. Of each saved map of names, routes or ranges it shows the depths of its \
leaves, how full its clusters are, and its bytes by kind. Below each picture is a table of its \
numbers.

The same input gives the same page. It is written to a new file, which is then renamed to PAGE: \
PAGE is the old file or the whole new one at any time. An input that is no record or no sound map is \
an error, and nothing is written.";

/// The arguments of `report`.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("inputs").required(true).multiple(true).args(["records", "maps"])),
    after_help = "Examples:
  sapwood report --records proof/bench/record -o report.html
  sapwood report --records names.csv names.json --map words.qp -o report.html
  sapwood report --map words.qp --map routes.lpm --map ports.ranges -o shapes.html
  sapwood report --records proof/bench/record --json | jq '.records[].ratios'"
)]
pub struct ReportArgs {
    /// Records: files, "-" for stdin, or folders whose CSV and JSON files are read. Files of a
    /// folder that only compare two builds, with "before", "-build-" or "house-" in their names,
    /// are left out.
    #[arg(long, value_name = "DIR|FILE", num_args = 1..)]
    pub records: Vec<PathBuf>,
    /// A saved map whose shape the page shows; may be given more than once.
    #[arg(long = "map", value_name = "FILE", num_args = 1..)]
    pub maps: Vec<PathBuf>,
    /// The page, a file that is created or replaced.
    #[arg(short, long, value_name = "PAGE", required_unless_present = "json")]
    pub output: Option<PathBuf>,
    /// Print one JSON document with all figures.
    #[arg(long)]
    pub json: bool,
}
