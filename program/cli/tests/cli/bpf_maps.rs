//! `sapwood bpf map`, `load` and `serve`: maps and programs of any author, in pinned arenas.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sapwood_bpf::{BpfArena, Bytes, Error, Pinned, PinnedProgram, ProgramMap};
use sapwood_cli::service::catalogue::{BPF_SERVE, COMMON};
use serde_json::json;

use crate::bpf::{Pins, skipped};
use crate::bpf_service::CAPABLE;
use crate::common::{PROGRAM, Scratch};
use crate::notify::Manager;
use crate::operations::{allows_what_was_called, end, traced};
use crate::server::{LIMIT, Server};
use crate::service::{address_in, check, scrape, value, wait_value};

/// A program of an author: it inserts or removes the addresses that a packet names. The first byte
/// says which, the next four are the first address, and two say how many follow each other.
const SEEN: &str = r#"
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include "sapwood/qp_write.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

struct order {
	__u8 removes;
	__u8 window;
	__u16 count;
	__u32 first;
	__u64 unused;
};

/* The key is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct sw_key));
} scratch SEC(".maps");

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

SEC("tc") int seen(struct __sk_buff *skb)
{
	struct order *order = (void *)(long)skb->data;
	__u32 zero = 0, done = 0, i;
	struct sw_key *key = bpf_map_lookup_elem(&scratch, &zero);

	if ((void *)(order + 1) > (void *)(long)skb->data_end || !key)
		return -1;
	sw_for (i, order->count) {
		__u32 address = __builtin_bswap32(order->first + i);
		long error;

		sw_key_set(key, &address, 4);
		if (order->removes)
			error = sw_qp_remove(order->window, key);
		else
			error = sw_qp_insert(order->window, key, order->first + i, SW_ANY);
		done += !error;
	}
	return done;
}
"#;

/// Compiles the program; `None` where there is no compiler for it.
fn object(s: &Scratch) -> PathBuf {
    let source = s.file("seen.bpf.c", SEEN);
    let object = s.path("seen.bpf.o");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/bpf/bpf/include");
    let (target, triple) = match cfg!(target_arch = "aarch64") {
        true => ("-D__TARGET_ARCH_arm64", "aarch64-linux-gnu"),
        false => ("-D__TARGET_ARCH_x86", "x86_64-linux-gnu"),
    };
    let clang = std::env::var("SAPWOOD_CLANG").unwrap_or_else(|_| "clang-19".to_owned());
    let output = Command::new(clang)
        .args([
            "-g", "-O2", "-target", "bpf", "-mcpu=v4", target, "-Wall", "-Werror",
        ])
        .arg("-I")
        .arg(include)
        .arg("-I")
        .arg(format!("/usr/include/{triple}"))
        .arg("-c")
        .args([&source, Path::new("-o"), &object])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    object
}

/// Runs the program; returns how many changes were made.
fn order(program: &PinnedProgram, removes: bool, window: u8, first: u32, count: u16) -> u32 {
    let mut packet = vec![u8::from(removes), window];
    packet.extend(count.to_ne_bytes());
    packet.extend(first.to_ne_bytes());
    packet.resize(64, 0);
    let mut out = [0; 64];
    program.run(&packet, &mut out).unwrap()
}

#[test]
fn maps_are_made_asked_changed_and_removed() {
    if skipped() {
        return;
    }
    let Some(pins) = Pins::new("maps") else {
        return;
    };
    let s = Scratch::new();
    let arena = format!("{}/arena", pins.text());
    let map = |words: &str| {
        let args: Vec<_> = words
            .split(' ')
            .map(|word| word.replace("ARENA", &arena))
            .collect();
        s.run(&[vec!["bpf".to_owned(), "map".to_owned()], args].concat())
    };
    s.run(&["bpf", "map", "--help"])
        .code(0)
        .says("create")
        .says("drop");
    s.run(&["man", "bpf", "map", "set"]).code(0).says(".TH");
    // Without --arena-bytes, the arena must be there; a map that is refused leaves no arena.
    map("create ARENA seen --kind program")
        .code(2)
        .complains("No such file");
    map("create ARENA seen --kind program --value-bytes 12 --arena-bytes 64M")
        .code(2)
        .complains("value_bytes: 8, 16 … 4096, not 12");
    map("create ARENA seen --kind plain --value-bytes 72 --arena-bytes 64M")
        .code(2)
        .complains("to 64 bytes, not 72");
    map("create ARENA seen --kind names --value-bytes 8 --arena-bytes 64M")
        .code(2)
        .complains("--value-bytes is for values of one size");
    assert!(!pins.0.exists());
    let mib = 1 << 20;
    map("create ARENA seen --kind program --bytes 8M --arena-bytes 64M --max-entries 100")
        .code(0)
        .out(format!("{arena}\t0\tseen\tkernel-qp\t{}\n", 8 * mib))
        .quiet();
    map("create ARENA seen --kind plain")
        .code(2)
        .complains("there is one of this name");
    map("create ARENA pairs --kind plain --value-bytes 16 --bytes 1M --index --trie").code(0);
    map("create ARENA points --kind plain --bytes 1M --index").code(0);
    let made = map("create ARENA texts --kind names --bytes 1M --json");
    assert_eq!(
        made.code(0).documents(),
        [json!({ "arena": arena, "number": 3, "name": "texts", "kind": "qp", "bytes": mib })]
    );
    let listed = map("list ARENA");
    listed
        .code(0)
        .says("\t1\tpairs\tqp\t1048576\n")
        .says("\t2\tpoints\tqp\t");
    // Without --bytes, a map leaves room for another, and for changes by processes.
    let small = format!("{arena}-small");
    let in_small = |line: &str| map(&line.replace("SMALL", &small));
    in_small("create SMALL first --kind program --arena-bytes 4M --max-entries 100")
        .code(0)
        .out(format!("{small}\t0\tfirst\tkernel-qp\t{}\n", 3_932_160));
    in_small("set SMALL first one 1").code(0).out("set\tone\n");
    in_small("create SMALL more --kind program --bytes 4M --max-entries 100")
        .code(2)
        .complains("no room for more: 4194304 bytes of addresses wanted");
    in_small("create SMALL second --kind plain").code(0);
    in_small("get SMALL first one").code(0).out("one\t1\n");
    std::fs::remove_file(&small).unwrap();
    // A file that is no pin.
    s.file("text", "no arena");
    map("get text seen one")
        .code(2)
        .complains("BPF file system");
    // Each kind of map, with keys in each form.
    map("set ARENA seen --ip 192.0.2.7 7")
        .code(0)
        .out("set\t192.0.2.7\n");
    map("set ARENA seen --ip 2001:db8::1 0xff")
        .code(0)
        .out("set\t2001:db8::1\n");
    map("get ARENA seen --ip 192.0.2.7 192.0.2.8 2001:db8::1")
        .code(1)
        .out("192.0.2.7\t7\n2001:db8::1\t255\n")
        .complains("192.0.2.8 is absent");
    map("get ARENA seen --hex c0000207 --json")
        .code(0)
        .out("{\"key\":{\"hex\":\"c0000207\"},\"value\":7}\n");
    map("get ARENA seen --ip one")
        .code(2)
        .complains("\"one\" is not an IPv4 or IPv6 address");
    map("dump ARENA seen --ip --prefix 192.0.2.7")
        .code(0)
        .out("192.0.2.7\t7\n");
    map("dump ARENA seen").code(0);
    map("set ARENA seen a 1,2")
        .code(2)
        .complains("values are one number, not 2");
    map("set ARENA pairs a 1,2").code(0).out("set\ta\n");
    let hex = "01000000000000000200000000000000";
    map("get ARENA pairs a").code(0).out(format!("a\t{hex}\n"));
    map(&format!("set ARENA pairs b {hex}")).code(0);
    map("dump ARENA pairs")
        .code(0)
        .out(format!("a\t{hex}\nb\t{hex}\n"));
    map("set ARENA pairs a 1")
        .code(2)
        .complains("values are 2 numbers with commas between");
    let lines = b"one\t1\nnone\ntwo\t2\n";
    s.run_with(&["bpf", "map", "set", &arena, "points", "-"], lines)
        .code(2)
        .out("set\tone\nset\ttwo\n")
        .complains("standard input: line 2: a line has a key, a tab and a value")
        .complains("bad queries: 1 of 3");
    map("delete ARENA points one four")
        .code(1)
        .out("deleted\tone\nabsent\tfour\n");
    map("dump ARENA points").code(0).out("two\t2\n");
    s.run(&["bpf", "map", "set", &arena, "texts", "key", "some text"])
        .code(0);
    map("get ARENA texts key").code(0).out("key\tsome text\n");
    map("get ARENA texts key --json")
        .code(0)
        .out("{\"key\":\"key\",\"value\":\"some text\"}\n");
    // A map that is full refuses.
    map("create ARENA small --kind program --bytes 4M --max-entries 2").code(0);
    s.run_with(
        &["bpf", "map", "set", &arena, "small", "-"],
        b"a\t1\nb\t2\nc\t3\n",
    )
    .code(2)
    .out("set\ta\nset\tb\nrefused\tc\n")
    .complains("c: the map has as many entries as it may have")
    .complains("the map refused 1 changes");
    map("drop ARENA small").code(0);
    // Another one lets entries leave.
    map("create ARENA recent --kind program --bytes 4M --max-entries 2 --trie --lru")
        .code(2)
        .complains("lru: only for a map with an index alone");
    map("create ARENA recent --kind program --bytes 4M --max-entries 2 --mean-key 1 --lru").code(0);
    s.run_with(
        &["bpf", "map", "set", &arena, "recent", "-"],
        b"a\t1\nb\t2\nc\t3\n",
    )
    .code(0)
    .out("set\ta\nset\tb\nset\tc\n");
    map("verify ARENA recent")
        .code(0)
        .out("recent: 2 entries, sound\n");
    map("drop ARENA recent").code(0);
    // Long values are shown as digits; counts for each processor as their sums.
    map("create ARENA long --kind program --bytes 8M --value-bytes 4096 --max-entries 9").code(0);
    let digits = format!("{}01", "00".repeat(4095));
    map(&format!("set ARENA long a {digits}")).code(0);
    map("get ARENA long a")
        .code(0)
        .out(format!("a\t{digits}\n"));
    map(&format!("set ARENA long b {}", "1,".repeat(511)))
        .code(2)
        .complains("is not a number, decimal or 0x");
    map("set ARENA long b 1")
        .code(2)
        .complains("values are 512 numbers with commas between, or 8192 hexadecimal digits");
    map("drop ARENA long").code(0);
    map("create ARENA counts --kind program --per-processor --bytes 8M --max-entries 9").code(0);
    map("set ARENA counts a 7").code(0);
    map("get ARENA counts a").code(0).out("a\t7\n");
    map("dump ARENA counts --json")
        .code(0)
        .out("{\"key\":\"a\",\"value\":7}\n");
    map("drop ARENA counts").code(0);
    map("create ARENA some --kind program --per-processor --value-bytes 16")
        .code(2)
        .complains("cannot be used with");
    map("create ARENA some --kind names --per-processor")
        .code(2)
        .complains("--per-processor is for");
    map("create ARENA some --kind names --grow")
        .code(2)
        .complains("--grow is for");
    map("create ARENA some --kind names --max-entries 2")
        .code(2)
        .complains("--max-entries is for");
    // The maps are whole, and still have the parts that they were made with.
    for (name, entries) in [("seen", 2), ("pairs", 2), ("points", 1), ("texts", 1)] {
        map(&format!("verify ARENA {name}"))
            .code(0)
            .out(format!("{name}: {entries} entries, sound\n"));
    }
    {
        let opened = BpfArena::open(&arena).unwrap();
        let pairs = opened.reader::<Bytes>("pairs").unwrap();
        assert!(pairs.has_index().unwrap() && pairs.has_order().unwrap());
        let points = opened.reader::<Bytes>("points").unwrap();
        assert!(points.has_index().unwrap() && !points.has_order().unwrap());
        let texts = opened.reader::<Bytes>("texts").unwrap();
        assert!(!texts.has_index().unwrap());
    }
    // While another process owns the arena, maps are read, and not changed.
    {
        let opened = BpfArena::open(&arena).unwrap();
        let seen = ProgramMap::<Bytes>::adopt(&opened, "seen").unwrap();
        let owner = format!("the process {} owns the arena", std::process::id());
        map("set ARENA seen a 1").code(2).complains(&owner);
        map("drop ARENA seen").code(2).complains(&owner);
        map("create ARENA more --kind plain")
            .code(2)
            .complains(&owner);
        map("get ARENA seen --ip 192.0.2.7").code(0);
        let listed = map("list ARENA --json").code(0).documents();
        assert_eq!(listed[0]["owner"], json!(std::process::id()));
        seen.leave();
    }
    let listed = map("list ARENA --json").code(0).documents();
    assert_eq!(listed[0]["owner"], json!(null));
    map("drop ARENA seen").code(0).out("");
    map("drop ARENA seen")
        .code(2)
        .complains("no window named \"seen\"");
    // The room for changes by processes has gone, too.
    map("list ARENA").code(0).out(format!(
        "{arena}\t1\tpairs\tqp\t{mib}\n{arena}\t2\tpoints\tqp\t{mib}\n{arena}\t3\ttexts\tqp\t{mib}\n"
    ));
}

#[test]
fn programs_of_any_author_are_loaded_and_pinned() {
    if skipped() {
        return;
    }
    let (Some(arenas), Some(pins)) = (Pins::new("load-arena"), Pins::new("load")) else {
        return;
    };
    let s = Scratch::new();
    let object = object(&s);
    let object = object.to_str().unwrap();
    let arena = format!("{}/arena", arenas.text());
    let load = |more: &[&str]| {
        s.run(
            &[
                &[
                    "bpf",
                    "load",
                    object,
                    "--arena",
                    &arena,
                    "--pin",
                    pins.text(),
                ],
                more,
            ]
            .concat(),
        )
    };
    load(&[]).code(2).complains("No such file");
    let make = "bpf map create ARENA seen --kind program --bytes 8M --arena-bytes 64M";
    let make = format!("{make} --max-entries 4096");
    let make: Vec<_> = make
        .split(' ')
        .map(|word| word.replace("ARENA", &arena))
        .collect();
    s.run(&make).code(0);
    load(&["--without", "none"])
        .code(2)
        .complains("the object has no program \"none\"");
    s.file("text", "no object");
    s.run(&[
        "bpf",
        "load",
        "text",
        "--arena",
        &arena,
        "--pin",
        pins.text(),
    ])
    .code(2)
    .complains("sapwood: text: ");
    assert!(!pins.0.exists());
    load(&[])
        .code(0)
        .out("arena\tarena\nprogram\tprog-seen\ttc\nmap\tmap-scratch\n");
    // What is there is not replaced, and nothing is left of a second attempt.
    load(&[]).code(2).complains("prog-seen");
    std::fs::remove_file(pins.0.join("prog-seen")).unwrap();
    load(&[]).code(2).complains("map-scratch");
    assert!(!pins.0.join("prog-seen").exists());
    std::fs::remove_file(pins.0.join("map-scratch")).unwrap();
    let done = load(&["--json"]);
    assert_eq!(
        done.code(0).documents(),
        [json!({ "folder": pins.text(), "pinned": [
            { "name": "prog-seen", "kind": "program", "section": "tc" },
            { "name": "map-scratch", "kind": "map" },
        ] })]
    );
    // The program works on the map.
    let program = Pinned::open(&pins.0).unwrap().program("seen").unwrap();
    assert_eq!(order(&program, false, 0, 0x0a00_0001, 3), 3);
    s.run(&["bpf", "map", "dump", &arena, "seen", "--ip"])
        .code(0)
        .out("10.0.0.1\t167772161\n10.0.0.2\t167772162\n10.0.0.3\t167772163\n");
    drop(program);
    // A directory with another arena is left as it is.
    let other = Pins::new("load-other").unwrap();
    let pinned = Pinned::create(&other.0).unwrap();
    pinned
        .pin_arena(&BpfArena::create(1 << 20).unwrap())
        .unwrap();
    s.run(&[
        "bpf",
        "load",
        object,
        "--arena",
        &arena,
        "--pin",
        other.text(),
    ])
    .code(2)
    .complains("another arena is pinned there");
    assert_eq!(pinned.names().unwrap(), ["arena"]);
    s.run(&["bpf", "unload", pins.text()])
        .code(0)
        .out("program\tprog-seen\nmap\tmap-scratch\narena\tarena\n");
    assert!(!pins.0.exists());
    s.run(&["bpf", "map", "verify", &arena, "seen"]).code(0);
}

/// The service of all arenas in a directory, with its figures, as its unit runs it.
fn serve(s: &Scratch, pins: &Pins) -> (Server, std::net::SocketAddr) {
    let mut command = traced(s, &CAPABLE).unwrap_or_else(|| {
        let mut command = Command::new(CAPABLE[0]);
        command.args(&CAPABLE[1..]).arg(PROGRAM);
        command
    });
    command
        .args([
            "bpf",
            "serve",
            "--all",
            pins.text(),
            "--metrics",
            "127.0.0.1:0",
        ])
        .current_dir(s.path("."))
        .env("NOTIFY_SOCKET", s.path("notify"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let server = Server::of(command);
    let address = address_in(&server.complains("metrics at "));
    (server, address)
}

#[test]
fn one_service_serves_all_maps_that_programs_write() {
    if skipped() {
        return;
    }
    let Some(pins) = Pins::new("serve") else {
        return;
    };
    let s = Scratch::new();
    let object = object(&s);
    std::fs::create_dir(&pins.0).unwrap();
    let arena = |name: &str| format!("{}/{name}/arena", pins.text());
    let make = |folder: &str, map: &str| {
        let args = format!(
            "bpf map create {} {map} --kind program --bytes 8M",
            arena(folder)
        );
        let args = format!("{args} --max-entries 4096 --index --arena-bytes 32M");
        s.run(&args.split(' ').collect::<Vec<_>>()).code(0);
    };
    make("one", "seen");
    let first = arena("one");
    let folder = pins.0.join("one");
    let load = [
        "bpf",
        "load",
        object.to_str().unwrap(),
        "--arena",
        &first,
        "--pin",
    ];
    s.run(&[&load[..], &[folder.to_str().unwrap()]].concat())
        .code(0);
    let program = Pinned::open(&folder).unwrap().program("seen").unwrap();
    // The process that made the map has ended. Programs insert with the memory that lies ready.
    let insert = |first, count| order(&program, false, 0, first, count);
    let mut there = insert(0, 500);
    assert!(there > 0);
    let manager = Manager::new(&s);
    let (mut server, address) = serve(&s, &pins);
    let served = server.complains("one/arena: seen: ");
    assert!(
        served.ends_with(&format!("{there} entries, served")),
        "{served}"
    );
    assert_eq!(manager.other(), ["READY=1", "STATUS=1 maps in 1 arenas"]);
    // Now they insert as many as the map takes, and all are removed and freed.
    let until = Instant::now() + LIMIT;
    let mut next = 10_000;
    while there < 4000 && Instant::now() < until {
        there += insert(next, 50);
        next += 50;
        std::thread::sleep(Duration::from_millis(5));
    }
    let labels = [("arena", first.as_str()), ("map", "seen")];
    wait_value(
        address,
        "sapwood_bpf_serve_entries",
        &labels,
        f64::from(there),
    );
    assert!(there >= 4000, "{there}");
    let mut removed = 0;
    for from in (10_000..next).step_by(50) {
        removed += order(&program, true, 0, from, 50);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(removed > 3000, "{removed}");
    there -= removed;
    let mut text = wait_value(
        address,
        "sapwood_bpf_serve_entries",
        &labels,
        f64::from(there),
    );
    let figure = |text: &str, name: &str, kind: (&str, &str)| {
        let name = format!("sapwood_bpf_serve_{name}");
        value(text, &name, &[labels[0], labels[1], kind])
    };
    let until = Instant::now() + LIMIT;
    while figure(&text, "memory_bytes", ("kind", "waiting")) != Some(0.0)
        || figure(&text, "memory_bytes", ("kind", "retired")) != Some(0.0)
    {
        assert!(Instant::now() < until, "{text}");
        std::thread::sleep(Duration::from_millis(50));
        text = scrape(address);
    }
    check(&text, &[COMMON, BPF_SERVE], &[]);
    let freed = figure(&text, "blocks_total", ("what", "freed")).unwrap();
    assert!(freed >= f64::from(removed), "{freed}");
    assert!(figure(&text, "drops_total", ("reason", "no_memory")).is_some());
    assert_eq!(figure(&text, "drops_total", ("reason", "busy")), Some(0.0));
    let count = |text: &str, name: &str, labels: &[(&str, &str)]| {
        value(text, &format!("sapwood_bpf_serve_{name}"), labels)
    };
    assert_eq!(count(&text, "adopted_total", &[]), Some(1.0));
    assert_eq!(count(&text, "maps", &[("state", "served")]), Some(1.0));
    // Another process changes nothing meanwhile.
    let opened = BpfArena::open(&first).unwrap();
    let adopted = ProgramMap::<u64>::adopt(&opened, "seen");
    assert!(matches!(adopted, Err(Error::Owned { .. })), "{adopted:?}");
    drop(opened);
    // Arenas come, and go.
    make("two", "more");
    server.complains("two/arena: more: 0 entries, served");
    wait_value(
        address,
        "sapwood_bpf_serve_maps",
        &[("state", "served")],
        2.0,
    );
    manager.told("STATUS=2 maps in 2 arenas");
    std::fs::remove_dir_all(pins.0.join("two")).unwrap();
    server.complains("two/arena: the pin is gone");
    let text = wait_value(
        address,
        "sapwood_bpf_serve_maps",
        &[("state", "served")],
        1.0,
    );
    assert_eq!(count(&text, "entries", &[("map", "more")]), None, "{text}");
    // The command changes a map that is served: the service lets go, and takes the map over again.
    s.run(&["bpf", "map", "set", &first, "seen", "--ip", "9.9.9.9", "5"])
        .code(0)
        .out("set\t9.9.9.9\n");
    there += 1;
    server.complains("another process wants to change a map");
    server.complains(&format!("one/arena: seen: {there} entries, served"));
    // A second service waits for the first one, and takes over when that is killed.
    let t = Scratch::new();
    let (mut second, address) = serve(&t, &pins);
    wait_value(
        address,
        "sapwood_bpf_serve_maps",
        &[("state", "owned")],
        1.0,
    );
    end(&s, &server, Signal::KILL);
    server.ends();
    second.complains(&format!("one/arena: seen: {there} entries, served"));
    let steps = count(&scrape(address), "steps_total", &labels).unwrap();
    wait_for_more(address, "sapwood_bpf_serve_steps_total", &labels, steps);
    assert_eq!(insert(10_000, 40), 40);
    there += 40;
    // By a signal it ends, and leaves the map.
    end(&t, &second, Signal::TERM);
    assert_eq!(second.ends(), Some(0));
    s.run(&["bpf", "map", "verify", &first, "seen"])
        .code(0)
        .out(format!("seen: {there} entries, sound\n"));
    for traced in [&t] {
        if traced.path("trace").exists() {
            allows_what_was_called(traced, "sapwood-bpf-serve.service");
        }
    }
}

/// Waits until a figure is larger than it was.
#[track_caller]
fn wait_for_more(address: std::net::SocketAddr, name: &str, labels: &[(&str, &str)], before: f64) {
    let until = Instant::now() + LIMIT;
    while value(&scrape(address), name, labels).unwrap() <= before {
        assert!(Instant::now() < until, "{name}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_map_that_is_full_is_reported_once() {
    if skipped() {
        return;
    }
    let Some(pins) = Pins::new("starved") else {
        return;
    };
    let s = Scratch::new();
    let object = object(&s);
    std::fs::create_dir(&pins.0).unwrap();
    let arena = format!("{}/arena", pins.text());
    let make = format!("bpf map create {arena} small --kind program --bytes 1M --trie --grow");
    let make = format!("{make} --max-entries 60000 --arena-bytes 8M");
    s.run(&make.split(' ').collect::<Vec<_>>()).code(0);
    let load = [
        "bpf",
        "load",
        object.to_str().unwrap(),
        "--arena",
        &arena,
        "--pin",
    ];
    s.run(&[&load[..], &[pins.text()]].concat()).code(0);
    let program = Pinned::open(&pins.0).unwrap().program("seen").unwrap();
    let (mut server, address) = serve(&s, &pins);
    server.complains("small: 0 entries, served");
    let until = Instant::now() + LIMIT;
    let (mut next, mut refused) = (0, 0);
    while refused < 2000 && Instant::now() < until {
        refused += 100 - order(&program, false, 0, next, 100);
        next += 100;
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(refused >= 2000, "{refused} of {next}");
    server.complains("small: no memory is left for programs");
    server.complains("changes by programs found no memory (-ENOMEM)");
    let starved = "sapwood_bpf_serve_starved";
    let text = wait_value(address, starved, &[("map", "small")], 1.0);
    let no_memory = [("map", "small"), ("reason", "no_memory")];
    assert!(value(&text, "sapwood_bpf_serve_drops_total", &no_memory) >= Some(2000.0));
    order(&program, false, 0, next, 100);
    std::thread::sleep(Duration::from_millis(2500));
    end(&s, &server, Signal::TERM);
    assert_eq!(server.ends(), Some(0));
    let said: Vec<String> = server.errors.iter().collect();
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn what_cannot_be_served_is_named() {
    if skipped() {
        return;
    }
    let Some(pins) = Pins::new("unserved") else {
        return;
    };
    let s = Scratch::new();
    s.run(&["bpf", "serve", "--help"]).code(0).says("--all");
    s.run(&["bpf", "serve", "--all", "."])
        .code(2)
        .complains("not in a BPF file system");
    s.run(&["bpf", "serve", "--every", "0"])
        .code(2)
        .complains("0 is not in 1..=10000");
    std::fs::create_dir(&pins.0).unwrap();
    let late = pins.0.join("late");
    let mut server = Server::spawn(&s, &["bpf", "serve", late.to_str().unwrap()]);
    server.complains(&format!("waiting for {}", late.display()));
    let arena = BpfArena::create(16 << 20).unwrap();
    let map = ProgramMap::<u64>::builder(&arena, "late")
        .max_entries(1000)
        .bytes(8 << 20)
        .build()
        .unwrap();
    arena.pin(&late).unwrap();
    // Another pin of the arena changes nothing.
    arena.pin(pins.0.join("again")).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(arena.owner().unwrap(), Some(std::process::id()));
    map.leave();
    drop(arena);
    server.complains("late: late: 0 entries, served");
    server.signal(Signal::INT);
    assert_eq!(server.ends(), Some(0));
    let mut both = Server::spawn(&s, &["bpf", "serve", "--all", pins.text()]);
    both.complains("late: 0 entries, served");
    std::thread::sleep(Duration::from_millis(1500));
    both.signal(Signal::HUP);
    assert_eq!(both.ends(), Some(0));
    let said: Vec<String> = both.errors.iter().collect();
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn a_service_needs_capabilities_and_no_root() {
    if skipped() {
        return;
    }
    let Some(pins) = Pins::new("user") else {
        return;
    };
    let s = Scratch::new();
    let program = s.copy_of_program();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(s.path("."), everybody).unwrap();
    let arena = format!("{}/arena", pins.text());
    let make = format!(
        "bpf map create {arena} mine --kind program --bytes 4M --arena-bytes 16M --max-entries 1000"
    );
    s.run(&make.split(' ').collect::<Vec<_>>()).code(0);
    let other = 65534;
    std::os::unix::fs::chown(&arena, Some(other), None).unwrap();
    std::os::unix::fs::chown(&pins.0, Some(other), None).unwrap();
    let serve = |capabilities: &str| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .args(["--inh-caps", capabilities, "--ambient-caps", capabilities])
            .args(["--bounding-set", capabilities, "--no-new-privs"])
            .arg(&program)
            .args(["bpf", "serve", "--all", pins.text()])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Server::of(command)
    };
    let mut server = serve("-all,+bpf,+net_admin,+perfmon");
    server.complains("mine: 0 entries, served");
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
    let mut server = serve("-all");
    server.complains("this process lacks CAP_BPF");
    assert_eq!(server.ends(), Some(2));
    // Pins of others are named, and not served.
    std::os::unix::fs::chown(&arena, Some(0), None).unwrap();
    let mut server = serve("-all,+bpf,+net_admin,+perfmon");
    server.complains(&format!("opening {arena}: Permission denied"));
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
}
