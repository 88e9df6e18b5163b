//! Hashes and buckets of flows that C in user space computes, compared with the library's. Programs
//! can include the header.
#![cfg(feature = "kernel")]

#[path = "common/user.rs"]
mod user;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

use sapwood::route::{FlowHasher, FlowKey, Group};
use user::Compiled;

/// A flow with its answers, as `struct question` of tests/bpf/user/flow.c has them.
fn question(seed: u64, key: &FlowKey) -> Vec<u8> {
    let hasher = FlowHasher::new(seed);
    let (hash, symmetric) = (hasher.hash(key), hasher.hash_symmetric(key));
    let bits = |addr: IpAddr| match addr {
        IpAddr::V4(addr) => (0, u64::from(addr.to_bits())),
        IpAddr::V6(addr) => ((addr.to_bits() >> 64) as u64, addr.to_bits() as u64),
    };
    let family = if key.source.is_ipv4() { 4 } else { 6 };
    let (src, dst) = (bits(key.source), bits(key.destination));
    let buckets = 1_u64 << 20;
    let spread = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bucket = ((spread >> 32) * buckets) >> 32;
    let mut bytes = Vec::new();
    for word in [seed, src.0, src.1, dst.0, dst.1] {
        bytes.extend(word.to_ne_bytes());
    }
    let ports = [key.source_port, key.destination_port].map(u32::from);
    for word in [family, key.protocol.into(), ports[0], ports[1]] {
        bytes.extend(word.to_ne_bytes());
    }
    for word in [hash, symmetric] {
        bytes.extend(word.to_ne_bytes());
    }
    for word in [buckets as u32, bucket as u32] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

#[test]
fn hashes_as_the_library_makes_them() {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut questions = Vec::new();
    for round in 0..20_000 {
        let mut addr = || -> IpAddr {
            match round % 3 {
                0 => Ipv4Addr::from_bits(rng.u32(..)).into(),
                1 => Ipv4Addr::from_bits(rng.u32(..3)).into(),
                // Addresses that differ in one half, or are equal.
                _ => Ipv6Addr::from_bits(rng.u128(..) & (3 << 64 | 3)).into(),
            }
        };
        let (source, destination) = (addr(), addr());
        let key = FlowKey {
            source,
            destination,
            protocol: rng.u8(..),
            source_port: rng.u16(..),
            destination_port: rng.u16(..),
        };
        questions.extend(question(rng.u64(..), &key));
    }
    Compiled::new("flow").same_answers(&[], &questions);
}

/// C computes the bucket that a group uses: all flows of a bucket have one member.
#[test]
fn buckets_are_those_of_groups() {
    let group = Group::new([(0_u32, 1), (1, 1)]);
    let bucket = |flow: u64| {
        let spread = (flow ^ (flow >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (((spread >> 32) << 20) >> 32) as usize
    };
    let (mut members, mut again) = (vec![None; 1 << 20], 0);
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..1_000_000 {
        let flow = rng.u64(..);
        let member = group.member(flow).copied();
        let known = &mut members[bucket(flow)];
        assert!(known.is_none() || *known == member, "flow {flow}");
        again += usize::from(known.is_some());
        *known = member;
    }
    assert!(again > 300_000, "{again}");
}

#[test]
fn programs_can_include_it() {
    let Ok(found) = Command::new("clang-19").arg("--version").output() else {
        println!("skipped: no clang-19");
        return;
    };
    assert!(found.status.success());
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/include");
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("flow.bpf.c");
    std::fs::write(
        &source,
        "#include <linux/bpf.h>\n#include \"sapwood/flow.bpf.h\"\n\
         __attribute__((section(\"xdp\"), used)) int bucket(struct xdp_md *ctx)\n{\n\
         \tstruct sw_flow_secrets secrets = sw_flow_secrets(ctx->data);\n\
         \treturn sw_flow_bucket(sw_flow_hash4(&secrets, 1, ctx->ingress_ifindex, 6, 7, 8), 3);\n}\n",
    )
    .unwrap();
    let output = Command::new("clang-19")
        .args([
            "-g", "-O2", "-target", "bpf", "-mcpu=v4", "-Wall", "-Werror",
        ])
        .args([
            "-D__TARGET_ARCH_x86",
            "-I/usr/include/x86_64-linux-gnu",
            "-I",
        ])
        .arg(&include)
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(folder.path().join("flow.bpf.o"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
