//! `sapwood bpf route`: packets between two namespaces are forwarded by the program in a third.

use std::time::Duration;

use crate::common::PROGRAM;
use crate::netns::Netns;

const LIMIT: Duration = Duration::from_secs(30);

/// A client and a server with a router between them; `None` where the test cannot run.
pub fn line() -> Option<[Netns; 3]> {
    if let Err(why) = sapwood_bpf::check() {
        assert!(std::env::var_os("SAPWOOD_BPF_MUST_RUN").is_none(), "{why}");
        println!("skipped: {why}");
        return None;
    }
    let three = Netns::some(["client", "router", "server"])?;
    let [client, router, server] = &three;
    Netns::veth(
        (client, "c0", &["10.61.0.1/24"]),
        (router, "r0", &["10.61.0.2/24"]),
    );
    Netns::veth(
        (server, "s0", &["10.62.0.1/24"]),
        (router, "r1", &["10.62.0.2/24"]),
    );
    client.ip(&["route", "add", "default", "via", "10.61.0.2"]);
    server.ip(&["route", "add", "default", "via", "10.62.0.2"]);
    let done = router.run(&["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"]);
    assert!(done.status.success(), "{done:?}");
    Some(three)
}

#[test]
fn bpf_route_forwards_and_counts() {
    let Some([client, router, _server]) = line() else {
        return;
    };
    let ping = [
        "ping",
        "-n",
        "-q",
        "-c",
        "20",
        "-i",
        "0.05",
        "-W",
        "5",
        "10.62.0.1",
    ];
    // The kernel forwards these packets, and learns its neighbours.
    let done = client.run_for(&ping, LIMIT);
    assert!(done.status.success(), "{done:?}");
    for by in ["resolver", "cache", "table"] {
        let args = [
            PROGRAM,
            "bpf",
            "route",
            "run",
            "-i",
            "r0",
            "-i",
            "r1",
            "--generic",
            "--by",
            by,
            "--seconds",
            "4",
            "--json",
        ];
        let running = router.start(&args);
        // The program begins to forward between two packets. No packet is lost, whether the kernel
        // or the program forwards it.
        let mut pinged = 0;
        for _ in 0..3 {
            let done = client.run_for(&ping, LIMIT);
            assert!(done.status.success(), "{by}: {done:?}");
            pinged += 40;
        }
        let done = running.end(LIMIT).unwrap();
        assert!(done.status.success(), "{by}: {done:?}");
        let said: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let forwarded = said["forwarded"].as_u64().unwrap();
        assert!((1..=pinged).contains(&forwarded), "{by}: {said}");
        let sum: u64 = said
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "forwarded" | "packets"))
            .filter_map(|(_, count)| count.as_u64())
            .sum();
        assert_eq!(said["packets"], sum, "{by}: {said}");
    }
}

#[test]
fn bpf_route_says_what_is_wrong() {
    let Some([_client, router, _server]) = line() else {
        return;
    };
    let done = router.run(&[PROGRAM, "bpf", "route", "run", "-i", "no-such"]);
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("no-such"), "{said}");
}
