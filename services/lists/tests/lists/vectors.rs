//! The vectors of `tests/files`: a map of random lists, and what it says of random questions. The
//! readers of maps in other languages answer the same. `SAPWOOD_WRITE=1` writes them anew.

use std::fmt::Write;
use std::path::Path;

use sapwood_lists::{Action, Format, Loader, Options, Source, Verdict, open, verdict};

use crate::oracle::{TYPES, random_list, random_name};

/// What other languages can tell of a verdict.
fn shown(found: Option<&Verdict>, asked: &[u8]) -> String {
    let Some(found) = found else {
        return "none".into();
    };
    let terms = &found.terms;
    let mut text = format!(
        "{} {} {} {} {}",
        terms.action.word(),
        terms.list,
        terms.class as u8,
        found.others,
        found.name()
    );
    match &terms.action {
        Action::Addresses(all) => all.iter().for_each(|it| write!(text, " {it}").unwrap()),
        Action::Name(_) => {
            let name = found.answer(asked, 1).unwrap().name.unwrap();
            let name = sapwood::key::dns_name_to_text(&name).unwrap();
            write!(text, " {name}").unwrap();
        }
        Action::Records(all) => {
            for record in all {
                write!(text, " {}/{}/", record.rtype, record.ttl).unwrap();
                for byte in &record.data {
                    write!(text, "{byte:02x}").unwrap();
                }
            }
        }
        _ => {}
    }
    text
}

/// Lists in all formats, and some lines of which random ones have none.
fn sources(random: &mut fastrand::Rng) -> Vec<Source> {
    let zone = "$ORIGIN rpz.\n@ 60 SOA a. b. 1 2 3 4 5\n\
                *.m.example CNAME *.walled.example.\nn.example CNAME other.\n\
                t.example 60 TXT \"hi\"\nt.example MX 10 mail.example.\nt.example A 192.0.2.9\n\
                d.example CNAME rpz-drop.\ne.example CNAME rpz-tcp-only.\nf.example CNAME *.\n\
                dots\\.in.m.example 7 TXT \"a\\000\"\n";
    let blocks = "||w.example^\n@@||good.w.example^\n||w.example^$important,dnstype=MX\n\
                  ||v.example^$denyallow=a.v.example|b.v.example\n*.u.example\n\
                  ||r.example^$dnsrewrite=REFUSED\n";
    let mut all = vec![
        Source::text("zone", zone).format(Format::Rpz),
        Source::text("blocks", blocks).format(Format::AdBlock),
    ];
    for (list, format) in Format::ALL.iter().enumerate() {
        let (text, _) = random_list(random, *format, list, 9);
        all.push(Source::text(format!("list {list}"), text).format(*format));
    }
    all
}

const EXTRA: [&str; 18] = [
    "d.example",
    "e.example",
    "f.example",
    "r.example",
    ".",
    "example",
    "m.example",
    "a.m.example",
    "B.a.M.example",
    "n.example",
    "t.example",
    "dots\\.in.m.example",
    "w.example",
    "x.good.w.example",
    "a.a.v.example",
    "c.v.example",
    "u.example",
    "a.u.example",
];

#[test]
fn maps_answer_as_the_vectors_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let (map, answers) = (folder.join("vectors.lists"), folder.join("vectors.answers"));
    if std::env::var_os("SAPWOOD_WRITE").is_some() {
        let mut random = fastrand::Rng::with_seed(16);
        let options = Options {
            strict: false,
            ..Options::default()
        };
        let loader = Loader::new(sources(&mut random), options);
        let (made, _) = { loader }.build().unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        made.save(&map).unwrap();
        let mut text = String::from("# question, type, verdict: see tests/lists/vectors.rs\n");
        let names = (0..300).map(|_| random_name(&mut random, 6).join("."));
        for name in EXTRA.map(String::from).into_iter().chain(names) {
            let key = sapwood::key::dns_name(&name).unwrap();
            for rtype in TYPES.map(|(rtype, _)| rtype).into_iter().chain([16]) {
                let found = made.verdict(name.as_ref(), rtype).unwrap();
                let shown = shown(found.as_ref(), &key);
                writeln!(text, "{name}\t{rtype}\t{shown}").unwrap();
            }
        }
        std::fs::write(&answers, text).unwrap();
    }
    let (file, meta) = open(&map).unwrap();
    let text = std::fs::read_to_string(&answers).unwrap();
    let (mut all, mut listed) = (0, 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split('\t').collect();
        let key = sapwood::key::dns_name(parts[0]).unwrap();
        let found = verdict(&file, &meta, &key, parts[1].parse().unwrap()).unwrap();
        assert_eq!(shown(found.as_ref(), &key), parts[2], "{line}");
        all += 1;
        listed += usize::from(found.is_some());
    }
    assert!(all > 1000 && listed > 500, "{listed} of {all}");
    for action in [
        "name ",
        "addresses ",
        "records ",
        "drop ",
        "truncate ",
        "pass ",
        "refused ",
    ] {
        assert!(text.contains(&format!("\t{action}")), "{action}");
    }
}
