//! `sync publish`: leads a map, and publishes a list.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sapwood::qp::Key;
use sapwood_sync::{Changes, Error as SyncError, Publisher, PublisherOptions};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use tokio::runtime::Runtime;

use super::draft::Draft;
use super::lists::{Entry, Listed};
use super::metrics::PublisherMetrics;
use super::place;
use crate::cli::sync::{PublishArgs, Slowest};
use crate::diff::differences;
use crate::errors::{Error, Outcome, complain, shown};
use crate::keys::KeyForm;
use crate::live::changes::{Asked, Change, Difference, Made};
use crate::live::metrics::State;
use crate::live::serve::{self, Served, Signals};
use crate::output::Output;
use crate::service::Service;
use crate::service::notify::Notify;

/// The time between two looks at what has come while the command waits.
const TURN: Duration = Duration::from_millis(50);
/// The time between two looks at who leads.
const LOOK: Duration = Duration::from_secs(2);

/// A map that this process leads.
struct Published<'a, L> {
    list: L,
    publisher: Publisher,
    runtime: &'a Runtime,
    map: &'a str,
    /// Whether somebody has asked for a snapshot.
    save: Arc<AtomicBool>,
    /// Whether a signal has come that ends the program.
    stop: Arc<AtomicBool>,
    /// Tells the service manager that the loop turns while it waits for the log.
    notify: RefCell<Notify>,
    metrics: PublisherMetrics,
    /// The most commits that a follower may be behind.
    max_lag: u64,
    /// The trouble, and the number of evictions, that were told.
    told: RefCell<(Option<String>, u64)>,
}

/// Leads and publishes.
pub fn run<L: Listed>(list: L, args: &PublishArgs, form: KeyForm, quiet: bool) -> Outcome {
    let keep = args.keep();
    let mut begun = serve::begin(&[list.path()], &keep)?;
    let metrics = PublisherMetrics::new(begun.metrics())?;
    let mut entries = list.read()?;
    let signals = Signals::begin()?;
    let save = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&save))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let runtime = place::runtime()?;
    let Some((publisher, has_waited)) = lead::<L>(&runtime, args, &signals, begun.service())?
    else {
        // A signal came while another process led.
        return Ok(crate::errors::Answer::Yes);
    };
    let map = &*args.place.map;
    let published = Published {
        list,
        publisher,
        runtime: &runtime,
        map,
        save,
        stop,
        notify: RefCell::new(Notify::begin()),
        metrics,
        max_lag: args.max_lag,
        told: RefCell::default(),
    };
    if has_waited && published.list.path() != Path::new("-") {
        entries = published.list.read()?;
    }
    if let Some(why) = published.publisher.status().anew {
        complain(&format!(
            "{map}: {why}; a new history of the map begins, with all of the list"
        ));
    }
    let difference = published.adopt(&entries)?;
    if published.publisher.status().commit == 0 {
        // An empty list is a version of the map, and an empty log is none.
        published.store(Changes::new())?;
    }
    let status = published.publisher.status();
    if !quiet {
        complain(&format!(
            "{map}: {} {}, commit {} in term {}; {difference}",
            status.entries,
            L::KIND,
            status.commit,
            status.epoch
        ));
    }
    if entries.is_empty() {
        let (list, kind) = (shown(published.list.path()), L::KIND);
        complain(&format!(
            "{list}: warning: no {kind}, {map} is an empty map"
        ));
    }
    drop(entries);
    let mut out = Output::lines(args.json);
    out.form = form;
    serve::serve(published, &keep, out, (signals, begun), difference)
}

/// Becomes the leader; tells whether that took another one's end. `None` if a signal came first.
///
/// A process that waits is ready: it does what it was started for, and whoever starts it is not
/// held up until another one ends. Its status tells that it does not lead.
fn lead<L: Listed>(
    runtime: &Runtime,
    args: &PublishArgs,
    signals: &Signals,
    service: &mut Service,
) -> Result<Option<(Publisher, bool)>, Error> {
    let (log, snapshots) = place::open(runtime, &args.place)?;
    let mut options = PublisherOptions::new(place::name(args.name.as_ref()));
    options.wait = false;
    // The list is the whole map.
    options.anew = true;
    options.max_lag = args.max_lag;
    options.slowest = match args.slowest {
        Slowest::Wait => sapwood_sync::Slowest::Wait,
        Slowest::Evict => sapwood_sync::Slowest::Evict,
    };
    options.snapshot_commits = args.snapshot_every;
    let told = RefCell::new(String::new());
    runtime.block_on(async {
        let first = Publisher::lead(log.clone(), snapshots.clone(), L::KIND, options.clone());
        match first.await {
            Ok(publisher) => return Ok(Some((publisher, false))),
            Err(SyncError::Led { leader, .. }) if args.wait => {
                complain(&format!("{}: {leader} leads; waiting", args.place.map));
                told.replace(format!("waits while {leader} leads"));
                service.ready(&told.borrow(), || {})?;
            }
            Err(error) => return Err(error.into()),
        }
        options.wait = true;
        let stop = async {
            while !signals.stop() {
                service.status(&told.borrow());
                service.tick(|| {});
                tokio::time::sleep(TURN).await;
            }
            service.stopping(|| {});
        };
        let name = options.name.clone();
        let look = async {
            loop {
                tokio::time::sleep(LOOK).await;
                match log.leader().await {
                    Ok(Some(leader)) if leader == name => told.replace("begins to lead".into()),
                    Ok(Some(leader)) => told.replace(format!("waits while {leader} leads")),
                    Ok(None) => continue,
                    Err(error) => told.replace(format!("waits; {error}")),
                };
            }
        };
        tokio::select! {
            publisher = Publisher::lead(log.clone(), snapshots, L::KIND, options) => {
                Ok(Some((publisher?, true)))
            }
            () = stop => Ok(None),
            () = look => unreachable!("it looks again and again"),
        }
    })
}

impl<L: Listed> Published<'_, L> {
    fn draft(&self) -> Draft {
        Draft::new(self.publisher.entries())
    }

    fn commit(&self, changes: Changes) -> Result<(), Error> {
        match changes.is_empty() {
            true => Ok(()),
            false => self.store(changes),
        }
    }

    /// Waits until the log has a commit.
    fn store(&self, changes: Changes) -> Result<(), Error> {
        // The leader may wait for its slowest follower; a signal ends the wait. Nothing else is due
        // meanwhile, so the loop turns here.
        let stop = async {
            while !self.stop.load(Ordering::Relaxed) {
                tokio::time::sleep(TURN).await;
                self.tell_trouble();
                let mut notify = self.notify.borrow_mut();
                notify.alive();
                notify.status(&self.status_text());
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                done = self.publisher.commit(changes) => Ok(done.map(drop)?),
                () = stop => Err(Error::Usage(format!(
                    "{}: a signal came before the log had the commit",
                    self.map
                ))),
            }
        })
    }

    /// Makes the map what the entries of a list say, in one commit.
    fn adopt(&self, entries: &[Entry]) -> Result<Difference, Error> {
        let (old, mut changes) = (self.publisher.entries(), Changes::new());
        let new = entries
            .iter()
            .map(|(key, value)| (Key::from(key), &value[..]));
        let difference = differences(old.iter(), new, Ord::cmp, |change| match change.new {
            Some(value) => changes.put(&change.key, value),
            None => changes.remove(change.key),
        })?;
        self.commit(changes)?;
        Ok(difference)
    }

    /// Tells a new trouble, and new evictions, on stderr.
    fn tell_trouble(&self) {
        let status = self.publisher.status();
        let (map, most) = (self.map, self.max_lag);
        let (trouble, evicted) = self.told.replace((status.trouble.clone(), status.evicted));
        if let Some(new) = status.trouble.filter(|new| trouble.as_ref() != Some(new)) {
            complain(&format!("{map}: {new}"));
        }
        match status.evicted.saturating_sub(evicted) {
            0 => {}
            1 => complain(&format!(
                "{map}: evicted a follower that was over {most} commits behind"
            )),
            count => complain(&format!(
                "{map}: evicted {count} followers that were over {most} commits behind"
            )),
        }
    }

    /// What the service manager is told.
    fn status_text(&self) -> String {
        let status = self.publisher.status();
        let mut text = format!(
            "leads in term {}: {} {}, commit {}, {} followers",
            status.epoch,
            status.entries,
            L::KIND,
            status.commit,
            status.followers
        );
        if let Some(trouble) = &status.trouble {
            text = text + "; " + trouble;
        }
        text
    }

    /// Saves a snapshot, and tells what came of it.
    fn save(&self) {
        match self.runtime.block_on(self.publisher.snapshot()) {
            Ok(manifest) => complain(&format!(
                "{}: a snapshot of commit {} is saved",
                self.map, manifest.commit
            )),
            Err(error) => complain(&format!("{}: no snapshot is saved: {error}", self.map)),
        }
    }
}

impl<L: Listed> Served for Published<'_, L> {
    type Value = Entry;

    fn list(&self) -> &Path {
        self.list.path()
    }

    fn parse_entry(&self, text: &[u8]) -> Result<(Vec<u8>, Entry), String> {
        self.list.parse_entry(text)
    }

    fn parse_key(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        self.list.parse_key(text)
    }

    fn make(&mut self, changes: &[Asked<Entry>]) -> Result<Vec<Made>, Error> {
        let mut draft = self.draft();
        let mut made = Vec::new();
        for Asked { key, change } in changes {
            made.push(match change {
                Change::Add(entry) => self.list.put(&mut draft, entry).map_err(Error::Usage)?,
                Change::Remove => match self.list.find(&draft, key) {
                    Some((key, _)) => Made::new(false, draft.remove(&key)),
                    None => Made::new(false, false),
                },
            });
        }
        self.commit(draft.changes()?)?;
        Ok(made)
    }

    fn reload(&mut self) -> Result<Difference, Error> {
        let entries = self.list.read()?;
        self.adopt(&entries)
    }

    fn get(&self, key: &[u8]) -> Option<(Vec<u8>, Value)> {
        let entry = self.list.find(&self.draft(), key)?;
        self.list.show(&entry)
    }

    fn state(&self) -> State {
        let status = self.publisher.status();
        State {
            entries: usize::try_from(status.entries).unwrap_or(usize::MAX),
            bytes: self.publisher.memory().map.total(),
            garbage: self.publisher.memory().waiting.1,
            generation: status.epoch,
            ..State::default()
        }
    }

    /// The publisher reclaims by itself; this is what else is due now and then.
    fn reclaim(&mut self) {
        if self.save.swap(false, Ordering::Relaxed) {
            self.save();
        }
        self.tell_trouble();
    }

    /// Ends the term, so that the next leader need not wait. The log keeps the map.
    fn remove(self) -> Result<(), Error> {
        let has_ended = self.publisher.has_ended();
        let closed = self.runtime.block_on(self.publisher.close());
        match has_ended {
            // It was told why.
            true => Ok(()),
            false => Ok(closed?),
        }
    }

    fn show(&self) {
        self.metrics.update(&self.publisher.status());
    }

    fn status(&self) -> Option<String> {
        Some(self.status_text())
    }

    fn ended(&self) -> Option<Error> {
        let what = self.publisher.status().trouble;
        let map = self.map.to_owned();
        let ended = self.publisher.has_ended();
        ended.then_some(Error::Sync(SyncError::Deposed { map, what }))
    }
}
