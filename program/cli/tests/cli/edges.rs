//! Files and file systems at their edges: what commands do when they are full, closed, or not what
//! they should be.

use std::os::unix::fs::PermissionsExt;

use crate::common::{Ran, Scratch};

/// A text and a saved map of each kind.
fn files() -> Scratch {
    let s = Scratch::new();
    s.file("words", "ash\noak\n");
    s.file("names", "a.example\nb.example\n");
    s.file("prefixes", "10.0.0.0/8 x\n");
    s.file("spans", "1 9 low\n");
    for args in [
        &["names", "build", "-q", "words", "-o", "words.qp"][..],
        &["names", "build", "-q", "--dns", "names", "-o", "names.qp"],
        &["routes", "build", "-q", "prefixes", "-o", "routes.lpm"],
        &["ranges", "build", "-q", "spans", "-o", "spans.ranges"],
    ] {
        s.run(args).code(0).quiet();
    }
    s
}

/// Runs a command beside the directory `small`, which is a file system of its own without room. It
/// has `map`, a map of ranges, and the directory `pages` with one page. The output ends with the
/// names and the checksums of all files there, before and after. `None` where no file system can be
/// made.
fn without_room(s: &Scratch, command: &str) -> Option<Ran> {
    std::fs::create_dir_all(s.path("small")).unwrap();
    let ran = s.shell(&format!(
        "unshare -rm sh -c '
            mount -t tmpfs -o size=128k none small || exit 77
            cp spans.ranges small/map; mkdir small/pages; echo old > small/pages/sapwood.1
            dd if=/dev/zero of=small/filled bs=4k 2>/dev/null
            look() {{ find small | sort; find small -type f | sort | xargs cksum; }}
            look > before
            {command}
            code=$?
            look > after; cmp before after >&2 || exit 78
            exit $code' \"$0\""
    ));
    let is_allowed = ran.0.status.code() != Some(77) && !ran.stderr().contains("unshare");
    if !is_allowed {
        eprintln!("skipped: this system allows no file system of one's own: {ran}");
    }
    is_allowed.then_some(ran)
}

#[test]
fn a_full_file_system_is_an_error_that_leaves_all_as_it_was() {
    let s = files();
    for (command, output) in [
        ("names build words -o small/new", "small/new"),
        ("names build --dns names -o small/map", "small/map"),
        ("lists build names -o small/map", "small/map"),
        ("routes build prefixes -o small/map", "small/map"),
        ("ranges build spans -o small/map", "small/map"),
        ("ranges alloc small/map 5 new", "small/map"),
        ("ranges store small/map 20 29 new", "small/map"),
        ("ranges remove small/map 1", "small/map"),
        ("ranges merge spans.ranges -o small/map", "small/map"),
        ("report --map words.qp -o small/map", "small/map"),
        ("man --out small/pages", "small/pages"),
        ("man --out small/new", "small/new"),
    ] {
        let Some(ran) = without_room(&s, &format!("\"$0\" {command}")) else {
            return;
        };
        ran.code(2).out("").complains(&format!(
            "sapwood: cannot write {output}: No space left on device"
        ));
    }
    // A server that cannot show its figures does not begin.
    let serve = "echo quit | \"$0\" names serve words --live live --metrics small/map";
    without_room(&s, serve)
        .unwrap()
        .code(2)
        .complains("cannot write small/map: No space left on device");
}

#[test]
fn output_without_room_is_an_error() {
    let s = files();
    for command in [
        "--help",
        "--version",
        "names build --help",
        "man names",
        "completions zsh",
        "names get words.qp oak",
        "names has -v words.qp oak",
        "names prefix words.qp o",
        "names next words.qp a",
        "names longest words.qp oaks --json",
        "names closest names.qp x.example",
        "names count words.qp",
        "names stats words.qp",
        "names stats words.qp --json",
        "names verify words.qp",
        "names diff words.qp words.qp -s",
        "routes lookup routes.lpm 10.0.0.1",
        "routes stats routes.lpm",
        "routes export routes.lpm",
        "ranges get spans.ranges 1",
        "ranges list spans.ranges",
        "ranges gaps spans.ranges",
        "ranges alloc spans.ranges 5 new --dry-run",
        "ranges export spans.ranges",
        "report --map words.qp --json",
    ] {
        s.shell(&format!("\"$0\" {command} > /dev/full"))
            .code(2)
            .complains("sapwood: cannot write the output: No space left on device");
    }
    // A range that is stored is not lost, though nothing can be printed.
    s.shell("\"$0\" ranges alloc spans.ranges 5 new > /dev/full")
        .code(2)
        .complains("cannot write the output: No space left on device")
        .complains("the range 10..=14 is stored");
    s.run(&["ranges", "get", "spans.ranges", "12"])
        .code(0)
        .out("10\t14\tnew\n");
}

#[test]
fn stderr_without_room_changes_no_exit_code() {
    let s = files();
    for (command, code) in [
        ("names build words -o out", 0),
        ("--log debug names build words -o out", 0),
        ("names get words.qp none", 1),
        ("names get none oak", 2),
        ("nonsense", 2),
        ("routes build words -o out", 2),
    ] {
        for to in ["2> /dev/full", "2>&-"] {
            s.shell(&format!("\"$0\" {command} {to}")).code(code);
        }
    }
}

#[test]
fn a_reader_who_leaves_is_no_error() {
    let s = files();
    for command in [
        "--help",
        "man",
        "completions bash",
        "names range words.qp",
        "names range words.qp --json",
        "names closest names.qp a.example",
        "routes export routes.lpm",
        "ranges export spans.ranges",
    ] {
        // The reader has left before the program starts.
        let ran = s.shell(&format!(
            "{{ while [ ! -e left ]; do sleep 0.01; done; \"$0\" {command}; echo $? > code; }} \
             | touch left; while [ ! -s code ]; do sleep 0.01; done; cat code; rm left code"
        ));
        ran.code(0).out("0\n").quiet();
    }
    // But a range that is stored unseen is told.
    let ran = s.shell(
        "{ while [ ! -e left ]; do sleep 0.01; done; \"$0\" ranges alloc spans.ranges 1 new; \
         echo $? > code; } | touch left; while [ ! -s code ]; do sleep 0.01; done; cat code",
    );
    ran.out("2\n")
        .complains("Broken pipe")
        .complains("the range 0..=0 is stored");
}

#[test]
fn a_server_whose_answers_nobody_reads_ends_with_an_error() {
    let s = files();
    for (kind, list, query) in [
        ("names", "words", "get oak"),
        ("routes", "prefixes", "get 10.0.0.0/8"),
        ("ranges", "spans", "get 5"),
    ] {
        // The end of its commands would not end it.
        let ran = s.shell(&format!(
            "{{ while [ ! -e left ]; do sleep 0.01; done; echo {query} \
             | \"$0\" {kind} serve {list} -q --live live-{kind}; echo $? > code; }} \
             | touch left; while [ ! -s code ]; do sleep 0.01; done; cat code; rm left code"
        ));
        ran.out("2\n")
            .complains("the command has ended: cannot write the output: Broken pipe");
    }
}

#[test]
fn a_command_that_is_too_long_is_refused_and_the_next_one_is_answered() {
    let s = files();
    let commands = [
        b"get ".to_vec(),
        vec![b'x'; 200_000],
        b"\n\xff\xfe\n\nget oak\r\nget \xff\nquit".to_vec(),
    ];
    s.run_with(
        &["names", "serve", "words", "-q", "--live", "live"],
        &commands.concat(),
    )
    .code(0)
    .out(b"found\toak\t2\nabsent\t\xff\n")
    .complains("\"(a line of 200005 bytes)\" is not a command")
    .complains("\"\\xff\\xfe\" is not a command");
}

/// The commands that read a text, with what they make of a text with a word in each line.
const READERS: [&[&str]; 4] = [
    &["names", "build", "in", "-o", "out"],
    &["names", "build", "--dns", "in", "-o", "out"],
    &["routes", "build", "in", "-o", "out"],
    &["ranges", "build", "in", "-o", "out"],
];

#[test]
fn inputs_that_cannot_be_read_are_named() {
    let s = files();
    s.file("out", "precious");
    let program = s.copy_of_program();
    for args in READERS {
        s.run(args)
            .code(2)
            .out("")
            .complains("sapwood: cannot read in: No such file or directory");
        std::fs::create_dir(s.path("in")).unwrap();
        s.run(args)
            .code(2)
            .out("")
            .complains("sapwood: cannot read in: is a directory");
        std::fs::remove_dir(s.path("in")).unwrap();
        std::fs::set_permissions(s.file("in", "a\n"), PermissionsExt::from_mode(0o0)).unwrap();
        if rustix::process::geteuid().is_root() {
            // Whoever is not root may write here, but not read.
            std::fs::set_permissions(s.path(""), PermissionsExt::from_mode(0o777)).unwrap();
            let command = format!(
                "exec setpriv --reuid 65534 --regid 65534 --clear-groups {} {}",
                program.display(),
                args.join(" ")
            );
            s.shell(&command)
                .code(2)
                .complains("sapwood: cannot read in: Permission denied");
        } else {
            s.run(args)
                .code(2)
                .complains("sapwood: cannot read in: Permission denied");
        }
        std::fs::remove_file(s.path("in")).unwrap();
        assert_eq!(std::fs::read(s.path("out")).unwrap(), b"precious");
    }
}

#[test]
fn texts_of_nothing_make_empty_maps() {
    let s = Scratch::new();
    for text in ["", "\n", "\n\n\r\n"] {
        for args in READERS {
            s.file("in", text);
            let ran = s.run(args);
            if args[1] == "build" && args[0] == "names" && args[2] == "in" && text.contains('\r') {
                ran.code(0).complains("end in a carriage return");
            } else {
                ran.code(0)
                    .complains("in: warning: no ")
                    .complains("out is an empty ");
            }
        }
    }
}

#[test]
fn ends_of_lines_and_marks_make_no_difference() {
    let s = Scratch::new();
    for (args, text, query, answer) in [
        (
            READERS[1],
            "a.example\nb.example\n",
            &["names", "range", "--dns", "out"][..],
            "a.example\t1\nb.example\t2\n",
        ),
        (
            READERS[2],
            "10.0.0.0/8 a\n::/0 b\n",
            &["routes", "export", "out"],
            "10.0.0.0/8 a\n::/0 b\n",
        ),
        (
            READERS[3],
            "1 2 a\n5 6 b\n",
            &["ranges", "export", "out"],
            "1 2 a\n5 6 b\n",
        ),
    ] {
        for text in [
            text.to_owned(),
            text.trim_end().to_owned(),
            text.replace('\n', "\r\n"),
            text.replace('\n', "\r\n").trim_end().to_owned(),
            format!("\u{feff}{text}"),
            format!("\u{feff}# a comment\r\n{text}"),
        ] {
            s.file("in", &text);
            s.run(args).code(0);
            let ran = s.run(query);
            // The comment is a line, and lines without a number have that of their line.
            match text.contains('#') && args[0] == "names" {
                true => ran.out("a.example\t2\nb.example\t3\n"),
                false => ran.out(answer),
            };
        }
    }
    // Of keys that are any bytes, the mark is one; it is told.
    s.file("in", "\u{feff}a\n");
    s.run(READERS[0])
        .code(0)
        .complains("in: warning: it begins with a byte order mark");
}

#[test]
fn what_is_no_text_is_no_list() {
    let s = files();
    for args in READERS {
        for (map, kind, export) in [
            (
                "words.qp",
                "a map of names",
                "\"names range\" prints its entries as a text",
            ),
            (
                "names.qp",
                "a map of names",
                "\"names range\" prints its entries as a text",
            ),
            (
                "spans.ranges",
                "a map of ranges",
                "\"ranges export\" makes a text from it",
            ),
            (
                "routes.lpm",
                "a table",
                "\"routes export\" makes a text from it",
            ),
        ] {
            let given: Vec<&str> = args
                .iter()
                .map(|arg| if *arg == "in" { map } else { arg })
                .collect();
            let ran = s.run(&given);
            ran.code(2).complains(&format!("sapwood: {map} is {kind}"));
            if args[0] == "names" {
                ran.complains(export);
            }
            let piped: Vec<&str> = args
                .iter()
                .map(|arg| if *arg == "in" { "-" } else { arg })
                .collect();
            s.run_with(&piped, &std::fs::read(s.path(map)).unwrap())
                .code(2)
                .complains("sapwood: standard input is a saved file, not a text");
        }
        if args[1..3] == ["build", "in"] && args[0] == "names" {
            continue;
        }
        let mut random = fastrand::Rng::with_seed(7);
        let noise: Vec<u8> = (0..100_000).map(|_| random.u8(1..)).collect();
        for text in [
            &noise[..],
            b"\xff\xfea\0\n\0",
            b"caf\xe9.example\n",
            &[b'x'; 100_000],
        ] {
            s.file("in", text);
            s.run(args).code(2).complains("sapwood: in: ");
        }
    }
    assert!(!s.path("out").exists());
}

#[test]
fn maps_are_no_standard_input() {
    let s = files();
    for args in [
        &["names", "get", "-", "oak"][..],
        &["names", "closest", "-", "oak"],
        &["names", "verify", "-"],
        &["names", "stats", "-"],
        &["names", "diff", "words.qp", "-"],
        &["routes", "lookup", "-", "10.0.0.1"],
        &["routes", "stats", "-"],
        &["routes", "export", "-"],
        &["ranges", "get", "-", "5"],
        &["ranges", "list", "-"],
        &["ranges", "verify", "-"],
        &["ranges", "alloc", "-", "5", "x"],
        &["report", "--map", "-", "-o", "out"],
    ] {
        s.run(args)
            .code(2)
            .out("")
            .complains("sapwood: standard input cannot be a ");
    }
}
