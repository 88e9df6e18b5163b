//! The arguments of `sapwood ranges` and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::live::{KeepArgs, LiveArgs};
use super::{Listing, MapArgs};
use crate::numbers::{number, size};

/// The commands on maps of ranges.
#[derive(Debug, Subcommand)]
pub enum RangesCommand {
    /// Builds a map from a text with a start, an end and a value in each line
    #[command(
        long_about = "Builds a map of ranges from a text.

A line has the first and the last number of a range, and then its value. Both numbers belong to \
the range; they are decimal, or hexadecimal after 0x, and have up to 64 bits. The value is the \
rest of the line after white space; it may be empty. Empty lines are skipped. A comment begins \
with a # at the beginning of a line or after white space.

With --form, the text has another form: spans of numbers or IPv4 addresses and prefixes, \
/proc/PID/maps, /proc/iomem and /proc/ioports, a table of blocks as Unicode's, or CSV. With \
--half-open, the second number of a line is the first one behind the range.

A line that is no range is an error, and so is a range that overlaps an earlier one; then nothing \
is written. With --skip-bad such lines are left out. With --overwrite a later range replaces what \
it overlaps of earlier ones. The map is written to a new file, which is then renamed to OUT: OUT \
is the old file or the whole new one at any time.",
        after_help = "Examples:
  sapwood ranges build ports.txt -o ports.ranges
  sapwood ranges build --overwrite general.txt -o all.ranges
  printf '0x1000 0x1fff boot\\n' | sapwood ranges build - -o memory.ranges
  sapwood ranges build --form maps /proc/self/maps -o self.ranges
  sapwood ranges build --form csv --skip-bad countries.csv -o countries.ranges"
    )]
    Build(BuildArgs),
    /// Keeps a live map of a list, which other processes read in place
    #[command(
        long_about = crate::serve_help!(
            "Keeps a live map of a list of ranges, which other processes read in place, without \
locks.",
            "LIST has the form that \"ranges build\" takes.",
            "  add START END VALUE adds or replaces a range; with --overwrite it replaces what it \
overlaps
  remove N            removes the range that has a number
  get N               prints found, the number, and the range and its value; or absent and the number",
            "Changes are made one after the other: readers may see a part of a commit, or of a reading of \
LIST, for a moment. When a change of a commit fails, those before it stay."
        ),
        after_help = "Examples:
  sapwood ranges serve ports.txt --live /dev/shm/ports --watch
  sapwood ranges get --live /dev/shm/ports 443
  echo 'add 8000 8099 test' | sapwood ranges serve ports.txt --live /dev/shm/ports"
    )]
    Serve(ServeArgs),
    /// Finds the range that has a number
    #[command(
        after_help = "Prints start, end and value of the range, with tabs between; for several \
numbers, or numbers from stdin, the number and a tab come first. When no range has the number, \
stderr names the gap, and the exit code is 1.

Examples:
  sapwood ranges get memory.ranges 0x1234
  sapwood ranges get ports.ranges 22 80 443 --json
  sapwood ranges get --live /dev/shm/ports 443
  sapwood ranges get --live --wait 10 /dev/shm/ports 443
  cut -f1 log.tsv | sapwood ranges get ports.ranges -"
    )]
    Get(GetArgs),
    /// Lists the ranges, or those that overlap a window, in order
    #[command(
        after_help = "Prints start, end and value of each range, with tabs between. The window is \
--from and --to; a range that reaches out of it is printed whole.

Examples:
  sapwood ranges list memory.ranges --hex
  sapwood ranges list ports.ranges --from 1024 --limit 20"
    )]
    List(ListArgs),
    /// Lists the gaps between the ranges, in order
    #[command(
        after_help = "Prints start, end and size of each gap, with tabs between. The size is the \
count of its numbers. The window is --from and --to; a gap that reaches out of it is cut. Without \
a window, the first gap may begin at 0, and the last one may end at 2^64 - 1.

Examples:
  sapwood ranges gaps ports.ranges --to 65535
  sapwood ranges gaps memory.ranges --hex --min 1M"
    )]
    Gaps(GapsArgs),
    /// Finds room for a new range, stores it there, and writes the file anew
    #[command(
        long_about = "Finds the lowest gap (with --highest: the highest) that has room for a new \
range of SIZE numbers, stores the range there with VALUE, writes a new file, renames it to MAP, \
and prints the start and the end of the range with a tab between. When no gap has room, the file \
stays as it was, and the exit code is 1.

Commands that run at the same time wait for each other, so that no two of them take the same \
numbers.",
        after_help = "Examples:
  sapwood ranges alloc ports.ranges 1 'my service' --from 1024 --to 65535
  sapwood ranges alloc memory.ranges 64K ring --align 4K --hex
  sapwood ranges alloc memory.ranges 2M huge --align 2M --highest --dry-run
  sapwood ranges alloc memory.ranges 16K stack --near 0x7f000000 --guard 4K"
    )]
    Alloc(AllocArgs),
    /// Stores a range in a file
    #[command(
        long_about = "Stores a range with a value, writes a new file, and renames it to MAP. If \
the range overlaps one that is there, the file stays as it was, and the exit code is 1; with \
--overwrite, the new range replaces what it overlaps.",
        after_help = "Examples:
  sapwood ranges store ports.ranges 8000 8099 test
  sapwood ranges store --overwrite memory.ranges 0x1000 0x1fff guard"
    )]
    Store(StoreArgs),
    /// Removes numbers from the ranges of a file
    #[command(
        visible_alias = "free",
        long_about = "Removes the numbers from START to END, or START alone, from all ranges; \
ranges that reach out of them are cut. Prints what was removed, as \"list\" does, writes a new \
file, and renames it to MAP. When no range has one of the numbers, the exit code is 1.",
        after_help = "Examples:
  sapwood ranges remove ports.ranges 8000 8099
  sapwood ranges remove --whole memory.ranges 0x1800"
    )]
    Remove(RemoveArgs),
    /// Prints what is different in a second file
    #[command(
        long_about = "Prints the numbers whose values differ in two files, in order: in lines with \
-, start, end and value of the first file; in lines with +, those of the second one. The exit code \
is 0 when nothing differs, and 1 otherwise.",
        after_help = "Example:
  sapwood ranges diff yesterday.ranges today.ranges --hex"
    )]
    Diff(DiffArgs),
    /// Makes one file of several
    #[command(
        long_about = "Stores the ranges of all files in a new one. If a range overlaps one of an \
earlier file, nothing is written, and the exit code is 1; with --overwrite, it replaces what it \
overlaps. Neighbours with equal values become one range with --join.",
        after_help = "Examples:
  sapwood ranges merge general.ranges local.ranges --overwrite -o all.ranges
  sapwood ranges merge --join first.ranges second.ranges -o both.ranges"
    )]
    Merge(MergeArgs),
    /// Shows how many ranges a map has, how many numbers they cover, its gaps, and its parts in
    /// bytes
    #[command(after_help = "Example:
  sapwood ranges stats memory.ranges --json")]
    Stats(MapArgs),
    /// Checks a map: header, checksums or structure, and that ranges are in order, apart
    #[command(
        after_help = "The exit code is 1 when the file is damaged or not a map of ranges, and 2 \
when it cannot be read.

Example:
  sapwood ranges verify memory.ranges"
    )]
    Verify(MapArgs),
    /// Prints a text from which "ranges build" makes the same map
    #[command(after_help = "Example:
  sapwood ranges export memory.ranges > memory.txt")]
    Export(ExportArgs),
}

/// The form of the lines of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListForm {
    /// START END VALUE.
    List,
    /// START-END VALUE, START..END VALUE, N VALUE, of numbers or IPv4 addresses, and
    /// PREFIX/LENGTH VALUE.
    Spans,
    /// A process's mappings, as in /proc/PID/maps.
    Maps,
    /// A machine's memory or ports, as in /proc/iomem and /proc/ioports; a line replaces what it
    /// overlaps.
    Iomem,
    /// START..END; VALUE, hexadecimal, as Unicode's tables.
    Blocks,
    /// CSV with start, end and value, or with a first line that names these columns.
    Csv,
}

/// A list of ranges, and how it is read.
#[derive(Debug, Args)]
pub struct TextArgs {
    /// The text to read; "-" for stdin.
    #[arg(value_name = "LIST")]
    pub input: PathBuf,
    /// The form of its lines.
    #[arg(long, value_enum, default_value = "list")]
    pub form: ListForm,
    /// Take the second number of a line for the first one behind the range.
    #[arg(long)]
    pub half_open: bool,
    /// Let a later range replace what it overlaps of earlier ones.
    #[arg(long)]
    pub overwrite: bool,
    /// Leave out lines that are no ranges, or whose ranges overlap earlier ones; stderr describes
    /// the first 20.
    #[arg(long)]
    pub skip_bad: bool,
    /// Print no summary.
    #[arg(short, long)]
    pub quiet: bool,
}

/// The arguments of `ranges build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The list.
    #[command(flatten)]
    pub list: TextArgs,
    /// The file to write.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
}

/// The arguments of `ranges serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The list.
    #[command(flatten)]
    pub list: TextArgs,
    /// How the map is kept.
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// The form of the answers.
#[derive(Debug, Args)]
pub struct Form {
    /// Print numbers in hexadecimal digits after 0x; in JSON documents they stay decimal.
    #[arg(long)]
    pub hex: bool,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

/// The numbers that a command looks at.
#[derive(Debug, Args)]
pub struct Window {
    /// Begin at this number; without it, at 0.
    #[arg(long, value_name = "N", value_parser = number)]
    pub from: Option<u64>,
    /// End at this number, itself included; without it, at 2^64 - 1.
    #[arg(long, value_name = "N", value_parser = number)]
    pub to: Option<u64>,
}

/// The arguments of `ranges get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// The map.
    pub map: PathBuf,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// The numbers, decimal or after 0x; "-" stands for the numbers on stdin, one in each line. A
    /// bad one is reported with its number, the others are answered, and the exit code is 2.
    #[arg(value_name = "INDEX", required = true)]
    pub indices: Vec<String>,
    /// Stop at the first number that cannot be read, instead of answering the others.
    #[arg(long)]
    pub strict: bool,
    /// The form of the answers.
    #[command(flatten)]
    pub form: Form,
}

/// The arguments of `ranges list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The map.
    pub map: PathBuf,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// The numbers to look at.
    #[command(flatten)]
    pub window: Window,
    /// How much of the list is printed.
    #[command(flatten)]
    pub listing: Listing,
    /// The form of the answers.
    #[command(flatten)]
    pub form: Form,
}

/// The arguments of `ranges gaps`.
#[derive(Debug, Args)]
pub struct GapsArgs {
    /// The map.
    pub map: PathBuf,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// The numbers to look at.
    #[command(flatten)]
    pub window: Window,
    /// List only gaps of at least this many numbers; K, M, G or T after it multiplies it by 2^10,
    /// 2^20, 2^30 or 2^40.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub min: Option<u64>,
    /// The form of the answers.
    #[command(flatten)]
    pub form: Form,
}

/// The arguments of `ranges alloc`.
#[derive(Debug, Args)]
pub struct AllocArgs {
    /// The map.
    pub map: PathBuf,
    /// How many numbers the new range has; K, M, G or T after it multiplies it by 2^10, 2^20, 2^30
    /// or 2^40.
    #[arg(value_parser = size)]
    pub size: u64,
    /// The value of the new range.
    pub value: String,
    /// The numbers that the new range may have.
    #[command(flatten)]
    pub window: Window,
    /// Let the range start at a multiple of this power of two; with --rest, of any number.
    #[arg(long, value_name = "N", value_parser = size, default_value = "1")]
    pub align: u64,
    /// Let the range start so many numbers behind a multiple of --align.
    #[arg(long, value_name = "N", value_parser = number, default_value = "0")]
    pub rest: u64,
    /// Leave at least so many numbers free between the range and others.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0")]
    pub guard: u64,
    /// Take the highest place instead of the lowest one.
    #[arg(long)]
    pub highest: bool,
    /// Take a place in the smallest gap that has room.
    #[arg(long)]
    pub tightest: bool,
    /// Take the place that starts nearest to this number.
    #[arg(long, value_name = "N", value_parser = number, conflicts_with = "highest")]
    pub near: Option<u64>,
    /// Print where the range would be, and leave the file as it is.
    #[arg(long)]
    pub dry_run: bool,
    /// The form of the answers.
    #[command(flatten)]
    pub form: Form,
}

/// The arguments of `ranges store`.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// The map.
    pub map: PathBuf,
    /// The first number of the range.
    #[arg(value_parser = number)]
    pub start: u64,
    /// Its last number.
    #[arg(value_parser = number)]
    pub end: u64,
    /// Its value.
    #[arg(default_value = "")]
    pub value: String,
    /// Let the range replace what it overlaps.
    #[arg(long)]
    pub overwrite: bool,
}

/// The arguments of `ranges remove`.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The map.
    pub map: PathBuf,
    /// The first number.
    #[arg(value_parser = number)]
    pub start: u64,
    /// The last number; without it, the first one.
    #[arg(value_parser = number)]
    pub end: Option<u64>,
    /// Remove the ranges that have one of the numbers, each whole.
    #[arg(long)]
    pub whole: bool,
    /// The form of the answers.
    #[command(flatten)]
    pub form: Form,
}

/// The arguments of `ranges merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The maps, in the order in which they are stored.
    #[arg(required = true, value_name = "MAP")]
    pub maps: Vec<PathBuf>,
    /// The file to write.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Let a later range replace what it overlaps of earlier ones.
    #[arg(long)]
    pub overwrite: bool,
    /// Make neighbours that touch and have equal values one range.
    #[arg(long)]
    pub join: bool,
}

/// The arguments of `ranges diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The first map.
    pub old: PathBuf,
    /// The second map.
    pub new: PathBuf,
    /// The form of the answers.
    #[command(flatten)]
    pub form: Form,
}

/// The arguments of `ranges export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The map.
    pub map: PathBuf,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Print numbers in hexadecimal digits after 0x.
    #[arg(long)]
    pub hex: bool,
}
