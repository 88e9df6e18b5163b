//! Spans of the program's work on stderr: what it does, with its numbers, and how long it took.
//!
//! The spans have the target [`TARGET`]. Without `--log` and `SAPWOOD_LOG` there is no subscriber,
//! and a span costs one load.

use std::io;

use tracing::subscriber::{SetGlobalDefaultError, set_global_default};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::cli::service::{LogArgs, LogFormat};
use crate::errors::Error;

/// The target of all spans of this program.
pub const TARGET: &str = "sapwood";

/// Parses a filter: a level, or levels by target. An empty text is none.
pub fn filter(text: &str) -> Result<Targets, String> {
    let mut filter = Targets::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (target, level) = match part.split_once('=') {
            Some((target, level)) => (Some(target), level),
            None => (None, part),
        };
        let parsed = level.parse::<LevelFilter>();
        let level = parsed.ok().filter(|_| !level.is_empty()).ok_or_else(|| {
            format!(
                "\"{}\" is no level; give off, error, warn, info, debug or trace, or levels by \
                 target such as info,sapwood=debug",
                level.escape_debug()
            )
        })?;
        filter = match target {
            Some(target) => filter.with_target(target, level),
            None => filter.with_default(level),
        };
    }
    Ok(filter)
}

/// Begins to write a line for each span that ends, if the options ask for it.
pub fn begin(args: &LogArgs) -> Result<(), Error> {
    let Some(filter) = args.log.clone().filter(|filter| *filter != Targets::new()) else {
        return Ok(());
    };
    let lines = layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE);
    let begun: Result<(), SetGlobalDefaultError> = match args.log_format {
        LogFormat::Text => set_global_default(registry().with(filter).with(lines)),
        LogFormat::Json => set_global_default(registry().with(filter).with(lines.json())),
    };
    begun.map_err(|error| Error::Usage(format!("cannot begin the log: {error}")))
}

/// Makes and enters a span of the program, which ends with the guard. The level and the name come
/// first, and then the fields, as in the macros of `tracing`.
#[macro_export]
#[doc(hidden)]
macro_rules! span {
    ($level:ident, $name:literal $(, $($fields:tt)*)?) => {
        tracing::span!(
            target: $crate::service::log::TARGET,
            tracing::Level::$level,
            $name
            $(, $($fields)*)?
        )
        .entered()
    };
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn filters_are_levels_by_target() {
        for good in [
            "",
            "off",
            "info",
            "DEBUG",
            "info,sapwood=debug",
            "sapwood=trace",
        ] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in [
            "loud",
            "sapwood=loud",
            "sapwood",
            "info;debug",
            "info,",
            ",",
        ] {
            assert!(
                filter(bad).unwrap_err().contains("off, error, warn"),
                "{bad}"
            );
        }
    }
}
