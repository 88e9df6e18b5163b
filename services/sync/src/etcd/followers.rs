//! What followers tell about themselves, and what they are told.

use std::collections::HashMap;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, Txn, TxnOp};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Shared;
use super::service::Why;
use crate::{Error, Report};

/// The leases of the followers that report through this log.
#[derive(Default)]
pub(super) struct Reporters(Mutex<HashMap<String, Lease>>);

#[derive(Clone, Copy)]
struct Lease {
    id: i64,
    life: Duration,
    /// When it was last granted or renewed.
    renewed: Instant,
}

/// The value of a key below `evicted/`.
#[derive(serde::Serialize, serde::Deserialize)]
struct Eviction {
    at: u64,
    why: String,
}

impl Reporters {
    pub(super) async fn report(
        &self,
        shared: &Shared,
        report: &Report,
        life: Duration,
    ) -> Result<(), Error> {
        let key = shared.keys.followers() + &report.follower;
        let evicted = shared.keys.evicted() + &report.follower;
        let value = serde_json::to_vec(report).expect("a report is JSON");
        let mut leases = self.0.lock().await;
        // A lease can end between its renewal and its use.
        for _ in 0..3 {
            let lease = match leases.get(&report.follower) {
                Some(lease) if lease.life == life => *lease,
                _ => {
                    let asked = Instant::now();
                    let seconds = seconds(life);
                    let granted = shared
                        .service
                        .call(|mut client| async move { client.lease_grant(seconds, None).await })
                        .await?;
                    let lease = Lease {
                        id: granted.id(),
                        life,
                        renewed: asked,
                    };
                    leases.insert(report.follower.clone(), lease);
                    lease
                }
            };
            if lease.renewed.elapsed() > life / 3 {
                let asked = Instant::now();
                if !renew(shared, lease.id).await? {
                    leases.remove(&report.follower);
                    continue;
                }
                let renewed = Lease {
                    renewed: asked,
                    ..lease
                };
                leases.insert(report.follower.clone(), renewed);
            }
            let told = shared
                .service
                .call(|mut client| {
                    let put = PutOptions::new().with_lease(lease.id);
                    let txn = Txn::new()
                        .when([Compare::create_revision(&*evicted, CompareOp::Equal, 0)])
                        .and_then([TxnOp::put(&*key, &*value, Some(put))]);
                    async move { client.txn(txn).await }
                })
                .await;
            match told {
                Ok(answer) if answer.succeeded() => return Ok(()),
                Ok(_) => {
                    if let Some(error) = eviction(shared, &evicted, &report.follower).await? {
                        return Err(error);
                    }
                }
                Err(failure) if failure.why == Why::NoLease => {
                    leases.remove(&report.follower);
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        Err(Error::Unavailable {
            place: shared.service.place().into(),
            what: format!("the leases of follower {} end at once", report.follower),
        })
    }
}

/// The lease of so many seconds at least.
pub(super) fn seconds(life: Duration) -> i64 {
    i64::try_from(life.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX)
}

/// Renews a lease; false when it has ended.
pub(super) async fn renew(shared: &Shared, id: i64) -> Result<bool, Error> {
    let renewed = shared
        .service
        .call(|mut client| async move {
            // The client has read the first answer when this returns.
            client.lease_keep_alive(id).await.map(drop)
        })
        .await;
    match renewed {
        Ok(()) => Ok(true),
        Err(failure) if failure.why == Why::NoLease => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

/// Reads why a follower was evicted, and forgets it.
async fn eviction(shared: &Shared, key: &str, follower: &str) -> Result<Option<Error>, Error> {
    let mut found = shared
        .service
        .call(|mut client| async move { client.get(key, None).await })
        .await?;
    let Some(found) = found.take_kvs().pop() else {
        return Ok(None);
    };
    let Eviction { at, why } = serde_json::from_slice(found.value())
        .map_err(|error| Error::damaged(shared.place(key), error.to_string()))?;
    // If this is not done, the follower is told once more.
    let _ = shared
        .service
        .call(|mut client| {
            let same = Compare::mod_revision(key, CompareOp::Equal, found.mod_revision());
            let txn = Txn::new().when([same]).and_then([TxnOp::delete(key, None)]);
            async move { client.txn(txn).await }
        })
        .await;
    Ok(Some(Error::Evicted {
        map: shared.map.clone(),
        follower: follower.into(),
        at,
        why,
    }))
}

/// The reports of all living followers.
pub(super) async fn list(shared: &Shared) -> Result<Vec<Report>, Error> {
    let prefix = shared.keys.followers();
    let mut found = shared
        .service
        .call(|mut client| {
            let all = GetOptions::new().with_prefix();
            let prefix = &*prefix;
            async move { client.get(prefix, Some(all)).await }
        })
        .await?;
    let mut reports = Vec::new();
    for report in found.take_kvs() {
        let place = shared.place(&String::from_utf8_lossy(report.key()));
        reports.push(
            serde_json::from_slice(report.value())
                .map_err(|error| Error::damaged(place, error.to_string()))?,
        );
    }
    Ok(reports)
}

pub(super) async fn evict(
    shared: &Shared,
    follower: &str,
    at: u64,
    why: &str,
) -> Result<(), Error> {
    let eviction = Eviction {
        at,
        why: why.into(),
    };
    let value = serde_json::to_vec(&eviction).expect("an eviction is JSON");
    let evicted = shared.keys.evicted() + follower;
    let key = shared.keys.followers() + follower;
    shared
        .service
        .call(|mut client| {
            let txn = Txn::new().and_then([
                TxnOp::put(&*evicted, &*value, None),
                TxnOp::delete(&*key, Some(DeleteOptions::new())),
            ]);
            async move { client.txn(txn).await }
        })
        .await?;
    Ok(())
}
