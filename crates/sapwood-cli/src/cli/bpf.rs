//! The arguments of `sapwood bpf` and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::keys::KeyForm;
use crate::numbers::size;

/// How a list of names is written.
macro_rules! list_form {
    () => {
        "one name a line, or an address and names, as in a hosts file. \"!\" before a name makes it an exception. \
Empty lines are passed over, and so is everything from a # on. Lines that hold no names are reported and left out, or end \
everything under --strict. Of a name that comes twice, the last line holds."
    };
}
/// What changes do to a list whose owner has ended.
macro_rules! change_form {
    () => {
        "A list has one owner at a time, and the one that made it has ended: so it is copied, which takes about a second for \
a million names, and room for both in its address space. The filter works on meanwhile. Give many names at once rather than one after the other."
    };
}

/// What can be done with maps in the kernel.
#[derive(Debug, Subcommand)]
pub enum BpfCommand {
    /// Drops DNS queries for names of a list, and for names below them, on network interfaces
    #[command(
        long_about = "Drops DNS queries for names of a list, and for names below them, on network interfaces.

A query is a UDP packet to port 53 that arrives on the interface, over IPv4 or IPv6, behind one VLAN tag at most; the name of its \
first question counts, in any letter case. The closest enclosing name of the list says what becomes of it. Everything else \
passes as it came: TCP, fragments, compressed names, malformed packets. All packets are counted, each once.",
        after_help = "Examples:
  sapwood bpf names run blocked.txt -i eth0
  sapwood bpf names load blocked.txt -i eth0 --pin /sys/fs/bpf/names
  sapwood bpf names block /sys/fs/bpf/names more.example
  sapwood bpf names stats /sys/fs/bpf/names
  sapwood bpf names unload /sys/fs/bpf/names"
    )]
    Names {
        /// What to do.
        #[command(subcommand)]
        command: NamesCommand,
    },
    /// Forwards IPv4 and IPv6 packets between network interfaces, past the kernel
    #[command(
        long_about = "Forwards IPv4 and IPv6 packets between network interfaces, to where the kernel would, without going through it.

Everything else passes to the kernel as it came, and is counted by the reason: packets for this machine, without a known neighbour, \
too long, with options, at their last hop. Firewall rules do not see what is forwarded, and sources are not checked.",
        after_help = "Examples:
  sapwood bpf route run -i eth0 -i eth1
  sapwood bpf route run -i eth0 -i eth1 --by table --json"
    )]
    Route {
        /// What to do.
        #[command(subcommand)]
        command: RouteCommand,
    },
    /// Lists the arenas that are pinned, and what is in them
    #[command(
        after_help = "For each window of each arena: path, number, name, kind, and bytes of address space, with tabs between.

Examples:
  sapwood bpf list
  sapwood bpf list /sys/fs/bpf/names --json"
    )]
    List(ListArgs),
    /// Lists the entries of a map in a pinned arena, in order, while others write it
    #[command(
        after_help = "Key and value, with a tab between. Values of 8 bytes are shown as numbers, others in hexadecimal digits.
A map that has only an index gives its entries in any order, and is read whole for those with a prefix.

Examples:
  sapwood bpf dump /sys/fs/bpf/names/arena blocked --dns
  sapwood bpf dump /sys/fs/bpf/names/arena blocked --dns --prefix example.org --limit 20"
    )]
    Dump(DumpArgs),
    /// Checks a map in a pinned arena: every invariant of its structure
    #[command(
        after_help = "Exit code 1 when it is damaged. A change that is made meanwhile may look like damage.

Example:
  sapwood bpf verify /sys/fs/bpf/names/arena blocked"
    )]
    Verify(VerifyArgs),
    /// Takes down all that is pinned in a folder: programs go off their interfaces, then everything
    /// is unpinned
    #[command(
        long_about = "Takes down all that is pinned in a folder of a BPF file system beside an arena, and the folder, whoever pinned it: programs go off their \
interfaces, then programs, maps and at last the arena are unpinned. They are gone when no process uses them any more.

A folder without an arena of Sapwood's, or with anything in it that is no pin, is left as it is.",
        after_help = "For each pin that is gone: link, program, map or arena, and its name, with a tab between.

Examples:
  sapwood bpf unload /sys/fs/bpf/names
  sapwood bpf unload /sys/fs/bpf/names --json"
    )]
    Unload(PinArgs),
}

/// What can be done with packets to be forwarded.
#[derive(Debug, Subcommand)]
pub enum RouteCommand {
    /// Forwards packets as long as this runs, and prints what became of them
    #[command(
        long_about = "Forwards packets as long as this runs: until a signal comes or --seconds are over. Then the program is taken off the \
interfaces, and what became of all packets is printed.

A route or neighbour that changes in the kernel takes effect within --fresh (cache), in a millisecond or so (table), or at once \
(resolver).",
        after_help = "Examples:
  sapwood bpf route run -i eth0 -i eth1
  sapwood bpf route run -i eth0 -i eth1 --by table --seconds 60 --json"
    )]
    Run(RouteArgs),
}

/// Whom the program asks for next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Hops {
    /// The kernel's table, for each packet
    Resolver,
    /// A cache of what the kernel said a moment ago
    Cache,
    /// Tables in the arena that mirror the kernel's
    Table,
}

/// `bpf route run`.
#[derive(Debug, Args)]
pub struct RouteArgs {
    /// An interface whose packets are forwarded; give all of them.
    #[arg(short, long = "interface", value_name = "NAME", required = true)]
    pub interfaces: Vec<String>,
    /// An interface that gets a program which passes everything: the other end of a veth pair, so
    /// that packets can be sent into it.
    #[arg(long, value_name = "NAME")]
    pub pass: Vec<String>,
    /// Whom to ask for next hops.
    #[arg(long, value_enum, default_value = "cache")]
    pub by: Hops,
    /// Entries of the cache.
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub capacity: usize,
    /// Milliseconds for which an answer is given again.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub fresh: u64,
    /// Milliseconds for which an entry keeps its place.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub keep: u64,
    /// Stop after this many seconds.
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,
    /// In the kernel's own code rather than in the driver: slower, but for any interface.
    #[arg(long)]
    pub generic: bool,
    /// The answer is a JSON document.
    #[arg(long)]
    pub json: bool,
}

/// What can be done with a list of names.
#[derive(Debug, Subcommand)]
pub enum NamesCommand {
    /// Drops queries as long as this runs; commands on stdin change the list
    #[command(
        long_about = concat!("Drops queries as long as this runs. It ends with its standard input, or by a signal, takes the \
program off the interfaces and prints what became of all packets.

Commands, one a line: \"block NAME\", \"allow NAME\" (an exception below a name that is blocked), \"free NAME\" (takes its rule away), \
\"rule NAME\" (what holds for it, and by which name), \"stats\", \"quit\". A change holds from the next packet on, and loses none.

The list: ", list_form!()),
        after_help = "Examples:
  sapwood bpf names run blocked.txt -i eth0
  sapwood bpf names run blocked.txt -i eth0 -i eth1 --no-commands
  echo 'block ads.example' | sapwood bpf names run /dev/null -i lo"
    )]
    Run(RunArgs),
    /// Puts the filter on interfaces and leaves it there, pinned
    #[command(
        long_about = concat!("Puts the filter on interfaces and leaves it there, pinned in a new folder of a BPF file system: it stays \
when this has ended, until \"unload\".

The list: ", list_form!()),
        after_help = "Example:
  sapwood bpf names load blocked.txt -i eth0 --pin /sys/fs/bpf/names"
    )]
    Load(LoadArgs),
    /// Blocks names, and all names below them, in a filter that is pinned
    #[command(
        long_about = concat!("Blocks names, and all names below them, in a filter that is pinned. ", change_form!()),
        after_help = "Examples:
  sapwood bpf names block /sys/fs/bpf/names ads.example more.example
  sapwood bpf names block /sys/fs/bpf/names - < more.txt"
    )]
    Block(ChangeArgs),
    /// Lets names pass, though a name above them be blocked
    #[command(
        long_about = concat!("Lets queries for names, and for all names below them, pass, though a name above be blocked. ", change_form!()),
        after_help = "Example:
  sapwood bpf names allow /sys/fs/bpf/names good.ads.example"
    )]
    Allow(ChangeArgs),
    /// Takes the rules of names away
    #[command(
        long_about = concat!("Takes the rules of names away, so that for each the closest one above it holds, if any. Exit code 1 when a name \
had none. ", change_form!()),
        after_help = "Example:
  sapwood bpf names free /sys/fs/bpf/names ads.example"
    )]
    Free(ChangeArgs),
    /// Shows which rule holds for names, and by which name
    #[command(
        after_help = "\"block\", \"allow\" or \"none\", the name, and the name that has the rule, with tabs between.

Example:
  sapwood bpf names rule /sys/fs/bpf/names www.ads.example"
    )]
    Rule(ChangeArgs),
    /// Shows what became of all packets so far
    #[command(after_help = "Example:
  sapwood bpf names stats /sys/fs/bpf/names --json")]
    Stats(PinArgs),
    /// Takes the filter off its interfaces, and prints what became of all packets
    #[command(after_help = "Example:
  sapwood bpf names unload /sys/fs/bpf/names")]
    Unload(PinArgs),
}

/// A list and interfaces.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// The list.
    #[arg(value_name = "FILE")]
    pub list: PathBuf,
    /// The interface whose incoming packets are looked at; may be given more than once.
    #[arg(short, long = "interface", value_name = "NAME", required = true)]
    pub interfaces: Vec<String>,
    /// In the kernel's own code rather than in the driver: slower, but for any interface.
    #[arg(long)]
    pub generic: bool,
    /// Address space for the list, 4 GiB at most; memory is taken as it is used.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub bytes: u64,
    /// Stop at the first line that holds no names.
    #[arg(long)]
    pub strict: bool,
}

/// `bpf names run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The list and the interfaces.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Read no commands: run until a signal comes.
    #[arg(long)]
    pub no_commands: bool,
    /// Answers are JSON documents, one a line.
    #[arg(long)]
    pub json: bool,
}

/// `bpf names load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The list and the interfaces.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// The folder to pin it in; must not be there.
    #[arg(long, value_name = "DIR")]
    pub pin: PathBuf,
}

/// Something that is pinned.
#[derive(Debug, Args)]
pub struct PinArgs {
    /// The folder that it is pinned in.
    #[arg(value_name = "DIR")]
    pub pin: PathBuf,
    /// The answer is a JSON document.
    #[arg(long)]
    pub json: bool,
}

/// A filter that is pinned, and names.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// The folder that it is pinned in.
    #[arg(value_name = "DIR")]
    pub pin: PathBuf,
    /// The names; "-" reads more from stdin, one a line.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Answers are JSON documents, one a line.
    #[arg(long)]
    pub json: bool,
}

/// `bpf list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// A pinned arena, or a folder to look for them in, and in all folders below.
    #[arg(default_value = "/sys/fs/bpf")]
    pub path: PathBuf,
    /// Answers are JSON documents, one a line.
    #[arg(long)]
    pub json: bool,
}

/// `bpf dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// The pinned arena.
    pub arena: PathBuf,
    /// The name of the map's window.
    pub map: String,
    /// Only keys that start with this.
    #[arg(long, value_name = "KEY")]
    pub prefix: Option<OsString>,
    /// At most this many entries.
    #[arg(short = 'n', long, value_name = "N")]
    pub limit: Option<usize>,
    /// Keys are domain names.
    #[arg(long, conflicts_with = "hex")]
    pub dns: bool,
    /// Keys are given and shown in hexadecimal digits.
    #[arg(long)]
    pub hex: bool,
    /// Answers are JSON documents, one a line.
    #[arg(long)]
    pub json: bool,
}

impl DumpArgs {
    /// How keys are written.
    pub fn form(&self) -> KeyForm {
        KeyForm::new(self.dns, self.hex)
    }
}

/// `bpf verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The pinned arena.
    pub arena: PathBuf,
    /// The name of the map's window.
    pub map: String,
    /// The answer is a JSON document.
    #[arg(long)]
    pub json: bool,
}
