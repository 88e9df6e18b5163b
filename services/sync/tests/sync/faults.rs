//! Two publishers and four followers over three nodes of etcd, while processes and nodes are
//! killed, paused, cut off, parted and slowed down at random, history is compacted and the database
//! is full. Afterwards all histories must be explained by one log.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Cluster, Setup, with_me};
use crate::history::Histories;
use crate::net::Net;
use crate::players::history_of;

const NODES: usize = 3;
const PUBLISHERS: usize = 2;
/// Half of them have live maps, which other processes read.
const FOLLOWERS: usize = 4;
/// Each node has a machine; so have the first publisher and the first follower. The others run on
/// the hub, which nothing cuts off.
const PUBLISHER_MACHINE: usize = NODES;
const FOLLOWER_MACHINE: usize = NODES + 1;
const MACHINES: usize = NODES + 2;

/// A process of this test program.
struct Player {
    name: String,
    command: Vec<String>,
    envs: Vec<(&'static str, String)>,
    child: Option<Child>,
}

impl Player {
    fn new(
        task: &str,
        name: String,
        machine: Option<usize>,
        net: Option<&Net>,
        cluster: &Cluster,
    ) -> Self {
        let mut command = with_me();
        if let Some(net) = net {
            command.extend(net.on(machine));
        }
        command.push(std::env::current_exe().unwrap().display().to_string());
        command.extend(
            [
                "players::child_process",
                "--exact",
                "--ignored",
                "--nocapture",
            ]
            .map(String::from),
        );
        let envs = vec![
            ("SAPWOOD_TASK", task.into()),
            ("SAPWOOD_NAME", name.clone()),
            (
                "SAPWOOD_FOLDER",
                cluster.folder.path().display().to_string(),
            ),
            ("SAPWOOD_ENDPOINTS", cluster.addresses().join(",")),
        ];
        Player {
            name,
            command,
            envs,
            child: None,
        }
    }

    fn run(&mut self, folder: &Path) {
        let said = std::fs::File::options()
            .append(true)
            .create(true)
            .open(folder.join(format!("{}.said", self.name)))
            .unwrap();
        let child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .envs(self.envs.clone())
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn();
        self.child = Some(child.unwrap());
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
            let _ = kill_process(pid, signal);
        }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Fails when the process has ended by itself, but well.
    fn assert_runs(&mut self, folder: &Path) {
        let Some(child) = &mut self.child else { return };
        if let Some(status) = child.try_wait().unwrap() {
            panic!("{} ended, {status}: {}", self.name, self.said(folder));
        }
    }

    fn said(&self, folder: &Path) -> String {
        let read = |ending| {
            let path = folder.join(format!("{}.{ending}", self.name));
            std::fs::read_to_string(path).unwrap_or_default()
        };
        format!("{}\n{}", read("said"), read("trouble"))
    }

    /// Waits for its end.
    fn end(&mut self, folder: &Path, limit: Duration) {
        let begin = Instant::now();
        let child = self.child.as_mut().unwrap();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "{}: {}", self.name, self.said(folder));
                return;
            }
            if begin.elapsed() > limit {
                panic!("{} does not end: {}", self.name, self.said(folder));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.kill();
    }
}

/// All that can be broken.
struct Scene {
    net: Option<Net>,
    cluster: Cluster,
    publishers: Vec<Player>,
    followers: Vec<Player>,
    readers: Vec<Player>,
    /// A follower that is paused meanwhile, and until when.
    asleep: Option<(usize, Instant)>,
    rng: fastrand::Rng,
    /// How often each fault was made.
    faults: std::collections::BTreeMap<&'static str, u64>,
}

impl Scene {
    fn folder(&self) -> std::path::PathBuf {
        self.cluster.folder.path().to_owned()
    }

    fn a_while(&mut self, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.rng.u64(50..=most_ms)));
    }

    fn count(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Lets the follower go on that has been paused, when it is time or at the end.
    fn wake(&mut self, is_end: bool) {
        if let Some((one, until)) = self.asleep
            && (is_end || Instant::now() >= until)
        {
            self.followers[one].signal(Signal::CONT);
            self.asleep = None;
        }
    }

    /// Makes a fault, and mends it.
    fn break_something(&mut self) {
        let folder = self.folder();
        let node = self.rng.usize(0..NODES);
        match self.rng.u32(0..14) {
            0 => {
                self.cluster.kill(node);
                self.a_while(1_500);
                self.cluster.run(node);
                self.count("nodes killed");
            }
            1 => {
                self.cluster.pause(node);
                self.a_while(3_000);
                self.cluster.resume(node);
                self.count("nodes paused");
            }
            // Stopped half of the time.
            2 => {
                for _ in 0..self.rng.u32(5..25) {
                    self.cluster.pause(node);
                    std::thread::sleep(Duration::from_millis(40));
                    self.cluster.resume(node);
                    std::thread::sleep(Duration::from_millis(40));
                }
                self.count("nodes slowed down");
            }
            3 | 4 => self.cut(node, 3_000),
            // No majority is left.
            5 => {
                let other = (node + 1) % NODES;
                for node in [node, other] {
                    self.cluster.kill(node);
                }
                self.a_while(1_000);
                for node in [node, other] {
                    self.cluster.run(node);
                }
                self.count("majorities killed");
            }
            6 => {
                let one = self.rng.usize(0..PUBLISHERS);
                self.publishers[one].kill();
                self.publishers[one].run(&folder);
                self.count("publishers killed");
            }
            // Longer than its lease, so that another one leads when it goes on.
            7 => {
                let one = self.rng.usize(0..PUBLISHERS);
                self.publishers[one].signal(Signal::STOP);
                let pause = self.rng.u64(500..5_000);
                std::thread::sleep(Duration::from_millis(pause));
                self.publishers[one].signal(Signal::CONT);
                self.count("publishers paused");
            }
            8 => {
                let one = self.rng.usize(0..FOLLOWERS);
                self.followers[one].kill();
                self.followers[one].run(&folder);
                self.count("followers killed");
            }
            // So long that the log may have moved on from where it was.
            9 if self.asleep.is_none() => {
                let one = self.rng.usize(0..FOLLOWERS);
                self.followers[one].signal(Signal::STOP);
                self.asleep = Some((one, Instant::now() + Duration::from_secs(20)));
                self.count("followers paused for long");
            }
            9 => {
                let one = self.rng.usize(0..FOLLOWERS);
                self.followers[one].signal(Signal::STOP);
                self.a_while(3_000);
                self.followers[one].signal(Signal::CONT);
                self.count("followers paused");
            }
            10 if self.rng.bool() => {
                let one = self.rng.usize(0..self.readers.len());
                self.readers[one].kill();
                self.readers[one].run(&folder);
                self.count("readers killed");
            }
            10 => {
                if self.compact(node).is_some() {
                    self.count("histories compacted");
                }
            }
            11 => match self.rng.u32(0..4) {
                0 => self.cut(PUBLISHER_MACHINE, 5_000),
                1 => self.cut(FOLLOWER_MACHINE, 5_000),
                _ => self.fill(),
            },
            12 => self.part(),
            _ => self.slow(),
        }
    }

    /// Parts two machines from each other, in one direction or in both.
    fn part(&mut self) {
        let from = self.rng.usize(0..MACHINES);
        let to = (from + self.rng.usize(1..MACHINES)) % MACHINES;
        let is_one_way = self.rng.bool();
        let wait = Duration::from_millis(self.rng.u64(500..5_000));
        let Some(net) = &self.net else { return };
        net.part(from, to);
        if !is_one_way {
            net.part(to, from);
        }
        std::thread::sleep(wait);
        net.join(from, to);
        if !is_one_way {
            net.join(to, from);
        }
        self.count(match is_one_way {
            true => "machines parted in one direction",
            false => "machines parted",
        });
    }

    /// Slows the link of a machine down until packets are lost.
    fn slow(&mut self) {
        let machine = self.rng.usize(0..MACHINES);
        let rate = ["64kbit", "256kbit", "1mbit"][self.rng.usize(0..3)];
        let wait = Duration::from_millis(self.rng.u64(500..5_000));
        let Some(net) = &self.net else { return };
        let slowed = net.slow(machine, rate);
        if slowed.is_ok() {
            std::thread::sleep(wait);
        }
        net.hasten(machine);
        match slowed {
            Ok(()) => self.count("links slowed down"),
            Err(why) => println!("no slow links: {why}"),
        }
    }

    /// Cuts a machine off, or pauses its node where there are no namespaces.
    fn cut(&mut self, machine: usize, most_ms: u64) {
        let wait = Duration::from_millis(self.rng.u64(100..most_ms));
        let node = machine % NODES;
        match &self.net {
            Some(net) => {
                net.cut(machine);
                std::thread::sleep(wait);
                net.mend(machine);
                self.count("machines cut off");
            }
            None => {
                self.cluster.pause(node);
                std::thread::sleep(wait);
                self.cluster.resume(node);
                self.count("nodes paused");
            }
        }
    }

    /// Compacts etcd's history up to now.
    fn compact(&self, node: usize) -> Option<()> {
        let state = self
            .cluster
            .try_ctl(node, &["get", "x", "-w", "json"])
            .ok()?;
        let revision = state.split("\"revision\":").nth(1)?;
        let revision: String = revision.chars().take_while(char::is_ascii_digit).collect();
        self.cluster.try_ctl(node, &["compact", &revision]).ok()?;
        Some(())
    }

    /// Lets etcd think for a while that its database is full.
    fn fill(&mut self) {
        let folder = self.folder();
        let mut alarm = Player::new(
            "alarm",
            "alarm".into(),
            None,
            self.net.as_ref(),
            &self.cluster,
        );
        alarm.run(&folder);
        alarm.end(&folder, Duration::from_secs(20));
        self.a_while(1_500);
        self.disarm();
        self.count("databases full");
    }

    /// Ends the alarm, and writes a key through each node. etcd 3.4 saves the end of an alarm, but
    /// not how far it has come by that: a node that is killed before its database has a later write
    /// does what was refused before (docs/sync.md).
    fn disarm(&self) {
        let done = || {
            // An alarm whose request was slow may come after its end.
            self.cluster.try_ctl(0, &["alarm", "disarm"])?;
            (0..NODES).try_for_each(|node| {
                let put = self.cluster.try_ctl(node, &["put", "disarmed", "1"]);
                put.map(drop)
            })
        };
        for attempt in 0.. {
            match done() {
                Ok(()) => break,
                Err(said) => assert!(attempt < 20, "{said}"),
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        // Nodes write their database every 100 ms.
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// A failed test leaves what its processes wrote.
impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let kept = std::env::temp_dir().join(format!("sapwood-histories-{}", std::process::id()));
        let _ = std::fs::create_dir_all(&kept);
        for entry in std::fs::read_dir(self.folder())
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.path().is_file() {
                let _ = std::fs::copy(entry.path(), kept.join(entry.file_name()));
            }
        }
        println!("the histories are in {}", kept.display());
    }
}

/// How long faults are made.
fn seconds() -> u64 {
    match std::env::var("SAPWOOD_SOAK") {
        Ok(text) => text.parse().expect("SAPWOOD_SOAK: seconds"),
        Err(_) => 5,
    }
}

#[test]
fn followers_show_the_leaders_versions_whatever_breaks() {
    let seed = match std::env::var("SAPWOOD_SEED") {
        Ok(text) => text.parse().expect("SAPWOOD_SEED: a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("SAPWOOD_SEED={seed}");
    let net = match Net::new(MACHINES) {
        Ok(net) => Some(net),
        Err(why) => {
            println!("without namespaces, so nodes are paused instead of cut off: {why}");
            None
        }
    };
    let setup = Setup {
        nodes: NODES,
        // The usual 100,000 are an hour of this test.
        snapshot_count: Some(1_000),
        ..Setup::default()
    };
    let Some(cluster) = Cluster::start_on(setup, net.as_ref()) else {
        return;
    };
    let begin = Instant::now();
    while cluster.try_ctl(0, &["endpoint", "health"]).is_err() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "etcd does not start"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let player = |task: &str, name: String, machine| {
        let mut player = Player::new(task, name, machine, net.as_ref(), &cluster);
        player.run(cluster.folder.path());
        player
    };
    let mut recorder = player("record", "recorder".into(), None);
    let publishers = (0..PUBLISHERS)
        .map(|one| {
            let machine = (one == 0).then_some(PUBLISHER_MACHINE);
            player("publish", format!("p{one}"), machine)
        })
        .collect();
    let followers = (0..FOLLOWERS)
        .map(|one| match one < FOLLOWERS / 2 {
            true => {
                let machine = (one == 0).then_some(FOLLOWER_MACHINE);
                player("follow", format!("memory{one}"), machine)
            }
            false => player("follow-live", format!("live{one}"), None),
        })
        .collect();
    let readers = (FOLLOWERS / 2..FOLLOWERS)
        .map(|one| player("read-live", format!("reader{one}"), None))
        .collect();
    let mut scene = Scene {
        net,
        cluster,
        publishers,
        followers,
        readers,
        asleep: None,
        rng: fastrand::Rng::with_seed(seed),
        faults: Default::default(),
    };
    let folder = scene.folder();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds()) {
        scene.a_while(400);
        scene.break_something();
        scene.wake(false);
        let Scene {
            publishers,
            followers,
            readers,
            ..
        } = &mut scene;
        for player in publishers
            .iter_mut()
            .chain(followers)
            .chain(readers)
            .chain([&mut recorder])
        {
            player.assert_runs(&folder);
        }
    }
    // All is mended: the publishers end, then the recorder knows the last commit, then all have it.
    scene.wake(true);
    scene.a_while(500);
    std::fs::write(folder.join("stop"), "").unwrap();
    let limit = Duration::from_secs(60);
    for publisher in &mut scene.publishers {
        publisher.end(&folder, limit);
    }
    std::fs::write(folder.join("stopped"), "").unwrap();
    recorder.end(&folder, limit);
    for follower in &mut scene.followers {
        follower.end(&folder, limit);
    }
    std::fs::write(folder.join("ended"), "").unwrap();
    for reader in &mut scene.readers {
        reader.end(&folder, limit);
    }
    let read =
        |player: &Player| std::fs::read_to_string(history_of(&folder, &player.name)).unwrap();
    let histories = Histories {
        recorder: read(&recorder),
        publishers: scene.publishers.iter().map(read).collect(),
        followers: scene.followers.iter().map(read).collect(),
        readers: scene.readers.iter().map(read).collect(),
    };
    let checked = histories.check().unwrap_or_else(|error| panic!("{error}"));
    let faults: u64 = scene.faults.values().sum();
    println!(
        "{faults} faults ({:?}); {} commits, {} acknowledged, in {} terms; {} versions applied by \
         {} followers' processes, {} seen by readers, {} further starts from snapshots, {} \
         evictions",
        scene.faults,
        checked.commits,
        checked.acknowledged,
        checked.terms,
        checked.applied,
        checked.runs,
        checked.seen,
        checked.jumps,
        checked.evictions
    );
    assert!(faults > 0 && checked.acknowledged > 0 && checked.terms > 0);
    assert!(checked.acknowledged <= checked.commits);
}
