//! The arguments of `sapwood bpf` and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::live::LiveArgs;
use super::service::ServiceArgs;
use crate::keys::KeyForm;
use crate::numbers::size;

/// The form of a list of names.
macro_rules! list_form {
    () => {
        "The list has one name in each line, or an address and names, as in a hosts file. \"!\" \
before a name makes it an exception. A rule applies to all names below its name. A first label * \
is a wildcard: a rule for *.x applies to all names below x, and not to x. Labels in other scripts \
become A-labels (xn--...). Empty lines are skipped. A comment begins with # or ; at the beginning of a line or \
after white space. A line that is not understood is reported and left out; with --strict it is an \
error. A file whose lines are mostly of that kind is an error, too. When a name comes twice, the \
last line wins. The list may have any other format of \"lists build\", or be a map that it made: \
then the order of rules is that of \"lists\". Rules block by NXDOMAIN, NODATA, REFUSED or no \
answer, and those that truncate are answered so that clients ask over TCP. Other rules, and rules \
with conditions, are left to the resolver. Rules that change nothing are left out."
    };
}
/// What a change does to a list whose owner has ended.
macro_rules! change_form {
    () => {
        "A list has one owner at a time, and the process that made it has ended. So this command \
copies the list first. The copy takes about a second for a million names, and its address space \
must have room for both lists. The filter keeps working meanwhile. Each command copies the list \
once, so give many names to one command."
    };
}

/// The commands on maps in the kernel.
#[derive(Debug, Subcommand)]
pub enum BpfCommand {
    /// Drops DNS queries for names of a list, and for names below them, on network interfaces
    #[command(
        long_about = "Drops DNS queries for names of a list, and for names below them, on network \
interfaces.

A query is a UDP packet to port 53 that arrives on the interface, over IPv4 or IPv6, with two VLAN \
tags at most. The name of its first question counts, in any letter case. The closest enclosing name \
of the list decides whether the query is dropped. A query whose name cannot be looked up is \
dropped, too. Everything else passes unchanged: TCP, fragments, malformed packets. Each packet is \
counted once.",
        after_help = "Examples:
  sapwood bpf names run blocked.txt -i eth0
  sapwood bpf names load blocked.txt -i eth0 --pin /sys/fs/bpf/names
  sapwood bpf names block /sys/fs/bpf/names more.example
  sapwood bpf names stats /sys/fs/bpf/names
  sapwood bpf names unload /sys/fs/bpf/names"
    )]
    Names {
        /// What to do with the filter.
        #[command(subcommand)]
        command: NamesCommand,
    },
    /// Forwards IPv4 and IPv6 packets between network interfaces before the kernel's network stack
    #[command(
        long_about = "Forwards IPv4 and IPv6 packets between network interfaces before the \
kernel's network stack sees them, to the next hops that the kernel would choose.

Every other packet passes to the kernel unchanged and is counted by the reason: it is for this \
machine, its neighbour is not known, it is too long, it has options, or it is at its last hop. \
Firewall rules do not see forwarded packets, and their source addresses are not checked.",
        after_help = "Examples:
  sapwood bpf route run -i eth0 -i eth1
  sapwood bpf route run -i eth0 -i eth1 --by table --json"
    )]
    Route {
        /// What to do with the packets.
        #[command(subcommand)]
        command: RouteCommand,
    },
    /// Makes, asks, changes and removes maps in pinned arenas
    #[command(
        long_about = "Makes, asks, changes and removes maps in pinned arenas, for programs in the \
kernel and for processes in any language.

A map is a window of an arena. Programs name it by the window's number. One process at a time owns \
an arena: it alone makes and changes maps there. These commands own it while they run: \
\"sapwood bpf serve\" lets go of its arenas for a moment when a command asks for one. While \
another process owns the arena, they read, and change nothing.",
        after_help = "Examples:
  sapwood bpf map create /sys/fs/bpf/seen/arena seen --kind program --arena-bytes 256M
  sapwood bpf map get /sys/fs/bpf/seen/arena seen --ip 192.0.2.7
  sapwood bpf map dump /sys/fs/bpf/seen/arena seen --ip"
    )]
    Map {
        /// What to do with the maps.
        #[command(subcommand)]
        command: MapCommand,
    },
    /// Services the maps that programs write: supplies them with memory, and takes it back
    #[command(
        long_about = "Services the maps that programs write (ProgramMap), of all pinned arenas of \
a machine: supplies programs with memory for insertions, and takes back what they removed.

A map has one owner at a time. The command takes over the maps whose owner has ended or left them, \
within a second, and those that come later. It leaves the maps of other processes alone. It owns \
their arenas, so other processes can read the maps there, and make or change none. Only \"sapwood \
bpf map\" makes it let go of all arenas for a second, by SIGUSR1. It looks at the pins once a second, and lets go of an arena whose pin is \
gone.

It reports on stderr, once, when a map has no memory left for programs, when changes by programs \
found none, and when programs hold removed memory back for more than two seconds. By a signal it \
ends, and leaves the maps as they are. When it is killed, the next process takes them over.",
        after_help = "Examples:
  sapwood bpf serve
  sapwood bpf serve /sys/fs/bpf/seen/arena --metrics 127.0.0.1:9466
  sapwood bpf serve --all /sys/fs/bpf/flows --every 5"
    )]
    Serve(ServeArgs),
    /// Lists the pinned arenas and the windows in them
    #[command(
        after_help = "Prints one line for each window of each arena: path, number, name, kind, and \
bytes of address space, with tabs between. With --json, also the process that owns each arena.

Examples:
  sapwood bpf list
  sapwood bpf list /sys/fs/bpf/names --json"
    )]
    List(ListArgs),
    /// Lists the entries of a map in a pinned arena, in order, also while others write to it
    #[command(
        after_help = "Prints key, tab, value in each line. A value of 8 bytes is a number; texts are \
printed as they are, and other values in hexadecimal digits. The entries of a map without a trie come in any order, and \
--prefix reads all of them.

Examples:
  sapwood bpf dump /sys/fs/bpf/names/arena blocked --dns
  sapwood bpf dump /sys/fs/bpf/names/arena blocked --dns --prefix example.org --limit 20"
    )]
    Dump(DumpArgs),
    /// Checks every invariant of a map in a pinned arena
    #[command(
        after_help = "The exit code is 1 when the map is damaged. A map that changes during the \
check may look damaged.

Example:
  sapwood bpf verify /sys/fs/bpf/names/arena blocked"
    )]
    Verify(VerifyArgs),
    /// Loads the programs of an object file with a pinned arena, and pins them
    #[command(
        long_about = "Loads the programs of an object file with a pinned arena, and pins them, and \
the maps that the object declares, in a directory of a BPF file system. Programs in any language \
attach them from there.

The object was compiled with Sapwood's headers (docs/guides/ebpf.md). The directory is created, \
unless it is there. Programs are pinned as prog-NAME, maps as map-NAME, and the arena as arena. \
All of them are pinned, or none: a name that is taken is an error. Sections of variables are not \
pinned.

\"sapwood bpf unload\" removes the directory with all pins in it.",
        after_help = "Prints one line for each new pin: its kind (program, map or arena), its name, \
and for a program its section, with tabs between.

Examples:
  sapwood bpf load seen.bpf.o --arena /sys/fs/bpf/seen/arena --pin /sys/fs/bpf/seen
  sapwood bpf load seen.bpf.o --arena /sys/fs/bpf/seen/arena --pin /sys/fs/bpf/seen --without old"
    )]
    Load(LoadObjectArgs),
    /// Detaches the programs that are pinned in a directory from their interfaces, and removes all
    /// pins and the directory
    #[command(
        long_about = "Detaches the programs that are pinned in a directory from their interfaces, \
and removes all pins and the directory.

The directory must be in a BPF file system and have a pinned arena of Sapwood; it does not matter \
which process made the pins. The pins of links go first, then those of programs and maps, and at \
last that of the arena. The kernel frees each object when no process uses it any more.

A directory without an arena of Sapwood, or with a file that is no pin, stays as it is.",
        after_help = "Prints one line for each removed pin: its kind (link, program, map or arena) \
and its name, with a tab between.

Examples:
  sapwood bpf unload /sys/fs/bpf/names
  sapwood bpf unload /sys/fs/bpf/names --json"
    )]
    Unload(PinArgs),
}

/// The commands on maps in pinned arenas.
#[derive(Debug, Subcommand)]
pub enum MapCommand {
    /// Makes an empty map, which stays when the command has ended
    #[command(
        after_help = "Prints the map's line as \"list\" does: path, number, name, kind, and bytes \
of address space. When the map cannot be made, an arena that was made for it is removed again.

Maps that programs write need a process that services them: see \"sapwood bpf serve\".

Examples:
  sapwood bpf map create /sys/fs/bpf/seen/arena seen --kind program --arena-bytes 256M
  sapwood bpf map create /sys/fs/bpf/seen/arena ports --kind plain --value-bytes 16 --index"
    )]
    Create(CreateArgs),
    /// Lists the pinned arenas and the windows in them
    #[command(after_help = "As \"sapwood bpf list\".

Example:
  sapwood bpf map list /sys/fs/bpf/seen/arena")]
    List(ListArgs),
    /// Prints the entries of keys
    #[command(
        after_help = "Prints key, tab, value in each line. The exit code is 1 when a key is \
absent. A value of 8 bytes is a number; texts are printed as they are, and other values in \
hexadecimal digits.

Examples:
  sapwood bpf map get /sys/fs/bpf/seen/arena seen --ip 192.0.2.7 2001:db8::1
  sapwood bpf map get /sys/fs/bpf/names/arena blocked --dns - < names.txt"
    )]
    Get(GetArgs),
    /// Inserts entries, or replaces their values
    #[command(
        after_help = "A value of 8 bytes is a number. Others of one size are numbers with commas \
between, one for each 8 bytes, or hexadecimal digits. Byte strings are texts.

Prints \"set\", a tab and the key for each entry. A map that processes write is copied once by \
each command, so give many entries to one command. A change that the map refuses is reported, and \
the exit code is 2.

Examples:
  sapwood bpf map set /sys/fs/bpf/seen/arena limits --ip 192.0.2.7 100
  sapwood bpf map set /sys/fs/bpf/seen/arena limits --ip - < limits.txt"
    )]
    Set(SetArgs),
    /// Removes entries
    #[command(
        after_help = "Prints \"deleted\" or \"absent\", a tab and the key. The exit code is 1 \
when a key is absent. A map that processes write is copied once by each command.

Example:
  sapwood bpf map delete /sys/fs/bpf/seen/arena limits --ip 192.0.2.7"
    )]
    Delete(GetArgs),
    /// Lists the entries of a map, in order, also while others write to it
    #[command(after_help = "As \"sapwood bpf dump\".

Example:
  sapwood bpf map dump /sys/fs/bpf/seen/arena seen --ip --limit 20")]
    Dump(DumpArgs),
    /// Checks every invariant of a map
    #[command(after_help = "As \"sapwood bpf verify\".

Example:
  sapwood bpf map verify /sys/fs/bpf/seen/arena seen")]
    Verify(VerifyArgs),
    /// Removes a map: programs no longer find its number
    #[command(after_help = "Example:
  sapwood bpf map drop /sys/fs/bpf/seen/arena seen")]
    Drop(DropArgs),
}

/// The commands that forward packets.
#[derive(Debug, Subcommand)]
pub enum RouteCommand {
    /// Forwards packets while the command runs, and then prints the counts of packets
    #[command(
        long_about = "Forwards packets until a signal comes or --seconds have passed. Then the \
command detaches the program from the interfaces, and prints how many packets were forwarded and \
how many passed to the kernel, by reason: name, tab, number in each line.

A change of a route or a neighbour in the kernel takes effect after --fresh milliseconds at most \
(cache), after about a millisecond (table), or at once (resolver).",
        after_help = "Examples:
  sapwood bpf route run -i eth0 -i eth1
  sapwood bpf route run -i eth0 -i eth1 --by table --seconds 60 --json
  sapwood bpf route run -i eth0 -i eth1 --metrics 127.0.0.1:9465"
    )]
    Run(RouteArgs),
}

/// The source of the program's next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Hops {
    /// The kernel's own lookup, for each packet
    Resolver,
    /// A cache of the kernel's recent answers
    Cache,
    /// Tables in the arena that mirror the kernel's tables
    Table,
}

/// The arguments of `bpf route run`.
#[derive(Debug, Args)]
pub struct RouteArgs {
    /// An interface whose packets are forwarded; give the option once for each interface.
    #[arg(short, long = "interface", value_name = "NAME", required = true)]
    pub interfaces: Vec<String>,
    /// An interface that gets a program which passes every packet. The other end of a veth pair
    /// needs one before packets can be redirected to it.
    #[arg(long, value_name = "NAME")]
    pub pass: Vec<String>,
    /// The source of next hops.
    #[arg(long, value_enum, default_value = "cache")]
    pub by: Hops,
    /// How many entries the cache has.
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub capacity: usize,
    /// How many milliseconds the cache reuses an answer.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub fresh: u64,
    /// How many milliseconds an entry that is not refreshed stays in the cache.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub keep: u64,
    /// With `--by table`, the seed of the hash by which flows choose among several next hops.
    /// Routers in a row should have different seeds.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub flow_seed: u64,
    /// Stop after this many seconds; without it, run until a signal comes.
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,
    /// How it shows what it does.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Run the program in the kernel's network stack instead of the driver: slower, but possible on
    /// every interface.
    #[arg(long)]
    pub generic: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// The commands on a filter of names.
#[derive(Debug, Subcommand)]
pub enum NamesCommand {
    /// Drops queries while the command runs; commands on stdin change the list
    #[command(
        long_about = concat!("Drops queries until stdin ends or a signal comes. Then the command \
detaches the program from the interfaces, and prints how many packets were dropped and how many \
passed, by reason: name, tab, number in each line.

It reads commands from stdin, one in each line:
  block NAME   drops queries for the name and all names below it
  allow NAME   lets them pass, though a name above is blocked
  free NAME    removes the rule of the name
  rule NAME    prints the rule that applies to the name, and the name that has it
  stats        prints the counts of packets
  quit         ends the program
A change applies from the next packet on, and no packet is lost.

With --live, FILE is the live map of \"lists serve\", and the filter follows it: what a reload \
changes applies within a second or so, all of it from one packet on, and a name that stays in the \
lists is never missed. Then no command changes rules. While the map cannot be read, the rules stay \
as they are, and the reason is reported.

", list_form!()),
        after_help = "Examples:
  sapwood bpf names run blocked.txt -i eth0
  sapwood bpf names run blocked.txt -i eth0 -i eth1 --no-commands
  sapwood bpf names run blocked.txt -i eth0 --metrics 127.0.0.1:9465
  sapwood bpf names run /dev/shm/blocked --live -i eth0
  echo 'block ads.example' | sapwood bpf names run /dev/null -i lo"
    )]
    Run(RunArgs),
    /// Puts the filter on interfaces, and pins it so that it stays there
    #[command(
        long_about = concat!("Puts the filter on interfaces, and pins it in a new directory of a BPF \
file system. The filter stays there after the command has ended, until \"unload\".

", list_form!()),
        after_help = "Example:
  sapwood bpf names load blocked.txt -i eth0 --pin /sys/fs/bpf/names"
    )]
    Load(LoadArgs),
    /// Blocks names, and all names below them, in a pinned filter
    #[command(
        long_about = concat!("Blocks names, and all names below them, in a pinned filter.

For each name it prints \"blocked\", a tab and the name.

", change_form!()),
        after_help = "Examples:
  sapwood bpf names block /sys/fs/bpf/names ads.example more.example
  sapwood bpf names block /sys/fs/bpf/names - < more.txt"
    )]
    Block(ChangeArgs),
    /// Lets names pass in a pinned filter, though a name above them is blocked
    #[command(
        long_about = concat!("Lets queries for names, and for all names below them, pass, though a \
name above is blocked.

For each name it prints \"allowed\", a tab and the name.

", change_form!()),
        after_help = "Example:
  sapwood bpf names allow /sys/fs/bpf/names good.ads.example"
    )]
    Allow(ChangeArgs),
    /// Removes the rules of names from a pinned filter
    #[command(
        long_about = concat!("Removes the rules of names. Then the rule of the closest name above \
applies, if one has a rule.

For each name it prints \"freed\" or \"absent\", a tab and the name. The exit code is 1 when a \
name had no rule.

", change_form!()),
        after_help = "Example:
  sapwood bpf names free /sys/fs/bpf/names ads.example"
    )]
    Free(ChangeArgs),
    /// Shows the rule that applies to names, and the name that has it
    #[command(
        after_help = "Prints \"block\", \"allow\", \"truncate\" or \"none\", the name, and the name that has the \
rule, with tabs between.

Example:
  sapwood bpf names rule /sys/fs/bpf/names www.ads.example"
    )]
    Rule(ChangeArgs),
    /// Shows how many packets were dropped and how many passed, by reason
    #[command(after_help = "Example:
  sapwood bpf names stats /sys/fs/bpf/names --json")]
    Stats(PinArgs),
    /// Detaches the filter from its interfaces, unpins it, and prints the counts of packets
    #[command(after_help = "Example:
  sapwood bpf names unload /sys/fs/bpf/names")]
    Unload(PinArgs),
}

/// The arguments of a filter: a list and interfaces.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// The file of the list; "-" for stdin, which then has no commands.
    #[arg(value_name = "FILE")]
    pub list: PathBuf,
    /// An interface whose incoming packets are filtered; give the option once for each interface.
    #[arg(short, long = "interface", value_name = "NAME", required = true)]
    pub interfaces: Vec<String>,
    /// Run the program in the kernel's network stack instead of the driver: slower, but possible on
    /// every interface.
    #[arg(long)]
    pub generic: bool,
    /// Bytes of address space for the list, 8K to 4G; the kernel allocates pages when they are
    /// used.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub bytes: u64,
    /// Stop at the first line that has no names.
    #[arg(long)]
    pub strict: bool,
}

/// The arguments of `bpf names run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The list and the interfaces.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Whether the list is a live map that is followed.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Read no commands from stdin, and run until a signal comes.
    #[arg(long)]
    pub no_commands: bool,
    /// How it shows what it does.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `bpf names load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The list and the interfaces.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// The directory for the pins; the command creates it, and it must not exist yet.
    #[arg(long, value_name = "DIR")]
    pub pin: PathBuf,
}

/// The arguments of the commands on all pins of a directory.
#[derive(Debug, Args)]
pub struct PinArgs {
    /// The directory with the pins.
    #[arg(value_name = "DIR")]
    pub pin: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of the commands on names in a pinned filter.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// The directory with the filter's pins.
    #[arg(value_name = "DIR")]
    pub pin: PathBuf,
    /// The names; "-" stands for the names on stdin, one in each line. A bad one is reported with
    /// its number and left out, and the exit code is 2.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Stop at the first name that cannot be read, before anything is changed, instead of leaving
    /// it out.
    #[arg(long)]
    pub strict: bool,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `bpf load`.
#[derive(Debug, Args)]
pub struct LoadObjectArgs {
    /// The object file.
    #[arg(value_name = "OBJECT")]
    pub object: PathBuf,
    /// The pinned arena.
    #[arg(long, value_name = "ARENA")]
    pub arena: PathBuf,
    /// The directory for the pins.
    #[arg(long, value_name = "DIR")]
    pub pin: PathBuf,
    /// A program of the object that is not loaded; give the option once for each.
    #[arg(long, value_name = "PROGRAM")]
    pub without: Vec<String>,
    /// A program that may sleep, and reads maps only under bpf_rcu_read_lock; give the option once
    /// for each. Others that may sleep are refused.
    #[arg(long, value_name = "PROGRAM")]
    pub sleepable: Vec<String>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `bpf serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// A pinned arena. It may be pinned later.
    #[arg(value_name = "ARENA")]
    pub arenas: Vec<PathBuf>,
    /// Serve all arenas that are pinned in this directory of a BPF file system, and in those below
    /// it. Without this and without arenas: /sys/fs/bpf.
    #[arg(long, value_name = "DIR")]
    pub all: Vec<PathBuf>,
    /// The milliseconds between two steps of service of a map, while programs write to it.
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=10_000)
    )]
    pub every: u64,
    /// The milliseconds between two steps when programs do not write: the time doubles from step
    /// to step up to this.
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 16,
        value_parser = clap::value_parser!(u64).range(1..=10_000)
    )]
    pub rest: u64,
    /// How it shows what it does.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// The arguments of `bpf list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// A pinned arena, or a directory that is searched for pinned arenas, with all directories
    /// below it.
    #[arg(default_value = "/sys/fs/bpf")]
    pub path: PathBuf,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

/// A map in a pinned arena, and the form of its keys.
#[derive(Debug, Args)]
pub struct MapArgs {
    /// The pinned arena.
    #[arg(value_name = "ARENA")]
    pub arena: PathBuf,
    /// The name of the map's window.
    #[arg(value_name = "MAP")]
    pub map: String,
    /// Keys are domain names.
    #[arg(long, conflicts_with_all = ["hex", "ip"])]
    pub dns: bool,
    /// Keys are given and printed in hexadecimal digits, two for each byte.
    #[arg(long, conflicts_with = "ip")]
    pub hex: bool,
    /// Keys are IPv4 addresses, of four bytes, or IPv6 addresses, of sixteen.
    #[arg(long)]
    pub ip: bool,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

impl MapArgs {
    /// The form in which keys are given and printed.
    pub fn form(&self) -> KeyForm {
        match self.ip {
            true => KeyForm::Address,
            false => KeyForm::new(self.dns, self.hex),
        }
    }
}

/// The arguments of `bpf map get` and `bpf map delete`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// The map.
    #[command(flatten)]
    pub map: MapArgs,
    /// The keys; "-" stands for the keys on stdin, one in each line. A bad one is reported with its
    /// number and left out, and the exit code is 2.
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<OsString>,
    /// Stop at the first key that cannot be read, before anything is changed, instead of leaving it
    /// out.
    #[arg(long)]
    pub strict: bool,
}

/// The arguments of `bpf map set`.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The map.
    #[command(flatten)]
    pub map: MapArgs,
    /// The key; "-" without a value for lines of stdin, each with a key, a tab and a value.
    #[arg(value_name = "KEY")]
    pub key: OsString,
    /// The value.
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub value: Option<OsString>,
    /// Stop at the first line that cannot be read, before anything is changed, instead of leaving
    /// it out.
    #[arg(long)]
    pub strict: bool,
}

/// Who writes a map, and what its values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MapKind {
    /// Processes write it; values are byte strings (UserMap<[u8]>)
    Names,
    /// Processes write it; values have one size (UserMap)
    Plain,
    /// Programs write it; values have one size (ProgramMap)
    Program,
}

/// The arguments of `bpf map create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The pinned arena.
    #[arg(value_name = "ARENA")]
    pub arena: PathBuf,
    /// The name of the map: 1 to 24 bytes.
    #[arg(value_name = "MAP")]
    pub name: String,
    /// Who writes the map, and what its values are.
    #[arg(long, value_enum)]
    pub kind: MapKind,
    /// The bytes of a value, whole words: 8 to 64, or to 4,096 if programs write the map; 8 by
    /// default.
    #[arg(long, value_name = "N")]
    pub value_bytes: Option<usize>,
    /// The most entries, if programs write the map; 65,536 by default.
    #[arg(long, value_name = "N")]
    pub max_entries: Option<usize>,
    /// The bytes of the longest key, if programs write the map: 4,096 at most, 254 by default.
    #[arg(long, value_name = "N")]
    pub longest_key: Option<usize>,
    /// The bytes of a key on average, if programs write the map, by which its memory is sized; 24
    /// by default.
    #[arg(long, value_name = "N")]
    pub mean_key: Option<usize>,
    /// Begin with little memory, if programs write the map, and take more as it is used.
    #[arg(long)]
    pub grow: bool,
    /// Let a full map remove what was not used for long, if programs write the map; it has an index
    /// alone then.
    #[arg(long)]
    pub lru: bool,
    /// The milliseconds without use after which an entry of a map with --lru is gone.
    #[arg(long, value_name = "MS", requires = "lru")]
    pub max_idle: Option<u64>,
    /// Count for each processor, if programs write the map: "get" and "dump" show the sums.
    #[arg(long, conflicts_with = "value_bytes")]
    pub per_processor: bool,
    /// Give the map an index, for lookups of whole keys.
    #[arg(long)]
    pub index: bool,
    /// Give the map a trie, for order and prefixes. Without --index and --trie: both if programs
    /// write the map, else a trie.
    #[arg(long)]
    pub trie: bool,
    /// Bytes of address space for the map; 64M by default, or 15 of 16 parts of what is left.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub bytes: Option<u64>,
    /// If nothing is pinned there, make an arena of this many bytes of address space, 8K to 4G, and
    /// pin it; its directory is made, too, if the one above is there.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub arena_bytes: Option<u64>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `bpf map drop`.
#[derive(Debug, Args)]
pub struct DropArgs {
    /// The pinned arena.
    #[arg(value_name = "ARENA")]
    pub arena: PathBuf,
    /// The name of the map's window.
    #[arg(value_name = "MAP")]
    pub map: String,
}

/// The arguments of `bpf dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// The map.
    #[command(flatten)]
    pub map: MapArgs,
    /// List only the entries whose keys start with this.
    #[arg(long, value_name = "KEY")]
    pub prefix: Option<OsString>,
    /// List at most this many entries.
    #[arg(short = 'n', long, value_name = "N")]
    pub limit: Option<usize>,
}

/// The arguments of `bpf verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The pinned arena.
    pub arena: PathBuf,
    /// The name of the map's window.
    pub map: String,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
