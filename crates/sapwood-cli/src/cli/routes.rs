//! The arguments of `sapwood routes` and their help.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// What can be done with tables of routes.
#[derive(Debug, Subcommand)]
pub enum RoutesCommand {
    /// Builds a table from a text, an MRT table dump, or the kernel's own routes
    #[command(
        long_about = "Builds a table of routes, IPv4 and IPv6 in one file.

A text has one route a line: a prefix and, behind white space, the next hop, which is the rest of the line and may be \
anything or nothing. An address alone is a host's route. Empty lines are passed over, and so is everything from a # at \
the beginning of a line or behind white space. An MRT file must be a table dump (TABLE_DUMP_V2); the next hop of a prefix \
is that of its first entry, or with --peer that of this peer's. Both may be compressed with gzip or bzip2. With --kernel \
the unicast routes of the running kernel's main table are taken (Linux only); a next hop there is the gateway, or \"dev\" \
and the device; several next hops come sorted, with commas between them.

When a prefix comes twice, the last one wins. A line or record that is no route ends everything, unless --skip-bad is \
given. The table is written beside OUT and renamed: OUT is the old file or the whole new one, never anything between.",
        after_help = "Examples:
  sapwood routes build routes.txt -o routes.lpm
  sapwood routes build rib.20260101.0000.bz2 -o routes.lpm
  sapwood routes build rib.gz --peer 192.0.2.1 --skip-bad -o routes.lpm
  sapwood routes build --kernel -o routes.lpm
  zcat prefixes.gz | sapwood routes build - -o routes.lpm"
    )]
    Build(BuildArgs),
    /// Finds the routes of addresses: the longest prefix that covers each
    #[command(
        after_help = "Prefix, tab, next hop; for several addresses, or addresses from stdin, each answer follows its \
address and a tab. Addresses without a route are named on stderr, and make the exit code 1.

Examples:
  sapwood routes lookup routes.lpm 192.0.2.77
  sapwood routes lookup routes.lpm 2001:db8::1 --all
  sapwood routes lookup routes.lpm - --json < addresses.txt"
    )]
    Lookup(LookupArgs),
    /// Shows how many routes there are, of which lengths, and by which next hops
    #[command(after_help = "Examples:
  sapwood routes stats routes.lpm
  sapwood routes stats routes.lpm --json")]
    Stats(TableArgs),
    /// Checks a file: header, checksums, every invariant of the structure, every route
    #[command(
        after_help = "Exit code 1 when the file is damaged or not a table of routes, 2 when it cannot be read.

Example:
  sapwood routes verify routes.lpm"
    )]
    Verify(TableArgs),
    /// Shows what differs between two tables
    #[command(
        after_help = "Lines are in order of prefixes, IPv4 first: \"+ prefix next-hop\" only in NEW, \"- prefix next-hop\" \
only in OLD, \"~ prefix old new\" in both with another next hop, with tabs between. Exit code 1 when anything differs.

Examples:
  sapwood routes diff monday.lpm tuesday.lpm
  sapwood routes diff --summary monday.lpm tuesday.lpm"
    )]
    Diff(DiffArgs),
    /// Prints the text that builds the same table
    #[command(after_help = "Example:
  sapwood routes export routes.lpm > routes.txt")]
    Export(ExportArgs),
    /// Measures the library on a table: lookups, updates beside a reader, memory
    #[command(
        after_help = "FILE is a table, a text, or an MRT table dump. Its routes are loaded into Ipv4Fib and Ipv6Fib, and \
beside them into one hash map for each length of prefix; both are asked for the same addresses, random ones and ones \
inside the table, and all answers are compared. Exit code 1 when any is wrong.

Examples:
  sapwood routes bench routes.lpm
  sapwood routes bench rib.bz2 --rounds 5 --json"
    )]
    Bench(BenchArgs),
}

/// How routes are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RouteFormat {
    /// Lines of a prefix and a next hop.
    Text,
    /// An MRT table dump.
    Mrt,
}

/// Where routes come from.
#[derive(Debug, Default, Args)]
pub struct SourceArgs {
    /// What the file is; told by its contents, if not given.
    #[arg(long)]
    pub format: Option<RouteFormat>,
    /// Clear bits that are set behind a prefix's length, in place of calling the line bad.
    #[arg(long)]
    pub truncate: bool,
    /// Leave out lines and records that are no routes; the first few are described.
    #[arg(long)]
    pub skip_bad: bool,
    /// Of an MRT dump, take the routes of the peer with this address only.
    #[arg(long, value_name = "ADDR")]
    pub peer: Option<IpAddr>,
}

/// `routes build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The text or the dump; "-" for stdin.
    #[arg(value_name = "FILE", required_unless_present = "kernel")]
    pub input: Option<PathBuf>,
    /// Take the running kernel's routes.
    #[arg(long, conflicts_with_all = ["input", "format", "truncate", "skip_bad", "peer"])]
    pub kernel: bool,
    /// The table to write.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// How to read it.
    #[command(flatten)]
    pub source: SourceArgs,
    /// No summary.
    #[arg(short, long)]
    pub quiet: bool,
}

/// `routes lookup`.
#[derive(Debug, Args)]
pub struct LookupArgs {
    /// The table.
    pub table: PathBuf,
    /// The addresses; "-" reads more from stdin, one a line.
    #[arg(value_name = "ADDR", required = true)]
    pub addresses: Vec<String>,
    /// All prefixes that cover an address, shortest first.
    #[arg(short, long)]
    pub all: bool,
    /// Answers are JSON documents, one a line.
    #[arg(long)]
    pub json: bool,
    /// Open without reading the whole file to check it. Damage may then give wrong answers, but
    /// does no harm.
    #[arg(long)]
    pub no_verify: bool,
}

/// A table, looked at as a whole.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// The table.
    pub table: PathBuf,
    /// The answer is a JSON document.
    #[arg(long)]
    pub json: bool,
}

/// `routes diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The table before.
    pub old: PathBuf,
    /// The table after.
    pub new: PathBuf,
    /// Only how many routes were added, removed and changed.
    #[arg(short, long)]
    pub summary: bool,
    /// Answers are JSON documents, one a line.
    #[arg(long)]
    pub json: bool,
}

/// `routes export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The table.
    pub table: PathBuf,
}

/// `routes bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The table, text or dump; "-" for stdin.
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// How to read it, if it is no table.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Rounds, of which medians are shown.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// This many addresses of each kind are asked for.
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1..=1 << 28))]
    pub addresses: u64,
    /// One JSON document with all figures.
    #[arg(long)]
    pub json: bool,
}
