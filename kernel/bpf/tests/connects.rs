//! `cgroup-connect.bpf.c` on a cgroup of its own: connections of its processes are allowed, denied
//! and counted by the prefix of their destination.
#![cfg(feature = "kernel")]

mod kernel;

use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel::skipped;
use sapwood_bpf::{BpfArena, IpMap, Loader, Words};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cgroup-connect.bpf.o"));

/// A cgroup that goes with its test.
struct Cgroup(PathBuf);

impl Cgroup {
    /// `None` when there are no cgroups of version 2, or the test may not make any.
    fn new() -> Option<Cgroup> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let folder = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (folder, kind) = (words.next()?, words.next()?);
            (kind == "cgroup2").then_some(folder)
        });
        let made = folder.map(|folder| {
            let path = Path::new(folder).join(format!("sapwood-{}", std::process::id()));
            std::fs::create_dir(&path).map(|()| Cgroup(path))
        });
        match made {
            Some(Ok(cgroup)) => Some(cgroup),
            other => {
                assert!(std::env::var_os("SAPWOOD_BPF_MUST_RUN").is_none());
                println!("skipped: no cgroup: {:?}", other.map(|made| made.err()));
                None
            }
        }
    }

    /// Whether a process of the cgroup can connect to an address.
    fn connects(&self, host: &str, port: u16) -> bool {
        let procs = self.0.join("cgroup.procs");
        let script = format!(
            "echo $$ > {} || exit 9; exec 3<>/dev/tcp/{host}/{port}",
            procs.display()
        );
        let out = Command::new("bash").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_ne!(out.status.code(), Some(9), "{said}");
        if !out.status.success() {
            assert!(said.contains("Operation not permitted"), "{said}");
        }
        out.status.success()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its last process may need a moment to end.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn connections_are_allowed_and_denied_by_prefix() {
    if skipped() {
        return;
    }
    let Some(cgroup) = Cgroup::new() else {
        return;
    };
    let arena = BpfArena::create(32 << 20).unwrap();
    let rules = IpMap::<u64>::new(&arena, "rules", 8 << 20).unwrap();
    let counts = Words::create(&arena, "counts", 16).unwrap();
    let (allow, deny) = (|rule: u64| rule << 1, |rule: u64| rule << 1 | 1);
    for (net, value) in [
        ("127.0.0.0/8", allow(1)),
        ("127.0.0.2/32", deny(2)),
        ("127.1.0.0/16", deny(3)),
        ("127.1.2.0/24", allow(4)),
        ("::1/128", deny(5)),
    ] {
        rules.insert(net.parse().unwrap(), value).unwrap();
    }
    let settings = [
        rules.window4().number,
        rules.window6().number,
        counts.window().number,
        16,
    ];
    let mut loader = Loader::open(&arena, OBJECT).unwrap();
    let settings = settings.map(u32::to_ne_bytes).concat();
    loader.set_constants(".rodata.connects", &settings).unwrap();
    let programs = loader.load().unwrap();
    let folder = std::fs::File::open(&cgroup.0).unwrap();
    let _links = ["sw_connect4", "sw_connect6"].map(|name| {
        let program = programs.program(name).unwrap();
        program.attach_cgroup(folder.as_fd().as_raw_fd()).unwrap()
    });
    let four = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = four.local_addr().unwrap().port();
    let six = TcpListener::bind("[::1]:0").unwrap();
    let port6 = six.local_addr().unwrap().port();
    for (host, times, allowed) in [
        ("127.0.0.1", 3, true),
        ("127.0.0.2", 2, false),
        ("127.1.1.1", 1, false),
        ("127.1.2.1", 4, true),
    ] {
        for _ in 0..times {
            assert_eq!(cgroup.connects(host, port), allowed, "{host}");
        }
    }
    assert!(!cgroup.connects("::1", port6));
    let counted = || [1, 2, 3, 4, 5].map(|rule| counts.get(rule));
    assert_eq!(counted(), [3, 2, 1, 4, 1]);
    // The rules change while the programs are attached.
    rules
        .insert("127.0.0.2/32".parse().unwrap(), allow(2))
        .unwrap();
    rules.insert("::1/128".parse().unwrap(), allow(5)).unwrap();
    rules.remove("127.0.0.0/8".parse().unwrap()).unwrap();
    assert!(cgroup.connects("127.0.0.2", port) && cgroup.connects("::1", port6));
    // Without a prefix, a destination is allowed and has no count.
    assert!(cgroup.connects("127.0.0.1", port));
    assert_eq!(counted(), [3, 3, 1, 4, 2]);
    let totals = programs.counts::<2>("sw_connects_counts").unwrap();
    assert_eq!(totals, [3 + 4 + 3, 2 + 1 + 1]);
    // This process is not in the cgroup.
    rules
        .insert("127.0.0.0/8".parse().unwrap(), deny(1))
        .unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert_eq!(counted(), [3, 3, 1, 4, 2]);
    rules.verify().unwrap();
}
