//! The arguments of `sapwood live` and of the commands that serve live maps, and their help.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use sapwood_live::ReadBy;

use super::service::ServiceArgs;
use crate::numbers::size;

/// The commands on live maps of any kind.
#[derive(Debug, Subcommand)]
pub enum LiveCommand {
    /// Shows what a live map is, whether a process writes it, and who reads it
    #[command(
        after_help = "Prints one line for each number, its name, a tab and its value: kind, writer \
(lives or dead), generation (how many times processes have taken the map over), period (the number \
of the newest grace period), data-bytes, readers, holding-back, evicted. Then comes one line for \
each reader, with tabs between the fields: reader, its process, its state (reads, holds-back, \
offline or evicted), and the newest period that it has announced.

The exit code is 1 when no process writes the map. Then readers have its last version, and \
\"serve\" takes the map over.

Examples:
  sapwood live status /dev/shm/words
  sapwood live status /dev/shm/words --json"
    )]
    Status(StatusArgs),
}

/// The help of a command that serves a live map: what it keeps, what its list is, which commands on
/// stdin change the map, and how readers see many changes.
#[macro_export]
#[doc(hidden)]
macro_rules! serve_help {
    ($what:literal, $list:literal, $changes:literal, $together:literal) => {
        concat!(
            $what,
            "

The map is a directory, best in /dev/shm. The command creates it. If the directory has the map of a \
process that has ended, the command takes that map over, and makes it what LIST says; readers go \
on reading meanwhile. If another process serves the map, that is an error.

The command runs until SIGTERM, SIGINT or the command \"quit\". Then the map stays for its readers \
and for the next \"serve\"; with --remove it is deleted. SIGHUP reads LIST again, and with --watch \
every change of LIST does. Then the map is what LIST says, and changes by commands that LIST does \
not have are gone. ",
            $list,
            "

It reads commands from stdin, one in each line; the end of stdin ends nothing:
",
            $changes,
            "
  begin               gathers the changes that follow
  commit              makes the gathered changes
  rollback            forgets the gathered changes
  reload              reads LIST again
  stats               prints numbers: name, tab, number
  quit                ends the program
Every other command prints one line: what it did (added, replaced, removed, gathered and so on, or \
absent), and what it is about. A command that fails is reported on stderr. ",
            $together
        )
    };
}

/// How a live map is kept.
#[derive(Debug, Args)]
pub struct KeepArgs {
    /// The directory of the live map.
    #[arg(long, value_name = "DIR")]
    pub live: PathBuf,
    /// Read LIST again when the file changes, or when another file gets its name.
    #[arg(short, long)]
    pub watch: bool,
    /// Read no commands from stdin.
    #[arg(long)]
    pub no_commands: bool,
    /// Delete the map when the command ends.
    #[arg(long)]
    pub remove: bool,
    /// How it shows what it does.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// How much memory the map takes, and who may read it.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Print JSON documents, one in each line.
    #[arg(long)]
    pub json: bool,
}

/// Whether what a command reads is a live map.
#[derive(Debug, Clone, Default, Args)]
pub struct LiveArgs {
    /// It is the directory of a live map, which "serve" keeps, instead of a file. Where this user
    /// may not write, as on a read-only mount, it is read with checks.
    #[arg(long)]
    live: bool,
    /// Wait up to this many seconds for a live map that is not there yet. That of "serve" is there
    /// with its whole list; that of "sync follow" may be empty until the first commit.
    #[arg(long, value_name = "SECONDS", requires = "live", value_parser = seconds)]
    wait: Option<Duration>,
}

impl LiveArgs {
    /// The time to wait for the live map, if it is one.
    pub fn wait(&self) -> Option<Duration> {
        self.live.then(|| self.wait.unwrap_or_default())
    }

    /// The same where only directories are live maps, and others are files.
    pub fn wait_for(&self, path: &Path) -> Option<Duration> {
        let is_live = |wait: &Duration| path.is_dir() || !wait.is_zero() && !path.exists();
        self.wait().filter(is_live)
    }
}

/// Parses a number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
    match seconds {
        Some(Ok(seconds)) => Ok(seconds),
        _ => Err("it is a number of seconds, such as 10 or 0.5".into()),
    }
}

/// How much memory a live map takes, and who may read it.
#[derive(Debug, Clone, Args)]
pub struct LimitArgs {
    /// The most bytes of each part of the live map, up to 8G. A table of routes has a part for each
    /// family, of at most 1G.
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = size)]
    pub limit: u64,
    /// The most bytes of old versions that readers may hold back. What needs more fails, and is
    /// tried again: a list every second, a commit that follows until it succeeds.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub garbage_limit: Option<u64>,
    /// Evict readers that check what they read and that have held memory back for this many
    /// milliseconds. Other readers cannot be evicted.
    #[arg(long, value_name = "MS")]
    pub evict_after: Option<u64>,
    /// Who may read the map beside root: owner, everybody, or group:NAME with the name or the
    /// number of a group. [default: owner, or what the map has that is taken over]
    #[arg(long, value_name = "WHO", value_parser = read_by)]
    pub read_by: Option<ReadBy>,
}

/// Parses who may read a map.
fn read_by(text: &str) -> Result<ReadBy, String> {
    match (text, text.strip_prefix("group:")) {
        ("owner", _) => Ok(ReadBy::Owner),
        ("everybody", _) => Ok(ReadBy::Everybody),
        (_, Some(group)) => match group.parse() {
            Ok(number) => Ok(ReadBy::Group(number)),
            Err(_) => group_number(group)
                .map(ReadBy::Group)
                .ok_or_else(|| format!("there is no group {group:?} in /etc/group")),
        },
        _ => Err("it is owner, everybody or group:NAME".into()),
    }
}

/// The number of a group of this machine.
fn group_number(name: &str) -> Option<u32> {
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let mut lines = groups.lines().map(|line| line.split(':'));
    let mut found = lines.find(|fields| fields.clone().next() == Some(name))?;
    found.nth(2)?.parse().ok()
}

/// The arguments of `live status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The directory of the live map.
    pub path: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
