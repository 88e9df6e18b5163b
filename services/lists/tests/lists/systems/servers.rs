//! The systems whose formats these are, started with lists.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::dns::{Answer, Question, Upstream, ask};

/// Whether a test may not be skipped for want of a program.
const MUST_RUN: &str = "SAPWOOD_LISTS_MUST_RUN";

/// A program of the path, or of where Debian puts servers; `None`, and a line that says so, if it
/// is not installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/usr/local/go/bin"]);
    let found = folders.map(|folder| Path::new(folder).join(name));
    let found = found.into_iter().find(|file| file.is_file());
    if found.is_none() {
        missing(&format!("{name} is not installed"));
    }
    found
}

fn missing(what: &str) {
    assert!(std::env::var(MUST_RUN).is_err(), "{what}");
    println!("skipped: {what} (ci/packages.sh)");
}

/// A server with lists, which is killed when it is dropped.
pub struct Server {
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
            assert!(begin.elapsed() < Duration::from_secs(60), "{}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
        server
    }
}

/// Starts Unbound with files of its options, or with response policy zones.
pub fn unbound(
    lists: &[PathBuf],
    are_zones: bool,
    folder: &Path,
    is_ready: impl Fn(SocketAddr) -> bool,
) -> Option<Server> {
    let program = program("unbound")?;
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
    Some(Server::start(&program, folder, configure, is_ready))
}

/// Starts BIND with response policy zones.
pub fn bind(
    lists: &[PathBuf],
    folder: &Path,
    is_ready: impl Fn(SocketAddr) -> bool,
) -> Option<Server> {
    let program = program("named")?;
    let configure = |port: u16, upstream: u16| {
        let zones: String = (0..lists.len())
            .map(|at| format!(" zone rpz{at};"))
            .collect();
        let mut text = format!(
            "options {{ directory \"{}\"; listen-on port {port} {{ 127.0.0.1; }}; \
             listen-on-v6 {{ none; }}; pid-file none; session-keyfile none; recursion yes; \
             dnssec-validation no; forward only; forwarders {{ 127.0.0.1 port {upstream}; }}; \
             empty-zones-enable no; \
             response-policy {{{zones} }} qname-wait-recurse no break-dnssec yes; }};\n\
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
    Some(Server::start(&program, folder, configure, is_ready))
}

/// Starts dnsmasq with files of its options, or with hosts files.
pub fn dnsmasq(
    lists: &[PathBuf],
    are_hosts: bool,
    folder: &Path,
    is_ready: impl Fn(SocketAddr) -> bool,
) -> Option<Server> {
    let program = program("dnsmasq")?;
    let configure = |port: u16, upstream: u16| {
        let mut text = format!(
            "port={port}\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\n\
             server=127.0.0.1#{upstream}\npid-file\nuser=root\ncache-size=0\n\
             dns-forward-max=1000\nlog-facility=-\n"
        );
        for list in lists {
            let option = if are_hosts { "addn-hosts" } else { "conf-file" };
            text += &format!("{option}={}\n", list.display());
        }
        let file = folder.join("dnsmasq.conf");
        fs::write(&file, text).unwrap();
        vec!["-k".into(), format!("--conf-file={}", file.display())]
    };
    Some(Server::start(&program, folder, configure, is_ready))
}

/// Whether a server answers this question so.
pub fn says(server: SocketAddr, question: &Question, answer: &Answer) -> bool {
    ask(
        server,
        std::slice::from_ref(question),
        Duration::from_millis(300),
    )[0] == *answer
}

/// What AdGuard's library says of the questions.
pub fn urlfilter(lists: &[PathBuf], folder: &Path, questions: &[Question]) -> Option<Vec<Answer>> {
    let go = program("go")?;
    let built = folder.join("urlfilter");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/urlfilter");
    let made = Command::new(go)
        .current_dir(sources)
        .args(["build", "-mod=readonly", "-o"])
        .arg(&built)
        .output()
        .unwrap();
    if !made.status.success() {
        missing(&format!(
            "Go cannot build the program with urlfilter: {}",
            String::from_utf8_lossy(&made.stderr)
        ));
        return None;
    }
    let text: String = questions
        .iter()
        .map(|question| format!("{} {}\n", question.rtype, question.name))
        .collect();
    let input = folder.join("questions");
    fs::write(&input, text).unwrap();
    let output = Command::new(built)
        .args(lists)
        .stdin(File::open(input).unwrap())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let answers = text.lines().zip(questions).map(|(line, question)| {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest) {
            ("pass", "") => Answer::Upstream,
            ("block" | "code", "" | "3") => Answer::Nxdomain,
            ("code", "5") => Answer::Refused,
            ("name", name) => Answer::Name(name.into()),
            ("addresses", all) => {
                let all = all.split_ascii_whitespace();
                let all = all.map(|word| word.parse::<IpAddr>().unwrap());
                Answer::addresses(all, question.rtype)
            }
            _ => Answer::Other(line.into()),
        }
    });
    Some(answers.collect())
}
