//! `sync follow`: follows a map into a live one.

use std::time::{Duration, Instant};

use sapwood::lpm::IpFib;
use sapwood::maple::MapleMap;
use sapwood::qp::QpStore;
use sapwood_live::{Live, LiveMap, Unpublished};
use sapwood_sync::{
    Follower, FollowerOptions, FollowerStatus, Kind, LiveFibTarget, LiveRangesTarget, NumberTarget,
    StoreTarget, Target,
};
use serde_json::json;
use tokio::runtime::Runtime;

use super::metrics::FollowerMetrics;
use super::place::{self, Place};
use crate::cli::ValueKind;
use crate::cli::sync::FollowArgs;
use crate::commands::PAUSE;
use crate::errors::{Answer, Error, Outcome, complain};
use crate::live::serve::{self, Signals};
use crate::output::Output;
use crate::service::Service;

/// The time between two attempts to learn what is in the map.
const AGAIN: Duration = Duration::from_millis(200);

/// A command that follows.
struct Following<'a> {
    args: &'a FollowArgs,
    runtime: Runtime,
    signals: Signals,
    place: Place,
    out: Output,
    service: Service,
    metrics: FollowerMetrics,
    /// A new live map, which readers find when it is what the leader has published.
    unpublished: Option<Unpublished>,
    /// When `--once` gives up.
    until: Option<Instant>,
}

/// Follows until a signal comes.
pub fn run(args: &FollowArgs) -> Outcome {
    let keep = args.keep();
    let live = keep.live.to_string_lossy();
    let labels = [("map", &*args.place.map), ("live", &*live)];
    let service = Service::begin(args.service.metrics.as_ref(), &labels)?;
    let metrics = FollowerMetrics::new(service.metrics())?;
    let signals = Signals::begin()?;
    let runtime = place::runtime()?;
    let place = match args.once {
        true => place::find(&runtime, &args.place)?,
        false => place::open(&runtime, &args.place)?,
    };
    let mut following = Following {
        args,
        runtime,
        signals,
        place,
        out: Output::lines(args.json),
        service,
        metrics,
        unpublished: None,
        until: args
            .once
            .then(|| Instant::now() + Duration::from_secs(args.timeout)),
    };
    let Some(kind) = following.kind()? else {
        return Ok(Answer::Yes);
    };
    #[cfg(feature = "bpf")]
    if !args.xdp.interfaces.is_empty() {
        return following.into_kernel(kind);
    }
    let (folder, keep) = (&*keep.live, &keep);
    match (kind, args.values) {
        (Kind::Names, ValueKind::Text) => {
            let (live, made) = serve::keep::<QpStore<[u8]>>(folder, keep)?;
            following.unpublished = made;
            following.into_map(kind, StoreTarget(live), |map, remove| {
                remove_if(remove, map.0)
            })
        }
        (Kind::Names, ValueKind::Numbers) => {
            let (live, made) = serve::keep::<QpStore<u64>>(folder, keep)?;
            following.unpublished = made;
            following.into_map(kind, NumberTarget::new(live), |map, remove| {
                remove_if(remove, map.into_store())
            })
        }
        (Kind::Routes, _) => {
            let (table, texts, made) = serve::keep_with_texts::<IpFib<u32>>(folder, keep)?;
            following.unpublished = made;
            let target = LiveFibTarget::new(table, texts);
            following.into_map(kind, target, |map, remove| match remove {
                true => Ok(map.remove_map()?),
                false => Ok(()),
            })
        }
        (Kind::Ranges, _) => {
            let (map, texts, made) = serve::keep_with_texts::<MapleMap<u32>>(folder, keep)?;
            following.unpublished = made;
            let target = LiveRangesTarget::new(map, texts);
            following.into_map(kind, target, |map, remove| match remove {
                true => Ok(map.remove_map()?),
                false => Ok(()),
            })
        }
    }
}

/// Deletes a live map, if that is wanted.
fn remove_if<M: LiveMap>(remove: bool, map: Live<M>) -> Result<(), Error> {
    match remove {
        true => Ok(map.remove_map()?),
        false => Ok(()),
    }
}

/// What the service manager is told.
fn status_text(status: &FollowerStatus) -> String {
    let mut text = match status.commit {
        Some(0) if status.trouble.is_none() => "waits for the first commit".to_owned(),
        Some(commit) => format!("{} entries, commit {commit}", status.entries),
        None => "compares the map with the leader's".to_owned(),
    };
    if status.lag() > 0 {
        text = format!("{text}, {} behind", status.lag());
    }
    if let Some(trouble) = &status.trouble {
        text = text + "; " + trouble;
    }
    text
}

impl Following<'_> {
    /// What is in the map; waits for its first leader. `None` if a signal came first.
    fn kind(&mut self) -> Result<Option<Kind>, Error> {
        let mut status = FollowerStatus::default();
        let live = self.args.live.clone();
        let has_map = live.is_some_and(|live| live.join("control").exists());
        while !self.signals.stop() {
            match &status.trouble {
                None => self.service.status("waits for the first leader"),
                Some(trouble) => self.service.status(trouble),
            }
            let metrics = &self.metrics;
            self.service.tick(|| metrics.update(&status));
            let mut now = FollowerStatus::default();
            match self.runtime.block_on(self.place.0.kind()) {
                Ok(Some(kind)) => return Ok(Some(kind)),
                Ok(None) if self.args.once => return Err(place::nothing(&self.args.place.map)),
                // Readers have what an earlier process was given by a log that is gone.
                Ok(None) if has_map => {
                    let map = &self.args.place.map;
                    now.trouble = Some(format!(
                        "{map}: the log is gone or empty: the live map stays as it was"
                    ));
                    now.lost = true;
                }
                Ok(None) => {}
                Err(error) if !error.may_pass() => return Err(error.into()),
                Err(error) => {
                    self.in_time(Some(&error.to_string()))?;
                    now.trouble = Some(error.to_string());
                }
            }
            self.tell(&status, &now)?;
            status = now;
            std::thread::sleep(AGAIN);
        }
        self.service.stopping(|| {});
        Ok(None)
    }

    /// Fails when `--once` has taken too long.
    fn in_time(&self, trouble: Option<&str>) -> Result<(), Error> {
        match self.until.is_some_and(|until| Instant::now() >= until) {
            false => Ok(()),
            true => Err(Error::Usage(format!(
                "{}: not up to date within {} seconds{}",
                self.args.place.map,
                self.args.timeout,
                trouble.map(|text| format!(": {text}")).unwrap_or_default()
            ))),
        }
    }

    /// Follows into the tables of a program in the kernel.
    #[cfg(feature = "bpf")]
    fn into_kernel(mut self, kind: Kind) -> Outcome {
        use super::{xdp::Filter, xdp_routes::Router};
        let args = &self.args.xdp;
        match kind {
            Kind::Names => {
                let (filter, store) = Filter::start(args)?;
                let target = NumberTarget::rules(store);
                self.into_map(kind, target, |target, remove| filter.end(target, remove))
            }
            Kind::Routes => {
                let (mut router, target) = Router::start(args, &self.service)?;
                let look = |following: &mut Self| match router.look()? {
                    Some((count, texts)) => {
                        let (count, texts) = (count.to_string(), texts.to_string());
                        let fields = [("count", &*count), ("texts", &*texts)];
                        following.event("unresolved", &fields, None)
                    }
                    None => Ok(()),
                };
                let (target, followed) = self.follow_into(kind, target, look)?;
                router.end()?;
                drop(target);
                followed.map(|()| Answer::Yes)
            }
            Kind::Ranges => Err(Error::Usage(
                "--xdp takes a map of names or of routes, not of ranges".into(),
            )),
        }
    }

    /// Follows into a map until a signal comes, or until it is up to date.
    fn into_map<T: Target>(
        mut self,
        kind: Kind,
        target: T,
        end: impl FnOnce(T, bool) -> Result<(), Error>,
    ) -> Outcome {
        let (target, followed) = self.follow_into(kind, target, |_| Ok(()))?;
        // Of a map that is not published, nothing stays.
        if self.unpublished.take().is_none() {
            end(target, self.args.remove)?;
        }
        followed.map(|()| Answer::Yes)
    }

    /// Follows until a signal comes, or until the target is up to date. Returns the target, and the
    /// error that ended it. `look` is called after each commit, and some times a second.
    fn follow_into<T: Target>(
        &mut self,
        kind: Kind,
        target: T,
        look: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(T, Result<(), Error>), Error> {
        let (log, snapshots) = self.place.clone();
        let goal = match self.args.once {
            true => Some(self.runtime.block_on(log.head())?.commit),
            false => None,
        };
        let mut options = FollowerOptions::new(place::name(self.args.name.as_ref()));
        options.adopt_empty = self.args.adopt_empty;
        let follower = {
            let _entered = self.runtime.enter();
            Follower::start(log, snapshots, kind, target, options)
        };
        let followed = self.until_end(&follower, goal, look);
        let target = self.runtime.block_on(follower.stop())?;
        Ok((target, followed))
    }

    /// Prints events until a signal comes, or the goal is reached.
    fn until_end<T: Target>(
        &mut self,
        follower: &Follower<T>,
        goal: Option<u64>,
        mut look: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut is_whole, mut is_ready) = (false, false);
        let mut told = FollowerStatus::default();
        let mut watch = follower.watch();
        while !self.signals.stop() {
            let now = follower.status();
            let reached = goal.is_some() && now.commit >= goal;
            // Readers find what the leader has published, before anybody is told of it.
            is_whole |= now.commit.is_some_and(|n| n > 0 || self.args.adopt_empty) || reached;
            if let Some(made) = self.unpublished.take_if(|_| is_whole) {
                made.publish()?;
            }
            self.tell(&told, &now)?;
            look(self)?;
            let metrics = &self.metrics;
            if is_whole && !is_ready {
                self.service
                    .ready(&status_text(&now), || metrics.update(&now))?;
                is_ready = true;
            } else {
                self.service.status(&status_text(&now));
                self.service.tick(|| metrics.update(&now));
            }
            if reached {
                break;
            }
            self.in_time(now.trouble.as_deref())?;
            told = now;
            let changed = self
                .runtime
                .block_on(async { tokio::time::timeout(PAUSE, watch.changed()).await });
            // Its task has ended.
            if let Ok(Err(_)) = changed {
                break;
            }
        }
        let metrics = &self.metrics;
        self.service.stopping(|| metrics.update(&follower.status()));
        Ok(())
    }

    /// Prints what is new in a status.
    fn tell(&mut self, old: &FollowerStatus, new: &FollowerStatus) -> Result<(), Error> {
        let commit = new.commit.unwrap_or(0).to_string();
        if new.restored != old.restored {
            self.event("restored", &[("commit", &commit)], Some(new))?;
        } else if new.commit != old.commit && !self.args.quiet {
            self.event("commit", &[("commit", &commit)], Some(new))?;
        }
        if new.replaced != old.replaced {
            self.event("replaced", &[("count", &new.replaced.to_string())], None)?;
        }
        if let Some(why) = new
            .unreported
            .as_ref()
            .filter(|_| new.unreported != old.unreported)
        {
            complain(&format!(
                "{}: the leader does not know this follower, whose reports cannot be written: {why}",
                self.args.place.map
            ));
        }
        if new.evicted != old.evicted {
            self.event("evicted", &[("count", &new.evicted.to_string())], None)?;
        }
        match &new.trouble {
            Some(trouble) if old.trouble.as_ref() != Some(trouble) => {
                self.event("trouble", &[("text", trouble)], None)
            }
            None if old.trouble.is_some() => self.event("follows", &[], None),
            _ => Ok(()),
        }
    }

    /// Prints an event with a number or a text, and what the map has after it.
    fn event(
        &mut self,
        event: &str,
        fields: &[(&str, &str)],
        after: Option<&FollowerStatus>,
    ) -> Result<(), Error> {
        if self.args.json {
            let mut document = json!({ "event": event });
            for (name, value) in fields {
                let number = value.parse::<u64>().ok().filter(|_| *name != "text");
                document[*name] = number.map_or_else(|| json!(value), |number| json!(number));
            }
            if let Some(status) = after {
                document["entries"] = json!(status.entries);
                document["term"] = json!(status.epoch);
                document["lag"] = json!(status.lag());
                document["digest"] = json!(status.digest.to_string());
            }
            self.out.document(&document)?;
        } else {
            let entries = after.map(|status| status.entries.to_string());
            let mut line = vec![event.as_bytes()];
            line.extend(fields.iter().map(|(_, value)| value.as_bytes()));
            line.extend(entries.iter().map(|entries| entries.as_bytes()));
            self.out.fields(&line)?;
        }
        self.out.flush()
    }
}
