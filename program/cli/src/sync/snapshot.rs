//! `sync snapshot`: saves a snapshot of a map, or checks the newest one.

use sapwood_sync::{Changes, Digest, Error as SyncError, Manifest, Publisher, PublisherOptions};
use serde_json::{Value, json};

use super::place;
use crate::cli::sync::SnapshotArgs;
use crate::errors::{Answer, Error, Outcome, complain};
use crate::output::Output;

/// Saves or checks.
pub fn run(args: &SnapshotArgs) -> Outcome {
    let runtime = place::runtime()?;
    let (log, snapshots) = place::find(&runtime, &args.place)?;
    let map = &args.place.map;
    if args.verify {
        let checked = runtime.block_on(async {
            let id = log.head().await?.log;
            let Some(manifest) = snapshots.newest(id).await? else {
                return Ok(None);
            };
            let file = snapshots.open(&manifest).await?;
            let mut digest = Digest::default();
            for (key, value) in file.iter() {
                digest.add(&key, value);
                let mut entry = Changes::new();
                entry.put(key, value)?;
                manifest.kind.check(&entry)?;
            }
            if digest != manifest.digest || file.len() as u64 != manifest.entries {
                return Err(SyncError::Digest {
                    map: map.clone(),
                    commit: manifest.commit,
                    found: digest.0,
                    wanted: manifest.digest.0,
                });
            }
            Ok(Some(manifest))
        });
        return match checked {
            Ok(Some(manifest)) => show(args, "ok", &manifest),
            Ok(None) => {
                complain(&format!("{map}: there is no snapshot"));
                Ok(Answer::No)
            }
            Err(
                error @ (SyncError::Damaged { .. }
                | SyncError::Digest { .. }
                | SyncError::Change(_)
                | SyncError::Gap { .. }),
            ) => {
                complain(&error.to_string());
                Ok(Answer::No)
            }
            Err(error) => Err(error.into()),
        };
    }
    let saved = runtime.block_on(async {
        let kind = log.kind().await?.ok_or_else(|| place::nothing(map))?;
        let mut options = PublisherOptions::new(place::name(None));
        options.wait = false;
        let publisher = match Publisher::lead(log, snapshots, kind, options).await {
            Err(SyncError::Led { leader, .. }) => {
                return Err(Error::Usage(format!(
                    "{map}: {leader} leads, and saves snapshots itself; \"sync publish\" saves one \
                     when it gets SIGUSR1"
                )));
            }
            publisher => publisher?,
        };
        let manifest = publisher.snapshot().await;
        publisher.close().await?;
        Ok::<_, Error>(manifest?)
    })?;
    show(args, "saved", &saved)
}

/// Prints a manifest.
fn show(args: &SnapshotArgs, done: &str, manifest: &Manifest) -> Outcome {
    let mut out = Output::lines(args.json);
    if args.json {
        let mut document: Value = serde_json::to_value(manifest).map_err(std::io::Error::from)?;
        document["done"] = json!(done);
        out.document(&document)?;
    } else {
        for (name, value) in [
            ("done", done.to_owned()),
            ("kind", manifest.kind.to_string()),
            ("commit", manifest.commit.to_string()),
            ("term", manifest.epoch.to_string()),
            ("entries", manifest.entries.to_string()),
            ("bytes", manifest.bytes.to_string()),
            ("digest", manifest.digest.to_string()),
            ("object", manifest.object.clone()),
        ] {
            out.fields(&[name.as_bytes(), value.as_bytes()])?;
        }
    }
    out.flush()?;
    Ok(Answer::Yes)
}
