//! Zones from NSD and BIND, where they are installed.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sapwood_lists::transfer::{Limits, Secondary, TransferError, TransferKey, Zone};
use tempfile::TempDir;

use super::{Rules, lines};

/// A server that is killed at the end of a test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where a program of Debian is, or a line that says that it is missing.
fn program(name: &str) -> Option<String> {
    let places = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];
    let found = places.map(|place| format!("{place}/{name}"));
    let found = found.into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        eprintln!("skipped: zones from {name}; it is not installed");
    }
    found
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

const SECRET_OF_SERVERS: &str = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0";

/// A zone file of many rules.
fn zone_file(serial: u32, names: std::ops::Range<u32>) -> String {
    let mut text = format!(
        "$TTL 60\n@ IN SOA ns.rpz.test. mail.rpz.test. {serial} 3600 600 86400 60\n  IN NS ns\n\
         ns IN A 127.0.0.1\n"
    );
    for name in names {
        text += &format!("n{name}.Example CNAME .\n*.n{name}.example CNAME rpz-drop.\n");
    }
    text + "data.example TXT \"x ; y\" \"z\"\ndata.example AAAA 2001:db8::1\n"
}

/// Follows a server through two versions. `change` makes it read its zone file again.
fn follows_a_server(folder: &TempDir, port: u16, change: impl Fn()) {
    let text = format!("hmac-sha256:rpz-key:{SECRET_OF_SERVERS}");
    let zone = |key: &str| {
        let key = TransferKey::parse(key).unwrap();
        let primary = SocketAddr::from(([127, 0, 0, 1], port));
        Zone::new("rpz.test", primary, Some(key)).unwrap()
    };
    let copies = folder.path().join("copies");
    fs::create_dir(&copies).unwrap();
    let limits = Limits {
        answer: Duration::from_secs(10),
        whole: Duration::from_secs(60),
        ..Limits::default()
    };
    let mut secondary = Secondary::new(zone(&text), &copies, limits.clone()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while let Err(error) = secondary.refresh() {
        assert!(Instant::now() < until, "{error}");
        thread::sleep(Duration::from_millis(200));
    }
    let mut rules = Rules::new(&secondary);
    let summary = rules.load();
    // Names in capitals are the same; the address of the name server is a rule for "ns".
    assert_eq!((summary.added, summary.counts[0].refused), (3002, 0));
    assert!(rules.blocks("n2999.example") && rules.blocks("x.n7.example"));

    fs::write(folder.path().join("zone"), zone_file(8, 10..3010)).unwrap();
    change();
    let until = Instant::now() + Duration::from_secs(20);
    while secondary.state().serial != Some(8) {
        assert!(Instant::now() < until, "{:?}", secondary.state());
        thread::sleep(Duration::from_millis(200));
        secondary.refresh().unwrap();
    }
    let summary = rules.load();
    assert_eq!(
        (summary.added, summary.removed, summary.changed),
        (10, 10, 0)
    );
    assert!(rules.blocks("n3009.example") && !rules.blocks("n9.example"));
    // What came by changes is what comes as a whole.
    assert_eq!(secondary.state().transfers, (1, 1));
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let mut whole = Secondary::new(zone(&text), &other, limits.clone()).unwrap();
    whole.refresh().unwrap();
    assert_eq!(lines(&copies), lines(&other));

    // Without its key, the server gives nothing.
    let wrong = zone("hmac-sha256:rpz-key:b3RoZXI=");
    let mut wrong = Secondary::new(wrong, &copies, limits).unwrap();
    let error = wrong.refresh().unwrap_err();
    assert!(matches!(error, TransferError::Signature(_)), "{error}");
    assert_eq!(lines(&copies), lines(&other));
}

#[test]
fn zones_come_from_nsd() {
    let Some(nsd) = program("nsd") else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let port = free_port();
    fs::write(folder.path().join("zone"), zone_file(7, 0..3000)).unwrap();
    let config = format!(
        "server:\n  ip-address: 127.0.0.1\n  port: {port}\n  username: \"\"\n  chroot: \"\"\n  \
         zonesdir: \"{at}\"\n  pidfile: \"{at}/pid\"\n  database: \"\"\n  \
         xfrdfile: \"{at}/xfrd\"\n  xfrdir: \"{at}\"\n  zonelistfile: \"{at}/list\"\n  \
         cookie-secret-file: \"\"\n\
         remote-control:\n  control-enable: no\n\
         key:\n  name: rpz-key\n  algorithm: hmac-sha256\n  secret: \"{SECRET_OF_SERVERS}\"\n\
         zone:\n  name: rpz.test\n  zonefile: zone\n  provide-xfr: 127.0.0.1 rpz-key\n  \
         store-ixfr: yes\n  create-ixfr: yes\n"
    );
    fs::write(folder.path().join("conf"), config).unwrap();
    let server = Command::new(nsd)
        .args(["-d", "-c"])
        .arg(folder.path().join("conf"))
        .stderr(Stdio::null())
        .spawn();
    let server = Server(server.unwrap());
    follows_a_server(&folder, port, || hang_up(&server));
}

fn hang_up(server: &Server) {
    let sent = Command::new("kill")
        .args(["-HUP", &server.0.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[test]
fn zones_come_from_bind() {
    let Some(named) = program("named") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let port = free_port();
    fs::write(folder.path().join("zone"), zone_file(7, 0..3000)).unwrap();
    let config = format!(
        "options {{ directory \"{at}\"; listen-on port {port} {{ 127.0.0.1; }}; \
         listen-on-v6 {{ none; }}; pid-file \"{at}/pid\"; session-keyfile \"{at}/session\"; \
         recursion no; notify no; dnssec-validation no; }};\n\
         controls {{ }};\n\
         key \"rpz-key\" {{ algorithm hmac-sha256; secret \"{SECRET_OF_SERVERS}\"; }};\n\
         zone \"rpz.test\" {{ type primary; file \"{at}/zone\"; \
         allow-transfer {{ key rpz-key; }}; ixfr-from-differences yes; }};\n"
    );
    fs::write(folder.path().join("conf"), config).unwrap();
    let server = Command::new(named)
        .args(["-g", "-c"])
        .arg(folder.path().join("conf"))
        .stderr(Stdio::null())
        .spawn();
    let server = Server(server.unwrap());
    follows_a_server(&folder, port, || hang_up(&server));
}
