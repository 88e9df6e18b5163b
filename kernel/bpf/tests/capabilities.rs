//! Another user than root, with capabilities and without.
#![cfg(feature = "kernel")]

mod kernel;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use kernel::{LOOKUP, NO_ENTRY, load, lookup, skipped};
use sapwood_bpf::{BpfArena, Error, KernelGrace, Loader, UserMap, check};

/// Says that this process was started by another test.
const CHILD: &str = "SAPWOOD_CAPABILITIES";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the test of that name as user 65534 with these capabilities, in a copy of this program that
/// the user may read.
fn as_nobody(test: &str, capabilities: &str) {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let program = folder.path().join("capabilities");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for path in [folder.path(), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(["--inh-caps", capabilities, "--ambient-caps", capabilities])
        .arg(&program)
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{errors}"
    );
}

#[test]
fn users_with_capabilities_do_all() {
    if !skipped() {
        as_nobody("child_does_all", "+bpf,+perfmon,+net_admin");
    }
}

#[test]
fn what_is_missing_is_named() {
    if !skipped() {
        as_nobody("child_has_nothing", "-all");
        as_nobody("child_may_not_touch_packets", "+bpf,+perfmon");
    }
}

#[test]
fn child_does_all() {
    if !is_child() {
        return;
    }
    check().unwrap();
    let arena = BpfArena::create(64 << 20).unwrap();
    let names = UserMap::<u64>::builder(&arena, "names").build().unwrap();
    names.insert("elm", 7).unwrap();
    let programs = load(&arena, LOOKUP);
    assert_eq!(lookup(&programs, 0, names.window().number, b"elm"), Ok(7));
    names.remove("elm").unwrap();
    let grace = KernelGrace::new().unwrap();
    grace.wait().unwrap();
    let gone = lookup(&programs, 0, names.window().number, b"elm");
    assert_eq!(gone, Err(NO_ENTRY));
}

#[test]
fn child_has_nothing() {
    if !is_child() {
        return;
    }
    let refused = check().unwrap_err();
    let Error::Capabilities { missing } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(missing, &["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]);
    let text = refused.to_string();
    assert!(
        text.starts_with("this process lacks CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN: run it"),
        "{text}"
    );
    assert!(matches!(
        BpfArena::create(64 << 20),
        Err(Error::Capabilities { .. })
    ));
}

#[test]
fn child_may_not_touch_packets() {
    if !is_child() {
        return;
    }
    check().unwrap();
    let arena = BpfArena::create(64 << 20).unwrap();
    let refused = Loader::open(&arena, LOOKUP).unwrap().load().err().unwrap();
    let Error::Capabilities { missing } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(missing, &["CAP_NET_ADMIN"]);
}
