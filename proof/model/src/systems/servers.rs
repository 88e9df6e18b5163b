//! The systems whose formats these are, started with lists.

use std::fs::{self, File};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::dns::{Answer, Question, Upstream, ask};

/// A program of the path, or of where Debian puts servers.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/usr/local/go/bin"]);
    let mut found = folders.map(|folder| Path::new(folder).join(name));
    found.find(|file| file.is_file())
}

/// A server with lists, which is killed when it is dropped.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
    _upstream: Upstream,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts a program whose options `configure` writes into the folder and returns.
    fn start(
        program: &Path,
        folder: &Path,
        configure: impl Fn(u16, u16) -> Vec<String>,
        is_ready: impl Fn(SocketAddr) -> bool,
    ) -> Self {
        let upstream = Upstream::start();
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let log = folder.join("log");
        let options = configure(port, upstream.address.port());
        let child = Command::new(program)
            .args(options)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Server {
            address,
            child,
            _upstream: upstream,
        };
        let begin = Instant::now();
        while !is_ready(address) {
            let is_over = server.child.try_wait().unwrap();
            let log = || fs::read_to_string(&log).unwrap();
            assert!(is_over.is_none(), "{}: {}", program.display(), log());
            assert!(begin.elapsed() < Duration::from_secs(600), "{}", log());
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }
}

/// Starts Unbound with files of its options, or with response policy zones.
///
/// # Panics
/// If it does not start, or is not ready after ten minutes.
pub fn unbound(
    program: &Path,
    lists: &[PathBuf],
    are_zones: bool,
    folder: &Path,
    is_ready: impl Fn(SocketAddr) -> bool,
) -> Server {
    let configure = |port: u16, upstream: u16| {
        let mut text = format!(
            "server:\n  interface: 127.0.0.1\n  port: {port}\n  username: \"\"\n  chroot: \"\"\n  \
             directory: \"{0}\"\n  pidfile: \"{0}/pid\"\n  use-syslog: no\n  verbosity: 0\n  \
             do-not-query-localhost: no\n  module-config: \"{1}iterator\"\n  do-ip6: no\n  \
             unblock-lan-zones: yes\n  edns-buffer-size: 1232\n",
            folder.display(),
            if are_zones { "respip " } else { "" },
        );
        for list in lists.iter().filter(|_| !are_zones) {
            text += &format!("include: \"{}\"\n", list.display());
        }
        text += "remote-control:\n  control-enable: no\n";
        text += &format!("forward-zone:\n  name: \".\"\n  forward-addr: 127.0.0.1@{upstream}\n");
        for (at, list) in lists.iter().enumerate().filter(|_| are_zones) {
            text += &format!(
                "rpz:\n  name: rpz{at}\n  zonefile: \"{}\"\n",
                list.display()
            );
        }
        let file = folder.join("unbound.conf");
        fs::write(&file, text).unwrap();
        vec!["-d".into(), "-c".into(), file.display().to_string()]
    };
    Server::start(program, folder, configure, is_ready)
}

/// Starts BIND with response policy zones.
///
/// # Panics
/// If it does not start, or is not ready after ten minutes.
pub fn bind(
    program: &Path,
    lists: &[PathBuf],
    folder: &Path,
    is_ready: impl Fn(SocketAddr) -> bool,
) -> Server {
    let configure = |port: u16, upstream: u16| {
        let zones: String = (0..lists.len())
            .map(|at| format!(" zone rpz{at};"))
            .collect();
        let mut text = format!(
            "options {{ directory \"{}\"; listen-on port {port} {{ 127.0.0.1; }}; \
             listen-on-v6 {{ none; }}; pid-file none; session-keyfile none; recursion yes; \
             dnssec-validation no; forward only; forwarders {{ 127.0.0.1 port {upstream}; }}; \
             empty-zones-enable no; \
             response-policy {{{zones} }} qname-wait-recurse no break-dnssec yes \
             min-update-interval 0; }};\n\
             controls {{ }};\n",
            folder.display(),
        );
        for (at, list) in lists.iter().enumerate() {
            text += &format!(
                "zone rpz{at} {{ type primary; file \"{}\"; check-names ignore; }};\n",
                list.display()
            );
        }
        let file = folder.join("named.conf");
        fs::write(&file, text).unwrap();
        vec!["-g".into(), "-c".into(), file.display().to_string()]
    };
    Server::start(program, folder, configure, is_ready)
}

/// Starts dnsmasq with lists as the values of this option: `conf-file`, `servers-file` or
/// `addn-hosts`.
///
/// # Panics
/// If it does not start, or is not ready after ten minutes.
pub fn dnsmasq(
    program: &Path,
    lists: &[PathBuf],
    option: &str,
    folder: &Path,
    is_ready: impl Fn(SocketAddr) -> bool,
) -> Server {
    let configure = |port: u16, upstream: u16| {
        let mut text = format!(
            "port={port}\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\n\
             server=127.0.0.1#{upstream}\npid-file\nuser=root\ncache-size=0\n\
             dns-forward-max=1000\nlog-facility=-\n"
        );
        for list in lists {
            text += &format!("{option}={}\n", list.display());
        }
        let file = folder.join("dnsmasq.conf");
        fs::write(&file, text).unwrap();
        vec!["-k".into(), format!("--conf-file={}", file.display())]
    };
    Server::start(program, folder, configure, is_ready)
}

/// Whether a server answers this question so.
pub fn says(server: SocketAddr, question: &Question, answer: &Answer) -> bool {
    ask(
        server,
        std::slice::from_ref(question),
        Duration::from_millis(50),
    )[0] == *answer
}
