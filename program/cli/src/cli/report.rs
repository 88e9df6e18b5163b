//! The arguments of `sapwood report` and their help.

use std::path::PathBuf;

use clap::Args;

/// What the command does, for its help.
pub const ABOUT: &str = "Makes one HTML page of the shapes of saved maps.

Of each saved map of names, routes or ranges the page shows the depths of its leaves, how full its \
clusters are, and its bytes by kind. It needs no network and has no scripts.

The same input gives the same page. It is written to a new file, which is then renamed to PAGE: \
PAGE is the old file or the whole new one at any time. An input that is no sound map is an error, \
and nothing is written.";

/// The arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sapwood report --map words.qp -o report.html
  sapwood report --map words.qp --map routes.lpm --map ports.ranges -o shapes.html
  sapwood report --map words.qp --json | jq '.maps[].trie.depths'")]
pub struct ReportArgs {
    /// A saved map whose shape the page shows; may be given more than once.
    #[arg(long = "map", value_name = "FILE", num_args = 1.., required = true)]
    pub maps: Vec<PathBuf>,
    /// The page, a file that is created or replaced.
    #[arg(short, long, value_name = "PAGE", required_unless_present = "json")]
    pub output: Option<PathBuf>,
    /// Print one JSON document with the same numbers.
    #[arg(long)]
    pub json: bool,
}
