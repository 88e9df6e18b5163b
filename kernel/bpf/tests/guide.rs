//! The program in docs/guides/ebpf.md compiles and behaves as the page describes.
#![cfg(feature = "kernel")]

use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_rs::ProgramInput;
use sapwood_bpf::{BpfArena, Loader, UserMap};

/// The first fence of this language.
fn fence(page: &str, language: &str) -> String {
    let open = format!("```{language}\n");
    let start = page.find(&open).expect("the page has such a fence") + open.len();
    let end = page[start..].find("```").expect("it ends");
    page[start..start + end].to_owned()
}

/// The line of the page that calls the compiler, with another source and object.
fn compile(page: &str, root: &Path, source: &Path, object: &Path) {
    let line = page
        .lines()
        .find(|line| line.starts_with("clang-19 "))
        .expect("the page says how");
    let words = line.split_whitespace().map(|word| match word {
        "known.bpf.c" => source.to_str().unwrap(),
        "known.bpf.o" => object.to_str().unwrap(),
        other => other,
    });
    let words: Vec<&str> = words.collect();
    let clang = std::env::var("SAPWOOD_CLANG").unwrap_or_else(|_| words[0].to_owned());
    let output = Command::new(clang)
        .args(&words[1..])
        .args(["-Wall", "-Wextra", "-Werror"])
        .current_dir(root)
        .output()
        .expect("clang runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
}

#[test]
fn five_minutes() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/guides/ebpf.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("known.bpf.c");
    let object = folder.path().join("known.bpf.o");
    let program = fence(&page, "c");
    // The part that README.md shows is in the program.
    let shown = std::fs::read_to_string(root.join("README.md")).unwrap();
    for line in fence(&shown, "c").lines() {
        assert!(program.contains(line.trim()), "{line}");
    }
    std::fs::write(&source, program).unwrap();
    compile(&page, &root, &source, &object);

    // Both maps as the page makes them.
    let arena = BpfArena::create(64 << 20).unwrap();
    for line in [
        "BpfArena::create(64 << 20)?",
        "\"stations\").with_index().bytes(16 << 20).build()?",
        "\"vendors\").bytes(16 << 20).build()?",
    ] {
        assert!(page.contains(line), "{line}");
    }
    let stations = UserMap::<u64>::builder(&arena, "stations")
        .with_index()
        .bytes(16 << 20)
        .build()
        .unwrap();
    assert_eq!(stations.window().number, 0);
    let vendors = UserMap::<u64>::builder(&arena, "vendors")
        .bytes(16 << 20)
        .build()
        .unwrap();
    assert_eq!(vendors.window().number, 1);
    vendors.insert([0x02, 0, 0], 1).unwrap();
    let programs = Loader::open_file(&arena, &object).unwrap().load().unwrap();
    let verdict = |from: [u8; 6]| {
        let mut frame = [0u8; 64];
        frame[6..12].copy_from_slice(&from);
        let input = ProgramInput {
            data_in: Some(&frame),
            ..Default::default()
        };
        let known = programs.program("known").unwrap();
        known.test_run(input).unwrap().return_value
    };
    let (drop, pass) = (1, 2);
    let station = [0x02, 0, 0, 0, 0, 0x01];
    assert_eq!(verdict(station), drop);
    stations.insert(station, 1).unwrap();
    assert_eq!(verdict(station), pass);
    assert_eq!(verdict([0x02, 0, 0, 0, 0, 0x02]), drop);
    stations.remove(station).unwrap();
    assert_eq!(verdict(station), drop);
    // The same program, asked about the second map.
    let program = fence(&page, "c").replace("sw_qp_lookup(0, &key)", "sw_qp_lookup(1, &key)");
    let program = program.replace("ETH_ALEN", "3");
    std::fs::write(&source, program).unwrap();
    compile(&page, &root, &source, &object);
    let programs = Loader::open_file(&arena, &object).unwrap().load().unwrap();
    let of_vendor = |from: u8| {
        let mut frame = [0u8; 64];
        frame[6] = from;
        let known = programs.program("known").unwrap();
        let input = ProgramInput {
            data_in: Some(&frame),
            ..Default::default()
        };
        known.test_run(input).unwrap().return_value
    };
    assert_eq!(of_vendor(0x02), pass);
    assert_eq!(of_vendor(0x04), drop);
}
