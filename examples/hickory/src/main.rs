//! A forwarding DNS server of Hickory DNS that asks block lists before it forwards.
//!
//!     sapwood lists serve ads.txt malware.rpz --live /dev/shm/blocked --watch &
//!     hickory-lists /dev/shm/blocked 127.0.0.1:5353 9.9.9.9:53

mod layer;
mod lists;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use hickory_server::ServerFuture;
use hickory_server::authority::Catalog;
use hickory_server::proto::rr::{LowerName, Name};
use hickory_server::resolver::config::{NameServerConfigGroup, ResolverOpts};
use hickory_server::resolver::name_server::TokioConnectionProvider;
use hickory_server::store::forwarder::{ForwardAuthority, ForwardConfig};

use layer::{ListLayer, sockets};
use lists::{AskError, Lists};

/// How long a client of TCP may say nothing.
const SILENCE: Duration = Duration::from_secs(10);

/// A handler that forwards all questions to one server.
fn forwarder(upstream: SocketAddr) -> Result<Catalog, AskError> {
    let config = ForwardConfig {
        name_servers: NameServerConfigGroup::from_ips_clear(
            &[upstream.ip()],
            upstream.port(),
            true,
        ),
        options: Some(ResolverOpts::default()),
    };
    let forward = ForwardAuthority::builder_with_config(config, TokioConnectionProvider::default());
    let mut catalog = Catalog::new();
    let root = LowerName::from(Name::root());
    catalog.upsert(root, vec![std::sync::Arc::new(forward.build()?)]);
    Ok(catalog)
}

async fn serve(lists: &str, listen: &str, upstream: &str) -> Result<(), AskError> {
    let lists = Lists::open(lists).map_err(|error| format!("{lists}: {error}"))?;
    let (socket, listener) = sockets(listen.parse()?).await?;
    let address = listener.local_addr()?;
    let mut server = ServerFuture::new(ListLayer::new(lists, forwarder(upstream.parse()?)?));
    server.register_socket(socket);
    server.register_listener(listener, SILENCE);
    println!("listens on {address}");
    tokio::signal::ctrl_c().await?;
    Ok(server.shutdown_gracefully().await?)
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [lists, listen, upstream] = &arguments[..] else {
        eprintln!("usage: hickory-lists LISTS ADDRESS:PORT UPSTREAM:PORT");
        return ExitCode::from(2);
    };
    match serve(lists, listen, upstream).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hickory-lists: {error}");
            ExitCode::FAILURE
        }
    }
}
