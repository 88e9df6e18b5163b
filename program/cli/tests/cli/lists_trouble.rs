//! Servers of lists that are killed while they read, and file systems that are full.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::common::Scratch;
use crate::live_doors::Mounted;
use crate::server::Server;

/// Names that all versions of the list have, and those of one version.
fn version(word: &str) -> String {
    let names = (0..6_000).map(|n| format!("0.0.0.0 n{n}.all.example {word}{n}.{word}.example\n"));
    names.collect()
}

/// Questions for names of both versions.
fn questions() -> String {
    let each = (0..6_000).step_by(37);
    each.map(|n| format!("n{n}.all.example\na{n}.a.example\nb{n}.b.example\n"))
        .collect()
}

/// Whose rules the live map has: those of `a` or of `b`, and no mixture of both.
fn whose(s: &Scratch) -> &'static str {
    let args = ["lists", "ask", "--live", "live", "-"];
    let ran = s.run_with(&args, questions().as_bytes());
    let ran = ran.code(1);
    let out = String::from_utf8(ran.0.stdout.clone()).unwrap();
    let blocked = |word: &str| {
        let lines = out.lines().filter(|line| line.contains(word));
        let blocked: Vec<bool> = lines.map(|line| line.contains("\tnxdomain\t")).collect();
        assert_eq!(blocked.len(), 163, "{word}");
        assert!(blocked.iter().all(|it| *it == blocked[0]), "a part: {out}");
        blocked[0]
    };
    assert!(blocked(".all."), "they are in both versions");
    match (blocked(".a."), blocked(".b.")) {
        (true, false) => "a",
        (false, true) => "b",
        both => panic!("{both:?}: {out}"),
    }
}

#[test]
fn a_server_that_is_killed_while_it_reads_leaves_the_old_rules_or_the_new_ones() {
    let s = Scratch::new();
    let mut random = fastrand::Rng::with_seed(11);
    s.file("list", version("a"));
    let args = ["lists", "serve", "list", "--live", "live", "--watch"];
    // Killed at the first reading: no map is there, and nothing is in the way of the next server.
    for _ in 0..3 {
        let mut server = Server::spawn(&s, &args);
        std::thread::sleep(Duration::from_millis(random.u64(..60)));
        server.signal(Signal::KILL);
        server.ends();
    }
    let mut server = Server::start(&s, &args);
    assert_eq!(whose(&s), "a");
    let mut had = "a";
    let mut seen = [0, 0];
    for round in 0..8 {
        let next = if had == "a" { "b" } else { "a" };
        s.file("new", version(next));
        std::fs::rename(s.path("new"), s.path("list")).unwrap();
        // A reading takes some hundred milliseconds, and is noticed after as many.
        std::thread::sleep(Duration::from_millis(random.u64(..900)));
        server.signal(Signal::KILL);
        assert_eq!(server.ends(), None);
        let has = whose(&s);
        seen[usize::from(has == next)] += 1;
        // The next server goes on with the list as it is now.
        server = Server::spawn(&s, &args);
        let line = server.complains("taken over from a process that has ended; ");
        let changes = if has == next {
            "0 added, 0 removed, 0 changed"
        } else {
            "6000 added, 6000 removed, 0 changed"
        };
        assert!(
            line.contains(changes),
            "round {round}: {has}, {next}: {line}"
        );
        assert_eq!(whose(&s), next);
        had = next;
    }
    println!("{} had the old rules, {} the new ones", seen[0], seen[1]);
}

#[test]
fn a_live_map_on_a_full_file_system_keeps_its_rules_and_goes_on_when_there_is_room() {
    let s = Scratch::new();
    let disk = s.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs"])
        .arg(&disk);
    if !mount.output().is_ok_and(|mounted| mounted.status.success()) {
        return println!("skipped: this process may not mount a file system");
    }
    let _mounted = Mounted(disk);
    let small = "0.0.0.0 a.example\n0.0.0.0 b.example\n";
    let large: String = (0..200_000_u64)
        .map(|n| format!("0.0.0.0 {:x}.n{n}.example\n", n * 2_654_435))
        .collect();
    // A new map does not begin, and leaves nothing.
    s.file("list", &large);
    let args = [
        "lists",
        "serve",
        "list",
        "--live",
        "disk/live",
        "--allow-shrunk",
    ];
    s.run(&args).code(2);
    assert_eq!(std::fs::read_dir(s.path("disk")).unwrap().count(), 0);
    s.file("list", small);
    let mut server = Server::start(&s, &args);
    // A new reader needs room for a file, so a resolver has the map open before.
    let mut reader = Server::spawn(&s, &["lists", "ask", "--live", "disk/live", "-"]);
    let rule = |name: &str| format!("{name}\tnxdomain\t{name}\tlist\tthe only rule");
    let mut ask = |name: &str, answer: &str| reader.answers(&format!("{name}\n"), &[answer]);
    ask("a.example", &rule("a.example"));
    s.file("list", small.to_owned() + &large);
    server.answers("reload\n", &[]);
    server.complains("cannot make the map of rules: ");
    ask("b.example", &rule("b.example"));
    ask("0.n0.example", "0.n0.example\tnone");
    // A list that fits is read as ever.
    s.file("list", small.to_owned() + "0.0.0.0 c.example\n");
    server.answers("reload\n", &["reloaded\t1\t0\t0"]);
    ask("c.example", &rule("c.example"));
    ask("a.example", &rule("a.example"));
    server.answers("quit\n", &[]);
}
