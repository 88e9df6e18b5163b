//! Benchmarks of Sapwood beside its peers.
//!
//! `cargo run --release -p sapwood-bench -- SUITE [--quick] [--json FILE] [--csv FILE] [--data DIR]
//! …`
//!
//! All engines run in one process, one after the other in each round, and in a different order in
//! each round. Every answer is checked before its time counts. A result is the median over the
//! rounds, with the least and the greatest value. The ratios between engines are the result;
//! absolute figures are context.
//!
//! - [`suite`]: the measurements, one module per suite.
//! - [`peers`]: a file for each peer in Rust. [`engines`]: the maps that the suite `names`
//!   compares. [`concurrent`]: those of its group `threads`. [`stores`]: those of the suite
//!   `versions`. [`routes`], [`ranges`] and [`cache`]: those of the suites of these names.
//!   [`live`], [`sync`] and [`lists`]: those of these suites. [`capi`]: the C library in the suite
//!   `c`. [`go`]: the Go module in the suite `go`. [`bpf`], with the feature `bpf`: maps inside the
//!   kernel.
//! - Recorded results, without a run: [`records`] reads them and makes the pictures of the command
//!   `plot`, [`shown`] the tables of the command `figures`, and [`page`] the page of `report`.
//! - The harness: [`keylist`], [`answer`], [`alloc`], [`report`], [`machine`], [`clock`], [`shim`].

mod alloc;
mod answer;
#[cfg(feature = "bpf")]
mod bpf;
mod cache;
mod capi;
mod clock;
mod concurrent;
mod engines;
mod go;
mod keylist;
mod lists;
mod live;
mod machine;
mod page;
mod peers;
mod ranges;
mod records;
mod report;
mod routes;
mod shim;
mod shown;
mod stores;
mod suite;
mod sync;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::records::{Record, pictures, read_records};
use crate::suite::{Options, Suite};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// Benchmarks of Sapwood beside its peers.
#[derive(Parser)]
#[command(
    name = "sapwood-bench",
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    /// A command that runs instead of a measurement.
    #[command(subcommand)]
    command: Option<Command>,
    /// The suite to run.
    #[arg(required = true)]
    suite: Option<Suite>,
    /// Small sets and few rounds; ends within a minute, and proves only that everything runs.
    #[arg(long)]
    quick: bool,
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the result as CSV, with the date, the commit and the command.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Folder with data sets, such as domains-opendns.txt.gz.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Run only these cases; `commit1` also means all cases that start with `commit1-`.
    #[arg(long, alias = "case", value_name = "A,B", value_delimiter = ',')]
    cases: Vec<String>,
    /// Run only these engines.
    #[arg(long, value_name = "X,Y", value_delimiter = ',')]
    engines: Vec<String>,
    /// The number of rounds, of which the median is taken.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
}

/// The commands that need no run, only records of runs.
#[derive(Subcommand)]
enum Command {
    /// Make SVG pictures of the named records; without names, make those of the documents, from the
    /// newest records.
    Plot {
        /// Records of the suites `names` and `versions`.
        #[arg(value_name = "RECORD")]
        records: Vec<PathBuf>,
        /// The folder for the pictures.
        #[arg(long, value_name = "DIR", default_value = "docs/pictures")]
        out: PathBuf,
    },
    /// Make one HTML page of records, without scripts: our engines beside the best peer as ratios,
    /// growth with threads and sizes, latencies, memory, and each case with all its numbers.
    Report(page::ReportArgs),
    /// A reader of the suite `live`, in a process of its own.
    #[command(hide = true)]
    LiveReader {
        /// The engine.
        engine: String,
        /// The folder with the map and the keys.
        folder: PathBuf,
    },
    /// An engine of the suite `lists`, in a process of its own.
    #[command(hide = true)]
    ListsChild {
        /// The engine.
        engine: String,
        /// The folder with the lists.
        folder: PathBuf,
        /// How many questions are asked.
        count: usize,
    },
    /// Make the tables of pages anew from the records under proof/bench/record.
    ///
    /// A table stands between the lines `<!-- figures: NAME -->` and `<!-- end -->`.
    Figures {
        /// The pages with the tables.
        #[arg(value_name = "PAGE", default_values = ["docs/figures.md", "README.md"])]
        pages: Vec<PathBuf>,
        /// Print the pages, and leave the files unchanged.
        #[arg(long)]
        print: bool,
    },
}

impl Command {
    fn run(self) -> Result<(), Box<dyn std::error::Error>> {
        match self {
            Command::Plot { records, out } => {
                let known = match &records[..] {
                    [] => read_records(&shown::records())?,
                    files => files
                        .iter()
                        .map(|file| Record::read(file))
                        .collect::<Result<_, _>>()?,
                };
                let chosen = match &records[..] {
                    [] => pictures::shown(&known),
                    _ => known.iter().collect(),
                };
                for file in pictures::write(chosen, &out)? {
                    println!("{}", file.display());
                }
            }
            Command::Report(args) => {
                page::run(&args)?;
            }
            Command::LiveReader { engine, folder } => suite::live::read(&engine, &folder)?,
            Command::ListsChild {
                engine,
                folder,
                count,
            } => lists::child(&engine, &folder, count)?,
            Command::Figures { pages, print } => {
                let records = read_records(&shown::records())?;
                for page in pages {
                    let text = shown::pages::renewed(&fs::read_to_string(&page)?, &records)?;
                    if print {
                        println!("{text}");
                    } else {
                        fs::write(&page, text)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(command) = arguments.command {
        return match command.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("sapwood-bench: {problem}");
                ExitCode::FAILURE
            }
        };
    }
    let suite = arguments
        .suite
        .expect("clap asks for a suite where no command is named");
    let options = Options::new(
        suite,
        arguments.quick,
        arguments.rounds,
        arguments.data,
        arguments.cases,
        arguments.engines,
    );
    let report = match suite.run(&options) {
        Ok(report) => report,
        Err(problem) => {
            eprintln!("sapwood-bench: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let files = [
        (arguments.json, report.to_json()),
        (
            arguments.csv,
            report.to_csv(&machine::command(std::env::args())),
        ),
    ];
    for (file, text) in files {
        if let Some(file) = file
            && let Err(error) = write(&file, &text)
        {
            eprintln!("sapwood-bench: {}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn write(file: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text)
}
