//! Zones that come from their primaries.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sapwood_lists::Source;
use sapwood_lists::transfer::{
    Followed, Limits, Notify, Secondary, TransferError, Zone, ZoneState, follow, refresh_all,
};
use tempfile::TempDir;

use crate::cli::lists::{RulesArgs, ServeListsArgs};
use crate::errors::{Error, complain};
use crate::span;

/// The zones of a command, with the folder of their copies.
pub struct Zones {
    all: Vec<Secondary>,
    folder: Option<TempDir>,
}

fn fault(zone: &Zone, error: &TransferError) -> String {
    format!("{zone}: {error}")
}

impl Zones {
    /// The zones that the options name, with the copies that are there.
    pub fn begin(args: &RulesArgs) -> Result<Self, Error> {
        let mut zones = Zones {
            all: Vec::new(),
            folder: None,
        };
        if args.zone.is_empty() {
            return Ok(zones);
        }
        let folder = match &args.zone_dir {
            Some(folder) => {
                fs::create_dir_all(folder).map_err(Error::write(folder))?;
                folder.clone()
            }
            None => {
                let folder = TempDir::new().map_err(Error::write(&std::env::temp_dir()))?;
                zones.folder.insert(folder).path().into()
            }
        };
        for zone in &args.zone {
            if zones.all.iter().any(|other| other.zone().is_same(zone)) {
                return Err(Error::Usage(format!("{zone}: this zone is given twice")));
            }
            zones.all.push(secondary(zone, &folder)?);
        }
        Ok(zones)
    }

    /// The lists of the zones.
    pub fn sources(&self) -> impl Iterator<Item = Source> {
        self.all.iter().map(Secondary::source)
    }

    /// Asks all primaries.
    pub fn refresh_all(&mut self) -> Result<(), Error> {
        transfer(&mut self.all)
    }

    /// Asks the primaries of the zones that have no copy. The others begin with their copies, and
    /// [`follow`](Self::follow) asks their primaries at once: a slow one holds up nothing.
    pub fn refresh_missing(&mut self) -> Result<(), Error> {
        for zone in &self.all {
            if let Some(serial) = zone.state().serial {
                complain(&format!(
                    "{}: the copy has the serial {serial}",
                    zone.zone()
                ));
            }
        }
        let missing = self.all.iter_mut();
        transfer(missing.filter(|zone| zone.state().serial.is_none()))
    }

    /// Follows the primaries from now on. `is_new` is set when lists are to be read again.
    pub fn follow(
        self,
        args: &ServeListsArgs,
        is_new: [Arc<AtomicBool>; 2],
    ) -> Result<FollowedZones, Error> {
        let mut all = Vec::new();
        for zone in self.all {
            let name = zone.zone().to_string();
            let mut before = zone.state();
            let flags = is_new.clone();
            let tell = move |is_new: bool, state: &ZoneState| {
                for line in told(&before, state) {
                    complain(&format!("{name}: {line}"));
                }
                before = state.clone();
                if is_new {
                    flags
                        .iter()
                        .for_each(|flag| flag.store(true, Ordering::Release));
                }
            };
            all.push(follow(zone, args.expire, tell)?);
        }
        let notify = args.notify.map(|address| {
            Notify::listen(address, &all).map_err(|error| {
                let what = format!("cannot listen for NOTIFY at {address}: {error}");
                Error::Usage(what)
            })
        });
        let notify = notify.transpose()?;
        if let Some(notify) = &notify {
            complain(&format!("listening for NOTIFY at {}", notify.address()));
        }
        Ok(FollowedZones {
            all,
            _notify: notify,
            _folder: self.folder,
        })
    }
}

fn secondary(zone: &Zone, folder: &Path) -> Result<Secondary, Error> {
    let made = Secondary::new(zone.clone(), folder, Limits::default());
    made.map_err(|error| Error::Usage(fault(zone, &error)))
}

/// Asks primaries, all at the same time.
fn transfer<'z>(zones: impl IntoIterator<Item = &'z mut Secondary>) -> Result<(), Error> {
    let zones: Vec<_> = zones.into_iter().collect();
    if zones.is_empty() {
        return Ok(());
    }
    let _transfer = span!(INFO, "transfer", zones = zones.len());
    let names: Vec<Zone> = zones.iter().map(|zone| zone.zone().clone()).collect();
    for (done, zone) in refresh_all(zones).into_iter().zip(names) {
        done.map_err(|error| Error::Usage(fault(&zone, &error)))?;
    }
    Ok(())
}

/// What is told of a zone whose state has changed.
fn told(before: &ZoneState, now: &ZoneState) -> Vec<String> {
    let mut all = Vec::new();
    if now.serial != before.serial
        && let Some(serial) = now.serial
    {
        all.push(format!("the serial {serial} has come"));
    }
    match &now.trouble {
        Some(trouble) if now.trouble != before.trouble => {
            all.push(format!("{trouble}; the zone stays as it was"));
        }
        None if before.trouble.is_some() => all.push("the primary answers again".into()),
        _ => {}
    }
    match (before.is_expired, now.is_expired) {
        (false, true) => all.push("the zone has expired".into()),
        (true, false) => all.push("the zone has expired no more".into()),
        _ => {}
    }
    all
}

/// Zones that threads follow.
pub struct FollowedZones {
    all: Vec<Followed>,
    _notify: Option<Notify>,
    _folder: Option<TempDir>,
}

impl FollowedZones {
    /// The zones by the names of their lists, and what is known of them.
    pub fn states(&self) -> impl Iterator<Item = (String, ZoneState)> {
        let all = self.all.iter();
        all.map(|zone| (zone.zone().to_string(), zone.state()))
    }

    /// Asks all primaries soon.
    pub fn wake(&self) {
        self.all.iter().for_each(Followed::wake);
    }

    /// What is wrong with zones, in a line; without zones nothing.
    pub fn status(&self) -> Option<String> {
        let mut states = self.states().peekable();
        states.peek()?;
        let faults = states.filter_map(|(name, state)| {
            let expired = if state.is_expired { "expired; " } else { "" };
            let trouble = state.trouble?;
            Some(format!("{name}: {expired}{trouble}"))
        });
        let faults: Vec<String> = faults.collect();
        Some(match faults.is_empty() {
            true => "zones are up to date".into(),
            false => faults.join("; "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_zone_are_told_once() {
        let fine = ZoneState {
            serial: Some(7),
            ..ZoneState::default()
        };
        let bad = ZoneState {
            trouble: Some("REFUSED".into()),
            ..fine.clone()
        };
        let old = ZoneState {
            is_expired: true,
            ..bad.clone()
        };
        let new = ZoneState {
            serial: Some(8),
            ..ZoneState::default()
        };
        for (before, now, lines) in [
            (&fine, &fine, vec![]),
            (&fine, &bad, vec!["REFUSED; the zone stays as it was"]),
            (&bad, &bad, vec![]),
            (&bad, &old, vec!["the zone has expired"]),
            (
                &old,
                &new,
                vec![
                    "the serial 8 has come",
                    "the primary answers again",
                    "the zone has expired no more",
                ],
            ),
        ] {
            assert_eq!(told(before, now), lines);
        }
    }
}
