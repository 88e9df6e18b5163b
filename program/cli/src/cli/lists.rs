//! The arguments of `sapwood lists` and their help.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use sapwood_lists::transfer::Zone;
use sapwood_lists::{Action, Format, record_type};

use super::live::{KeepArgs, LiveArgs};

/// The commands on block lists and response policies.
#[derive(Debug, Subcommand)]
pub enum ListsCommand {
    /// Builds a map of the rules of block lists and response policies
    #[command(
        long_about = "Builds a map of the rules of block lists and response policies.

The format of each list is recognised: plain names, with *.name for the names below a name and \
.name for both; hosts files; lists for dnsmasq, Unbound, AdGuard and other ad blockers; response \
policy zones (RPZ). Names are made lower-case, and labels in other scripts become A-labels. A line \
that is not understood is reported with its number, and left out; if most lines are, the list is \
an error. So are a web page and a list without any rule. A list may be in gzip or bzip2; it may have \
1 GiB then. What is not about \
names of questions, such as rules about parts of pages, is counted.

Of all rules that apply to a question, exceptions win over others, longer names over shorter ones, \
and lists that come first over later ones; docs/lists.md has the whole order. Rules that others \
make unnecessary are left out, as names below blocked ones.

The map is written to a new file, which is then renamed to OUT. With --fingerprints it has hashes \
of 64 bits in place of names, and takes eight bytes a name; docs/lists.md says how rarely it takes \
one name for another.",
        after_help = "Examples:
  sapwood lists build ads.txt malware.rpz -o blocked.lists
  sapwood lists build ads.txt --exceptions mine.txt -o blocked.lists
  sapwood lists build --below --block null hosts.txt -o blocked.lists
  sapwood lists build --fingerprints ads.txt -o blocked.prints"
    )]
    Build(BuildListsArgs),
    /// Keeps a live map of lists, which resolvers read in place
    #[command(
        long_about = "Keeps a live map of the rules of block lists and response policies, which \
other processes read in place, without locks.

The map is a directory, best in /dev/shm. The command creates it. If the directory has the map of \
a process that has ended, the command takes that map over; readers go on reading meanwhile. The \
command runs until SIGTERM, SIGINT or the command \"quit\". Then the map stays for its readers and \
for the next \"serve\"; with --remove it is deleted.

SIGHUP reads the lists again, and with --watch every change of one does. The map is changed by the \
difference, in one commit: readers find the old rules or the new ones, and never a part. It takes \
little memory beside the map. If a list cannot be read, is no list any more, has no rule or less \
than half of the rules that it had, then the old rules stay, and stderr and the metrics tell it.

A zone of --zone is followed as a secondary does it: its primary is asked at the times that its SOA \
says, at SIGHUP, and with --notify whenever it says that the zone has changed. If that fails, the \
old rules stay, also when the zone has expired, unless --expire is given.

It reads commands from stdin, one in each line; the end of stdin ends nothing:
  get NAME            prints what happens to questions for the addresses of a name
  reload              reads the lists again
  stats               prints numbers: name, tab, number
  quit                ends the program",
        after_help = "Examples:
  sapwood lists serve ads.txt malware.rpz --live /dev/shm/blocked --watch
  sapwood lists serve ads.txt --live /dev/shm/blocked --metrics 127.0.0.1:9464
  sapwood lists serve --zone rpz.example@192.0.2.1,key=rpz.key --notify 192.0.2.7:53 \
--live /dev/shm/blocked
  sapwood lists ask --live /dev/shm/blocked www.ads.example"
    )]
    Serve(ServeListsArgs),
    /// Shows what happens to questions for names, and by which rule of which list
    #[command(
        after_help = "Prints a line for each name, with tabs between the fields: the name, the \
action, the rule's name, its list with the line, and why this rule wins. The line is looked for in \
the list's file as it is now, for names that are arguments. A name without a rule has the action \
none, and then the exit code is 1.

Examples:
  sapwood lists ask blocked.lists www.ads.example
  sapwood lists ask blocked.lists --type AAAA a.example b.example --json
  sapwood lists ask --live /dev/shm/blocked - < names.txt"
    )]
    Ask(AskListsArgs),
    /// Shows how many rules a map has, of which lists and of which kinds
    #[command(after_help = "Examples:
  sapwood lists stats blocked.lists
  sapwood lists stats --live /dev/shm/blocked --json")]
    Stats(StatsListsArgs),
    /// Shows the rules that differ between two maps
    #[command(
        after_help = "Prints one line for each name whose rules differ, in order of names, with \
tabs between the fields: + for names that only NEW has, - for those that only OLD has, ~ for \
others; then the name and its rules, of OLD before NEW. A rule is its action, its scope (exact, \
below, all) and its list. Maps of --fingerprints have no names to compare. The exit code is 1 when \
the maps differ.

Examples:
  sapwood lists diff monday.lists tuesday.lists
  sapwood lists diff --summary monday.lists tuesday.lists"
    )]
    Diff(DiffListsArgs),
    /// Checks lists: their formats, and which lines are not understood
    #[command(
        after_help = "Prints a line for each list, with tabs between the fields: the list, its \
format, its lines, its rules, lines that are not about names of questions, and lines that are not \
understood. The exit code is 1 when a list has such lines, and 2 when it cannot be read or is no \
list.

Examples:
  sapwood lists check ads.txt
  sapwood lists check --format hosts ads.txt --json"
    )]
    Check(CheckListsArgs),
}

/// Lists, and how they are read.
#[derive(Debug, Args)]
pub struct RulesArgs {
    /// The lists; "-" for stdin.
    #[arg(value_name = "LIST", required_unless_present = "zone")]
    pub lists: Vec<PathBuf>,
    /// A response policy zone that is transferred from its primary, by AXFR or IXFR:
    /// NAME@ADDRESS:PORT,key=FILE, or without the port or the key. The file has the key of TSIG, as
    /// algorithm:name:secret or as a statement of BIND. The option may be given several times;
    /// zones come behind the lists.
    #[arg(long, value_name = "ZONE")]
    pub zone: Vec<Zone>,
    /// The folder for the copies of zones, which are used at the next start. No other process may
    /// use it. [default: one that is deleted at the end]
    #[arg(long, value_name = "DIR", requires = "zone")]
    pub zone_dir: Option<PathBuf>,
    /// A list whose names are exceptions: they pass, whatever other lists say. The option may be
    /// given several times.
    #[arg(long, value_name = "LIST")]
    pub exceptions: Vec<PathBuf>,
    /// The format of all lists: plain, hosts, dnsmasq, unbound, rpz or adblock. [default: what each
    /// list looks like]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Plain names and those of hosts files stand for all names below them, too.
    #[arg(long)]
    pub below: bool,
    /// What rules do that only say that a name is blocked: nxdomain, nodata, refused, drop,
    /// truncate or null (0.0.0.0 and ::).
    #[arg(long, value_name = "ACTION", default_value = "nxdomain", value_parser = block)]
    pub block: Action,
    /// Stop at the first line that is not understood.
    #[arg(long)]
    pub strict: bool,
    /// Allow lists without any rule.
    #[arg(long)]
    pub allow_empty: bool,
    /// Print no summary.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Parses what rules do that only block.
fn block(word: &str) -> Result<Action, String> {
    let all = [
        Action::Nxdomain,
        Action::Nodata,
        Action::Refused,
        Action::Drop,
        Action::Truncate,
        Action::Null,
    ];
    let words = all.each_ref().map(Action::word).join(", ");
    let found = all.into_iter().find(|action| action.word() == word);
    found.ok_or_else(|| format!("the actions are {words}"))
}

/// `lists build`.
#[derive(Debug, Args)]
pub struct BuildListsArgs {
    /// The lists.
    #[command(flatten)]
    pub rules: RulesArgs,
    /// The file to write.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Write hashes in place of names.
    #[arg(long)]
    pub fingerprints: bool,
    /// Print the summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// `lists serve`.
#[derive(Debug, Args)]
pub struct ServeListsArgs {
    /// The lists.
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Allow lists to lose more than half of their rules from one reading to the next.
    #[arg(long)]
    pub allow_shrunk: bool,
    /// Listen for NOTIFY of the zones' primaries, over UDP and TCP.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "zone")]
    pub notify: Option<SocketAddr>,
    /// Take the rules of a zone away while it is expired, as its SOA says it. Without this, they
    /// stay.
    #[arg(long, requires = "zone")]
    pub expire: bool,
    /// How the map is kept.
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// `lists ask`.
#[derive(Debug, Args)]
pub struct AskListsArgs {
    /// The map.
    pub map: PathBuf,
    /// The names; "-" stands for those on stdin, one in each line. A bad one is reported, the
    /// others are answered, and the exit code is 2.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<OsString>,
    /// The type of the questions.
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "A", value_parser = record_type)]
    pub rtype: u16,
    /// Stop at the first name that cannot be read.
    #[arg(long)]
    pub strict: bool,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

/// `lists stats`.
#[derive(Debug, Args)]
pub struct StatsListsArgs {
    /// The map.
    pub map: PathBuf,
    /// Whether it is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// `lists diff`.
#[derive(Debug, Args)]
pub struct DiffListsArgs {
    /// The old map.
    pub old: PathBuf,
    /// The new map.
    pub new: PathBuf,
    /// Print only how many names were added, removed and changed.
    #[arg(short, long)]
    pub summary: bool,
    /// Whether a directory is a live map.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

/// `lists check`.
#[derive(Debug, Args)]
pub struct CheckListsArgs {
    /// The lists.
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
