//! Serves a live map until a signal comes: commands, readings of its list, metrics.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use sapwood_live::{Error as LiveError, Live, LiveBuilder, LiveTexts, Unpublished};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tracing::field::Empty;

use super::changes::{Asked, Change, Difference, Made};
use super::metrics::{self, Done, LiveMetrics, State};
use super::watch::Watch;
use crate::cli::live::KeepArgs;
use crate::commands::{Lines, PAUSE, lines};
use crate::errors::{Answer, Error, Outcome, complain, shown};
use crate::output::Output;
use crate::service::Service;
use crate::service::metrics::Metrics;
use crate::span;

/// About how many old nodes are freed between two commands.
pub const BUDGET: usize = 1 << 16;

/// The time between two attempts of a reload that failed.
const EVERY: Duration = Duration::from_secs(1);

/// A live map and the list that it is made from.
pub trait Served {
    /// The value of an entry.
    type Value;

    /// The list.
    fn list(&self) -> &Path;

    /// Parses the entry of `add`.
    fn parse_entry(&self, text: &[u8]) -> Result<(Vec<u8>, Self::Value), String>;

    /// Parses the key of `remove` and `get`.
    fn parse_key(&self, text: &[u8]) -> Result<Vec<u8>, String>;

    /// Makes changes as one; returns what came of each.
    fn make(&mut self, changes: &[Asked<Self::Value>]) -> Result<Vec<Made>, Error>;

    /// Reads the list, and makes the map what the list says, in one change.
    fn reload(&mut self) -> Result<Difference, Error>;

    /// The value of a key, for a line and for a document.
    fn get(&self, key: &[u8]) -> Option<(Vec<u8>, Value)>;

    /// The metrics of the map.
    fn state(&self) -> State;

    /// Frees what no reader can reach any more.
    fn reclaim(&mut self);

    /// Deletes the map.
    fn remove(self) -> Result<(), Error>;

    /// What has ended the map, if it cannot go on.
    fn ended(&self) -> Option<Error> {
        None
    }

    /// Sets the metrics that only this map has.
    fn show(&self) {}

    /// What the service manager is told of this map whenever it changes. Without it, the metrics
    /// of a live map are told when it is ready and after a reload.
    fn status(&self) -> Option<String> {
        None
    }
}

/// Sets what the options say of a map.
pub fn builder<M: sapwood_live::LiveMap>(args: &KeepArgs) -> Result<LiveBuilder<M>, Error> {
    let size = |bytes: u64| {
        usize::try_from(bytes).map_err(|_| Error::Usage(format!("{bytes} bytes are too many")))
    };
    let mut builder = Live::<M>::builder().bytes(size(args.limits.limit)?);
    if let Some(limit) = args.limits.garbage_limit {
        let domain = sapwood::qsbr::Domain::builder().hard_limit(size(limit)?);
        builder = builder.domain(domain);
    }
    if let Some(who) = args.limits.read_by {
        builder = builder.read_by(who);
    }
    if let Some(age) = args.limits.evict_after {
        builder = builder.evict_after(Duration::from_millis(age));
    }
    Ok(builder)
}

/// The attempts to make a map, or to take over the one that is there, while other processes do so.
const TRIES: usize = 20;

/// Makes a map, or takes over the one that is there. One that is made is not published yet.
pub fn keep<M: sapwood_live::LiveMap>(
    folder: &Path,
    args: &KeepArgs,
) -> Result<(Live<M>, Option<Unpublished>), Error> {
    let span = span!(
        INFO,
        "inherit",
        folder = %folder.display(),
        new = Empty,
        generation = Empty
    );
    let mut tries = TRIES;
    loop {
        match builder::<M>(args)?.create_unpublished(folder) {
            Ok((live, unpublished)) => {
                span.record("new", true);
                return Ok((live, Some(unpublished)));
            }
            Err(LiveError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        tries -= 1;
        match builder::<M>(args)?.open(folder) {
            Ok(live) => {
                span.record("new", false);
                span.record("generation", live.generation());
                return Ok((live, None));
            }
            // Its writer has removed it meanwhile.
            Err(LiveError::NotYet { .. }) if tries > 0 => {}
            Err(
                error @ (LiveError::Damaged { .. }
                | LiveError::NoMap { .. }
                | LiveError::Kind { .. }
                | LiveError::Layout { .. }),
            ) => {
                return Err(Error::Usage(format!(
                    "{error}; remove the directory to begin with a new map"
                )));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// As [`keep`], but readers find the map at once.
pub fn keep_published<M: sapwood_live::LiveMap>(
    folder: &Path,
    args: &KeepArgs,
) -> Result<Live<M>, Error> {
    let (live, made) = keep(folder, args)?;
    made.map_or(Ok(()), Unpublished::publish)?;
    Ok(live)
}

/// As [`keep`], with the texts of a map whose values are numbers.
pub fn keep_with_texts<M: sapwood_live::LiveMap>(
    folder: &Path,
    args: &KeepArgs,
) -> Result<(Live<M>, LiveTexts, Option<Unpublished>), Error> {
    let (live, mut unpublished) = keep(folder, args)?;
    let texts = match &mut unpublished {
        Some(unpublished) => unpublished.texts(builder(args)?)?,
        None => LiveTexts::new(keep_published(&LiveTexts::folder(folder), args)?)?,
    };
    Ok((live, texts, unpublished))
}

/// Begins a command, before it reads its lists: checks that the options fit them, and that the
/// metrics can be shown; begins to watch the lists.
pub fn begin(lists: &[&Path], args: &KeepArgs) -> Result<Begun, Error> {
    if args.watch && lists.contains(&Path::new("-")) {
        let what = "--watch needs a file: standard input cannot be read again";
        return Err(Error::Usage(what.into()));
    }
    let map = args.live.to_string_lossy();
    let service = Service::begin(args.service.metrics.as_ref(), &[("map", &map)])?;
    Ok(Begun {
        metrics: LiveMetrics::new(service.metrics(), args)?,
        service,
        watch: args.watch.then(|| Watch::begin(lists)),
    })
}

/// A command that has begun.
pub struct Begun {
    service: Service,
    metrics: LiveMetrics,
    watch: Option<Watch>,
}

impl Begun {
    /// The metrics, for more of them.
    pub fn metrics(&self) -> &Metrics {
        self.service.metrics()
    }

    /// The command as its surroundings see it, until it serves.
    pub fn service(&mut self) -> &mut Service {
        &mut self.service
    }
}

/// Prints the summary of a map that was made or taken over.
pub fn report(folder: &Path, summary: &str, is_new: bool, difference: Difference, quiet: bool) {
    if quiet {
        return;
    }
    let place = folder.display();
    if !summary.is_empty() {
        complain(&format!("{place}: {summary}"));
    }
    if !is_new {
        complain(&format!(
            "{place}: taken over from a process that has ended; {difference}"
        ));
    }
}

/// What the service manager shows of a map.
fn status<S: Served>(map: &S) -> String {
    map.status().unwrap_or_else(|| {
        let state = map.state();
        format!("{} entries, {} readers", state.entries, state.readers.len())
    })
}

/// A command that serves a map.
struct Server<'a, S: Served> {
    map: S,
    args: &'a KeepArgs,
    done: Done,
    service: Service,
    metrics: LiveMetrics,
    watch: Option<Watch>,
    /// The changes since `begin`.
    gathered: Option<Vec<Asked<S::Value>>>,
    /// When a reading of the list that failed is tried again.
    again_at: Option<Instant>,
    /// The last fault of a reading.
    fault: Option<String>,
    out: Output,
}

/// The signals that came.
pub struct Signals {
    stop: Arc<AtomicBool>,
    hang_up: Arc<AtomicBool>,
}

impl Signals {
    /// Notes signals from now on, instead of ending the program.
    pub fn begin() -> Result<Self, Error> {
        let signals = Signals {
            stop: Arc::default(),
            hang_up: Arc::default(),
        };
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&signals.stop))?;
        }
        signal_hook::flag::register(SIGHUP, Arc::clone(&signals.hang_up))?;
        Ok(signals)
    }

    /// What is set to make the lists be read again.
    pub fn hang_up(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.hang_up)
    }

    /// Whether a signal has come that ends the program.
    pub fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Serves a map until a signal or `quit`. `begun` was made before the list was read, and `first` is
/// what that changed.
pub fn serve<S: Served>(
    map: S,
    args: &KeepArgs,
    out: Output,
    (signals, begun): (Signals, Begun),
    first: Difference,
) -> Outcome {
    let Begun {
        service,
        metrics,
        watch,
    } = begun;
    let mut server = Server {
        map,
        args,
        done: Done {
            commits: u64::from(!first.is_empty()),
            changes: first,
            reloads: 1,
            ..Done::default()
        },
        service,
        metrics,
        watch,
        gathered: None,
        again_at: None,
        fault: None,
        out,
    };
    server.metrics.is_as_listed();
    let served = server.ready().and_then(|()| server.until(&signals));
    server.stopping();
    if args.remove {
        server.map.remove()?;
    }
    served?;
    Ok(Answer::Yes)
}

impl<S: Served> Server<'_, S> {
    /// Runs until a signal comes.
    fn until(&mut self, signals: &Signals) -> Result<(), Error> {
        let is_free = self.map.list() != Path::new("-") && !self.args.no_commands;
        let mut commands: Option<Lines> = is_free.then(lines);
        while !signals.stop.load(Ordering::Relaxed) {
            let line = match &commands {
                Some(commands) => commands.recv_timeout(PAUSE),
                None => {
                    std::thread::sleep(PAUSE);
                    Err(RecvTimeoutError::Timeout)
                }
            };
            match line {
                Ok(Ok(line)) => {
                    if line.trim_ascii() == b"quit" {
                        return Ok(());
                    }
                    self.command(&line)?;
                    self.out.flush()?;
                }
                Ok(Err(error)) => return Err(Error::read("-".as_ref())(error)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => commands = None,
            }
            self.tick(&signals.hang_up);
            if let Some(error) = self.map.ended() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// What is due between two commands.
    fn tick(&mut self, hang_up: &AtomicBool) {
        let hung_up = hang_up.swap(false, Ordering::Relaxed);
        if hung_up && self.map.list() == Path::new("-") {
            complain("standard input cannot be read again");
        } else {
            let changed = self.watch.as_mut().is_some_and(Watch::has_changed);
            let again = self.again_at.is_some_and(|at| Instant::now() >= at);
            if hung_up || changed || again {
                self.reload_or_complain();
            }
        }
        self.map.reclaim();
        let Server {
            service,
            metrics,
            map,
            done,
            ..
        } = self;
        if let Some(status) = map.status() {
            service.status(&status);
        }
        service.tick(|| {
            metrics.update(&map.state(), *done);
            map.show();
        });
    }

    /// Shows the metrics for the first time: readers find the map.
    fn ready(&mut self) -> Result<(), Error> {
        let state = self.map.state();
        let status = status(&self.map);
        self.map.show();
        self.service
            .ready(&status, || self.metrics.update(&state, self.done))
    }

    /// Shows the last metrics.
    fn stopping(&mut self) {
        let state = self.map.state();
        self.map.show();
        self.service
            .stopping(|| self.metrics.update(&state, self.done));
    }

    /// Reads the list again.
    fn reload(&mut self) -> Result<Difference, Error> {
        if let Some(watch) = &mut self.watch {
            watch.will_read();
        }
        self.again_at = None;
        self.done.reloads += 1;
        self.service.reloading();
        let _reload = span!(INFO, "reload", list = %shown(self.map.list()));
        let timer = self.metrics.reload_time.start_timer();
        let reloaded = self.map.reload();
        timer.observe_duration();
        match reloaded {
            Ok(difference) => {
                self.done.commits += u64::from(!difference.is_empty());
                self.done.changes.add(difference);
                self.metrics.is_as_listed();
                self.fault = None;
                self.service.reloaded(&status(&self.map));
                Ok(difference)
            }
            Err(error) => {
                self.done.reload_errors += 1;
                self.service
                    .reloaded(&format!("{error}; the map stays as it was"));
                // There may be room later, when readers have moved on.
                let later = matches!(error, Error::Map(_) | Error::Live(_));
                self.again_at = later.then(|| Instant::now() + EVERY);
                Err(error)
            }
        }
    }

    fn reload_or_complain(&mut self) {
        match self.reload() {
            Ok(difference) => complain(&format!("{}: {difference}", shown(self.map.list()))),
            Err(error) => {
                let what = format!("{error}; the map stays as it was");
                if self.fault.as_ref() != Some(&what) {
                    complain(&what);
                    self.fault = Some(what);
                }
            }
        }
    }

    /// Runs a command. The error of a bad command is printed, and the program goes on.
    fn command(&mut self, line: &[u8]) -> Result<(), Error> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let end = line.iter().position(|byte| *byte == b' ');
        let (word, rest) = match end {
            Some(end) => (&line[..end], &line[end + 1..]),
            None => (line, &b""[..]),
        };
        match (word, rest) {
            (b"", _) => Ok(()),
            (b"add", rest) if end.is_some() => match self.map.parse_entry(rest) {
                Ok((key, value)) => self.asked(Asked {
                    key,
                    change: Change::Add(value),
                }),
                Err(what) => self.refuse(&what),
            },
            (b"remove", rest) if end.is_some() => match self.map.parse_key(rest) {
                Ok(key) => self.asked(Asked {
                    key,
                    change: Change::Remove,
                }),
                Err(what) => self.refuse(&what),
            },
            (b"get", rest) if end.is_some() => match self.map.parse_key(rest) {
                Ok(key) => self.get(&key),
                Err(what) => self.refuse(&what),
            },
            (b"begin", b"") => match self.gathered {
                Some(_) => self.refuse("changes are gathered already; commit or rollback first"),
                None => {
                    self.gathered = Some(Vec::new());
                    self.count("begun", 0)
                }
            },
            (b"commit", b"") => match self.gathered.take() {
                Some(changes) => match self.make(&changes) {
                    Ok(made) => {
                        let changes = made.iter().filter(|made| **made != Made::Absent);
                        self.count("committed", changes.count())
                    }
                    // They can be tried again.
                    Err(error) => {
                        self.gathered = Some(changes);
                        self.refuse(&error.to_string())
                    }
                },
                None => self.refuse("there is nothing to commit; begin gathers changes"),
            },
            (b"rollback", b"") => match self.gathered.take() {
                Some(changes) => self.count("rolled-back", changes.len()),
                None => self.refuse("there is nothing to roll back; begin gathers changes"),
            },
            (b"reload", b"") if self.map.list() == Path::new("-") => {
                self.refuse("standard input cannot be read again")
            }
            (b"reload", b"") => match self.reload() {
                Ok(difference) => self.reloaded(difference),
                Err(error) => self.refuse(&format!("{error}; the map stays as it was")),
            },
            (b"stats", b"") => self.stats(),
            _ => self.refuse(&format!(
                "\"{}\" is not a command; the commands are add ENTRY, remove KEY, get KEY, begin, \
                 commit, rollback, reload, stats, quit",
                line[..line.len().min(60)].escape_ascii()
            )),
        }
    }

    /// Reports a command that failed.
    fn refuse(&self, what: &str) -> Result<(), Error> {
        complain(what);
        Ok(())
    }

    fn make(&mut self, changes: &[Asked<S::Value>]) -> Result<Vec<Made>, Error> {
        let _change = span!(DEBUG, "change", asked = changes.len());
        let timer = self.metrics.commit_time.start_timer();
        let made = self.map.make(changes);
        timer.observe_duration();
        self.done.refused += u64::from(made.is_err());
        let made = made?;
        let count = |what| made.iter().filter(|made| **made == what).count() as u64;
        let difference = Difference {
            added: count(Made::Added),
            removed: count(Made::Removed),
            changed: count(Made::Replaced),
        };
        self.done.commits += u64::from(!difference.is_empty());
        self.done.changes.add(difference);
        Ok(made)
    }

    /// Makes or gathers a change.
    fn asked(&mut self, asked: Asked<S::Value>) -> Result<(), Error> {
        if let Some(gathered) = &mut self.gathered {
            let printed = print(&mut self.out, "gathered", &asked.key, None);
            gathered.push(asked);
            return printed;
        }
        match self.make(std::slice::from_ref(&asked)) {
            Ok(made) => {
                let word = made.first().map_or("absent", |made| made.word());
                print(&mut self.out, word, &asked.key, None)
            }
            Err(error) => self.refuse(&error.to_string()),
        }
    }

    fn get(&mut self, key: &[u8]) -> Result<(), Error> {
        match self.map.get(key) {
            None => print(&mut self.out, "absent", key, None),
            found => print(&mut self.out, "found", key, found),
        }
    }

    fn count(&mut self, word: &str, changes: usize) -> Result<(), Error> {
        match self.out.json {
            true => self
                .out
                .document(&json!({ "done": word, "changes": changes })),
            false => self
                .out
                .fields(&[word.as_bytes(), changes.to_string().as_bytes()]),
        }
    }

    fn reloaded(&mut self, difference: Difference) -> Result<(), Error> {
        let Difference {
            added,
            removed,
            changed,
        } = difference;
        if self.out.json {
            return self.out.document(&json!({
                "done": "reloaded", "added": added, "removed": removed, "changed": changed
            }));
        }
        let counts = [added, removed, changed].map(|count| count.to_string());
        let [added, removed, changed] = counts.each_ref().map(|count| count.as_bytes());
        self.out.fields(&[b"reloaded", added, removed, changed])
    }

    fn stats(&mut self) -> Result<(), Error> {
        let figures = metrics::figures(&self.map.state(), self.done);
        if self.out.json {
            let figures = figures.iter();
            let figures = figures.map(|(name, value)| (name.to_string(), json!(value)));
            return self
                .out
                .document(&Value::Object(figures.collect::<Map<_, _>>()));
        }
        for (name, value) in figures {
            self.out
                .fields(&[name.as_bytes(), value.to_string().as_bytes()])?;
        }
        Ok(())
    }
}

/// Prints a word about a key, and its value if it is asked for.
fn print(
    out: &mut Output,
    word: &str,
    key: &[u8],
    value: Option<(Vec<u8>, Value)>,
) -> Result<(), Error> {
    if out.json {
        let mut document = json!({ "done": word, "key": out.key_json(key)? });
        if let Some((_, value)) = value {
            document["value"] = value;
        }
        return out.document(&document);
    }
    let key = out.form.show(key).map_err(Error::Usage)?;
    let mut fields = vec![word.as_bytes(), &key];
    fields.extend(value.as_ref().map(|(text, _)| &**text));
    out.fields(&fields)
}
