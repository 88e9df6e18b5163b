//! Calls to the endpoints of etcd, and what their errors mean.

use std::error::Error as _;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::EtcdOptions;
use crate::Error;

/// The endpoints of one etcd, of which one is used until it fails.
pub(super) struct Service {
    endpoints: Vec<Endpoint>,
    /// The number of the one in use.
    current: AtomicUsize,
    options: ConnectOptions,
    /// Whether the client has a certificate.
    has_identity: bool,
    /// How long a call to one endpoint may take.
    pub(super) limit: Duration,
}

struct Endpoint {
    address: String,
    client: Mutex<Option<Client>>,
}

/// A failed call to one endpoint.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) why: Why,
    pub(super) error: Error,
}

/// What a failure says about the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// etcd refused it: nothing was done, and other endpoints would refuse it, too.
    Refused,
    /// etcd has no space. A transaction may have been done nevertheless, if others filled it
    /// meanwhile.
    NoSpace,
    /// The history does not go back to the revision.
    Compacted,
    /// There is no such lease.
    NoLease,
    /// There was no answer, or one that may pass: the call may have been done, or may be later.
    Unknown,
}

impl Service {
    pub(super) fn new(options: &EtcdOptions) -> Result<Service, Error> {
        let tls = tls(options)?;
        if options.endpoints.is_empty() {
            return Err(Error::Options("etcd: no endpoint is given".into()));
        }
        let mut endpoints = Vec::new();
        for address in &options.endpoints {
            let address = match address.split_once("://") {
                None if tls.is_some() => format!("https://{address}"),
                None => format!("http://{address}"),
                Some(("http", _)) if tls.is_some() => {
                    return Err(Error::Options(format!(
                        "{address}: certificates are given, but the address is not https://"
                    )));
                }
                Some(("https", _)) if tls.is_none() => {
                    return Err(Error::Options(format!(
                        "{address}: https:// needs the certificate of the authority that signed \
                         etcd's (a PEM file)"
                    )));
                }
                Some(("http" | "https", _)) => address.clone(),
                Some((scheme, _)) => {
                    return Err(Error::Options(format!(
                        "{address}: {scheme}:// is unknown, but http:// and https:// are known"
                    )));
                }
            };
            endpoints.push(Endpoint {
                address,
                client: Mutex::default(),
            });
        }
        let mut connect = ConnectOptions::new()
            .with_connect_timeout(options.timeout)
            // etcd ends connections that ask more often than every five seconds.
            .with_keep_alive(Duration::from_secs(6), options.timeout)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some((user, password)) = &options.user {
            connect = connect.with_user(user, password);
        }
        if let Some(tls) = tls {
            connect = connect.with_tls(tls);
        }
        Ok(Service {
            endpoints,
            current: AtomicUsize::new(0),
            options: connect,
            has_identity: options.identity.is_some(),
            limit: options.timeout,
        })
    }

    /// The endpoint in use.
    pub(super) fn place(&self) -> &str {
        &self.endpoints[self.current.load(Ordering::Relaxed) % self.endpoints.len()].address
    }

    /// Calls one endpoint. After a failure of that endpoint, the next call takes the next one.
    pub(super) async fn once<T, F>(&self, call: impl FnOnce(Client) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let number = self.current.load(Ordering::Relaxed);
        let endpoint = &self.endpoints[number % self.endpoints.len()];
        let result = timeout(self.limit, async {
            let client = endpoint.client(&self.options).await?;
            match call(client.clone()).await {
                Err(etcd_client::Error::GRpcStatus(status))
                    if status.message().contains("revision of auth store is old") =>
                {
                    client.refresh_token().await?;
                    Err(etcd_client::Error::GRpcStatus(status))
                }
                result => result,
            }
        })
        .await;
        let failure = match result {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => failure(&endpoint.address, &error),
            Err(_) => {
                // After a partition, a new connection is faster than the old one's next attempt.
                *endpoint.client.lock().await = None;
                Failure {
                    why: Why::Unknown,
                    error: Error::Unavailable {
                        place: endpoint.address.clone(),
                        what: format!("no answer within {:?}", self.limit),
                    },
                }
            }
        };
        if failure.why == Why::Unknown {
            self.leave(number);
        }
        Err(failure)
    }

    /// Takes the next endpoint, if this one is still in use.
    pub(super) fn leave(&self, number: usize) {
        let next = (number + 1) % self.endpoints.len();
        let _ = self
            .current
            .compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The number of the endpoint in use, for [`leave`](Self::leave).
    pub(super) fn number(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Calls all endpoints, twice, until one answers. The call must do no harm when it is repeated.
    pub(super) async fn call<T, F>(&self, call: impl Fn(Client) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let mut denied = None;
        let attempts = 2 * self.endpoints.len();
        for attempt in 1.. {
            match self.once(&call).await {
                Err(failure) if failure.why == Why::Unknown => {
                    if attempt == attempts {
                        return Err(denied.unwrap_or(failure));
                    }
                    if matches!(failure.error, Error::Denied { .. }) {
                        denied = Some(failure);
                    }
                    if attempt % self.endpoints.len() == 0 {
                        tokio::time::sleep(self.limit.min(Duration::from_millis(100))).await;
                    }
                }
                result => return result,
            }
        }
        unreachable!("the last attempt returns")
    }

    /// An error, said more clearly when an endpoint wants TLS and is asked without, or is asked for
    /// TLS and does not speak it, or may want a client's certificate. The connection may end before
    /// its reason is read, so that the error alone does not tell.
    pub(super) async fn explained(&self, error: Error) -> Error {
        let Error::Unavailable { place, what } = &error else {
            return error;
        };
        let Some((scheme, address)) = place.split_once("://") else {
            return error;
        };
        let speaks = timeout(self.limit, speaks(address)).await;
        let place = place.clone();
        match (scheme, speaks) {
            ("http", Ok(Ok(Speaks::Tls))) => Error::Denied {
                place,
                what: "etcd wants TLS here: give an https:// address and the authority's \
                       certificate"
                    .into(),
            },
            ("https", Ok(Ok(Speaks::Http))) => Error::Denied {
                place,
                what: format!("TLS was tried, but etcd does not speak it here: {what}"),
            },
            ("https", Ok(Ok(Speaks::Tls))) if !self.has_identity => Error::Unavailable {
                place,
                what: format!("{what}; no client's certificate is given, and etcd may want one"),
            },
            _ => error,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        failure.error
    }
}

impl Endpoint {
    async fn client(&self, options: &ConnectOptions) -> Result<Client, etcd_client::Error> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let new = Client::connect([&self.address], Some(options.clone())).await?;
        Ok(client.insert(new).clone())
    }
}

/// The certificates, if there are any.
fn tls(options: &EtcdOptions) -> Result<Option<TlsOptions>, Error> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(Error::io(path));
    let Some(authority) = &options.authority else {
        return match &options.identity {
            None => Ok(None),
            Some(_) => Err(Error::Options(
                "etcd: a client's certificate is given, but not the authority's".into(),
            )),
        };
    };
    let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(pem(
        authority,
        read(authority)?,
        "CERTIFICATE-----",
    )?));
    if let Some((certificate, key)) = &options.identity {
        let key_bytes = pem(key, read(key)?, "PRIVATE KEY-----")?;
        let bytes = pem(certificate, read(certificate)?, "CERTIFICATE-----")?;
        tls = tls.identity(Identity::from_pem(bytes, key_bytes));
    }
    Ok(Some(tls))
}

/// The bytes of a file, if they look like what it should have.
fn pem(path: &Path, bytes: Vec<u8>, what: &str) -> Result<Vec<u8>, Error> {
    let is_there = bytes
        .windows(what.len())
        .any(|part| part == what.as_bytes());
    is_there.then_some(bytes).ok_or_else(|| {
        let what = what.trim_end_matches('-').to_lowercase();
        Error::damaged(path.display().to_string(), format!("no {what} in PEM"))
    })
}

/// What an error of the client means.
fn failure(place: &str, error: &etcd_client::Error) -> Failure {
    use etcd_client::Error as E;
    let (why, error) = match error {
        E::GRpcStatus(status) => return of_status(place, status),
        E::InvalidArgs(_) | E::InvalidUri(_) | E::InvalidMetadataValue(_) => {
            (Why::Refused, Error::Options(format!("{place}: {error}")))
        }
        E::LeaseKeepAliveError(said) if said.contains("lease not found") => {
            let (place, what) = (place.to_owned(), said.clone());
            (Why::NoLease, Error::Unavailable { place, what })
        }
        _ => (Why::Unknown, transport(place, &with_sources(error))),
    };
    Failure { why, error }
}

fn of_status(place: &str, status: &tonic::Status) -> Failure {
    use tonic::Code;
    let place_text = place.to_owned();
    let said = status.message().trim_start_matches("etcdserver: ");
    let denied = |what: String| Failure {
        why: Why::Refused,
        error: Error::Denied {
            place: place_text.clone(),
            what,
        },
    };
    let unavailable = |why, what: String| Failure {
        why,
        error: Error::Unavailable {
            place: place_text.clone(),
            what,
        },
    };
    match status.code() {
        _ if said.contains("revision of auth store is old") => {
            unavailable(Why::Unknown, said.to_owned())
        }
        _ if said.contains("database space exceeded") => Failure {
            why: Why::NoSpace,
            error: Error::NoSpace {
                place: place_text,
                what: format!("{said}: compact, defragment, and disarm the alarm"),
            },
        },
        _ if said.contains("user name is empty") => {
            denied("etcd wants a user and a password, and none is given".into())
        }
        _ if said.contains("authentication is not enabled") => {
            denied("a user is given, but etcd's authentication is off".into())
        }
        _ if said.contains("authentication failed") => denied("wrong user or password".into()),
        Code::PermissionDenied | Code::Unauthenticated => denied(said.to_owned()),
        Code::OutOfRange if said.contains("compacted") => {
            unavailable(Why::Compacted, said.to_owned())
        }
        Code::NotFound if said.contains("lease not found") => {
            unavailable(Why::NoLease, said.to_owned())
        }
        Code::InvalidArgument if said.contains("request is too large") => Failure {
            why: Why::Refused,
            error: Error::Options(format!(
                "{place}: {said}: etcd's --max-request-bytes is lower than 1.5 MiB, so lower the \
                 limit of frames, too"
            )),
        },
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange | Code::NotFound => {
            unavailable(Why::Refused, said.to_owned())
        }
        _ => {
            let mut what = if said.is_empty() {
                status.code().to_string()
            } else {
                said.to_owned()
            };
            if let Some(source) = status.source() {
                what = format!("{what}: {}", with_sources(source));
            }
            Failure {
                why: Why::Unknown,
                error: transport(place, &what),
            }
        }
    }
}

/// The error of a connection: TLS or not.
fn transport(place: &str, what: &str) -> Error {
    let place = place.to_owned();
    let has = |words: &[&str]| words.iter().any(|word| what.contains(word));
    if has(&["InvalidContentType", "corrupt message"]) {
        return Error::Denied {
            place,
            what: format!("TLS was tried, but etcd does not speak it here: {what}"),
        };
    }
    if has(&["CertificateRequired", "BadCertificate"]) {
        return Error::Denied {
            place,
            what: format!("etcd refuses the client's certificate, or wants one: {what}"),
        };
    }
    if has(&[
        "certificate",
        "Certificate",
        "UnknownIssuer",
        "AlertReceived",
        "received fatal alert",
    ]) {
        return Error::Denied {
            place,
            what: format!("TLS: {what}"),
        };
    }
    Error::Unavailable {
        place,
        what: what.into(),
    }
}

/// An error with its causes, none of them twice.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(source) = at {
        let said = source.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        at = source.source();
    }
    text
}

/// What a port answers.
enum Speaks {
    /// TLS.
    Tls,
    /// HTTP without TLS.
    Http,
    Neither,
}

async fn speaks(address: &str) -> std::io::Result<Speaks> {
    // A handshake record with a hello that is too short, which a server answers by an alert.
    let hello = [0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0];
    if matches!(first_byte(address, &hello).await?, Some(0x15 | 0x16)) {
        return Ok(Speaks::Tls);
    }
    let request = format!("GET /version HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    Ok(match first_byte(address, request.as_bytes()).await? {
        Some(b'H') => Speaks::Http,
        _ => Speaks::Neither,
    })
}

/// The first byte of an answer, if one comes before the connection ends.
async fn first_byte(address: &str, question: &[u8]) -> std::io::Result<Option<u8>> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let mut first = [0];
    let answer = async {
        stream.write_all(question).await?;
        // A server that does not understand the question would otherwise wait for more of it.
        stream.shutdown().await?;
        stream.read(&mut first).await
    };
    Ok(matches!(answer.await, Ok(1)).then_some(first[0]))
}
