//! Serves one text by HTTP, under `/metrics`, to clients that are trusted with nothing.
//!
//! A client can delay neither the command nor, for longer than [`PATIENCE`], another client. The
//! command stores a text and goes on; threads of their own answer. There are [`CLIENTS`] of them at
//! most, a connection has one request of at most [`HEAD`] bytes, and each has to be done in time.
//! `httparse` parses requests.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::errors::Error;

/// The most connections at a time; others are closed at once.
const CLIENTS: usize = 16;

/// The most bytes of a request.
const HEAD: usize = 8 << 10;

/// The most header lines of a request.
const LINES: usize = 64;

/// The longest time that a connection has for its request, and again for the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause after a connection that could not be accepted, because the system lacks something.
const PAUSE: Duration = Duration::from_millis(100);

/// A server; it ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The text, once there is one.
    text: Mutex<Option<Arc<Vec<u8>>>>,
    clients: AtomicUsize,
    ends: AtomicBool,
}

impl Server {
    /// Listens at an address, and answers from a thread of its own. Until there is a text, the
    /// answer is 503.
    pub fn begin(address: SocketAddr) -> Result<Self, Error> {
        let failed = |error| Error::Usage(format!("cannot serve metrics at {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        let server = Server {
            address: listener.local_addr().map_err(failed)?,
            shared: Arc::default(),
        };
        let shared = Arc::clone(&server.shared);
        std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || accept(&listener, &shared))
            .map_err(failed)?;
        Ok(server)
    }

    /// The address, with the port that the system chose if 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves this text from now on.
    pub fn show(&self, text: Vec<u8>) {
        *self.shared.text() = Some(Arc::new(text));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        // The thread that waits for connections gets one.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let _ = TcpStream::connect_timeout(&address, PAUSE);
    }
}

impl Shared {
    fn text(&self) -> std::sync::MutexGuard<'_, Option<Arc<Vec<u8>>>> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts connections until the server ends.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        if shared.ends.load(Ordering::Relaxed) {
            return;
        }
        let Ok((client, _)) = accepted else {
            std::thread::sleep(PAUSE);
            continue;
        };
        if shared.clients.fetch_add(1, Ordering::AcqRel) >= CLIENTS {
            shared.clients.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let place = Place(Arc::clone(shared));
        // Without a thread, the connection is closed and its place is free again.
        let _ = std::thread::Builder::new()
            .name("metrics client".into())
            .spawn(move || drop(serve(client, &place.0)));
    }
}

/// One of the places for clients, free again when dropped.
struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Reads a request, and answers it.
fn serve(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let answer = loop {
        match read_request(&request) {
            Some(answer) => break answer,
            None if request.len() >= HEAD => break Answer::of(431, "the request is too large\n"),
            None => {}
        }
        let mut bytes = [0; 1024];
        let most = bytes.len().min(HEAD - request.len());
        client.set_read_timeout(Some(left(until)?))?;
        match client.read(&mut bytes[..most]) {
            Ok(0) => return Ok(()),
            Ok(read) => request.extend_from_slice(&bytes[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    let text = match answer.code {
        200 => shared.text().clone(),
        _ => Some(Arc::new(answer.text.as_bytes().to_vec())),
    };
    let (code, text) = match text {
        Some(text) => (answer.code, text),
        None => (503, Arc::new(b"no metrics yet\n".to_vec())),
    };
    let head = format!(
        "HTTP/1.1 {code} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n",
        reason(code),
        if code == 200 {
            "text/plain; version=0.0.4; charset=utf-8"
        } else {
            "text/plain; charset=utf-8"
        },
        text.len(),
        if code == 405 {
            "Allow: GET, HEAD\r\n"
        } else {
            ""
        },
    );
    let until = Instant::now() + PATIENCE;
    write(&mut client, head.as_bytes(), until)?;
    if !answer.head_only {
        write(&mut client, &text, until)?;
    }
    // If the client has sent more than was read, closing now might lose the answer.
    client.shutdown(Shutdown::Write)?;
    let mut bytes = [0; 1024];
    for _ in 0..HEAD / bytes.len() {
        client.set_read_timeout(Some(left(until)?.min(PAUSE)))?;
        if client.read(&mut bytes)? == 0 {
            break;
        }
    }
    Ok(())
}

/// The time that is left, which is not zero.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

/// Writes all bytes in time.
fn write(client: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        client.set_write_timeout(Some(left(until)?))?;
        match client.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    code: u16,
    text: &'static str,
    /// The client wants no text.
    head_only: bool,
}

impl Answer {
    fn of(code: u16, text: &'static str) -> Self {
        Answer {
            code,
            text,
            head_only: false,
        }
    }
}

/// The answer to a request that begins with these bytes; `None` if they are not all of it.
fn read_request(bytes: &[u8]) -> Option<Answer> {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut request = httparse::Request::new(&mut lines);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            return Some(Answer::of(431, "the request has too many header lines\n"));
        }
        Err(_) => return Some(Answer::of(400, "this is no request of HTTP/1.1\n")),
    }
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Some(Answer::of(405, "only GET and HEAD are possible\n")),
    };
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let found = match path {
        "/metrics" => Answer::of(200, ""),
        _ => Answer::of(404, "the metrics are at /metrics\n"),
    };
    Some(Answer { head_only, ..found })
}

/// The words for a code.
fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(request: &str) -> Option<u16> {
        read_request(request.as_bytes()).map(|answer| answer.code)
    }

    #[test]
    fn requests_are_judged() {
        let get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert_eq!(code(get), Some(200));
        for end in 0..get.len() {
            assert_eq!(code(&get[..end]), None, "{end}");
        }
        for (request, wanted) in [
            ("GET /metrics?name=a HTTP/1.0\r\n\r\n", 200),
            ("GET / HTTP/1.1\r\n\r\n", 404),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", 404),
            ("GET http://x/metrics HTTP/1.1\r\n\r\n", 404),
            ("POST /metrics HTTP/1.1\r\n\r\n", 405),
            ("GET /metrics\r\n\r\n", 400),
            ("\x16\x03\x01", 400),
            ("GET /metrics HTTP/2.0\r\n\r\n", 400),
        ] {
            assert_eq!(code(request), Some(wanted), "{request}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(LINES + 1));
        assert_eq!(code(&many), Some(431));
        assert!(
            read_request(b"HEAD /metrics HTTP/1.1\r\n\r\n")
                .unwrap()
                .head_only
        );
    }

    fn ask(server: &Server, request: &str) -> String {
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_text_is_served_until_the_server_ends() {
        let server = Server::begin("127.0.0.1:0".parse().unwrap()).unwrap();
        let get = "GET /metrics HTTP/1.1\r\n\r\n";
        assert!(ask(&server, get).starts_with("HTTP/1.1 503 "));
        server.show(b"a 1\n".to_vec());
        let answer = ask(&server, get);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\na 1\n"));
        let answer = ask(&server, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.contains("Content-Length: 4\r\n") && answer.ends_with("\r\n\r\n"));
        server.show(vec![b'x'; 1 << 20]);
        assert!(ask(&server, get).len() > 1 << 20);
        // The request is read no further than its limit, and the answer still comes.
        let long = format!("GET /metrics HTTP/1.1\r\na: {}", "x".repeat(HEAD + 100));
        assert!(ask(&server, &long).starts_with("HTTP/1.1 431 "));
        let refused = Server::begin(server.address()).err().unwrap();
        assert!(
            refused
                .to_string()
                .contains("cannot serve metrics at 127.0.0.1:")
        );
        let address = server.address();
        drop(server);
        let ended = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_ok() {
            assert!(Instant::now() < ended, "it still listens");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn clients_that_are_slow_are_given_up() {
        let server = Server::begin("127.0.0.1:0".parse().unwrap()).unwrap();
        server.show(b"a 1\n".to_vec());
        let connect = || TcpStream::connect(server.address()).unwrap();
        let began = Instant::now();
        let mut slow: Vec<_> = (0..CLIENTS).map(|_| connect()).collect();
        for client in &mut slow {
            client.write_all(b"GET /met").unwrap();
        }
        let full = Instant::now() + PATIENCE;
        while server.shared.clients.load(Ordering::Relaxed) < CLIENTS {
            assert!(Instant::now() < full);
            std::thread::sleep(Duration::from_millis(1));
        }
        // There is no place for one more: the connection is closed without an answer.
        let mut more = connect();
        let mut said = String::new();
        assert!(more.read_to_string(&mut said).is_err() || said.is_empty());
        // A byte now and then does not help.
        while Instant::now() < began + PATIENCE - Duration::from_secs(1) {
            for client in &mut slow {
                let _ = client.write_all(b"x");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let until = Instant::now() + PATIENCE;
        while server.shared.clients.load(Ordering::Relaxed) > 0 {
            assert!(Instant::now() < until, "slow clients keep their places");
            std::thread::sleep(Duration::from_millis(10));
        }
        let answer = ask(&server, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.ends_with("a 1\n"), "{answer}");
    }
}
