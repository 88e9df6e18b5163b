//! The machine and the command of a run, as text.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Processor, cores, kernel and memory, such as `Xeon, 2 cores, Linux 6.1.0, 24 GiB`.
pub fn description() -> String {
    let processor =
        field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kibibytes: f64 = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.trim_end_matches(" kB").parse().ok())
        .unwrap_or_default();
    format!(
        "{processor}, {} cores, Linux {}, {:.0} GiB",
        cores(),
        // A suffix after the version is the name of somebody's build.
        kernel.trim().split('-').next().unwrap_or_default(),
        kibibytes / 1_048_576.0
    )
}

/// The number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The value of the first line `name : value` in a file.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The commit of the sources, followed by `+` when they differ from it.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["-C", env!("CARGO_MANIFEST_DIR")])
            .args(arguments)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "none".into();
    };
    let changed = git(&["status", "--porcelain"]).is_some_and(|list| !list.is_empty());
    if changed { commit + "+" } else { commit }
}

/// Today in UTC, as `2026-01-31`.
pub fn date() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// The Gregorian date of a day since 1970, by the "days to civil" method of Howard Hinnant: years
/// start in March, so that the leap day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The command as it can be repeated elsewhere. Records are published, so it omits folders.
pub fn command(arguments: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = arguments
        .skip(1)
        .map(|word| without_folder(&word))
        .collect();
    let mut command = "cargo run --release -p sapwood-bench --".to_owned();
    let mut after_data = false;
    for word in words {
        command.push(' ');
        if after_data {
            command.push_str("DIR");
        } else if word.starts_with("--data=") {
            command.push_str("--data=DIR");
        } else {
            command.push_str(&word);
        }
        after_data = word == "--data";
    }
    command
}

fn without_folder(word: &str) -> String {
    match word.split_once('=') {
        Some((option, value)) => format!("{option}={}", without_folder(value)),
        None => Path::new(word)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(20_818), (2026, 12, 31));
    }

    #[test]
    fn folders_stay_out_of_the_command() {
        let words = [
            "/x/bench",
            "names",
            "--data",
            "/srv/sets",
            "--json=/tmp/a.json",
            "--quick",
        ];
        assert_eq!(
            command(words.map(String::from).into_iter()),
            "cargo run --release -p sapwood-bench -- names --data DIR --json=a.json --quick"
        );
    }
}
