//! The arguments of `sapwood names` and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::live::{KeepArgs, LiveArgs};
use crate::keys::KeyForm;

/// The commands on maps of names.
#[derive(Debug, Subcommand)]
pub enum NamesCommand {
    /// Builds a map from a text with one key, or a key, a tab and a value, in each line
    #[command(
        long_about = "Builds a map from a text with one key, or a key, a tab and a number, in each \
line.

The key is everything before the last tab of a line and may have any bytes. The number after the \
tab is decimal and has up to 64 bits. The number of a line without a tab is the line's own, \
counted from 1. Empty lines are skipped; a line of a tab and a number stores the empty key. When a \
key comes twice, the last line wins.

With --values text, the key is everything before the first tab, and its value is everything after \
that tab, more tabs included. The value of a line without a tab is empty. A record has at most \
65,557 bytes. The other commands read from the file whether its values are numbers or texts.

With --dns, a line has a domain name, or a name, a tab and a value. A comment begins with # or ; at \
the beginning of a line or after white space, but not in a value of --values text. A byte order \
mark, spaces and carriage returns around a name are left out. Names have letters, digits, hyphens, \
underscores and dots; any other character of ASCII needs a backslash before it, or is written \
\\DDD. Labels in other scripts become A-labels (xn--...). A first label * is a wildcard: *.x stands \
for all names below x, but not for x, and \"longest\" and \"closest\" find it. The root is a dot. A \
line of another form, such as one of a hosts file or of an ad blocker, is refused; if most lines \
are, that is an error which names the form, and nothing is written.

A key has at most 65,535 bytes. A line that cannot be stored is reported with its number and left \
out; with --strict it is an error, and nothing is written. The map is written to a new file, which \
is then renamed to OUT: OUT is the old file or the whole new one at any time.",
        after_help = "Examples:
  sapwood names build words.txt -o words.qp
  sapwood names build --dns zones.txt -o zones.qp      (give --dns to the queries, too)
  find /usr -print0 | sapwood names build --null --keys-only - -o usr.qp
  sapwood names build --values text trees.tsv -o trees.qp
  sapwood names build --strict ids.tsv -o ids.qp       (writes nothing if any line is bad)"
    )]
    Build(BuildArgs),
    /// Keeps a live map of a list, which other processes read in place
    #[command(
        long_about = crate::serve_help!(
            "Keeps a live map of a list, which other processes read in place, without locks.",
            "LIST has the form that \"names build\" takes.",
            "  add KEY VALUE       adds or replaces an entry; a tab or a space is between
  remove KEY          removes an entry
  get KEY             prints found, key and value, or absent and key",
            "A failed one changes nothing. Readers see a commit, and a reading of LIST, as one change."
        ),
        after_help = "Examples:
  sapwood names serve words.txt --live /dev/shm/words --watch
  sapwood names get --live /dev/shm/words oak
  sapwood names serve --dns zones.txt --live /dev/shm/zones --metrics 127.0.0.1:9464
  sapwood names serve words.txt --live /dev/shm/words --log info
  echo 'add larch 7' | sapwood names serve words.txt --live /dev/shm/words"
    )]
    Serve(NamesServeArgs),
    /// Prints the values of keys
    #[command(
        after_help = "For one key, prints its value. For several keys, or keys from stdin, prints \
key, tab, value in each line. Absent keys are named on stderr; then the exit code is 1.

Examples:
  sapwood names get words.qp oak
  sapwood names get words.qp oak elm ash --json
  sapwood names get --live /dev/shm/words oak
  sapwood names get --live --wait 10 /dev/shm/words oak
  cut -f1 log.tsv | sapwood names get words.qp -
  sapwood names get words.qp -- -key-with-a-dash"
    )]
    Get(KeysArgs),
    /// Tells by the exit code whether the map has all keys: 0 for yes, 1 for no
    #[command(after_help = "Examples:
  sapwood names has words.qp oak && echo known
  sapwood names has -v words.qp oak elm")]
    Has(HasArgs),
    /// Lists the entries whose keys start with a prefix, in order
    #[command(
        after_help = "Prints key, tab, value in each line. With --dns the prefix is a zone: the \
list has the zone itself and all names below it. An empty list is no error: the exit code is 0.

Examples:
  sapwood names prefix usr.qp /usr/lib/ --limit 20
  sapwood names prefix --dns zones.qp example.org
  sapwood names prefix words.qp un --reverse --limit 1"
    )]
    Prefix(PrefixArgs),
    /// Lists the entries between two keys, in order
    #[command(
        after_help = "Prints key, tab, value in each line. The key of --from is included and the \
key of --to is not; --exclude-from and --include-to change that. Without --from the list begins \
at the first key, without --to it ends at the last one. The map need not have either key.

Examples:
  sapwood names range words.qp --from oak --to pine
  sapwood names range words.qp --from oak --exclude-from --to pine --include-to
  sapwood names range words.qp --reverse --limit 10"
    )]
    Range(RangeArgs),
    /// Finds the entry with the least key greater than a key
    #[command(
        after_help = "Prints key, tab, value. The map need not have the given key. The exit code \
is 1 when no greater key exists.

Example:
  sapwood names next words.qp oak"
    )]
    Next(KeyArgs),
    /// Finds the entry with the greatest key less than a key
    #[command(
        after_help = "Prints key, tab, value. The map need not have the given key. The exit code \
is 1 when no smaller key exists.

Example:
  sapwood names prev words.qp oak"
    )]
    Prev(KeyArgs),
    /// Finds the longest stored key that is a prefix of each key
    #[command(
        after_help = "Prints key, tab, value of the entry found; for several keys, or keys from \
stdin, the given key and a tab come first. With --dns the answer is the closest name at or above \
the given one, or a wildcard: *.x covers all names below x, and is closer than x itself. The exit \
code is 1 when a key has no stored prefix.

Examples:
  sapwood names longest --dns zones.qp www.example.org
  sapwood names longest usr.qp /usr/lib/os-release --all --separator /
  sapwood names longest usr.qp - --json < paths.txt"
    )]
    Longest(LongestArgs),
    /// Shows what a zone has around domain names: enclosers, wildcards, the name before, zone cuts
    #[command(
        long_about = "Shows what a map of domain names has around each name: what a name server \
needs to answer for it. The map must have been built with --dns.

It prints a line for each part, with tabs between the fields; for several names, or names from \
stdin, the given name and a tab come first. Parts that are not there have no line, in JSON they \
are null.
  exists           yes if the name has an entry, or if an entry lies below it; else no
  exact            the name's own entry: name, value
  encloser         the closest encloser (RFC 4592): the longest name at or above it that exists
  next_closer      the encloser and one more label of the name (RFC 5155), if it does not exist
  ancestor         the entry of the longest name at or above it that has one: name, value
  wildcard         the entry of * below the encloser, if the name does not exist: name, value
  wildcard_exists  yes if that wildcard has an entry, or if an entry lies below it; else no
  predecessor      the entry before the name in the canonical order of DNSSEC: name, value
  wildcard_predecessor
                   the entry before the wildcard, if the name does not exist: name, value
  cut              the topmost entry at or above it whose value is one of --cut: name, value
Predecessors are the owners of the NSEC records that prove that the name and the wildcard are not \
there: what lies below a zone cut is passed over.",
        after_help = "The exit code is 1 when a name neither exists nor has a wildcard.

Examples:
  sapwood names closest zone.qp mail.example.org
  sapwood names closest zone.qp www.sub.example.org --cut NS --json
  sapwood names closest zone.qp - < names.txt"
    )]
    Closest(ClosestArgs),
    /// Counts the entries, or those whose keys start with a prefix
    #[command(after_help = "Examples:
  sapwood names count words.qp
  sapwood names count --dns zones.qp example.org")]
    Count(CountArgs),
    /// Shows how many entries a map has, its depth in branches, and its parts in bytes
    #[command(after_help = "Examples:
  sapwood names stats words.qp --json
  sapwood names stats --live --wait 10 /dev/shm/words")]
    Stats(MapArgs),
    /// Checks a file: header, checksums, and every invariant of the structure
    #[command(
        after_help = "The exit code is 1 when the file is damaged or not a map, and 2 when it \
cannot be read.

Example:
  sapwood names verify words.qp"
    )]
    Verify(MapArgs),
    /// Shows the entries that differ between two maps
    #[command(
        after_help = "Prints one line for each key that differs, in order of keys, with tabs \
between the fields:
  + key value     only NEW has the key
  - key value     only OLD has the key
  ~ key old new   both have the key, with different values
The exit code is 1 when the maps differ.

Examples:
  sapwood names diff monday.qp tuesday.qp
  sapwood names diff --summary monday.qp tuesday.qp"
    )]
    Diff(DiffArgs),
}

/// The kind of values that a map of names has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValueKind {
    /// Numbers of 64 bits.
    Numbers,
    /// Texts: any bytes, as many as fit a record.
    Text,
}

/// A list of names, and how it is read.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The text to read; "-" for stdin.
    #[arg(value_name = "LIST")]
    pub input: PathBuf,
    /// Keys are domain names, and lines may have comments. Names are stored in lower case and in
    /// the canonical order of DNSSEC. Queries on the map need --dns, too.
    #[arg(long)]
    pub dns: bool,
    /// Records end in a NUL byte instead of a newline.
    #[arg(short = '0', long)]
    pub null: bool,
    /// The whole record is the key, tabs included; its number is the number of the record.
    #[arg(short, long)]
    pub keys_only: bool,
    /// The kind of the values.
    #[arg(
        long,
        value_name = "KIND",
        default_value = "numbers",
        conflicts_with = "keys_only"
    )]
    pub values: ValueKind,
    /// Remove a carriage return at the end of each line; --dns does so by itself.
    #[arg(long)]
    pub crlf: bool,
    /// Stop at the first record that cannot be stored, and write nothing.
    #[arg(long)]
    pub strict: bool,
    /// Print no summary.
    #[arg(short, long)]
    pub quiet: bool,
}

impl ListArgs {
    /// The form of the keys.
    pub fn form(&self) -> KeyForm {
        KeyForm::new(self.dns, false)
    }

    /// The word for its records in messages.
    pub fn units(&self) -> &'static str {
        if self.null { "records" } else { "lines" }
    }
}

/// `names serve`.
#[derive(Debug, Args)]
pub struct NamesServeArgs {
    /// The list.
    #[command(flatten)]
    pub list: ListArgs,
    /// How the map is kept.
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// `names build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The list.
    #[command(flatten)]
    pub list: ListArgs,
    /// The file to write.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
}

/// The options that all queries share.
#[derive(Debug, Args)]
pub struct Query {
    /// Keys are domain names, of a map that was built with --dns.
    #[arg(long, conflicts_with = "hex")]
    pub dns: bool,
    /// Keys are given and printed in hexadecimal digits, two for each byte.
    #[arg(long)]
    pub hex: bool,
    /// Print JSON documents, one in each line; a key that is not UTF-8 is {"hex": "…"}.
    #[arg(long)]
    pub json: bool,
    /// Answers, and keys on stdin, end in a NUL byte instead of a newline.
    #[arg(short = '0', long)]
    pub null: bool,
    /// Open the file without reading and checking all of it. A damaged file may then give wrong
    /// answers, but it cannot crash the program.
    #[arg(long, conflicts_with = "live")]
    pub no_verify: bool,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
}

impl Query {
    /// The form in which keys are given and printed.
    pub fn form(&self) -> KeyForm {
        KeyForm::new(self.dns, self.hex)
    }
}

/// The arguments of a query for several keys: a map and the keys.
#[derive(Debug, Args)]
pub struct KeysArgs {
    /// The map.
    pub map: PathBuf,
    /// The keys, as bytes; "-" stands for the keys on stdin, one in each line. A bad one is
    /// reported with its number, the others are answered, and the exit code is 2.
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<OsString>,
    /// Stop at the first key that cannot be read, instead of answering the others.
    #[arg(long)]
    pub strict: bool,
    /// The options of all queries.
    #[command(flatten)]
    pub query: Query,
}

/// The arguments of `names has`.
#[derive(Debug, Args)]
pub struct HasArgs {
    /// The map and the keys.
    #[command(flatten)]
    pub keys: KeysArgs,
    /// Print "yes" or "no" for each key.
    #[arg(short, long)]
    pub verbose: bool,
}

/// The arguments of a query for one key: a map and the key.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// The map.
    pub map: PathBuf,
    /// The key, as bytes.
    pub key: OsString,
    /// The options of all queries.
    #[command(flatten)]
    pub query: Query,
}

/// How much of a list is printed, and in which order.
#[derive(Debug, Args)]
pub struct Listing {
    /// Print at most this many entries.
    #[arg(short = 'n', long, value_name = "N")]
    pub limit: Option<usize>,
    /// List in descending order.
    #[arg(short, long)]
    pub reverse: bool,
}

/// The arguments of `names prefix`.
#[derive(Debug, Args)]
pub struct PrefixArgs {
    /// The map.
    pub map: PathBuf,
    /// The prefix, as bytes.
    pub prefix: OsString,
    /// How much of the list is printed.
    #[command(flatten)]
    pub listing: Listing,
    /// The options of all queries.
    #[command(flatten)]
    pub query: Query,
}

/// The arguments of `names range`.
#[derive(Debug, Args)]
pub struct RangeArgs {
    /// The map.
    pub map: PathBuf,
    /// List from this key on, itself included.
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// Leave out the key of --from.
    #[arg(long, requires = "from")]
    pub exclude_from: bool,
    /// List up to this key, itself not included.
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
    /// Include the key of --to.
    #[arg(long, requires = "to")]
    pub include_to: bool,
    /// How much of the list is printed.
    #[command(flatten)]
    pub listing: Listing,
    /// The options of all queries.
    #[command(flatten)]
    pub query: Query,
}

/// The arguments of `names longest`.
#[derive(Debug, Args)]
pub struct LongestArgs {
    /// The map and the keys.
    #[command(flatten)]
    pub keys: KeysArgs,
    /// Print all stored prefixes of each key, shortest first.
    #[arg(short, long)]
    pub all: bool,
    /// Find only prefixes that end where a component ends: right before or after this character,
    /// or with the key.
    #[arg(short, long, value_name = "C", conflicts_with = "dns", value_parser = one_byte)]
    pub separator: Option<u8>,
}

fn one_byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err("the separator must be one character of one byte".into()),
    }
}

/// The arguments of `names closest`.
#[derive(Debug, Args)]
pub struct ClosestArgs {
    /// The map and the names.
    #[command(flatten)]
    pub keys: KeysArgs,
    /// Entries with this value are zone cuts; the option may be given several times.
    #[arg(long = "cut", value_name = "VALUE")]
    pub cuts: Vec<String>,
}

/// The arguments of `names count`.
#[derive(Debug, Args)]
pub struct CountArgs {
    /// The map.
    pub map: PathBuf,
    /// Count only the keys that start with this.
    pub prefix: Option<OsString>,
    /// The options of all queries.
    #[command(flatten)]
    pub query: Query,
}

/// The arguments of the commands on a whole map.
#[derive(Debug, Args)]
pub struct MapArgs {
    /// The map.
    pub map: PathBuf,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `names diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The old map.
    pub old: PathBuf,
    /// The new map.
    pub new: PathBuf,
    /// Print only how many keys were added, removed and changed.
    #[arg(short, long)]
    pub summary: bool,
    /// The options of all queries.
    #[command(flatten)]
    pub query: Query,
}
