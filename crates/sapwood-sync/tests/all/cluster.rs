//! Nodes of etcd for a test, on free ports of this machine. They end with it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sapwood_sync::{EtcdLog, EtcdOptions};
use tempfile::TempDir;

/// How many nodes, and what they want.
#[derive(Clone, Copy)]
pub struct Setup {
    pub nodes: usize,
    /// The most bytes of the database.
    pub quota: Option<u64>,
    /// Certificates for clients and for the nodes.
    pub tls: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            nodes: 1,
            quota: None,
            tls: false,
        }
    }
}

/// Running nodes.
pub struct Cluster {
    nodes: Vec<Node>,
    pub folder: TempDir,
    tls: bool,
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
        if Command::new("etcd")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_err()
        {
            assert!(
                std::env::var_os("SAPWOOD_ETCD_MUST_RUN").is_none(),
                "etcd is not installed"
            );
            println!("skipped: etcd is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        if setup.tls {
            certificates(folder.path());
        }
        let mut cluster = Cluster {
            nodes: plan(setup, folder.path()),
            folder,
            tls: setup.tls,
        };
        for node in 0..setup.nodes {
            cluster.run(node);
        }
        cluster.wait().await;
        Some(cluster)
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
        let mut command = Command::new("etcdctl");
        command
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
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "etcdctl {args:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
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

/// The command lines of the nodes.
fn plan(setup: Setup, folder: &Path) -> Vec<Node> {
    // All ports are held until all are known, so that none is given twice.
    let sockets: Vec<_> = (0..2 * setup.nodes)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let ports: Vec<_> = sockets
        .iter()
        .map(|socket| socket.local_addr().unwrap().port())
        .collect();
    let scheme = if setup.tls { "https" } else { "http" };
    let peers: Vec<_> = (0..setup.nodes)
        .map(|node| format!("http://127.0.0.1:{}", ports[2 * node + 1]))
        .collect();
    let cluster: Vec<_> = (0..setup.nodes)
        .map(|node| format!("n{node}={}", peers[node]))
        .collect();
    let mut nodes = Vec::new();
    for (node, peer) in peers.iter().enumerate() {
        let address = format!("{scheme}://127.0.0.1:{}", ports[2 * node]);
        let data = folder.join(format!("n{node}"));
        let mut command: Vec<String> = Vec::new();
        // A killed test leaves no nodes behind.
        if Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "true"])
            .status()
            .is_ok_and(|status| status.success())
        {
            command.extend(["setpriv", "--pdeathsig", "KILL"].map(String::from));
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
