//! `sapwood bpf names`: drops DNS queries by the names that they ask for.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;

use sapwood::key::dns_name;
use sapwood_bpf::BpfArena;
use sapwood_lists::names::{asked_name, listed_name};
use sapwood_xdp::{
    NameRule, NameRules, NamesCounts, PinnedNames, XdpMode, XdpNames, closest_rule, interface_index,
};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::follow::Followed;
use super::list::read;
use super::metrics::{NamesMetrics, NamesState};
use crate::cli::bpf::{ChangeArgs, FilterArgs, LoadArgs, PinArgs, RunArgs};
use crate::commands::{Lines, PAUSE, lines};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::keys::KeyForm;
use crate::output::Output;
use crate::queries::{self, Batch};
use crate::records::{Record, too_long};
use crate::service::Service;
use crate::span;

/// The name of the list's window.
pub(super) const WINDOW: &str = "blocked";

/// The bytes of the list.
pub(super) fn list_bytes(args: &FilterArgs) -> Result<usize, Error> {
    usize::try_from(args.bytes)
        .ok()
        .and_then(|bytes| bytes.checked_next_multiple_of(4096))
        .ok_or_else(|| Error::Usage(format!("--bytes {} is too large", args.bytes)))
}

/// The names and the numbers of the interfaces.
pub(super) fn interfaces(args: &FilterArgs) -> Result<Vec<(&str, u32)>, Error> {
    let all = args.interfaces.iter();
    all.map(|name| Ok((name.as_str(), interface_index(name)?)))
        .collect()
}

/// Attaches a filter to interfaces. `count` is its number of names, for messages.
pub(super) fn attach<L>(
    filter: &mut XdpNames<L>,
    interfaces: &[(&str, u32)],
    is_generic: bool,
    count: usize,
) -> Result<(), Error> {
    let mode = is_generic.then_some(XdpMode::Generic);
    for (name, index) in interfaces {
        let _attach = span!(INFO, "attach", interface = %name, names = count);
        let link = filter.attach(*index, mode)?;
        if let Some(why) = link.native_refused() {
            complain(&format!(
                "{name}: the driver takes no program ({why}); generic mode is slower"
            ));
        }
        complain(&format!("{name}: {count} names, {} mode", link.mode()));
    }
    Ok(())
}

/// Reads the list and attaches the filter to its interfaces.
fn start(args: &FilterArgs) -> Result<XdpNames, Error> {
    sapwood_bpf::check()?;
    let bytes = list_bytes(args)?;
    let interfaces = interfaces(args)?;
    let load = span!(INFO, "load", list = %args.list.display());
    let list = read(&args.list, args.strict)?;
    drop(load);
    let arena = BpfArena::create(bytes)?;
    let mut filter = XdpNames::load(&arena, WINDOW, list)?;
    let count = filter.rules().map().len();
    attach(&mut filter, &interfaces, args.generic, count)?;
    Ok(filter)
}

/// `load`: attaches a filter and pins it.
pub fn load(args: &LoadArgs) -> Outcome {
    let filter = start(&args.filter)?;
    filter.pin(&args.pin)?;
    filter.leave();
    Ok(Answer::Yes)
}

/// A change of the rule of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Blocks the name.
    Block,
    /// Makes the name an exception.
    Allow,
    /// Removes the rule of the name.
    Free,
}

impl Change {
    /// Makes the change; returns the word for its outcome.
    fn make(self, rules: &NameRules, name: &str) -> Result<&'static str, Error> {
        let name = &name_of(name.as_bytes(), Some(self)).map_err(Error::Usage)?;
        Ok(match self {
            Change::Block => rules.block(name).map(|_| "blocked")?,
            Change::Allow => rules.allow(name).map(|_| "allowed")?,
            Change::Free if rules.free(name)? => "freed",
            Change::Free => "absent",
        })
    }
}

/// The name of a rule that a change is about. Rules that are made have names as lists have them.
fn name_of(text: &[u8], change: Option<Change>) -> Result<String, String> {
    match change {
        Some(Change::Block | Change::Allow) => listed_name(text).map(|name| name.text.into_owned()),
        Some(Change::Free) | None => asked_name(text).map(|name| name.text.into_owned()),
    }
}

/// The names of the arguments, and of stdin for `-`; and the error if some were bad, which were
/// reported.
fn names(
    args: &ChangeArgs,
    change: Option<Change>,
    out: &mut Output,
) -> Result<(Vec<String>, Result<(), Error>), Error> {
    let batch = Batch {
        field: "name",
        null: false,
        strict: args.strict,
    };
    let mut all = Vec::new();
    let given = args.names.iter().map(OsStr::new);
    let read = queries::each(given, &batch, out, |_, record, place| {
        let text = match (record, place) {
            (Record::TooLong(bytes), _) => return Ok(Err(too_long(bytes))),
            (Record::Whole(text), None) => text,
            (Record::Whole(text), Some(_)) => match KeyForm::Dns.on_line(text) {
                Some(text) => text,
                None => return Ok(Ok(())),
            },
        };
        Ok(name_of(text, change).map(|name| all.push(name)))
    });
    match read {
        Ok(()) | Err(Error::Queries { .. }) => Ok((all, read)),
        Err(error) => Err(error),
    }
}

/// `block`, `allow` and `free`: change the rules of names in a pinned filter.
pub fn change(args: &ChangeArgs, change: Change) -> Outcome {
    sapwood_bpf::check()?;
    let mut out = Output::lines(args.json);
    let (names, all_read) = names(args, Some(change), &mut out)?;
    if names.is_empty() {
        // The list need not be copied.
        return all_read.map(|()| Answer::Yes);
    }
    let rules = PinnedNames::open(&args.pin)?.take_over(WINDOW)?;
    let changed: Result<Answer, Error> = names.iter().try_fold(Answer::Yes, |answer, name| {
        let done = change.make(&rules, name)?;
        print_change(&mut out, name, done)?;
        Ok(if done == "absent" { Answer::No } else { answer })
    });
    // Also after an error the filter keeps the list.
    rules.leave();
    out.flush()?;
    let changed = changed?;
    all_read.map(|()| changed)
}

/// `rule`: prints the rules that apply to names.
pub fn rule(args: &ChangeArgs) -> Outcome {
    sapwood_bpf::check()?;
    let mut out = Output::lines(args.json);
    let (names, all_read) = names(args, None, &mut out)?;
    let arena = PinnedNames::open(&args.pin)?.arena()?;
    let list = arena.reader::<u64>(WINDOW)?;
    for name in &names {
        let key = dns_name(name).map_err(|error| Error::Usage(error.to_string()))?;
        let mut failed = Ok(());
        let found = closest_rule(&key, |key| {
            // Keys of names above end where a label ends.
            let ends = (0..=key.len()).rev();
            let mut ends = ends.filter(|end| *end == 0 || key[end - 1] == 0);
            ends.find_map(|end| match list.get(&key[..end]) {
                Ok(value) => Some((key[..end].to_vec(), value?)),
                Err(error) => {
                    failed = Err(error);
                    None
                }
            })
        });
        failed?;
        print_rule(name, found, &mut out)?;
    }
    out.flush()?;
    all_read.map(|()| Answer::Yes)
}

/// `stats`: prints the counts of packets.
pub fn stats(args: &PinArgs) -> Outcome {
    sapwood_bpf::check()?;
    let counts = PinnedNames::open(&args.pin)?.counts()?;
    let mut out = Output::lines(args.json);
    show(&mut out, &counts)?;
    out.flush()?;
    Ok(Answer::Yes)
}

/// `unload`: detaches and unpins the filter.
pub fn unload(args: &PinArgs) -> Outcome {
    sapwood_bpf::check()?;
    let pins = PinnedNames::open(&args.pin)?;
    let counts = pins.counts()?;
    pins.unpin()?;
    let mut out = Output::lines(args.json);
    show(&mut out, &counts)?;
    out.flush()?;
    Ok(Answer::Yes)
}

/// Prints counts: name, tab, number in each line, or one document.
fn show(out: &mut Output, counts: &NamesCounts) -> Result<(), Error> {
    if out.json {
        let fields = counts
            .iter()
            .map(|(verdict, count)| (verdict.name().replace('-', "_"), Value::from(count)));
        let mut document: Map<String, Value> = fields.collect();
        document.insert("packets".into(), counts.total().into());
        return out.document(&document.into());
    }
    for (verdict, count) in counts.iter() {
        out.fields(&[verdict.name().as_bytes(), count.to_string().as_bytes()])?;
    }
    out.fields(&[b"packets", counts.total().to_string().as_bytes()])
}

/// `run`: filters packets while the command runs.
pub fn run(args: &RunArgs) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut service = Service::begin(args.service.metrics.as_ref(), &[])?;
    let metrics = NamesMetrics::new(service.metrics())?;
    let mut filter = match args.live.wait() {
        None => Filter::Own(Box::new(start(&args.filter)?)),
        Some(_) => Filter::Followed(Box::new(Followed::start(&args.filter, &args.live)?)),
    };
    let status = format!("{} names", filter.names());
    service.ready(&status, || metrics.update(&filter.state()))?;
    let out = Output::lines(args.json);
    // A list on stdin has been read to its end, which is not the end of commands.
    let is_free = args.filter.list != Path::new("-") && !args.no_commands;
    let commands = is_free.then(lines);
    let mut running = Running {
        filter: &mut filter,
        metrics,
        service,
        out,
    };
    let ended = running.until(commands.as_ref(), &stop);
    let Running {
        metrics,
        mut service,
        mut out,
        ..
    } = running;
    service.stopping(|| metrics.update(&filter.state()));
    let counts = filter.counts()?;
    drop(filter);
    ended?;
    show(&mut out, &counts)?;
    out.flush()?;
    Ok(Answer::Yes)
}

/// A filter that runs: with a list of its own, or with a live map that it follows.
enum Filter {
    Own(Box<XdpNames>),
    Followed(Box<Followed>),
}

impl Filter {
    /// The number of entries.
    fn names(&self) -> usize {
        match self {
            Filter::Own(filter) => filter.rules().map().len(),
            Filter::Followed(followed) => followed.store.len(),
        }
    }

    fn counts(&self) -> Result<NamesCounts, Error> {
        Ok(match self {
            Filter::Own(filter) => filter.counts()?,
            Filter::Followed(followed) => followed.filter.counts()?,
        })
    }

    fn state(&self) -> NamesState {
        match self {
            Filter::Own(filter) => NamesState::of_list(filter),
            Filter::Followed(followed) => NamesState::of_store(&followed.filter, &followed.store),
        }
    }

    fn rule_for(&self, name: &str) -> Result<Option<(String, NameRule)>, Error> {
        match self {
            Filter::Own(filter) => Ok(filter.rules().rule_for(name)?),
            Filter::Followed(followed) => followed.rule_for(name),
        }
    }

    /// Makes a change of a rule; returns the word for its outcome.
    fn change(&self, change: Change, name: &str) -> Result<&'static str, Error> {
        match self {
            Filter::Own(filter) => change.make(filter.rules(), name),
            Filter::Followed(_) => Err(Error::Usage(
                "rules come from the live map: change a list of \"lists serve\"".into(),
            )),
        }
    }

    /// What is to do at times.
    fn tick(&mut self) {
        if let Filter::Followed(followed) = self {
            followed.tick();
        }
    }
}

/// A filter that runs, and what shows what it does.
struct Running<'f> {
    filter: &'f mut Filter,
    metrics: NamesMetrics,
    service: Service,
    out: Output,
}

impl Running<'_> {
    /// Runs the commands of stdin until they end or a signal comes.
    fn until(&mut self, commands: Option<&Lines>, stop: &AtomicBool) -> Result<(), Error> {
        while !stop.load(Ordering::Relaxed) {
            self.filter.tick();
            self.service
                .tick(|| self.metrics.update(&self.filter.state()));
            let Some(commands) = commands else {
                std::thread::sleep(PAUSE);
                continue;
            };
            match commands.recv_timeout(PAUSE) {
                Ok(Ok(line)) => {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    let words: Vec<&str> = line.split_whitespace().collect();
                    if words == ["quit"] {
                        return Ok(());
                    }
                    self.command(&words)?;
                    self.out.flush()?;
                }
                Ok(Err(error)) => return Err(Error::read("-".as_ref())(error)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Runs a command. The error of a bad command is printed, and the program goes on.
    fn command(&mut self, words: &[&str]) -> Result<(), Error> {
        let done = match words {
            [] => return Ok(()),
            ["stats"] => return show(&mut self.out, &self.filter.counts()?),
            ["block", name] => (name, self.filter.change(Change::Block, name)),
            ["allow", name] => (name, self.filter.change(Change::Allow, name)),
            ["free", name] => (name, self.filter.change(Change::Free, name)),
            ["rule", name] => match name_of(name.as_bytes(), None) {
                Ok(asked) => match self.filter.rule_for(&asked) {
                    Ok(rule) => return print_rule(name, rule, &mut self.out),
                    Err(error) => (name, Err(error)),
                },
                Err(what) => (name, Err(Error::Usage(what))),
            },
            _ => {
                complain(&format!(
                    "\"{}\" is not a command; the commands are block NAME, allow NAME, free \
                     NAME, rule NAME, stats, quit",
                    words.join(" ").escape_debug()
                ));
                return Ok(());
            }
        };
        match done {
            // A failed change leaves the list as it was.
            (_, Err(error)) => complain(&error.to_string()),
            (name, Ok(done)) => {
                if done != "absent" {
                    self.metrics.changes.with_label_values(&[done]).inc();
                }
                print_change(&mut self.out, name, done)?;
            }
        }
        Ok(())
    }
}

/// Prints the outcome of a change, and the name.
fn print_change(out: &mut Output, name: &str, done: &str) -> Result<(), Error> {
    if out.json {
        return out.document(&json!({ "name": name, "done": done }));
    }
    out.fields(&[done.as_bytes(), name.as_bytes()])
}

/// Prints the rule that applies to a name, and the name that has it.
fn print_rule(name: &str, rule: Option<(String, NameRule)>, out: &mut Output) -> Result<(), Error> {
    let (by, word) = match &rule {
        Some((by, NameRule::Block)) => (by.as_str(), "block"),
        Some((by, NameRule::Allow)) => (by.as_str(), "allow"),
        Some((by, NameRule::Truncate)) => (by.as_str(), "truncate"),
        None => ("", "none"),
    };
    if out.json {
        let by = rule.as_ref().map(|(by, _)| by);
        return out.document(&json!({ "name": name, "rule": word, "by": by }));
    }
    out.fields(&[word.as_bytes(), name.as_bytes(), by.as_bytes()])
}
