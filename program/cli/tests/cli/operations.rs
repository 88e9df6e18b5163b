//! What operators install: dashboards and alerts name figures that commands export, the table of
//! the documentation has all of them, and systemd accepts the units.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use sapwood_cli::service::catalogue::{self, Kind};
use serde_json::Value;

use crate::common::{Ran, Scratch};
use crate::server::Server;
use crate::service::{address_in, wait_value};

/// A path in the checkout.
fn of_checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The files of a directory of the checkout with this end of their names.
fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of_checkout(folder)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(end));
    files.sort();
    assert!(!files.is_empty(), "{folder}");
    files
}

/// Whether a program is missing, which is printed.
fn is_missing(program: &str) -> bool {
    let missing = Command::new(program).arg("--version").output().is_err();
    if missing {
        println!("skipped: {program} is not installed (ci/packages.sh says how)");
    }
    missing
}

/// The names of our metrics in an expression, without the ends that histograms add.
fn names_in(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let names = words.filter(|word| word.starts_with("sapwood_"));
    names.map(|name| name_of_series(name).to_owned()).collect()
}

/// The name of the metric that a series belongs to.
fn name_of_series(series: &str) -> &str {
    for metric in catalogue::all().filter(|metric| metric.kind == Kind::Histogram) {
        let end = series.strip_prefix(metric.name);
        if end.is_some_and(|end| ["_bucket", "_sum", "_count"].contains(&end)) {
            return metric.name;
        }
    }
    series
}

/// Expects that commands export all of these metrics.
#[track_caller]
fn are_exported(names: &BTreeSet<String>, place: &Path) {
    for name in names {
        let known = catalogue::all().any(|metric| metric.name == name);
        assert!(known, "{}: no command exports {name}", place.display());
    }
}

/// All expressions of a dashboard: in panels, and where variables get their values.
fn expressions(board: &Value) -> Vec<String> {
    let mut found = Vec::new();
    match board {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "expr" || name == "definition" => {
                        found.push(text.clone());
                    }
                    value => found.extend(expressions(value)),
                }
            }
        }
        Value::Array(values) => found.extend(values.iter().flat_map(expressions)),
        _ => {}
    }
    found
}

/// Expects that `promtool check rules` accepts a file, which has this many rules.
#[track_caller]
fn check_rules(path: &Path, count: usize) {
    let ran = Command::new("promtool")
        .args(["check", "rules"])
        .arg(path)
        .output();
    let ran = Ran(ran.unwrap());
    ran.code(0).says(&format!("SUCCESS: {count} rules found"));
}

#[test]
fn dashboards_show_what_commands_export() {
    let mut shown = BTreeSet::new();
    let mut rules = String::from("groups:\n- name: dashboards\n  rules:\n");
    let mut count = 0;
    for path in files("packaging/grafana", ".json") {
        let board: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for field in ["uid", "title", "panels", "templating"] {
            assert!(!board[field].is_null(), "{}: no {field}", path.display());
        }
        let panels = board["panels"].as_array().unwrap();
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "{}: ids of panels", path.display());
        for expression in expressions(&board) {
            let names = names_in(&expression);
            assert!(!names.is_empty(), "{}: {expression}", path.display());
            are_exported(&names, &path);
            shown.extend(names);
            if expression.starts_with("label_values(") {
                continue;
            }
            // The dashboard's variables stand where a rule has a text or a time.
            let rule = expression.replace("$__rate_interval", "5m");
            let rule = Value::String(rule.replace("$instance", ".*").replace("$map", ".*"));
            rules += &format!("  - record: shown:{count}\n    expr: {rule}\n");
            count += 1;
        }
    }
    let hidden = catalogue::all().filter(|metric| !shown.contains(metric.name));
    let hidden: Vec<_> = hidden.map(|metric| metric.name).collect();
    assert!(hidden.is_empty(), "no dashboard shows {hidden:?}");
    if !is_missing("promtool") {
        let s = Scratch::new();
        check_rules(
            &s.file("rules.yml", rules.replace("shown:", "shown:n")),
            count,
        );
    }
}

#[test]
fn alerts_are_about_what_commands_export() {
    for path in files("packaging/prometheus", ".yml") {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("expr: "));
        let mut count = 0;
        for expression in lines {
            let names = names_in(expression);
            assert!(!names.is_empty(), "{}: {expression}", path.display());
            are_exported(&names, &path);
            count += 1;
        }
        assert!(count > 0, "{}", path.display());
        // The page for operators says what to do for each.
        let page = std::fs::read_to_string(of_checkout("docs/operations.md")).unwrap();
        for line in text.lines() {
            if let Some(alert) = line.trim().strip_prefix("- alert: ") {
                assert!(
                    page.contains(&format!("| `{alert}` |")),
                    "{alert} in the page"
                );
            }
        }
        if !is_missing("promtool") {
            check_rules(&path, count);
        }
    }
}

#[test]
fn the_table_of_metrics_is_complete() {
    let page = std::fs::read_to_string(of_checkout("docs/operations.md")).unwrap();
    let rows: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("| `sapwood_"))
        .collect();
    let wanted: Vec<_> = catalogue::all()
        .map(|metric| {
            format!(
                "| `{}` | {} | {} | {} |",
                metric.name,
                metric.kind.name(),
                metric.labels.join(", "),
                metric.help
            )
        })
        .collect();
    for row in &wanted {
        assert!(
            rows.contains(&&**row),
            "docs/operations.md has no row\n{row}"
        );
    }
    assert_eq!(rows, wanted);
}

/// The sections of a unit with their settings, as lines; comments are left out.
fn settings(unit: &str) -> Vec<&str> {
    unit.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

#[test]
fn units_are_notified_and_hardened() {
    for path in files("packaging/systemd", ".service") {
        let unit = std::fs::read_to_string(&path).unwrap();
        let settings = settings(&unit);
        for setting in [
            "Type=notify",
            "NotifyAccess=main",
            "NoNewPrivileges=yes",
            "ProtectSystem=strict",
            "MemoryDenyWriteExecute=yes",
            "RestrictNamespaces=yes",
            "IPAddressDeny=any",
        ] {
            assert!(
                settings.contains(&setting),
                "{}: no {setting}",
                path.display()
            );
        }
        for name in ["WatchdogSec", "SystemCallFilter", "RestrictAddressFamilies"] {
            let has = settings
                .iter()
                .any(|line| line.starts_with(&format!("{name}=")));
            assert!(has, "{}: no {name}", path.display());
        }
        let name = path.file_name().unwrap().to_str().unwrap();
        let capabilities = match name.starts_with("sapwood-bpf-") {
            true => "CapabilityBoundingSet=CAP_BPF CAP_NET_ADMIN CAP_PERFMON",
            false => "CapabilityBoundingSet=",
        };
        assert!(settings.contains(&capabilities), "{name}");
        // Sockets reach this machine alone; those of publishers and followers also reach etcd on
        // private networks.
        let reached = match name.starts_with("sapwood-sync-") {
            true => "localhost link-local 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7",
            false => "localhost",
        };
        let lines = settings.iter();
        let lines: Vec<_> = lines
            .filter_map(|line| line.strip_prefix("IPAddressAllow="))
            .collect();
        assert_eq!(lines, [reached], "{name}");
        // Every line of the settings that is shown in the page is one of a unit.
        let start = settings
            .iter()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let start = start.unwrap();
        assert!(start.starts_with("/usr/bin/sapwood "), "{name}: {start}");
    }
}

/// The directories of readers that a unit makes in the directory of a map.
pub fn folders_of_readers(unit: &str) -> Vec<String> {
    let path = of_checkout("packaging/systemd").join(unit);
    let text = std::fs::read_to_string(path).unwrap();
    let made = settings(&text)
        .into_iter()
        .find_map(|line| line.strip_prefix("ExecStartPre=/usr/bin/install -d -m ${READERS} "));
    let folders = made.unwrap().split(' ');
    let folders = folders.map(|folder| folder.strip_prefix("${LIVE}/").unwrap().to_owned());
    folders.collect()
}

/// The arguments that an instance of a unit gives to the program, with these settings in its file.
pub fn arguments_of(unit: &str, instance: &str, set: &[(&str, &str)]) -> Vec<String> {
    let path = of_checkout("packaging/systemd").join(unit);
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("%i", instance).replace("%H", "machine");
    let lines = settings(&text);
    let of = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name));
    let defaults = of("Environment=").unwrap_or_default().split(' ');
    let mut values: BTreeMap<_, _> = defaults.filter_map(|one| one.split_once('=')).collect();
    values.extend(set.iter().copied());
    let mut arguments = Vec::new();
    for word in of("ExecStart=/usr/bin/sapwood ").unwrap().split(' ') {
        let Some(name) = word.strip_prefix('$') else {
            arguments.push(word.to_owned());
            continue;
        };
        // As systemd has it: braces make one word, without them there are as many as there are.
        match name
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'))
        {
            Some(name) => arguments.push(values[name].to_owned()),
            None => arguments.extend(values[name].split_whitespace().map(String::from)),
        }
    }
    arguments
}

/// The system calls in a set of systemd, such as `@default`.
fn calls_in(set: &str) -> BTreeSet<String> {
    let listed = Command::new("systemd-analyze")
        .args(["syscall-filter", "--no-pager", set])
        .output();
    let listed = Ran(listed.unwrap());
    listed.code(0);
    let text = String::from_utf8_lossy(&listed.0.stdout).into_owned();
    let words = text.lines().skip(1).map(str::trim);
    let mut calls = BTreeSet::new();
    for word in words.filter(|word| !word.is_empty() && !word.starts_with('#')) {
        match word.starts_with('@') {
            true => calls.extend(calls_in(word)),
            false => drop(calls.insert(word.to_owned())),
        }
    }
    calls
}

/// The system calls that a unit allows.
fn allowed(unit: &str) -> BTreeSet<String> {
    let path = of_checkout("packaging/systemd").join(unit);
    let text = std::fs::read_to_string(path).unwrap();
    let mut allowed = calls_in("@default");
    for line in settings(&text) {
        let Some(filter) = line.strip_prefix("SystemCallFilter=") else {
            continue;
        };
        let (removes, words) = match filter.strip_prefix('~') {
            Some(words) => (true, words),
            None => (false, filter),
        };
        for word in words.split(' ') {
            let calls = match word.starts_with('@') {
                true => calls_in(word),
                false => BTreeSet::from([word.to_owned()]),
            };
            match removes {
                true => allowed.retain(|call| !calls.contains(call)),
                false => allowed.extend(calls),
            }
        }
    }
    allowed
}

/// A command whose system calls are written to the file `trace` in the directory, with the
/// arguments before the program's own; `None` where that is not possible.
pub fn traced(s: &Scratch, before: &[&str]) -> Option<Command> {
    if ["strace", "systemd-analyze"].into_iter().any(is_missing) {
        return None;
    }
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-e", "signal=none", "-o", "trace"])
        .args(before)
        .arg(crate::common::PROGRAM)
        .current_dir(s.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Some(command)
}

/// Sends a signal to a program: to the process that is traced, not to the one that traces.
pub fn end(s: &Scratch, server: &Server, signal: Signal) {
    match std::fs::read_to_string(s.path("trace")) {
        Ok(trace) => {
            let pid = trace.split(' ').next().unwrap().parse().unwrap();
            kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        }
        Err(_) => server.signal(signal),
    }
}

/// Expects that a unit allows all system calls of a traced command.
#[track_caller]
pub fn allows_what_was_called(s: &Scratch, unit: &str) {
    let trace = std::fs::read_to_string(s.path("trace")).unwrap();
    let calls: BTreeSet<String> = trace
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(' ')?;
            let (name, _) = rest.trim_start().split_once('(')?;
            let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            is_name.then(|| name.to_owned())
        })
        .collect();
    assert!(
        calls.contains("openat") && calls.contains("execve"),
        "{calls:?}"
    );
    let allowed = allowed(unit);
    let refused: Vec<_> = calls.difference(&allowed).collect();
    assert!(refused.is_empty(), "{unit} refuses {refused:?}");
}

#[test]
fn units_allow_the_calls_of_their_commands() {
    for (kind, list, change) in [
        ("names", "oak\t1\n", "add elm 2\n"),
        ("routes", "10.0.0.0/8 a\n", "add 10.1.0.0/16 b\n"),
        ("ranges", "1 5 one\n", "add 7 9 two\n"),
        ("lists", "a.example\nb.example\n", "get a.example\n"),
    ] {
        let s = Scratch::new();
        s.file("list", list);
        // The second process is a new owner.
        for _ in 0..2 {
            let Some(mut command) = traced(&s, &[]) else {
                return;
            };
            let args = [
                kind,
                "serve",
                "list",
                "--live",
                "map",
                "--watch",
                "--evict-after",
                "100",
            ];
            command.args(args).args(["--metrics", "127.0.0.1:0"]);
            let mut server = Server::of(command);
            let address = address_in(&server.complains("metrics at "));
            server.complains(", live");
            server.answers(change, &[]);
            wait_value(address, "sapwood_live_entries", &[], 2.0);
            server.answers("reload\nquit\n", &[]);
            assert_eq!(server.ends(), Some(0));
            allows_what_was_called(&s, &format!("sapwood-{kind}@.service"));
        }
    }
}

#[test]
fn systemd_accepts_the_units() {
    if is_missing("systemd-analyze") {
        return;
    }
    let s = Scratch::new();
    let security = Ran(Command::new("systemd-analyze")
        .args(["security", "--help"])
        .output()
        .unwrap());
    let has_threshold = String::from_utf8_lossy(&security.0.stdout).contains("--threshold");
    for path in files("packaging/systemd", ".service") {
        // The program need not be installed, and a template is checked as an instance.
        let unit = std::fs::read_to_string(&path).unwrap();
        let unit = unit.replace("/usr/bin/sapwood", crate::common::PROGRAM);
        let name = path.file_name().unwrap().to_str().unwrap();
        let unit = s.file(&name.replace('@', "@one"), unit);
        let verified = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&unit)
            .output();
        Ran(verified.unwrap()).code(0).out("").quiet();
        if !has_threshold {
            println!("skipped: this systemd-analyze judges no files");
            continue;
        }
        // A tenth of a point each: 2.5 at most.
        let judged = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold=25", "--no-pager"])
            .arg(&unit)
            .output();
        Ran(judged.unwrap()).code(0);
    }
}
