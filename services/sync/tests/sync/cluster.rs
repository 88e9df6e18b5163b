//! Nodes of etcd for a test, on free ports of this machine. They end with it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sapwood_sync::{EtcdLog, EtcdOptions};
use tempfile::TempDir;

use crate::net::{self, Net};

/// How many nodes, and what they want.
#[derive(Clone, Copy)]
pub struct Setup {
    pub nodes: usize,
    /// The most bytes of the database.
    pub quota: Option<u64>,
    /// Certificates for clients and for the nodes.
    pub tls: bool,
    /// The entries of its log after which a node saves its state, when other than usual. Nodes that
    /// are further behind get this state instead of entries.
    pub snapshot_count: Option<u32>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            nodes: 1,
            quota: None,
            tls: false,
            snapshot_count: None,
        }
    }
}

/// Running nodes.
pub struct Cluster {
    nodes: Vec<Node>,
    pub folder: TempDir,
    tls: bool,
    /// The words before a command that speaks to the nodes.
    before: Vec<String>,
}

struct Node {
    command: Vec<String>,
    address: String,
    data: PathBuf,
    child: Option<Child>,
}

impl Cluster {
    /// Starts nodes and waits until they answer; `None` if etcd is not installed.
    pub async fn start(setup: Setup) -> Option<Cluster> {
        let cluster = Self::start_on(setup, None)?;
        cluster.wait().await;
        Some(cluster)
    }

    /// Starts nodes, each on a machine of a network, if there is one.
    pub fn start_on(setup: Setup, net: Option<&Net>) -> Option<Cluster> {
        for (program, version) in [("etcd", "--version"), ("etcdctl", "version")] {
            if Command::new(program).arg(version).output().is_err() {
                let must_run = std::env::var_os("SAPWOOD_ETCD_MUST_RUN").is_some();
                assert!(!must_run, "{program} is not installed");
                println!("skipped: {program} is not installed");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        if setup.tls {
            certificates(folder.path());
        }
        let mut cluster = Cluster {
            nodes: plan(setup, folder.path(), net),
            folder,
            tls: setup.tls,
            before: net.map(|net| net.on(None)).unwrap_or_default(),
        };
        for node in 0..setup.nodes {
            cluster.run(node);
        }
        Some(cluster)
    }

    /// The addresses for clients.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// Options for all nodes, with short times.
    pub fn options(&self) -> EtcdOptions {
        let mut options = EtcdOptions::new(self.nodes.iter().map(|node| &node.address));
        options.timeout = Duration::from_millis(1_000);
        options.lease = Duration::from_secs(3);
        if self.tls {
            options.authority = Some(self.folder.path().join("ca.pem"));
            options.identity = Some((
                self.folder.path().join("client.pem"),
                self.folder.path().join("client.key"),
            ));
        }
        options
    }

    /// Options for one node alone.
    pub fn options_of(&self, node: usize) -> EtcdOptions {
        let mut options = self.options();
        options.endpoints = vec![self.nodes[node].address.clone()];
        options
    }

    /// A log of a map.
    pub async fn log(&self, map: &str) -> EtcdLog {
        EtcdLog::connect(self.options(), map).await.unwrap()
    }

    /// Waits until etcd answers through every node that runs.
    pub async fn wait(&self) {
        let begin = Instant::now();
        for node in (0..self.nodes.len()).filter(|node| self.nodes[*node].child.is_some()) {
            loop {
                match EtcdLog::connect(self.options_of(node), "wait").await {
                    // A user is wanted: that is an answer, too.
                    Ok(_) | Err(sapwood_sync::Error::Denied { .. }) => break,
                    Err(error) => {
                        let waited = begin.elapsed();
                        assert!(waited < Duration::from_secs(60), "node {node}: {error}");
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    pub fn run(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        assert!(node.child.is_none(), "it runs");
        let child = Command::new(&node.command[0])
            .args(&node.command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        node.child = Some(child.unwrap());
    }

    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    pub fn pause(&self, node: usize) {
        self.nodes[node].signal(Signal::STOP);
    }

    pub fn resume(&self, node: usize) {
        self.nodes[node].signal(Signal::CONT);
    }

    /// What `etcdctl` says through a node; the test fails when it fails.
    pub fn ctl(&self, node: usize, args: &[&str]) -> String {
        self.try_ctl(node, args)
            .unwrap_or_else(|said| panic!("etcdctl {args:?}: {said}"))
    }

    /// The same, with the error as a text.
    pub fn try_ctl(&self, node: usize, args: &[&str]) -> Result<String, String> {
        let mut words = self.before.clone();
        words.push("etcdctl".into());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env("ETCDCTL_API", "3")
            .arg("--endpoints")
            .arg(&self.nodes[node].address);
        if self.tls {
            let file = |name| self.folder.path().join(name);
            command.arg("--cacert").arg(file("ca.pem"));
            command.arg("--cert").arg(file("client.pem"));
            command.arg("--key").arg(file("client.key"));
        }
        let output = command.args(args).output().unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Kills a node, and starts it with nothing, as if its disk had been lost.
    pub fn wipe(&mut self, node: usize) {
        self.kill(node);
        std::fs::remove_dir_all(&self.nodes[node].data).unwrap();
        self.run(node);
    }

    /// Saves what etcd has into a file.
    pub fn save(&self, node: usize, file: &Path) {
        self.ctl(node, &["snapshot", "save", file.to_str().unwrap()]);
    }

    /// Kills the only node, and starts it with what was saved. Its revisions go back.
    pub fn restore(&mut self, file: &Path) {
        self.kill(0);
        let Node { command, data, .. } = &self.nodes[0];
        std::fs::remove_dir_all(data).unwrap();
        let mut restore = Command::new("etcdctl");
        restore
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore"]);
        restore.arg(file);
        for option in [
            "--name",
            "--data-dir",
            "--initial-advertise-peer-urls",
            "--initial-cluster",
            "--initial-cluster-token",
        ] {
            let at = command.iter().position(|word| word == option).unwrap();
            restore.args([option, &command[at + 1]]);
        }
        let output = restore.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        self.run(0);
    }

    /// Frees what was deleted, and ends the alarm for a full database.
    pub fn disarm(&self) {
        for node in 0..self.nodes.len() {
            self.ctl(node, &["defrag"]);
        }
        self.ctl(0, &["alarm", "disarm"]);
    }
}

impl Node {
    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// The words before a command whose process ends with this thread, also when this is killed.
pub fn with_me() -> Vec<String> {
    let words = ["setpriv", "--pdeathsig", "KILL"];
    let mut command = Command::new(words[0]);
    let tried = command.args(&words[1..]).arg("true").status();
    match tried.is_ok_and(|status| status.success()) {
        true => words.map(String::from).to_vec(),
        false => Vec::new(),
    }
}

/// The command lines of the nodes.
fn plan(setup: Setup, folder: &Path, net: Option<&Net>) -> Vec<Node> {
    // All ports are held until all are known, so that none is given twice.
    let sockets: Vec<_> = (0..2 * setup.nodes)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let host = |number: usize| match net {
        Some(_) => format!("{}:{}", net::address(number / 2), 2379 + number % 2),
        None => sockets[number].local_addr().unwrap().to_string(),
    };
    let scheme = if setup.tls { "https" } else { "http" };
    let peers: Vec<_> = (0..setup.nodes)
        .map(|node| format!("http://{}", host(2 * node + 1)))
        .collect();
    let cluster: Vec<_> = (0..setup.nodes)
        .map(|node| format!("n{node}={}", peers[node]))
        .collect();
    let mut nodes = Vec::new();
    for (node, peer) in peers.iter().enumerate() {
        let address = format!("{scheme}://{}", host(2 * node));
        let data = folder.join(format!("n{node}"));
        let mut command = with_me();
        if let Some(net) = net {
            command.extend(net.on(Some(node)));
        }
        let cluster = cluster.join(",");
        let data_text = data.display().to_string();
        let name = format!("n{node}");
        command.extend(
            [
                "etcd",
                "--name",
                &name,
                "--data-dir",
                &data_text,
                "--listen-client-urls",
                &address,
                "--advertise-client-urls",
                &address,
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster",
                &cluster,
                "--initial-cluster-token",
                &cluster,
                "--heartbeat-interval",
                "100",
                "--election-timeout",
                "1000",
                "--enable-v2=false",
                // Passwords are checked fast.
                "--bcrypt-cost",
                "4",
                "--logger",
                "zap",
                "--log-level",
                "error",
            ]
            .map(String::from),
        );
        if let Some(quota) = setup.quota {
            command.push(format!("--quota-backend-bytes={quota}"));
        }
        if let Some(count) = setup.snapshot_count {
            command.push(format!("--snapshot-count={count}"));
        }
        if setup.tls {
            let file = |name| folder.join(name).display().to_string();
            command.push("--client-cert-auth".into());
            command.extend(["--trusted-ca-file".into(), file("ca.pem")]);
            command.extend(["--cert-file".into(), file("server.pem")]);
            command.extend(["--key-file".into(), file("server.key")]);
        }
        nodes.push(Node {
            command,
            address,
            data,
            child: None,
        });
    }
    nodes
}

/// An authority, a node's certificate, a client's, and another authority that signed none of them.
fn certificates(folder: &Path) {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        write(&format!("{name}.pem"), certificate.pem());
        Issuer::new(params, key)
    };
    authority("other");
    let issuer = authority("ca");
    for name in ["server", "client"] {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        write(&format!("{name}.pem"), certificate.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}
