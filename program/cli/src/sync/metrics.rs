//! The metrics of publishers and followers.

use prometheus::{IntCounter, IntGauge};
use sapwood_sync::{FollowerStatus, PublisherStatus};

use crate::errors::Error;
use crate::service::catalogue::*;
use crate::service::metrics::{Metrics, raise};

/// What publishers and followers have in common.
struct Both {
    term: IntGauge,
    commit: IntGauge,
    entries: IntGauge,
    commits: IntCounter,
    bytes: IntCounter,
    lag: IntGauge,
    evicted: IntCounter,
    trouble: IntGauge,
}

impl Both {
    fn new(metrics: &Metrics) -> Result<Self, Error> {
        Ok(Both {
            term: metrics.gauge(&SYNC_TERM)?,
            commit: metrics.gauge(&SYNC_COMMIT)?,
            entries: metrics.gauge(&SYNC_ENTRIES)?,
            commits: metrics.counter(&SYNC_COMMITS)?,
            bytes: metrics.counter(&SYNC_BYTES)?,
            lag: metrics.gauge(&SYNC_LAG)?,
            evicted: metrics.counter(&SYNC_EVICTED)?,
            trouble: metrics.gauge(&SYNC_TROUBLE)?,
        })
    }
}

/// Sets a metric to a number of 64 bits.
fn set(gauge: &IntGauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// The metrics of a publisher.
pub struct PublisherMetrics {
    both: Both,
    followers: IntGauge,
    snapshot: IntGauge,
}

impl PublisherMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics) -> Result<Self, Error> {
        Ok(PublisherMetrics {
            both: Both::new(metrics)?,
            followers: metrics.gauge(&SYNC_FOLLOWERS)?,
            snapshot: metrics.gauge(&SYNC_SNAPSHOT)?,
        })
    }

    /// Sets the metrics.
    pub fn update(&self, status: &PublisherStatus) {
        let both = &self.both;
        set(&both.term, status.epoch);
        set(&both.commit, status.commit);
        set(&both.entries, status.entries);
        raise(&both.commits, status.commits);
        raise(&both.bytes, status.bytes);
        set(&both.lag, status.lag);
        raise(&both.evicted, status.evicted);
        set(&both.trouble, status.trouble.is_some().into());
        set(&self.followers, status.followers as u64);
        set(&self.snapshot, status.snapshot);
    }
}

/// The metrics of a follower.
pub struct FollowerMetrics {
    both: Both,
    changes: IntCounter,
    restored: IntCounter,
    replaced: IntCounter,
    lost: IntGauge,
}

impl FollowerMetrics {
    /// Registers the metrics.
    pub fn new(metrics: &Metrics) -> Result<Self, Error> {
        Ok(FollowerMetrics {
            both: Both::new(metrics)?,
            changes: metrics.counter(&SYNC_CHANGES)?,
            restored: metrics.counter(&SYNC_RESTORED)?,
            replaced: metrics.counter(&SYNC_REPLACED)?,
            lost: metrics.gauge(&SYNC_LOST)?,
        })
    }

    /// Sets the metrics.
    pub fn update(&self, status: &FollowerStatus) {
        let both = &self.both;
        set(&both.term, status.epoch);
        set(&both.commit, status.commit.unwrap_or(0));
        set(&both.entries, status.entries);
        raise(&both.commits, status.commits);
        raise(&both.bytes, status.bytes);
        set(&both.lag, status.lag());
        raise(&both.evicted, status.evicted);
        set(&both.trouble, status.trouble.is_some().into());
        raise(&self.changes, status.changes);
        raise(&self.restored, status.restored);
        raise(&self.replaced, status.replaced);
        set(&self.lost, status.lost.into());
    }
}
