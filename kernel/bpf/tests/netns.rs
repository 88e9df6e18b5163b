//! The network namespaces of other tests: real packets pass through them, and nothing remains
//! afterwards.
#![cfg(feature = "kernel")]

mod common;

use std::net::UdpSocket;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::Duration;

use common::netns::{Netns, Running};

#[test]
fn packets_go_through_and_nothing_is_left() {
    let mut paths: Vec<PathBuf> = Vec::new();
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let Some([left, right]) = Netns::some(["left", "right"]) else {
            return;
        };
        paths.extend([left.path(), right.path()]);
        Netns::veth(
            (&left, "l0", &["10.77.0.1/24", "fd00:77::1/64"]),
            (&right, "r0", &["10.77.0.2/24", "fd00:77::2/64"]),
        );
        assert_eq!(left.mac("l0").len(), 6);
        assert!(right.index("r0") > 1);
        for (from, to) in [
            ("10.77.0.1:0", "10.77.0.2:7777"),
            ("[fd00:77::1]:0", "[fd00:77::2]:7777"),
        ] {
            let server = right.inside(|| UdpSocket::bind(to).unwrap());
            let client = left.inside(|| UdpSocket::bind(from).unwrap());
            server
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            client.send_to(b"through", to).unwrap();
            let mut buffer = [0; 16];
            assert_eq!(server.recv(&mut buffer).unwrap(), 7);
        }
        let out = left.run(&["cat", "/proc/net/dev"]);
        assert!(String::from_utf8_lossy(&out.stdout).contains("l0:"));
        let _sleeper: Running = left.start(&["sleep", "60"]);
        panic!("as tests do");
    }));
    if paths.is_empty() {
        return;
    }
    let why = panicked.unwrap_err();
    assert_eq!(why.downcast_ref::<&str>(), Some(&"as tests do"));
    for path in paths {
        assert!(!path.exists(), "{} is left", path.display());
    }
}

#[test]
fn a_program_that_does_not_end_is_killed() {
    let Some([one]) = Netns::some(["slow"]) else {
        return;
    };
    let running = one.start(&["sleep", "60"]);
    let pid = running.pid();
    let error = running.end(Duration::from_millis(50)).unwrap_err();
    assert!(error.to_string().contains("has not ended"), "{error}");
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
}
