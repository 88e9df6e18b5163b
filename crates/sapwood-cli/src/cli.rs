//! The arguments and their help.

#[cfg(feature = "bpf")]
pub mod bpf;
pub mod ranges;
pub mod routes;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::keys::KeyForm;
use ranges::{MapsArgs, RangesCommand};
use routes::RoutesCommand;

const EXIT_CODES: &str = "Exit codes: 0 success or \"yes\"; 1 \"no\" (absent, no room, different, damaged, a wrong answer in the tour or a bench); \
2 an error, which stderr explains.";

/// Ordered tables of names, of routes and of ranges: build, query, check and measure them.
#[derive(Debug, Parser)]
#[command(name = "sapwood", version, max_term_width = 110, after_help = EXIT_CODES, after_long_help = concat!(
    "Examples:
  sapwood names build words.txt -o words.qp     a map of the lines of a file
  sapwood names prefix words.qp under           what starts with \"under\"
  sapwood names longest --dns zones.qp www.example.org
                                                the closest enclosing zone
  sapwood routes build --kernel -o routes.lpm   a table of this machine's routes
  sapwood routes lookup routes.lpm 192.0.2.77   the longest prefix that covers an address
  sapwood ranges build ports.txt -o ports.ranges
                                                a map of ranges of numbers
  sapwood ranges alloc ports.ranges 8 'my own'  the lowest room for a new range
  sapwood maps --gap 1G                         the lowest gap among this process's mappings
  sapwood tour --quick                          what the library does, on this machine's own data

", "Exit codes: 0 success or \"yes\"; 1 \"no\" (absent, no room, different, damaged, a wrong answer in the tour or a bench); \
2 an error, which stderr explains."))]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Maps of names (any byte strings) to numbers or texts, in files
    #[command(after_help = "Examples:
  sapwood names build words.txt -o words.qp
  sapwood names get words.qp oak
  sapwood names range words.qp --from oa --to ob
  find /usr -print0 | sapwood names build --null - -o usr.qp")]
    Names {
        /// What to do with them.
        #[command(subcommand)]
        command: NamesCommand,
    },
    /// Tables of routes (IPv4 and IPv6 prefixes with next hops), in files
    #[command(after_help = "Examples:
  sapwood routes build routes.txt -o routes.lpm
  sapwood routes lookup routes.lpm 192.0.2.77 2001:db8::1
  sapwood routes stats routes.lpm
  sapwood routes diff monday.lpm tuesday.lpm")]
    Routes {
        /// What to do with them.
        #[command(subcommand)]
        command: RoutesCommand,
    },
    /// Maps of ranges of numbers (0 to 2^64 - 1) to texts, in files
    #[command(after_help = "Examples:
  sapwood ranges build ports.txt -o ports.ranges
  sapwood ranges get ports.ranges 443
  sapwood ranges gaps ports.ranges --from 1024 --to 65535 --min 100
  sapwood ranges alloc ports.ranges 10 'my services' --from 1024 --to 65535")]
    Ranges {
        /// What to do with them.
        #[command(subcommand)]
        command: RangesCommand,
    },
    /// What a process has mapped: all of it, what is at an address, where there is room
    #[command(long_about = ranges::MAPS)]
    Maps(MapsArgs),
    /// Maps inside the kernel, and the programs that use them (as root)
    #[cfg(feature = "bpf")]
    #[command(after_help = "Examples:
  sapwood bpf names run blocked.txt -i eth0
  sapwood bpf list
  sapwood bpf dump /sys/fs/bpf/names/arena blocked --dns")]
    Bpf {
        /// What to do.
        #[command(subcommand)]
        command: bpf::BpfCommand,
    },
    /// Shows what the library does, on data of this machine, beside std's maps; every answer is
    /// checked
    Tour(TourArgs),
    /// Prints completions for a shell
    #[command(after_help = "Examples:
  sapwood completions bash > ~/.local/share/bash-completion/completions/sapwood
  sapwood completions zsh > ~/.zfunc/_sapwood
  sapwood completions fish > ~/.config/fish/completions/sapwood.fish")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Prints a manual page, or writes all of them into a folder
    #[command(after_help = "Examples:
  sapwood man | man -l -
  sapwood man names build | man -l -
  sapwood man --out /usr/local/share/man/man1")]
    Man {
        /// Write all pages into this folder (made if it is not there).
        #[arg(long, value_name = "DIR", conflicts_with = "page")]
        out: Option<PathBuf>,
        /// The command whose page to print, word by word; without any, the program's.
        #[arg(value_name = "COMMAND")]
        page: Vec<String>,
    },
}

/// What can be done with maps of names.
#[derive(Debug, Subcommand)]
pub enum NamesCommand {
    /// Builds a map from a text: one key a line, or key, tab, value
    #[command(
        long_about = "Builds a map from a text: one key a line, or key, tab, number.

A key is everything before the last tab of a line, as bytes of any value; its number has up to 64 bits. A line without a \
tab gets its own line number, counted from 1. Empty lines are passed over (an empty key can be given as tab, number). \
When a key comes twice, the last one wins.

With --values text, a key is everything before the first tab, and what is behind it is its text, tabs included; a line \
without a tab has an empty text. A record has at most 65,557 bytes. The other commands see what a map holds, and print \
numbers or texts.

Lines that cannot be stored are reported with their numbers and left out, or end everything under --strict. The map \
is written beside OUT and renamed: OUT is the old file or the whole new one, never anything between.",
        after_help = "Examples:
  sapwood names build words.txt -o words.qp
  sapwood names build --dns zones.txt -o zones.qp      (give --dns to the queries, too)
  find /usr -print0 | sapwood names build --null --keys-only - -o usr.qp
  sapwood names build --values text trees.tsv -o trees.qp
  sapwood names build --strict ids.tsv -o ids.qp       (nothing is written if any line is bad)"
    )]
    Build(BuildArgs),
    /// Prints the values of keys
    #[command(
        after_help = "One key: its value. Several, or keys from stdin: key, tab, value. Absent keys are named on \
stderr, and make the exit code 1.

Examples:
  sapwood names get words.qp oak
  sapwood names get words.qp oak elm ash --json
  cut -f1 log.tsv | sapwood names get words.qp -
  sapwood names get words.qp -- -key-with-a-dash"
    )]
    Get(KeysArgs),
    /// Says by the exit code whether all keys are there
    #[command(after_help = "Examples:
  sapwood names has words.qp oak && echo known
  sapwood names has -v words.qp oak elm")]
    Has(HasArgs),
    /// Lists the entries whose keys start with a prefix, in order
    #[command(
        after_help = "With --dns the prefix is a zone: itself and all names below it. No entry at all is an empty \
list, and success.

Examples:
  sapwood names prefix usr.qp /usr/lib/ --limit 20
  sapwood names prefix --dns zones.qp example.org
  sapwood names prefix words.qp un --reverse --limit 1"
    )]
    Prefix(PrefixArgs),
    /// Lists the entries between two keys, in order
    #[command(
        after_help = "--from is included and --to is not, unless said otherwise; either may be left out. Neither needs \
to be stored.

Examples:
  sapwood names range words.qp --from oak --to pine
  sapwood names range words.qp --from oak --exclude-from --to pine --include-to
  sapwood names range words.qp --reverse --limit 10"
    )]
    Range(RangeArgs),
    /// Finds the entry with the least key greater than a key
    #[command(
        after_help = "The key itself need not be stored. Exit code 1 when there is none.

Example:
  sapwood names next words.qp oak"
    )]
    Next(KeyArgs),
    /// Finds the entry with the greatest key less than a key
    #[command(
        after_help = "The key itself need not be stored. Exit code 1 when there is none.

Example:
  sapwood names prev words.qp oak"
    )]
    Prev(KeyArgs),
    /// Finds the longest stored key that is a prefix of each key
    #[command(
        after_help = "With --dns that is the closest enclosing zone. Exit code 1 when some key has none. For several \
keys, or keys from stdin, each answer follows its key and a tab.

Examples:
  sapwood names longest --dns zones.qp www.example.org
  sapwood names longest usr.qp /usr/lib/os-release --all --separator /
  sapwood names longest usr.qp - --json < paths.txt"
    )]
    Longest(LongestArgs),
    /// Counts the entries, or those whose keys start with a prefix
    #[command(after_help = "Examples:
  sapwood names count words.qp
  sapwood names count --dns zones.qp example.org")]
    Count(CountArgs),
    /// Shows size and shape
    #[command(after_help = "Example:
  sapwood names stats words.qp --json")]
    Stats(FileArgs),
    /// Checks a file: header, checksums, and every invariant of the structure
    #[command(
        after_help = "Exit code 1 when the file is damaged or not a map, 2 when it cannot be read.

Example:
  sapwood names verify words.qp"
    )]
    Verify(FileArgs),
    /// Shows what differs between two maps
    #[command(
        after_help = "Lines are in order of keys: \"+ key value\" only in NEW, \"- key value\" only in OLD, \"~ key old \
new\" in both with another value, with tabs between. Exit code 1 when anything differs.

Examples:
  sapwood names diff monday.qp tuesday.qp
  sapwood names diff --summary monday.qp tuesday.qp"
    )]
    Diff(DiffArgs),
}

/// What the keys of a map of names have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValueKind {
    /// Numbers of 64 bits.
    Numbers,
    /// Texts: any bytes, as many as a record has.
    Text,
}

/// `names build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The text; "-" for stdin.
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// The map to write.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Keys are domain names: letters in lower case, canonical order of DNSSEC. Queries need --dns,
    /// too.
    #[arg(long)]
    pub dns: bool,
    /// Records end in NUL, not in newlines.
    #[arg(short = '0', long)]
    pub null: bool,
    /// Whole records are keys, tabs included; numbers are record numbers.
    #[arg(short, long)]
    pub keys_only: bool,
    /// What keys have.
    #[arg(
        long,
        value_name = "KIND",
        default_value = "numbers",
        conflicts_with = "keys_only"
    )]
    pub values: ValueKind,
    /// Take carriage returns off the ends of lines.
    #[arg(long)]
    pub crlf: bool,
    /// Stop at the first record that cannot be stored, and write nothing.
    #[arg(long)]
    pub strict: bool,
    /// No summary.
    #[arg(short, long)]
    pub quiet: bool,
}

/// What all queries share.
#[derive(Debug, Args)]
pub struct Query {
    /// Keys are domain names; the map was built with --dns.
    #[arg(long, conflicts_with = "hex")]
    pub dns: bool,
    /// Keys are given and shown in hexadecimal digits.
    #[arg(long)]
    pub hex: bool,
    /// Answers are JSON documents, one a line; a key that is not UTF-8 is {"hex": "…"}.
    #[arg(long)]
    pub json: bool,
    /// Answers, and keys on stdin, end in NUL, not in newlines.
    #[arg(short = '0', long)]
    pub null: bool,
    /// Open without reading the whole file to check it. Damage may then give wrong answers, but
    /// does no harm.
    #[arg(long)]
    pub no_verify: bool,
}

impl Query {
    /// How keys are written.
    pub fn form(&self) -> KeyForm {
        KeyForm::new(self.dns, self.hex)
    }
}

/// A map and keys.
#[derive(Debug, Args)]
pub struct KeysArgs {
    /// The map.
    pub map: PathBuf,
    /// The keys, as bytes; "-" reads more from stdin, one a line.
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<OsString>,
    /// What all queries share.
    #[command(flatten)]
    pub query: Query,
}

/// `names has`.
#[derive(Debug, Args)]
pub struct HasArgs {
    /// The keys.
    #[command(flatten)]
    pub keys: KeysArgs,
    /// Say yes or no for each key.
    #[arg(short, long)]
    pub verbose: bool,
}

/// A map and a key.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// The map.
    pub map: PathBuf,
    /// The key, as bytes.
    pub key: OsString,
    /// What all queries share.
    #[command(flatten)]
    pub query: Query,
}

/// How much of a list, and which way.
#[derive(Debug, Args)]
pub struct Listing {
    /// At most this many entries.
    #[arg(short = 'n', long, value_name = "N")]
    pub limit: Option<usize>,
    /// In descending order.
    #[arg(short, long)]
    pub reverse: bool,
}

/// `names prefix`.
#[derive(Debug, Args)]
pub struct PrefixArgs {
    /// The map.
    pub map: PathBuf,
    /// The prefix, as bytes.
    pub prefix: OsString,
    /// How much of it.
    #[command(flatten)]
    pub listing: Listing,
    /// What all queries share.
    #[command(flatten)]
    pub query: Query,
}

/// `names range`.
#[derive(Debug, Args)]
pub struct RangeArgs {
    /// The map.
    pub map: PathBuf,
    /// The first key (included).
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// Leave out the key of --from itself.
    #[arg(long, requires = "from")]
    pub exclude_from: bool,
    /// The last key (not included).
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
    /// Include the key of --to itself.
    #[arg(long, requires = "to")]
    pub include_to: bool,
    /// How much of it.
    #[command(flatten)]
    pub listing: Listing,
    /// What all queries share.
    #[command(flatten)]
    pub query: Query,
}

/// `names longest`.
#[derive(Debug, Args)]
pub struct LongestArgs {
    /// The keys.
    #[command(flatten)]
    pub keys: KeysArgs,
    /// All stored prefixes, shortest first.
    #[arg(short, long)]
    pub all: bool,
    /// Only prefixes that end where a component ends: before or behind this character, or with the
    /// key.
    #[arg(short, long, value_name = "C", conflicts_with = "dns", value_parser = one_byte)]
    pub separator: Option<u8>,
}

fn one_byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err("one character of one byte is wanted".into()),
    }
}

/// `names count`.
#[derive(Debug, Args)]
pub struct CountArgs {
    /// The map.
    pub map: PathBuf,
    /// Only keys that start with this.
    pub prefix: Option<OsString>,
    /// What all queries share.
    #[command(flatten)]
    pub query: Query,
}

/// A map, looked at as a whole.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// The map.
    pub map: PathBuf,
    /// The answer is a JSON document.
    #[arg(long)]
    pub json: bool,
}

/// `names diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The map before.
    pub old: PathBuf,
    /// The map after.
    pub new: PathBuf,
    /// Only how many keys were added, removed and changed.
    #[arg(short, long)]
    pub summary: bool,
    /// What all queries share.
    #[command(flatten)]
    pub query: Query,
}

/// `tour`.
#[derive(Debug, Args)]
#[command(
    after_help = "Takes about a minute, with --quick about fifteen seconds. It uses the names of the running kernel and \
the paths below /usr where they can be read, a million generated domain names (--quick: 100,000), a generated table of routes, as many \
generated ranges as names, what the program itself has mapped, and your files. \
Writes only to a temporary folder, which it removes.

Examples:
  sapwood tour
  sapwood tour --quick words.txt
  sapwood tour --routes rib.bz2
  sapwood tour --json > tour.json"
)]
pub struct TourArgs {
    /// Your own keys, one a line.
    pub files: Vec<PathBuf>,
    /// Your own routes for the chapter on them: a table, a text or an MRT table dump.
    #[arg(long, value_name = "FILE")]
    pub routes: Option<PathBuf>,
    /// A tenth of the domain names and of the ranges, a fifth of the routes, and fewer rounds.
    #[arg(short, long)]
    pub quick: bool,
    /// One JSON document with all figures instead of text.
    #[arg(long)]
    pub json: bool,
    /// At most this many keys of each kind, routes, and ranges.
    #[arg(long, hide = true, value_name = "N")]
    pub limit: Option<usize>,
}
