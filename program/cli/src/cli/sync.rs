//! The arguments of `sapwood sync`, and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::live::{KeepArgs, LimitArgs};
use super::ranges::TextArgs;
use super::routes::SourceArgs;
use super::service::ServiceArgs;
use super::{ListArgs, ValueKind};
#[cfg(feature = "bpf")]
use crate::numbers::size;

/// The commands on maps of many machines.
#[derive(Debug, Subcommand)]
pub enum SyncCommand {
    /// Publishes a list: it leads, and each change of the list is a commit that others follow
    #[command(
        long_about = "Publishes a list. One process leads a map; each commit of it is stored in \
the log before followers see it.

The command becomes the leader, and publishes the differences between what the log has and what \
LIST says as one commit. Another leader is an error; with --wait, the command waits until that one \
ends, reads LIST again, and goes on from its last commit.

A log that cannot be read, or that is not what followers and snapshots had, because it was emptied \
or put back to an earlier state, gets a new history, which begins with all of LIST; the command says \
why. When that befalls a log while the command leads, it ends with exit code 2, and publishes \
nothing there until it is started again.

It runs until SIGTERM, SIGINT or the command \"quit\"; then the next leader need not wait. When it \
leads no more, because its lease has ended or another process leads, it ends with exit code 2. \
SIGHUP reads LIST again, and with --watch every change of LIST does. SIGUSR1 saves a snapshot.

It reads commands from stdin, as \"names serve\" does: add, remove, get, begin, commit, rollback, \
reload, stats, quit. A command that changes something prints its line when the commit is in the \
log. A commit between \"begin\" and \"commit\" is one commit for followers too.

A service manager is told READY when the command leads, and also when it waits with --wait.",
        after_help = "Examples:
  sapwood sync publish names --dns --values text blocked.txt --map blocked --folder /srv/log --watch
  sapwood sync publish routes routes.txt --map edge --etcd http://127.0.0.1:2379 \\
      --snapshots /srv/snapshots --wait
  sapwood sync publish ranges ports.txt --map ports --folder /srv/log --metrics 127.0.0.1:9464"
    )]
    Publish {
        /// What is in the list.
        #[command(subcommand)]
        command: PublishCommand,
    },
    /// Follows a map into a live map, which other processes read
    #[command(
        long_about = "Follows a map: makes a live map what the leader's is, and applies each \
commit as it comes.

The live map is a directory, best in /dev/shm, which \"names get --live\", \"routes lookup --live\", \
\"ranges get --live\" and their like read. A directory that an ended process left is taken over: its \
readers see the differences as one commit. What is in the map (names, routes or ranges) is for its \
leader to say. Readers of names see each commit at once. Those of routes and ranges may see a part \
of one for a moment.

When the log or a snapshot cannot be read, the map stays as it is, and the command tries again. So \
it does when the log is gone, empty, without its identity, or put back to an earlier state. When \
another log takes its place, or a leader goes on from the earlier state, the map becomes what that \
log says, by one commit of the differences. An empty log is adopted with --adopt-empty only. It \
runs until SIGTERM or SIGINT; the map stays for its readers, unless --remove is given.

With --xdp, names follow into a filter of DNS queries, and routes into a program that forwards \
packets before the kernel's network stack. The value of a route is then the address of its next \
hop, on a network that this machine reaches directly; interface and hardware addresses are the \
kernel's. This machine's addresses and its own networks come before a followed route of the same \
prefix, its other routes after it. Packets to a route whose next hop has no known hardware address, \
or whose value is no address, pass to the kernel. A commit is one transaction of the tables; \
packets to different prefixes may meet a part of it for a moment.

It prints a line for each event, with tabs between the fields:
  restored COMMIT ENTRIES   the map was compared with a snapshot and the log after it
  commit COMMIT ENTRIES     readers see the commit; several at once have one line
  trouble TEXT              what holds it back
  follows                   the trouble has passed
  replaced COUNT            the log had become another one, or was written anew from an earlier state
  evicted COUNT             the leader waits for this follower no longer
  unresolved COUNT TEXTS    with --xdp: the routes that are left to the kernel, and those of them \
whose values are no addresses",
        after_help = "Examples:
  sapwood sync follow --map blocked --folder /srv/log --live /dev/shm/blocked
  sapwood sync follow --map edge --etcd http://127.0.0.1:2379 --snapshots /srv/snapshots \\
      --live /dev/shm/edge --name edge-7
  sapwood sync follow --map ports --folder /srv/log --live ports --once"
    )]
    Follow(FollowArgs),
    /// Shows who leads a map, its newest commit, its newest snapshot, and its followers
    #[command(
        after_help = "Prints one line for each number, its name, a tab and its value: map, kind, \
leader (a name, or \"-\"), term, commit, followers, behind (how many followers are more than \
--max-lag commits behind, or have a trouble), snapshot (its commit, or \"-\"), snapshot-entries, \
snapshot-bytes, log (its identity, or \"-\"), beyond (how many followers have a commit that the log \
has not, or one of another log), trouble (what is wrong with the log, or nothing). Then comes one \
line for each follower, with tabs between the fields: follower, its name, its commit, its lag in commits, its trouble.

The exit code is 0 when a process leads, the log is sound, and no follower is behind or beyond it, \
and 1 otherwise. Of the log, the newest entry is read, and that it goes back to the newest snapshot.

Examples:
  sapwood sync status --map blocked --folder /srv/log
  sapwood sync status --map blocked --folder /srv/log --json --max-lag 10"
    )]
    Status(StatusArgs),
    /// Saves a snapshot of a map that nobody leads, or checks the newest one
    #[command(
        after_help = "Only a leader saves snapshots. \"sync publish\" does after some commits, and \
when it gets SIGUSR1. For a map that nobody leads, this command leads for as long as it takes to \
save one; a map that another process leads is an error.

With --verify it fetches the newest snapshot instead and checks all of it: its hash, its structure, \
its digest and its entries. The exit code is 1 when it is damaged, or there is none.

Examples:
  sapwood sync snapshot --map blocked --folder /srv/log
  sapwood sync snapshot --map blocked --folder /srv/log --verify"
    )]
    Snapshot(SnapshotArgs),
}

/// What `sync publish` publishes.
#[derive(Debug, Subcommand)]
pub enum PublishCommand {
    /// Publishes a list of names, as "names build" takes it
    #[command(
        after_help = "The log has numbers as their digits, so followers may keep them as numbers \
or as texts.

Example:
  sapwood sync publish names words.txt --map words --folder /srv/log"
    )]
    Names(PublishNamesArgs),
    /// Publishes a list of routes, as "routes build" takes it
    #[command(after_help = "Example:
  sapwood sync publish routes routes.txt --map edge --folder /srv/log --watch")]
    Routes(PublishRoutesArgs),
    /// Publishes a list of ranges, as "ranges build" takes it
    #[command(after_help = "Example:
  sapwood sync publish ranges ports.txt --map ports --folder /srv/log")]
    Ranges(PublishRangesArgs),
}

/// Where the log and the snapshots of a map are.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// The name of the map: up to 100 letters, digits, dots, dashes and underscores.
    #[arg(long, value_name = "NAME")]
    pub map: String,
    /// The log is in this directory: for one machine, without a service.
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "etcd",
        conflicts_with = "etcd"
    )]
    pub folder: Option<PathBuf>,
    /// The log is in etcd, at these addresses: http://HOST:PORT or https://HOST:PORT.
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        requires = "snapshots"
    )]
    pub etcd: Vec<String>,
    /// The directory of the snapshots. For a log in a directory the default is "snapshots" in it.
    /// Leader and followers need the same one.
    #[arg(long, value_name = "DIR")]
    pub snapshots: Option<PathBuf>,
    /// The user in etcd. The password comes from --password-file, or from the environment variable
    /// SAPWOOD_ETCD_PASSWORD.
    #[arg(long, value_name = "NAME", requires = "etcd")]
    pub user: Option<String>,
    /// A file with the password in its first line.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// The certificate of the authority that signed etcd's, a PEM file.
    #[arg(long, value_name = "FILE", requires = "etcd")]
    pub ca: Option<PathBuf>,
    /// The client's certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires_all = ["etcd", "key"])]
    pub cert: Option<PathBuf>,
    /// The private key of the client's certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires_all = ["etcd", "cert"])]
    pub key: Option<PathBuf>,
}

/// What happens to a follower that is too far behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Slowest {
    /// The leader publishes nothing until the follower is nearer, or has ended.
    Wait,
    /// The leader waits for it no longer; it must start again from a snapshot.
    Evict,
}

/// How a list is published.
#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Where the log is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// How this leader calls itself; without it, the machine's name and the process's number.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Wait while another process leads.
    #[arg(long)]
    pub wait: bool,
    /// The most commits that a follower may be behind.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub max_lag: u64,
    /// What happens to a follower that is further behind.
    #[arg(long, default_value = "evict")]
    pub slowest: Slowest,
    /// Save a snapshot after this many commits. One is saved after 32 MiB of the log, too.
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub snapshot_every: u64,
    /// Read LIST again when the file changes, or when another file gets its name.
    #[arg(short, long)]
    pub watch: bool,
    /// Read no commands from stdin.
    #[arg(long)]
    pub no_commands: bool,
    /// How it shows what it does.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

impl PublishArgs {
    /// The options of the loop that reads commands, as the commands that serve live maps have them.
    pub fn keep(&self) -> KeepArgs {
        KeepArgs {
            live: PathBuf::from(&self.place.map),
            watch: self.watch,
            no_commands: self.no_commands,
            // This ends the term.
            remove: true,
            service: ServiceArgs {
                metrics: self.service.metrics.clone(),
            },
            limits: LimitArgs {
                limit: 8 << 30,
                garbage_limit: None,
                evict_after: None,
                read_by: None,
            },
            json: self.json,
        }
    }
}

/// `sync publish names`.
#[derive(Debug, Args)]
pub struct PublishNamesArgs {
    /// The list.
    #[command(flatten)]
    pub list: ListArgs,
    /// How it is published.
    #[command(flatten)]
    pub publish: PublishArgs,
}

/// `sync publish routes`.
#[derive(Debug, Args)]
pub struct PublishRoutesArgs {
    /// The text, the dump or the table to read; "-" for stdin.
    #[arg(value_name = "LIST")]
    pub input: PathBuf,
    /// How the list is read.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Print no summary.
    #[arg(short, long)]
    pub quiet: bool,
    /// How it is published.
    #[command(flatten)]
    pub publish: PublishArgs,
}

/// `sync publish ranges`.
#[derive(Debug, Args)]
pub struct PublishRangesArgs {
    /// The list.
    #[command(flatten)]
    pub list: TextArgs,
    /// How it is published.
    #[command(flatten)]
    pub publish: PublishArgs,
}

/// `sync follow`.
#[derive(Debug, Args)]
pub struct FollowArgs {
    /// Where the log is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The directory of the live map.
    #[arg(long, value_name = "DIR")]
    #[cfg_attr(feature = "bpf", arg(required_unless_present = "xdp"))]
    #[cfg_attr(not(feature = "bpf"), arg(required = true))]
    pub live: Option<PathBuf>,
    /// The kernel's side.
    #[cfg(feature = "bpf")]
    #[command(flatten)]
    pub xdp: XdpArgs,
    /// The kind of values that a live map of names has. Texts take all values.
    #[arg(long, value_name = "KIND", default_value = "text")]
    pub values: ValueKind,
    /// How this follower calls itself, unlike all others of the map; without it, the machine's name
    /// and the process's number.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// End when readers see the commit that was the newest one at the start.
    #[arg(long)]
    pub once: bool,
    /// The most seconds that --once takes. Then the exit code is 2.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "once")]
    pub timeout: u64,
    /// Empty the map when the log is empty or has lost its identity. Without this, readers have the
    /// old map then, and the command tells the trouble. A commit that removes all entries is
    /// followed in any case.
    #[arg(long)]
    pub adopt_empty: bool,
    /// Print no lines for commits.
    #[arg(short, long)]
    pub quiet: bool,
    /// Delete the live map when the command ends; or detach the program and remove its pins.
    #[arg(long)]
    pub remove: bool,
    /// How it shows what it does.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// How much memory the live map takes, and who may read it.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

impl FollowArgs {
    /// How the live map is kept.
    pub fn keep(&self) -> KeepArgs {
        KeepArgs {
            live: self.live.clone().unwrap_or_default(),
            watch: false,
            no_commands: true,
            remove: self.remove,
            // The command shows its numbers itself.
            service: ServiceArgs { metrics: None },
            limits: self.limits.clone(),
            json: self.json,
        }
    }
}

/// How a map follows into a program in the kernel.
#[cfg(feature = "bpf")]
#[derive(Debug, Args)]
pub struct XdpArgs {
    /// Follow into a program on this interface instead of a live map (needs CAP_BPF, CAP_PERFMON
    /// and CAP_NET_ADMIN): names into a filter of DNS queries, routes into a router. Give it once
    /// for each interface. Names must be domain names (publish --dns) with the values "block" and
    /// "allow" (--values text); a packet meets all of a commit, or none. The value of a route must
    /// be the address of its next hop.
    #[arg(
        long = "xdp",
        id = "xdp",
        value_name = "IFACE",
        conflicts_with = "live"
    )]
    pub interfaces: Vec<String>,
    /// Pin the filter of names in this new directory of a BPF file system. Then it goes on with the
    /// last commit when the command ends or is killed, and the next command with this directory
    /// goes on with it.
    #[arg(long, value_name = "DIR", requires = "xdp")]
    pub pin: Option<PathBuf>,
    /// Attach it in generic mode, which every driver has.
    #[arg(long, requires = "xdp")]
    pub generic: bool,
    /// The bytes of address space for the names, or for the routes of each family.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    pub bytes: u64,
}

/// `sync status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Where the log is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The most commits that a follower may be behind.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_lag: u64,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// `sync snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// Where the log is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Check the newest snapshot instead of saving one.
    #[arg(long)]
    pub verify: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
