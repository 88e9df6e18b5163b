//! Whether a log has all that others know of it.

use crate::restored::{State, restore};
use crate::{Error, Head, Kind, Log, Report, Snapshots};

/// The newest state of a map, if the log has all that followers and snapshots had.
pub(super) async fn sound(
    log: &dyn Log,
    snapshots: &Snapshots,
    kind: Kind,
) -> Result<(State, Head), Error> {
    let reports = reports(log).await?;
    let (state, head, _) = restore(log, snapshots, kind).await?;
    let mut beyond = reports.iter().find_map(|report| report.beyond(&head));
    if beyond.is_none() && head.commit == 0 {
        let others = snapshots.newest_of_others(head.log).await?;
        beyond = others.filter(|other| other.commit > 0).map(|other| {
            format!(
                "there is a snapshot of commit {}, and the log is empty",
                other.commit
            )
        });
    }
    match beyond {
        Some(what) => Err(Error::lost(log.map(), what)),
        None => Ok((state, head)),
    }
}

/// What followers have reported. A report that cannot be read says nothing about the log.
async fn reports(log: &dyn Log) -> Result<Vec<Report>, Error> {
    match log.followers().await {
        Err(Error::Damaged { .. }) => Ok(Vec::new()),
        reports => reports,
    }
}

/// The newest term that anybody knows of.
pub(super) async fn newest_term(log: &dyn Log, snapshots: &Snapshots) -> Result<u64, Error> {
    let reports = reports(log).await?;
    let reported = reports.iter().map(|report| report.epoch).max();
    // A manifest that cannot be read tells nothing.
    let (own, others) = (
        snapshots.newest(log.head().await?.log),
        snapshots.newest_of_others(None),
    );
    let saved = [own.await.ok().flatten(), others.await.ok().flatten()];
    let saved = saved.iter().flatten().map(|manifest| manifest.epoch);
    Ok(saved.chain(reported).max().unwrap_or(0))
}
