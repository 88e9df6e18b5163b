//! The arguments of `sapwood ranges` and of `sapwood maps`, and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{FileArgs, Listing};
use crate::numbers::{number, size};

/// What can be done with maps of ranges.
#[derive(Debug, Subcommand)]
pub enum RangesCommand {
    /// Builds a map from a text: start, end and value a line
    #[command(
        long_about = "Builds a map of ranges from a text.

A line has the first and the last number of a range (both belong to it; decimal, or hexadecimal behind 0x, of up to 64 bits) \
and, behind white space, its value, which is the rest of the line and may be anything or nothing. Empty lines are passed \
over, and so is everything from a # at the beginning of a line or behind white space.

A line that is no range ends everything, and so does one that overlaps an earlier one, unless --skip-bad is given, which \
leaves such lines out, or --overwrite, with which later lines win over what they overlap of earlier ones. The map is written beside \
OUT and renamed: OUT is the old file or the whole new one, never anything between.",
        after_help = "Examples:
  sapwood ranges build ports.txt -o ports.ranges
  sapwood ranges build --overwrite general.txt -o all.ranges
  printf '0x1000 0x1fff boot\\n' | sapwood ranges build - -o memory.ranges"
    )]
    Build(BuildArgs),
    /// Shows what is at a number
    #[command(
        after_help = "Start, end and value of the range that holds it, with tabs between; for several numbers, or numbers from \
stdin, each answer follows its number and a tab. Where nothing is, stderr names the gap, and the exit code is 1.

Examples:
  sapwood ranges get memory.ranges 0x1234
  sapwood ranges get ports.ranges 22 80 443 --json
  cut -f1 log.tsv | sapwood ranges get ports.ranges -"
    )]
    Get(GetArgs),
    /// Lists the ranges, or those that overlap a window, in order
    #[command(
        after_help = "Start, end and value, with tabs between. Ranges that reach out of the window are shown whole.

Examples:
  sapwood ranges list memory.ranges --hex
  sapwood ranges list ports.ranges --from 1024 --limit 20"
    )]
    List(ListArgs),
    /// Lists the gaps between the ranges, in order
    #[command(
        after_help = "Start, end and size, with tabs between. Gaps that reach out of the window are cut to it; without one, \
the first gap begins at 0, and the last one ends with the last number of 64 bits.

Examples:
  sapwood ranges gaps ports.ranges --to 65535
  sapwood ranges gaps memory.ranges --hex --min 1M"
    )]
    Gaps(GapsArgs),
    /// Finds room for a new range, stores it there, and writes the file anew
    #[command(
        long_about = "Finds the lowest gap (or the highest) in which a new range of SIZE numbers fits, stores it there with \
VALUE, and writes the file anew, beside the old one and renamed; then prints its start and end. When there is no room, \
the file is as it was, and the exit code is 1.

Two of these at once wait for each other, so that no room is given twice.",
        after_help = "Examples:
  sapwood ranges alloc ports.ranges 1 'my service' --from 1024 --to 65535
  sapwood ranges alloc memory.ranges 64K ring --align 4K --hex
  sapwood ranges alloc memory.ranges 2M huge --align 2M --highest --dry-run"
    )]
    Alloc(AllocArgs),
    /// Shows size and shape
    #[command(after_help = "Example:
  sapwood ranges stats memory.ranges --json")]
    Stats(FileArgs),
    /// Checks a file: header, checksums, structure, and that ranges are in order and do not overlap
    #[command(
        after_help = "Exit code 1 when the file is damaged or not a map of ranges, 2 when it cannot be read.

Example:
  sapwood ranges verify memory.ranges"
    )]
    Verify(FileArgs),
    /// Prints the text that builds the same map
    #[command(after_help = "Example:
  sapwood ranges export memory.ranges > memory.txt")]
    Export(ExportArgs),
}

/// `ranges build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The text; "-" for stdin.
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// The map to write.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Later lines win over what they overlap of earlier ones.
    #[arg(long)]
    pub overwrite: bool,
    /// Leave out lines that are no ranges or overlap earlier ones; the first few are described.
    #[arg(long)]
    pub skip_bad: bool,
    /// No summary.
    #[arg(short, long)]
    pub quiet: bool,
}

/// How answers are written.
#[derive(Debug, Args)]
pub struct Form {
    /// Numbers are shown in hexadecimal digits behind 0x (not in JSON, which has none).
    #[arg(long)]
    pub hex: bool,
    /// Answers are JSON documents, one a line.
    #[arg(long)]
    pub json: bool,
}

/// Which part of all numbers.
#[derive(Debug, Args)]
pub struct Window {
    /// From this number on.
    #[arg(long, value_name = "N", value_parser = number)]
    pub from: Option<u64>,
    /// Up to this number, which is included.
    #[arg(long, value_name = "N", value_parser = number)]
    pub to: Option<u64>,
}

/// `ranges get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// The map.
    pub map: PathBuf,
    /// The numbers, decimal or 0x; "-" reads more from stdin, one a line.
    #[arg(value_name = "INDEX", required = true)]
    pub indices: Vec<String>,
    /// How answers are written.
    #[command(flatten)]
    pub form: Form,
}

/// `ranges list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The map.
    pub map: PathBuf,
    /// Which part.
    #[command(flatten)]
    pub window: Window,
    /// How much of it.
    #[command(flatten)]
    pub listing: Listing,
    /// How answers are written.
    #[command(flatten)]
    pub form: Form,
}

/// `ranges gaps`.
#[derive(Debug, Args)]
pub struct GapsArgs {
    /// The map.
    pub map: PathBuf,
    /// Which part.
    #[command(flatten)]
    pub window: Window,
    /// Only gaps of at least this many numbers (1024 for each K, and so on with M, G, T).
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub min: Option<u64>,
    /// How answers are written.
    #[command(flatten)]
    pub form: Form,
}

/// `ranges alloc`.
#[derive(Debug, Args)]
pub struct AllocArgs {
    /// The map.
    pub map: PathBuf,
    /// How many numbers the new range has (1024 for each K, and so on with M, G, T).
    #[arg(value_parser = size)]
    pub size: u64,
    /// Its value.
    pub value: String,
    /// Where to look.
    #[command(flatten)]
    pub window: Window,
    /// Its start is a multiple of this, a power of two.
    #[arg(long, value_name = "N", value_parser = size, default_value = "1")]
    pub align: u64,
    /// The highest place in place of the lowest one.
    #[arg(long)]
    pub highest: bool,
    /// Only say where it would be.
    #[arg(long)]
    pub dry_run: bool,
    /// How answers are written.
    #[command(flatten)]
    pub form: Form,
}

/// `ranges export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The map.
    pub map: PathBuf,
    /// Numbers are written in hexadecimal digits behind 0x.
    #[arg(long)]
    pub hex: bool,
}

/// What `maps` does.
pub const MAPS: &str = "Shows which addresses a process has mapped, by /proc/PID/maps, and answers questions about them (Linux only).

Start, end, size, permissions and name of each mapping, with tabs between; the end is the last address that belongs to it. \
Sizes are in bytes, with K, M, G or T for 1024 of the one before. Without PID the process is this program itself. Those of \
other users' processes are shown to root only.";

/// `maps`.
#[derive(Debug, Args)]
#[command(
    after_help = "Where nothing is at an address, stderr names the gap, and the exit code is 1; so it is when there is no gap that is large \
enough.

Examples:
  sapwood maps
  sapwood maps 1234 --at 0x7ffd12345678
  sapwood maps 1234 --gap 1G --align 2M
  sapwood maps $$ --json"
)]
pub struct MapsArgs {
    /// The process; this program itself, if not given.
    pub pid: Option<u32>,
    /// What is at this address?
    #[arg(long, value_name = "ADDR", value_parser = number)]
    pub at: Option<u64>,
    /// Where is the lowest gap of this many bytes?
    #[arg(long, value_name = "BYTES", value_parser = size, conflicts_with = "at")]
    pub gap: Option<u64>,
    /// The gap begins at a multiple of this, a power of two; at a page, if not given.
    #[arg(long, value_name = "N", value_parser = size, requires = "gap")]
    pub align: Option<u64>,
    /// Where the gap may begin; the lowest address that may be mapped, if not given.
    #[arg(long, value_name = "ADDR", value_parser = number, requires = "gap")]
    pub from: Option<u64>,
    /// Where the gap may end; at the last address, if not given.
    #[arg(long, value_name = "ADDR", value_parser = number, requires = "gap")]
    pub to: Option<u64>,
    /// Answers are JSON documents, one a line.
    #[arg(long)]
    pub json: bool,
}
