//! The arguments of `sapwood routes` and their help.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use sapwood_routes::MAIN_TABLE;

use super::live::{KeepArgs, LiveArgs};

/// The commands on tables of routes.
#[derive(Debug, Subcommand)]
pub enum RoutesCommand {
    /// Builds a table from a text or a dump of routes, or from those of the running kernel
    #[command(
        long_about = "Builds a table of routes, IPv4 and IPv6 in one file.

The contents of the file tell its format; the summary names it, and --format chooses another:
  text         a prefix, white space, and the next hop in each line; see below
  pfx2as       a prefix and an autonomous system: CAIDA's pfx2as, the files of pyasn
  ip-route     the text of \"ip route\" and \"ip -6 route\"
  route-n      the text of \"route -n\", \"route -6 -n\" and \"netstat -rn\"
  show-ip-bgp  the text of \"show ip bgp\" of FRR, Quagga and others
  bird         the text of BIRD's \"show route\"
  json         \"ip -j route\"; FRR's \"show bgp json\" and \"show ip route json\"
  mrt          dumps (TABLE_DUMP_V2, TABLE_DUMP) and the updates after them (BGP4MP)
Files may be compressed with gzip or bzip2. A file of another kind is refused, and its kind named.

In a text the next hop is the rest of the line and may be any text or empty. The words blackhole, \
unreachable, prohibit and throw are null routes, and \"a weight 2, b weight 1\" is a group of next \
hops. A prefix may have a netmask (10.0.0.0 255.0.0.0 192.0.2.1), or its length in a column of its \
own (1.0.0.0 24 15169). Any other address without a length is the route to one host. Empty lines \
are skipped. A comment begins with a # at the beginning of a line or after white space, or with a ; \
at the beginning of a line.

In the texts of routers and in JSON, the route of a prefix with the lowest metric counts, or the \
best path of BGP. Routes with several next hops become groups.

In MRT files, a prefix has the first next hop of its entries; with --peer, that of the peer's \
entry. Updates are applied in order: a withdrawn entry is followed by the next one. Several dumps \
in one file are put together.

With --kernel the table has the unicast routes and the null routes of the running kernel's main \
table, or of another --table (Linux only). A next hop there is the gateway, or \"dev\" and the \
device. Next hops that the kernel knows to be dead are left out.

When a prefix comes twice in a text, the last one wins. A line or record that is no route is an \
error, and nothing is written; with --skip-bad it is left out. The table is written to a new file, \
which is then renamed to OUT: OUT is the old file or the whole new one at any time.",
        after_help = "Examples:
  sapwood routes build routes.txt -o routes.lpm
  ip route | sapwood routes build - -o routes.lpm
  vtysh -c 'show ip bgp json' | sapwood routes build - -o routes.lpm
  sapwood routes build rib.20260101.0000.bz2 -o routes.lpm
  zcat rib.gz updates.gz | sapwood routes build - --peer 192.0.2.1 -o routes.lpm
  sapwood routes build --kernel -o routes.lpm
  sapwood routes build --kernel --table 100 -o vrf-red.lpm"
    )]
    Build(BuildArgs),
    /// Keeps a live table of a list of routes, which other processes read in place
    #[command(
        long_about = crate::serve_help!(
            "Keeps a live table of routes, which other processes read in place, without locks.",
            "LIST is a text or a dump as \"routes build\" takes it, or a table that it has built.",
            "  add PREFIX NEXT-HOP adds or replaces a route
  remove PREFIX       removes a route
  get PREFIX          prints found, the prefix and its next hop, or absent and the prefix",
            "A failed one changes nothing. Readers may see a part of a commit, or of a reading of LIST, for a \
moment."
        ),
        after_help = "Examples:
  sapwood routes serve routes.txt --live /dev/shm/routes --watch
  sapwood routes serve routes.txt --live /dev/shm/routes --metrics 127.0.0.1:9464
  sapwood routes lookup --live /dev/shm/routes 192.0.2.77
  echo 'add 10.0.0.0/8 192.0.2.1' | sapwood routes serve routes.txt --live /dev/shm/routes"
    )]
    Serve(ServeArgs),
    /// Finds the routes of addresses: the longest prefix that covers each of them
    #[command(
        after_help = "Prints prefix, tab, next hop; for several addresses, or addresses from \
stdin, the address and a tab come first. Addresses without a route are named on stderr; then the \
exit code is 1.

Examples:
  sapwood routes lookup routes.lpm 192.0.2.77
  sapwood routes lookup routes.lpm 2001:db8::1 --all
  sapwood routes lookup --live /dev/shm/routes 192.0.2.77
  sapwood routes lookup --live --wait 10 /dev/shm/routes 192.0.2.77
  sapwood routes lookup routes.lpm - --json < addresses.txt"
    )]
    Lookup(LookupArgs),
    /// Finds the routes that cover prefixes, shortest first
    #[command(
        after_help = "Prints prefix, tab, next hop of each route that covers the prefix; the prefix \
itself is one of them, if it is in the table. An address is the prefix of this address alone. For \
several prefixes, or prefixes from stdin, the prefix and a tab come first. Prefixes that no route \
covers are named on stderr; then the exit code is 1.

Examples:
  sapwood routes covering routes.lpm 192.0.2.0/24
  sapwood routes covering --live /dev/shm/routes 2001:db8::/48
  sapwood routes covering routes.lpm - --json < prefixes.txt"
    )]
    Covering(CoverArgs),
    /// Finds the routes inside prefixes, in order
    #[command(
        after_help = "Prints prefix, tab, next hop of each route inside the prefix; the prefix \
itself is the first of them, if it is in the table. For several prefixes, or prefixes from stdin, \
the prefix and a tab come first. Prefixes without a route inside are named on stderr; then the exit \
code is 1.

Examples:
  sapwood routes covered routes.lpm 10.0.0.0/8
  sapwood routes covered --live /dev/shm/routes 2001:db8::/32
  sapwood routes covered routes.lpm - --json < prefixes.txt"
    )]
    Covered(CoverArgs),
    /// Prints the fewest routes with the same next hop for each address
    #[command(
        long_about = "Prints the fewest routes that give each address the same next hop as the \
table does (ORTC, Draves and others 1999). An address without a route stays without one. The \
routes are printed as \"routes export\" prints them, or written as a table with -o.",
        after_help = "Examples:
  sapwood routes aggregate routes.lpm > fewer.txt
  sapwood routes aggregate routes.lpm -o fewer.lpm
  sapwood routes aggregate --summary routes.lpm"
    )]
    Aggregate(AggregateArgs),
    /// Shows how many routes a table has, by prefix length and by next hop, and its size in bytes
    #[command(after_help = "Examples:
  sapwood routes stats routes.lpm
  sapwood routes stats routes.lpm --json")]
    Stats(TableArgs),
    /// Checks a file: header, checksums, every invariant of the structure, every route
    #[command(
        after_help = "The exit code is 1 when the file is damaged or not a table of routes, and 2 \
when it cannot be read.

Example:
  sapwood routes verify routes.lpm"
    )]
    Verify(TableArgs),
    /// Shows the routes that differ between two tables
    #[command(
        after_help = "Prints one line for each prefix that differs, in order of prefixes, IPv4 \
first, with tabs between the fields:
  + prefix next-hop   only NEW has the prefix
  - prefix next-hop   only OLD has the prefix
  ~ prefix old new    both have the prefix, with different next hops
The exit code is 1 when the tables differ.

Examples:
  sapwood routes diff monday.lpm tuesday.lpm
  sapwood routes diff --summary monday.lpm tuesday.lpm"
    )]
    Diff(DiffArgs),
    /// Prints a text from which "routes build" makes the same table
    #[command(after_help = "Example:
  sapwood routes export routes.lpm > routes.txt")]
    Export(ExportArgs),
}

/// The form in which a file has routes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RouteFormat {
    /// Lines of a prefix and a next hop.
    Text,
    /// Lines of a prefix and an autonomous system.
    Pfx2as,
    /// The text of "ip route".
    IpRoute,
    /// The text of "route -n".
    RouteN,
    /// The text of "show ip bgp".
    ShowIpBgp,
    /// The text of BIRD's "show route".
    Bird,
    /// The JSON of "ip -j route" or of FRR.
    Json,
    /// MRT dumps and updates.
    Mrt,
}

/// How a file of routes is read.
#[derive(Debug, Default, Args)]
pub struct SourceArgs {
    /// The form of the file; without it, the contents of the file tell.
    #[arg(long)]
    pub format: Option<RouteFormat>,
    /// Clear the bits after a prefix's length; without this, such bits make a line bad.
    #[arg(long)]
    pub truncate: bool,
    /// Leave out lines and records that are no routes; stderr describes the first 20.
    #[arg(long)]
    pub skip_bad: bool,
    /// Take only the routes of the peer with this address from an MRT file.
    #[arg(long, value_name = "ADDR")]
    pub peer: Option<IpAddr>,
    /// If the file ends too early, take the routes before its end.
    #[arg(long)]
    pub partial: bool,
}

/// The arguments of `routes build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The text or the dump to read; "-" for stdin.
    #[arg(value_name = "FILE", required_unless_present = "kernel")]
    pub input: Option<PathBuf>,
    /// Take the routes of the running kernel instead of a file.
    #[arg(long, conflicts_with_all = ["input", "format", "truncate", "skip_bad", "peer", "partial"])]
    pub kernel: bool,
    /// The number of the kernel's table: 254 is the main one, and a VRF has its own.
    #[arg(long, value_name = "NUMBER", default_value_t = MAIN_TABLE, requires = "kernel")]
    pub table: u32,
    /// The file to write.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// How the file is read.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Print no summary.
    #[arg(short, long)]
    pub quiet: bool,
}

/// The arguments of `routes serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The text, the dump or the table to read; "-" for stdin.
    #[arg(value_name = "LIST")]
    pub input: PathBuf,
    /// How the list is read.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Print no summary.
    #[arg(short, long)]
    pub quiet: bool,
    /// How the table is kept.
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// How a table is asked.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// The table.
    pub table: PathBuf,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Stop at the first query that cannot be read, instead of answering the others.
    #[arg(long)]
    pub strict: bool,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
    /// Open the file without reading and checking all of it. A damaged file may then give wrong
    /// answers, but it cannot crash the program.
    #[arg(long, conflicts_with = "live")]
    pub no_verify: bool,
}

/// The arguments of `routes lookup`.
#[derive(Debug, Args)]
pub struct LookupArgs {
    /// How the table is asked.
    #[command(flatten)]
    pub query: QueryArgs,
    /// The addresses; "-" stands for the addresses on stdin, one in each line. A bad one
    /// is reported with its number, the others are answered, and the exit code is 2.
    #[arg(value_name = "ADDR", required = true)]
    pub addresses: Vec<String>,
    /// Print all prefixes that cover an address, shortest first.
    #[arg(short, long)]
    pub all: bool,
}

/// The arguments of `routes covering` and `routes covered`.
#[derive(Debug, Args)]
pub struct CoverArgs {
    /// How the table is asked.
    #[command(flatten)]
    pub query: QueryArgs,
    /// The prefixes; "-" stands for the prefixes on stdin, one in each line. A bad one is reported
    /// with its number, the others are answered, and the exit code is 2.
    #[arg(value_name = "PREFIX", required = true)]
    pub prefixes: Vec<String>,
}

/// The arguments of `routes aggregate`.
#[derive(Debug, Args)]
pub struct AggregateArgs {
    /// The table.
    pub table: PathBuf,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Write a table to this file, and print nothing.
    #[arg(short, long, value_name = "OUT", conflicts_with_all = ["json", "summary"])]
    pub output: Option<PathBuf>,
    /// Print only how many routes there are, before and after.
    #[arg(short, long)]
    pub summary: bool,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
    /// With -o, print no summary.
    #[arg(short, long, requires = "output")]
    pub quiet: bool,
}

/// The arguments of the commands on a whole table.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// The table.
    pub table: PathBuf,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `routes diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The old table.
    pub old: PathBuf,
    /// The new table.
    pub new: PathBuf,
    /// Whether tables that are directories are live ones.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Print only how many routes were added, removed and changed.
    #[arg(short, long)]
    pub summary: bool,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `routes export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The table.
    pub table: PathBuf,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
}
