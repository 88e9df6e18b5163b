//! What errors of the log in etcd say, and what goes on meanwhile.

use sapwood_sync::{Error, EtcdLog, EtcdOptions, Frame, Kind, Log};
use tokio::time::timeout;

use crate::cluster::{Cluster, Setup};
use crate::etcd::{LONG, append, commit, frames, lead, numbers, read};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_is_readable_and_goes_on_later() {
    let setup = Setup {
        quota: Some(16 << 20),
        ..Setup::default()
    };
    let Some(cluster) = Cluster::start(setup).await else {
        return;
    };
    let log = cluster.log("zone").await;
    let mut leader = lead(&log).await;
    let mut next = 1;
    let error = loop {
        let frame = frames(&*leader, next, &[commit(next, 1_000_000)]).remove(0);
        match leader.append(&frame).await {
            Ok(()) => next += 1,
            Err(error) => break error,
        }
        assert!(next < 100, "etcd is not full");
    };
    assert!(
        matches!(&error, Error::NoSpace { .. }) && error.may_pass(),
        "{error}"
    );
    assert!(leader.leads());
    // What is there can be read, and the term goes on.
    let mut tail = log.follow(0).await.unwrap();
    assert_eq!(read(&mut *tail, next - 1).await, numbers(1..=next - 1));
    let other = log.lead(Kind::Names, "other", false).await.err().unwrap();
    assert!(matches!(other, Error::Led { .. }), "{other}");
    let none = cluster
        .log("new")
        .await
        .lead(Kind::Names, "test", true)
        .await;
    assert!(matches!(none, Err(Error::NoSpace { .. })));
    leader.trim(next - 2).await.unwrap();
    cluster.disarm();
    append(&mut *leader, next..=next + 3).await;
    assert_eq!(read(&mut *tail, next + 3).await, numbers(next..=next + 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_passwords_are_told() {
    let Some(cluster) = Cluster::start(Setup::default()).await else {
        return;
    };
    let with = |user: &str, password: &str| {
        let mut options = cluster.options();
        options.user = Some((user.into(), password.into()));
        // A password's check is slow by intent.
        options.timeout = LONG;
        options
    };
    let told = async |options, text: &str| match EtcdLog::connect(options, "zone").await {
        Err(Error::Denied { place, what }) => {
            assert!(what.contains(text), "{what}");
            assert!(place.starts_with("http://127.0.0.1:"), "{place}");
        }
        other => panic!("{:?}", other.err()),
    };
    told(with("root", "secret"), "authentication is off").await;
    cluster.ctl(0, &["user", "add", "root:secret"]);
    cluster.ctl(0, &["user", "grant-role", "root", "root"]);
    cluster.ctl(0, &["user", "add", "reader:readers"]);
    cluster.ctl(0, &["role", "add", "readers"]);
    cluster.ctl(
        0,
        &[
            "role",
            "grant-permission",
            "readers",
            "--prefix=true",
            "read",
            "/sapwood/",
        ],
    );
    cluster.ctl(0, &["user", "grant-role", "reader", "readers"]);
    cluster.ctl(0, &["auth", "enable"]);
    told(cluster.options(), "wants a user").await;
    told(with("root", "wrong"), "wrong user or password").await;
    told(with("nobody", "secret"), "wrong user or password").await;
    let log = EtcdLog::connect(with("root", "secret"), "zone")
        .await
        .unwrap();
    let mut leader = lead(&log).await;
    append(&mut *leader, 1..=2).await;
    // One who may only read.
    let reader = EtcdLog::connect(with("reader", "readers"), "zone")
        .await
        .unwrap();
    let mut tail = reader.follow(0).await.unwrap();
    assert_eq!(read(&mut *tail, 2).await, [1, 2]);
    let denied = reader.evict("a", 1, "no").await.unwrap_err();
    assert!(matches!(&denied, Error::Denied { what, .. } if what.contains("permission denied")));
    assert!(!format!("{:?}", with("root", "secret")).contains("secret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_used_or_its_lack_is_told() {
    let Some(cluster) = Cluster::start(Setup {
        tls: true,
        ..Setup::default()
    })
    .await
    else {
        return;
    };
    let Some(plain) = Cluster::start(Setup::default()).await else {
        return;
    };
    let log = cluster.log("zone").await;
    let mut leader = lead(&log).await;
    append(&mut *leader, 1..=1).await;
    let connect = async |mut options: EtcdOptions| {
        options.timeout = LONG;
        EtcdLog::connect(options, "zone").await
    };
    let told = async |options, text: &str| match connect(options).await {
        Err(Error::Denied { place, what }) => {
            assert!(what.contains(text), "{place}: {what}");
        }
        other => panic!("{text}: {:?}", other.err()),
    };
    let mut options = cluster.options();
    let secure = options.endpoints[0].clone();
    options.endpoints = vec![secure.replace("https", "http")];
    (options.authority, options.identity) = (None, None);
    told(options, "etcd wants TLS here").await;
    let mut options = cluster.options();
    options.endpoints = vec![plain.options().endpoints[0].replace("http", "https")];
    told(options, "etcd does not speak it here").await;
    let mut options = cluster.options();
    options.authority = Some(cluster.folder.path().join("other.pem"));
    told(options, "certificate").await;
    let mut options = cluster.options();
    options.identity = None;
    let error = connect(options).await.err().unwrap();
    assert!(
        error.to_string().contains("client's certificate"),
        "{error}"
    );
    // Options that cannot work are told before anything is sent.
    let mut options = cluster.options();
    options.authority = None;
    options.identity = None;
    let refused = EtcdLog::connect(options, "zone").await.err().unwrap();
    assert!(matches!(&refused, Error::Options(what) if what.contains("https:// needs")));
    let mut options = cluster.options();
    options.authority = Some(cluster.folder.path().join("client.key"));
    let refused = EtcdLog::connect(options, "zone").await.err().unwrap();
    assert!(
        refused.to_string().contains("no certificate in PEM"),
        "{refused}"
    );
    let mut options = cluster.options();
    options.authority = Some(cluster.folder.path().join("absent"));
    let refused = EtcdLog::connect(options, "zone").await.err().unwrap();
    assert!(matches!(&refused, Error::Io { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newer_formats_and_damage_are_told() {
    let Some(cluster) = Cluster::start(Setup::default()).await else {
        return;
    };
    let log = cluster.log("zone").await;
    let mut leader = lead(&log).await;
    append(&mut *leader, 1..=3).await;
    let meta = "/sapwood/zone/meta";
    cluster.ctl(
        0,
        &["put", meta, r#"{"format":2,"kind":"trees","more":[]}"#],
    );
    let is_newer = |error: &Error| matches!(error, Error::Newer { place, found: 2, known: 1 } if place.contains(meta));
    for error in [
        log.kind().await.err().unwrap(),
        log.follow(0).await.err().unwrap(),
        EtcdLog::connect(cluster.options(), "zone")
            .await
            .err()
            .unwrap(),
    ] {
        assert!(is_newer(&error), "{error}");
    }
    cluster.ctl(0, &["put", meta, r#"{"format":1,"kind":"trees"}"#]);
    assert!(matches!(log.kind().await, Err(Error::Damaged { .. })));
    cluster.ctl(0, &["put", meta, r#"{"format":1,"kind":"names"}"#]);
    assert_eq!(log.kind().await.unwrap(), Some(Kind::Names));
    // A frame of a later version, and one that is none.
    let mut tail = log.follow(3).await.unwrap();
    let frame = frames(&*leader, 4, &[commit(4, 10)]).remove(0);
    let mut bytes = frame.bytes().to_vec();
    bytes[3] = 2;
    let newer = Frame::from_bytes(bytes.clone(), "test").unwrap_err();
    assert!(matches!(newer, Error::Newer { .. }));
    cluster.ctl(
        0,
        &[
            "put",
            "/sapwood/zone/log/04.01",
            "SWL\u{2}and the rest in a later format",
        ],
    );
    let error = timeout(LONG, tail.next()).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, Error::Newer { place, .. } if place.ends_with("log/04.01")),
        "{error}"
    );
    cluster.ctl(
        0,
        &[
            "put",
            "/sapwood/zone/log/02.01",
            "nonsense, and long enough for a head",
        ],
    );
    let error = log.follow(0).await.err().unwrap();
    assert!(
        matches!(&error, Error::Damaged { place, .. } if place.ends_with("log/02.01")),
        "{error}"
    );
    // A hole in the list.
    cluster.ctl(0, &["del", "/sapwood/zone/log/02.01"]);
    let error = log.follow(1).await.err().unwrap();
    assert!(matches!(error, Error::Gap { wanted: 2, .. }), "{error}");
    for name in ["", "a/b", "ä"] {
        let refused = EtcdLog::connect(cluster.options(), name).await;
        assert!(matches!(refused, Err(Error::Change(_))), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_endpoints_are_passed_over() {
    let Some(cluster) = Cluster::start(Setup::default()).await else {
        return;
    };
    let mut options = cluster.options();
    options.endpoints.insert(0, "http://127.0.0.1:9".into());
    options.endpoints.insert(1, "127.0.0.1:10".into());
    let log = EtcdLog::connect(options.clone(), "zone").await.unwrap();
    let mut leader = lead(&log).await;
    append(&mut *leader, 1..=2).await;
    options.endpoints.truncate(2);
    let error = EtcdLog::connect(options.clone(), "zone")
        .await
        .err()
        .unwrap();
    assert!(
        matches!(&error, Error::Unavailable { place, .. } if place.starts_with("http://127.0.0.1:")),
        "{error}"
    );
    assert!(error.to_string().contains("refused"), "{error}");
    let log = EtcdLog::new(options.clone(), "zone").unwrap();
    assert!(matches!(log.head().await, Err(Error::Unavailable { .. })));
    options.endpoints = vec!["ftp://127.0.0.1".into()];
    let error = EtcdLog::connect(options, "zone").await.err().unwrap();
    assert!(error.to_string().contains("ftp:// is unknown"), "{error}");
}
