//! The options of every command that runs until a signal.

use clap::{Args, ValueEnum};
use tracing_subscriber::filter::Targets;

use crate::service::log::filter;
use crate::service::place::{Place, place};

/// How a command that runs until a signal shows what it does.
#[derive(Debug, Args)]
pub struct ServiceArgs {
    /// Where metrics for Prometheus go.
    #[arg(
        long,
        value_name = "ADDR|FILE",
        value_parser = place,
        help = "Export metrics for Prometheus, every second and at the end: by HTTP at an address \
such as 127.0.0.1:9464 or [::1]:9464, under /metrics; or in a FILE for the node exporter's \
collector of text files, which is the old one or the whole new one at any time. With port 0 the \
system chooses one. The command says on stderr where it listens"
    )]
    pub metrics: Option<Place>,
}

/// What the program writes about its work. Every command takes these options.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// Write a line to stderr for each part of the work that ends (load, difference, commit,
    /// inherit, save and others), with its numbers and its time: error, warn, info, debug, trace,
    /// or off. Levels by target, such as info,sapwood=debug, are possible.
    #[arg(
        long,
        global = true,
        env = "SAPWOOD_LOG",
        value_name = "LEVEL",
        value_parser = filter,
        hide_env_values = true,
        hide_short_help = true,
        help_heading = "Log"
    )]
    pub log: Option<Targets>,
    /// The format of these lines.
    #[arg(
        long,
        global = true,
        env = "SAPWOOD_LOG_FORMAT",
        value_enum,
        value_name = "FORMAT",
        default_value = "text",
        hide_env_values = true,
        hide_short_help = true,
        help_heading = "Log"
    )]
    pub log_format: LogFormat,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line of words.
    Text,
    /// A JSON document in each line.
    Json,
}
