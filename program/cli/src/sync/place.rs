//! Opens the log and the snapshots of a map.

use std::sync::Arc;

use sapwood_sync::{FolderLog, Log, Snapshots};
use tokio::runtime::Runtime;

use crate::cli::sync::PlaceArgs;
use crate::errors::Error;

/// The log and the snapshots of a map.
pub type Place = (Arc<dyn Log>, Snapshots);

/// The runtime of a command: two threads, since all work of maps is done by one task.
pub fn runtime() -> Result<Runtime, Error> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(2).enable_all().build()?)
}

/// Opens them; a log in a directory is made if it is missing.
pub fn open(runtime: &Runtime, args: &PlaceArgs) -> Result<Place, Error> {
    let log: Arc<dyn Log> = match &args.folder {
        Some(folder) => Arc::new(FolderLog::new(folder, &args.map)?),
        None => etcd(runtime, args)?,
    };
    let snapshots = match (&args.snapshots, &args.folder) {
        (Some(snapshots), _) => snapshots.clone(),
        (None, Some(_)) if args.map == SNAPSHOTS => {
            return Err(Error::Usage(format!(
                "a map cannot be called {SNAPSHOTS}: the directory of the log has its snapshots \
                 under that name; --snapshots says where else"
            )));
        }
        (None, Some(folder)) => folder.join(SNAPSHOTS),
        (None, None) => return Err(Error::Usage("--etcd needs --snapshots".into())),
    };
    Ok((log, Snapshots::in_folder(snapshots, &args.map)?))
}

/// Where the snapshots of a log in a directory are.
const SNAPSHOTS: &str = "snapshots";

/// Opens what is there already.
pub fn find(runtime: &Runtime, args: &PlaceArgs) -> Result<Place, Error> {
    if let Some(folder) = &args.folder {
        let map = folder.join(&args.map);
        if !map.join("log").is_dir() {
            return Err(Error::Usage(format!(
                "{}: there is no log of a map there",
                map.display()
            )));
        }
    }
    open(runtime, args)
}

/// The error of a map that nobody has led yet.
pub fn nothing(map: &str) -> Error {
    Error::Usage(format!("{map}: nobody has published anything yet"))
}

/// The name of this process among the followers or leaders of a map.
pub fn name(given: Option<&String>) -> String {
    given.cloned().unwrap_or_else(|| {
        let system = rustix::system::uname();
        let machine = system.nodename().to_string_lossy();
        let allowed = |c: char| match c.is_ascii_alphanumeric() || "._-".contains(c) {
            true => c,
            false => '-',
        };
        let machine: String = machine.chars().take(80).map(allowed).collect();
        let machine = machine.trim_start_matches('.');
        let machine = if machine.is_empty() {
            "machine"
        } else {
            machine
        };
        format!("{machine}-{}", std::process::id())
    })
}

#[cfg(not(feature = "etcd"))]
fn etcd(_: &Runtime, _: &PlaceArgs) -> Result<Arc<dyn Log>, Error> {
    let what = "this program cannot speak to etcd: it was built without the feature etcd \
                (cargo build --release -p sapwood-cli --features etcd)";
    Err(Error::Usage(what.into()))
}

#[cfg(feature = "etcd")]
fn etcd(runtime: &Runtime, args: &PlaceArgs) -> Result<Arc<dyn Log>, Error> {
    use sapwood_sync::{EtcdLog, EtcdOptions};

    let mut options = EtcdOptions::new(args.etcd.iter().cloned());
    options.user = match &args.user {
        None => None,
        Some(user) => Some((user.clone(), password(args)?)),
    };
    options.authority = args.ca.clone();
    options.identity = args.cert.clone().zip(args.key.clone());
    Ok(Arc::new(
        runtime.block_on(EtcdLog::connect(options, &args.map))?,
    ))
}

/// The password of the user in etcd.
#[cfg(feature = "etcd")]
fn password(args: &PlaceArgs) -> Result<String, Error> {
    if let Some(file) = &args.password_file {
        let text = std::fs::read_to_string(file).map_err(Error::read(file))?;
        return Ok(text.lines().next().unwrap_or_default().to_owned());
    }
    std::env::var("SAPWOOD_ETCD_PASSWORD").map_err(|_| {
        Error::Usage(
            "--user needs a password: in a file that --password-file names, or in the environment \
             variable SAPWOOD_ETCD_PASSWORD"
                .into(),
        )
    })
}
