//! `sapwood maps`: the mappings of processes, and the gaps between them.
#![cfg(target_os = "linux")]

use crate::common::Scratch;
use serde_json::{Value, json};

#[test]
fn its_own() {
    let s = Scratch::new();
    let ran = s.run(&["maps"]);
    ran.code(0)
        .quiet()
        .says("[stack]")
        .says("\tr-xp\t")
        .says("sapwood\n");
    let documents = s.run(&["maps", "--json"]).code(0).quiet().documents();
    let number = |value: &Value| value.as_u64().unwrap();
    let ends = documents.iter().map(|mapping| number(&mapping["end"]));
    let starts = documents
        .iter()
        .skip(1)
        .map(|mapping| number(&mapping["start"]));
    assert!(ends.zip(starts).all(|(end, start)| end < start));
    for mapping in &documents {
        let size = number(&mapping["end"]) - number(&mapping["start"]) + 1;
        assert_eq!(mapping["size"], size);
        assert_eq!(size % 4096, 0);
        assert_eq!(mapping["permissions"].as_str().map(str::len), Some(4));
    }
    let code = documents
        .iter()
        .find(|mapping| mapping["permissions"] == "r-xp");
    let name = code.unwrap()["name"].as_str().unwrap();
    assert!(name.ends_with("sapwood"), "{name}");
}

/// The mappings of a process that sleeps, so that they do not change during the test.
#[test]
fn anothers() {
    let s = Scratch::new();
    let mut other = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let pid = other.id().to_string();
    // The new process may not yet have replaced its image, or not yet sleep.
    let asleep = || {
        let [exe, status] = ["exe", "status"].map(|file| format!("/proc/{pid}/{file}"));
        let status = std::fs::read_to_string(status).unwrap();
        std::fs::read_link(exe).unwrap() != std::env::current_exe().unwrap()
            && status.contains("State:\tS")
    };
    while !asleep() {
        std::thread::yield_now();
    }
    let documents = s.run(&["maps", &pid, "--json"]).code(0).documents();
    let stack = documents
        .iter()
        .find(|mapping| mapping["name"] == "[stack]");
    let stack = stack.unwrap();
    let at = (stack["end"].as_u64().unwrap() - 5).to_string();
    let ran = s.run(&["maps", &pid, "--at", &at]);
    ran.code(0).says("[stack]\n").quiet();
    let found = &s.run(&["maps", &pid, "--at", &at, "--json"]).documents()[0];
    assert_eq!(found["found"]["name"], "[stack]");
    assert_eq!(found["gap"], Value::Null);
    s.run(&["maps", &pid, "--at", "0x10"])
        .code(1)
        .out("")
        .complains("sapwood: no mapping has 0x10: it is in the gap 0x0..=0x");
    let found = &s.run(&["maps", &pid, "--at", "16", "--json"]).documents()[0];
    assert_eq!(found["found"], Value::Null);
    assert_eq!(found["gap"]["start"], 0);
    // The lowest place after 64 KiB, found by a walk over the mappings.
    let (size, align) = (1u64 << 30, 2u64 << 20);
    let mut lowest = align;
    for mapping in &documents {
        if lowest + size <= mapping["start"].as_u64().unwrap() {
            break;
        }
        lowest = (mapping["end"].as_u64().unwrap() + 1).next_multiple_of(align);
    }
    let gap = ["maps", &pid, "--gap", "1G", "--align", "2M", "--from"];
    s.run(&[&gap[..], &["64K"]].concat())
        .code(2)
        .complains("\"64K\" is not a number");
    let found = json!({"start": lowest, "end": lowest + size - 1, "size": size});
    assert_eq!(
        s.run(&[&gap[..], &["0x10000", "--json"]].concat())
            .code(0)
            .documents(),
        [json!({"size": size, "align": align, "found": found})]
    );
    s.run(&[
        "maps", &pid, "--gap", "4K", "--from", "0x100000", "--to", "0x1fffff",
    ])
    .code(0)
    .out("0x0000000000100000\t0x0000000000100fff\t4K\n");
    let (from, to) = (stack["start"].to_string(), stack["end"].to_string());
    s.run(&["maps", &pid, "--gap", "4K", "--from", &from, "--to", &to])
        .code(1)
        .complains("sapwood: no gap of 4K in 0x");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn what_cannot_be_had() {
    let s = Scratch::new();
    for (args, why) in [
        (
            &["maps", "--gap", "0"][..],
            "--gap must be at least one byte",
        ),
        (
            &["maps", "--gap", "4K", "--align", "3"],
            "--align 3 is not a power of two",
        ),
        (
            &["maps", "--gap", "8K", "--from", "0x1000", "--to", "0x1fff"],
            "0x1000..=0x1fff is shorter than 8K",
        ),
        (&["maps", "--gap", "many"], "\"many\" is not a size"),
        (&["maps", "--at", "here"], "\"here\" is not a number"),
        (&["maps", "--at", "1", "--gap", "1"], "cannot be used with"),
        (&["maps", "--align", "4K"], "--gap"),
        (&["maps", "self"], "invalid value"),
        // The kernel's numbers of processes are below 2^22.
        (
            &["maps", "4294967295"],
            "sapwood: there is no process 4294967295\n",
        ),
    ] {
        s.run(args).code(2).out("").complains(why);
    }
    // The first process belongs to root.
    let ran = s.run(&["maps", "1"]);
    match ran.0.status.code() {
        Some(0) => ran.quiet(),
        _ => ran
            .code(2)
            .out("")
            .complains("sapwood: process 1 is another user's or protects itself: "),
    };
}
