//! The arguments of `sapwood` and their help.

#[cfg(feature = "bpf")]
pub mod bpf;
pub mod lists;
pub mod live;
mod names;
pub mod ranges;
pub mod report;
pub mod routes;
pub mod service;
pub mod sync;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use lists::ListsCommand;
use live::LiveCommand;
pub use names::{
    BuildArgs, ClosestArgs, CountArgs, DiffArgs, HasArgs, KeyArgs, KeysArgs, ListArgs, Listing,
    LongestArgs, MapArgs, NamesCommand, NamesServeArgs, PrefixArgs, Query, RangeArgs, ValueKind,
};
use ranges::RangesCommand;
use routes::RoutesCommand;
use service::LogArgs;
use sync::SyncCommand;

/// The exit codes, at the end of the program's help.
macro_rules! exit_codes {
    () => {
        "Exit codes:
  0  success, or the answer is yes; also when the reader of the output closes the pipe
  1  the answer is no (absent, no room, different, damaged)
  2  an error, which stderr explains"
    };
}

/// Ordered maps of names, of routes and of ranges: build, query and check them.
#[derive(Debug, Parser)]
#[command(
    name = "sapwood",
    version,
    max_term_width = 110,
    after_help = exit_codes!(),
    after_long_help = concat!(
        "Examples:
  sapwood names build words.txt -o words.qp     a map of the lines of a file
  sapwood names prefix words.qp under           the entries whose keys start with \"under\"
  sapwood names longest --dns zones.qp www.example.org
                                                the closest enclosing zone
  sapwood names closest zones.qp www.example.org
                                                what a name server needs to answer for a name
  sapwood names serve words.txt --live /dev/shm/words
                                                a map that other processes read while it changes
  sapwood routes build --kernel -o routes.lpm   a table of this machine's routes
  sapwood routes lookup routes.lpm 192.0.2.77   the longest prefix that covers an address
  sapwood ranges build ports.txt -o ports.ranges
                                                a map of ranges of numbers
  sapwood ranges alloc ports.ranges 8 'my own'  the lowest room for a new range
  sapwood lists build ads.txt -o blocked.lists  a map of the rules of a block list
  sapwood lists ask blocked.lists www.ads.example
                                                which rule of which list answers a question
  sapwood report --map words.qp -o report.html  a page about the shape of a map

",
        exit_codes!()
    )
)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// What the program writes about its work.
    #[command(flatten)]
    pub log: LogArgs,
}

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Builds, queries and checks maps of names (any byte strings) to numbers or texts
    #[command(after_help = "Examples:
  sapwood names build words.txt -o words.qp
  sapwood names get words.qp oak
  sapwood names range words.qp --from oa --to ob
  find /usr -print0 | sapwood names build --null - -o usr.qp")]
    Names {
        /// What to do with the maps.
        #[command(subcommand)]
        command: NamesCommand,
    },
    /// Builds, queries and checks tables of routes (IPv4 and IPv6 prefixes with next hops)
    #[command(after_help = "Examples:
  sapwood routes build routes.txt -o routes.lpm
  sapwood routes lookup routes.lpm 192.0.2.77 2001:db8::1
  sapwood routes stats routes.lpm
  sapwood routes diff monday.lpm tuesday.lpm")]
    Routes {
        /// What to do with the tables.
        #[command(subcommand)]
        command: RoutesCommand,
    },
    /// Builds, queries, changes and checks maps of ranges of numbers (0 to 2^64 - 1) to texts
    #[command(after_help = "Examples:
  sapwood ranges build ports.txt -o ports.ranges
  sapwood ranges get ports.ranges 443
  sapwood ranges gaps ports.ranges --from 1024 --to 65535 --min 100
  sapwood ranges alloc ports.ranges 10 'my services' --from 1024 --to 65535")]
    Ranges {
        /// What to do with the maps.
        #[command(subcommand)]
        command: RangesCommand,
    },
    /// Builds, serves and asks maps of block lists and response policies
    #[command(after_help = "Examples:
  sapwood lists build ads.txt --exceptions mine.txt -o blocked.lists
  sapwood lists ask blocked.lists www.ads.example
  sapwood lists serve ads.txt malware.rpz --live /dev/shm/blocked --watch
  sapwood lists check ads.txt")]
    Lists {
        /// What to do with the lists.
        #[command(subcommand)]
        command: ListsCommand,
    },
    /// Shows live maps: maps that one process keeps and others read
    #[command(after_help = "Examples:
  sapwood names serve words.txt --live /dev/shm/words
  sapwood live status /dev/shm/words")]
    Live {
        /// What to do with the maps.
        #[command(subcommand)]
        command: LiveCommand,
    },
    /// Copies one writer's maps to many machines: publish a list, follow it, show who is behind
    #[command(after_help = "Examples:
  sapwood sync publish names blocked.txt --map blocked --folder /var/lib/sapwood
  sapwood sync follow --map blocked --folder /var/lib/sapwood --live /dev/shm/blocked
  sapwood sync status --map blocked --folder /var/lib/sapwood")]
    Sync {
        /// What to do.
        #[command(subcommand)]
        command: Box<SyncCommand>,
    },
    /// Makes one HTML page of the shapes of saved maps
    #[command(long_about = report::ABOUT)]
    Report(report::ReportArgs),
    /// Runs packet filters and routers inside the kernel; makes, serves and shows maps there
    #[cfg(feature = "bpf")]
    #[command(
        after_help = "The commands need CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, which root \
has, and rights to the files of pins.

Examples:
  sapwood bpf names run blocked.txt -i eth0
  sapwood bpf map create /sys/fs/bpf/seen/arena seen --kind program --arena-bytes 256M
  sapwood bpf load seen.bpf.o --arena /sys/fs/bpf/seen/arena --pin /sys/fs/bpf/seen
  sapwood bpf serve
  sapwood bpf list
  sapwood bpf dump /sys/fs/bpf/names/arena blocked --dns"
    )]
    Bpf {
        /// What to do with the maps.
        #[command(subcommand)]
        command: bpf::BpfCommand,
    },
    /// Prints the completions of this program for a shell
    #[command(after_help = "Examples:
  sapwood completions bash > ~/.local/share/bash-completion/completions/sapwood
  sapwood completions zsh > ~/.zfunc/_sapwood
  sapwood completions fish > ~/.config/fish/completions/sapwood.fish")]
    Completions {
        /// The shell that reads the completions.
        shell: Shell,
    },
    /// Prints a manual page, or writes all of them into a directory
    #[command(after_help = "Examples:
  sapwood man | man -l -
  sapwood man names build | man -l -
  sapwood man --out /usr/local/share/man/man1")]
    Man {
        /// Write all pages into this directory, which is created if it does not exist.
        #[arg(long, value_name = "DIR", conflicts_with = "page")]
        out: Option<PathBuf>,
        /// The command whose page is printed, such as "names build"; without one, the program's
        /// page.
        #[arg(value_name = "COMMAND")]
        page: Vec<String>,
    },
}
