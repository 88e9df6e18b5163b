//! Queries of live maps by who may not write there, and by who comes before the map.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{PROGRAM, Ran, Scratch};
use crate::server::Server;

/// Queries of all kinds, of the maps that [`served`] serves.
const QUERIES: [&str; 27] = [
    "names get words oak elm none",
    "names has words oak none -v",
    "names prefix words o",
    "names prefix words o --reverse --limit 2",
    "names range words --from elm --to oats",
    "names range words --reverse --limit 3",
    "names next words elm",
    "names prev words elm --json",
    "names longest words oakum elms none",
    "names longest words oakum --all",
    "names count words",
    "names count words oa",
    "names verify words",
    "names diff words words",
    "names get --dns zone www.example.org",
    "names prefix --dns zone example.org",
    "names longest --dns zone a.b.example.org mail.example.net",
    "names closest zone mail.example.org a.sub.example.org org",
    "names closest zone a.sub.example.org --cut NS --json",
    "routes lookup routes 10.1.2.3 10.9.9.9 192.0.2.1 2001:db8::1",
    "routes lookup routes --all 10.1.2.3 2001:db8::1",
    "routes export routes",
    "routes verify routes",
    "ranges get ports 5 150 50 7000",
    "ranges list ports",
    "ranges gaps ports",
    "ranges export ports",
];

/// What a program served or asked by another user is.
fn as_user(user: u32, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args([format!("--reuid={user}"), format!("--regid={user}")])
        .arg("--clear-groups")
        .arg(program);
    command
}

/// Servers of maps of all kinds, by programs that `run` makes.
fn served(s: &Scratch, run: impl Fn() -> Command) -> Vec<Server> {
    let many: String = (0..300).map(|n| format!("key {n:03}\t{n}\n")).collect();
    s.file(
        "words.txt",
        format!("oak\t1\noaks\t2\noar\t3\nelm\t4\n{many}"),
    );
    let zone = "org\tx\nexample.org\tx\nwww.example.org\ty\n*.example.org\tw\nsub.example.org\tNS\n\
                ns.sub.example.org\tglue\nexample.net\tz\n";
    s.file("zone.txt", zone);
    let routes = "10.0.0.0/8 core\n10.1.0.0/16 lab\n10.1.2.0/24 desk\n2001:db8::/32 core\n";
    s.file("routes.txt", routes);
    s.file("ports.txt", "0 9 first\n100 199 second\n300 6999 third\n");
    let start = |line: &str| {
        let mut command = run();
        command
            .args(line.split(' '))
            .current_dir(s.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let server = Server::of(command);
        server.complains(", live");
        server
    };
    vec![
        start("names serve words.txt --live maps/words"),
        start("names serve --dns --values text zone.txt --live maps/zone"),
        start("routes serve routes.txt --live maps/routes"),
        start("ranges serve ports.txt --live maps/ports"),
    ]
}

/// Asks a query of the maps in a directory.
fn asked(mut command: Command, folder: &Path, query: &str) -> Ran {
    command.args(query.split(' ')).arg("--live");
    Ran(command.current_dir(folder).output().unwrap())
}

/// All answers of a program in a directory are those of the program beside the maps.
#[track_caller]
fn answers_agree(s: &Scratch, folder: &Path, run: impl Fn() -> Command) {
    for query in QUERIES {
        let near = asked(Command::new(PROGRAM), &s.path("maps"), query);
        let far = asked(run(), folder, query);
        assert!(near.0.status.code() < Some(2), "{query}\n{near}");
        assert_eq!(
            near.0.status.code(),
            far.0.status.code(),
            "{query}\n{near}\n{far}"
        );
        assert_eq!(near.0.stdout, far.0.stdout, "{query}\n{near}\n{far}");
        assert_eq!(near.0.stderr, far.0.stderr, "{query}\n{near}\n{far}");
    }
}

fn opened_to_all(s: &Scratch) {
    let mode = |path: PathBuf, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(s.path("."), 0o755);
    std::fs::create_dir(s.path("maps")).unwrap();
    mode(s.path("maps"), 0o777);
}

/// A directory that is mounted, until this is dropped.
pub struct Mounted(pub PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(done.unwrap().success());
    }
}

#[test]
fn every_query_answers_on_a_read_only_mount() {
    let s = Scratch::new();
    opened_to_all(&s);
    let mut servers = served(&s, || Command::new(PROGRAM));
    let view = s.path("view");
    std::fs::create_dir(&view).unwrap();
    let mount = |args: &[&std::ffi::OsStr]| {
        let mut command = Command::new("mount");
        command.args(args).arg(&view).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !mount(&["--bind".as_ref(), s.path("maps").as_ref()]) {
        return println!("skipped: this process may not mount a file system");
    }
    let mounted = Mounted(view.clone());
    if !mount(&["-o".as_ref(), "remount,bind,ro".as_ref()]) {
        return println!("skipped: this process may not mount a file system read-only");
    }
    answers_agree(&s, &view, || Command::new(PROGRAM));
    // The maps change, and each answer is of the newest one.
    for round in 0..20 {
        servers[0].answers(&format!("add oak {round}\n"), &["replaced\toak"]);
        asked(Command::new(PROGRAM), &view, "names get words oak")
            .code(0)
            .out(format!("{round}\n"))
            .quiet();
        let hop = format!("hop {round}");
        servers[2].answers(
            &format!("add 10.1.0.0/16 {hop}\n"),
            &["replaced\t10.1.0.0/16"],
        );
        asked(
            Command::new(PROGRAM),
            &view,
            "routes lookup routes 10.1.9.9",
        )
        .code(0)
        .out(format!("10.1.0.0/16\t{hop}\n"));
    }
    answers_agree(&s, &view, || Command::new(PROGRAM));
    // Nobody holds anything back.
    asked(Command::new(PROGRAM), &view, "names get words -").code(0);
    assert_eq!(
        std::fs::read_dir(s.path("maps/words/readers"))
            .unwrap()
            .count(),
        0
    );
    drop(mounted);
}

#[test]
fn every_query_answers_another_user() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
        return println!("skipped: this process may not become another user");
    }
    let s = Scratch::new();
    opened_to_all(&s);
    let program = s.copy_of_program();
    let maps = s.path("maps");
    {
        // Maps of root, which others trust, and where they may not register.
        let _servers = served(&s, || Command::new(PROGRAM));
        answers_agree(&s, &maps, || as_user(65534, &program));
    }
    std::fs::remove_dir_all(&maps).unwrap();
    opened_to_all(&s);
    // Maps of somebody else.
    let _servers = served(&s, || as_user(65534, &program));
    let there = |user| as_user(user, &program);
    for query in QUERIES {
        let near = asked(there(65534), &maps, query);
        let far = asked(there(65533), &maps, query);
        assert_eq!(
            near.0.status.code(),
            far.0.status.code(),
            "{query}\n{near}\n{far}"
        );
        assert_eq!(near.0.stdout, far.0.stdout, "{query}\n{near}\n{far}");
    }
    // Root may write them, and would register: it does not trust them.
    asked(Command::new(PROGRAM), &maps, "names get words oak")
        .code(2)
        .complains("not to be trusted: ");
}

#[test]
fn queries_wait_for_a_map() {
    let s = Scratch::new();
    let lines = [
        ("names get --live --wait 60 maps/words oak", "1\n"),
        ("names count --live --wait 60.5 maps/words", "304\n"),
        ("names diff --live --wait 60 maps/words maps/words", ""),
        (
            "routes lookup --live --wait 60 maps/routes 10.9.9.9",
            "10.0.0.0/8\tcore\n",
        ),
        ("ranges get --live --wait 60 maps/ports 5", "0\t9\tfirst\n"),
    ];
    let early: Vec<_> = lines
        .iter()
        .map(|(line, _)| {
            let words: Vec<&str> = line.split(' ').collect();
            Server::command(&s, &words).spawn().unwrap()
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(200));
    std::fs::create_dir(s.path("maps")).unwrap();
    let _servers = served(&s, || Command::new(PROGRAM));
    for ((line, out), child) in lines.iter().zip(early) {
        // They find the map with its whole list.
        let ran = Ran(child.wait_with_output().unwrap());
        ran.code(0).out(out).quiet();
        let words: Vec<&str> = line.split(' ').collect();
        s.run(&words).code(0).out(out).quiet();
    }
    let began = std::time::Instant::now();
    s.run(&["names", "get", "--live", "--wait", "0.3", "none", "oak"])
        .code(2)
        .complains("none has no live map yet");
    assert!(began.elapsed().as_millis() >= 300);
    for (wait, why) in [
        ("-1", "it is a number of seconds, such as 10 or 0.5"),
        ("soon", "it is a number of seconds, such as 10 or 0.5"),
    ] {
        let wait = format!("--wait={wait}");
        s.run(&["names", "get", "--live", &wait, "none", "oak"])
            .code(2)
            .complains(why);
    }
    s.run(&["names", "get", "--wait", "1", "none", "oak"])
        .code(2)
        .complains("--live");
}
