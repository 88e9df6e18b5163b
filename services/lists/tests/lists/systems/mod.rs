//! The systems whose formats these are get the same lists and the same questions. Each answer is
//! ours, or differs as docs/lists.md says under "Where the systems differ".

mod servers;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use sapwood_lists::names::shown_name;
use sapwood_lists::{Action, Format, ListMap, Loader, Options, Scope, Source, Verdict};
use sapwood_model::lists::{Format as Kind, Names, head, line};
use sapwood_model::systems::dns::{A, AAAA, Answer, Question, SPF, TXT, ask};
use sapwood_model::systems::servers::{Server, bind, dnsmasq, says, unbound};

use self::servers::{program, urlfilter};

const LISTS: usize = 5;
const QUESTIONS: usize = 10_000;

/// Five lists of one format, what we make of them, and questions.
struct Case {
    folder: tempfile::TempDir,
    files: Vec<PathBuf>,
    map: ListMap,
    /// The lines of each name, by the numbers of their lists.
    lines: HashMap<String, Vec<(usize, String)>>,
    questions: Vec<Question>,
}

/// The name that is the last one of a list, by which a server shows that it has read all of it.
fn last_name(list: usize) -> String {
    format!("last-{list}.example")
}

/// The name of a line's rule, which may have a label before it.
fn names_of(name: &str, text: &str) -> Vec<String> {
    match text.contains("only-") {
        true => vec![format!("only-{name}")],
        false => vec![name.to_owned()],
    }
}

impl Case {
    fn new(kind: Kind, format: Format, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut names: Vec<String> = Names::new(seed).take(4000).collect();
        names.sort_unstable();
        names.dedup();
        let folder = tempfile::tempdir().unwrap();
        let mut lines: HashMap<String, Vec<(usize, String)>> = HashMap::new();
        let (mut files, mut sources) = (Vec::new(), Vec::new());
        for list in 0..LISTS {
            let mut text = head(kind).to_owned();
            random.shuffle(&mut names);
            for name in &names[..1000] {
                let line = line(kind, name, &mut random, 6);
                for name in names_of(name, &line) {
                    lines.entry(name).or_default().push((list, line.clone()));
                }
                text += &line;
                text.push('\n');
            }
            text += &line(kind, &last_name(list), &mut random, usize::MAX);
            text.push('\n');
            let file = folder.path().join(format!("list-{list}"));
            std::fs::write(&file, &text).unwrap();
            sources.push(Source::file(&file).format(format));
            files.push(file);
        }
        let options = Options {
            strict: true,
            ..Options::default()
        };
        let (map, _) = Loader::new(sources, options).build().unwrap();
        let mut known: Vec<String> = lines.keys().cloned().collect();
        known.sort_unstable();
        let questions = questions(&known, &mut random);
        Case {
            folder,
            files,
            map,
            lines,
            questions,
        }
    }

    fn verdict(&self, question: &Question) -> Option<Verdict> {
        let name = question.name.as_bytes();
        self.map.verdict(name, question.rtype).unwrap()
    }

    /// Whether a server answers for the last name of each list.
    fn is_ready(&self, server: std::net::SocketAddr, blocked: &Answer) -> bool {
        (0..LISTS).all(|list| {
            let name = last_name(list);
            says(server, &Question { name, rtype: A }, blocked)
        })
    }

    /// Asks a server. What has no answer is asked once more, with more patience.
    fn asked(&self, server: &Server) -> Vec<Answer> {
        let mut answers = ask(server.address, &self.questions, Duration::from_millis(100));
        let is_dropped = |at: &usize| answers[*at] == Answer::Drop;
        let again: Vec<usize> = (0..answers.len()).filter(is_dropped).collect();
        let questions: Vec<_> = again.iter().map(|at| self.questions[*at].clone()).collect();
        let found = ask(server.address, &questions, Duration::from_millis(700));
        again
            .into_iter()
            .zip(found)
            .for_each(|(at, answer)| answers[at] = answer);
        answers
    }

    /// Compares answers with ours. `class` names the difference that an answer may have.
    fn compare(
        &self,
        about: &str,
        answers: &[Answer],
        class: impl Fn(&Asked<'_>) -> Option<&'static str>,
    ) -> BTreeMap<&'static str, usize> {
        assert_eq!(answers.len(), self.questions.len(), "{about}");
        let mut counts = BTreeMap::new();
        let (mut wrong, mut ruled) = (Vec::new(), 0);
        for (question, answer) in self.questions.iter().zip(answers) {
            let verdict = self.verdict(question);
            let ours = expected(verdict.as_ref(), question);
            ruled += usize::from(verdict.is_some());
            if ours == *answer {
                *counts.entry("equal").or_default() += 1;
                continue;
            }
            let asked = Asked {
                case: self,
                question,
                verdict: verdict.as_ref(),
                ours,
                theirs: answer,
            };
            match class(&asked) {
                Some(class) => *counts.entry(class).or_default() += 1,
                None => wrong.push(format!(
                    "{} {}: ours {:?} of {:?}, theirs {answer:?}; lines {:?}",
                    question.name,
                    question.rtype,
                    asked.ours,
                    asked.verdict.map(|v| (v.name(), v.terms.to_string())),
                    asked.lines().collect::<Vec<_>>(),
                )),
            }
        }
        println!(
            "{about}: {ruled} of {} questions have a rule; {counts:?}",
            answers.len()
        );
        assert!(
            wrong.is_empty(),
            "{about}: {}: {:#?}",
            wrong.len(),
            &wrong[..wrong.len().min(25)]
        );
        assert!(
            ruled > QUESTIONS / 3 && counts["equal"] > QUESTIONS / 2,
            "{about}"
        );
        counts
    }
}

/// A question whose answers differ.
struct Asked<'c> {
    case: &'c Case,
    question: &'c Question,
    verdict: Option<&'c Verdict>,
    ours: Answer,
    theirs: &'c Answer,
}

impl Asked<'_> {
    /// The lines at the name and above it, the longest name first.
    fn lines(&self) -> impl Iterator<Item = (String, &(usize, String))> {
        let name = self.question.name.to_ascii_lowercase();
        let starts: Vec<usize> = std::iter::once(0)
            .chain(name.match_indices('.').map(|(at, _)| at + 1))
            .collect();
        let above = starts.into_iter().map(move |at| name[at..].to_owned());
        above.flat_map(|name| {
            let lines = self.case.lines.get(&name).into_iter().flatten();
            lines.map(move |line| (name.clone(), line))
        })
    }

    /// The different lines of the longest name that has such lines.
    fn longest(&self, is_such: impl Fn(&str) -> bool) -> BTreeSet<&str> {
        let such = self.lines().filter(|(_, (_, line))| is_such(line));
        let such: Vec<_> = such
            .map(|(name, (_, line))| (name, line.as_str()))
            .collect();
        let first = such.first().map(|(name, _)| name.clone());
        let same = such
            .into_iter()
            .filter(|(name, _)| Some(name) == first.as_ref());
        same.map(|(_, line)| line).collect()
    }

    /// Whether a list has a name between this one and the question: the question's own, one above
    /// it, or one that has such a name above it.
    fn has_between(&self, list: usize, above: &str) -> bool {
        let question = self.question.name.to_ascii_lowercase();
        let below = question.strip_suffix(above).unwrap_or_default();
        let Some(label) = below.trim_end_matches('.').rsplit('.').next() else {
            return false;
        };
        // The name of one label more than the rule's.
        let next = format!("{label}.{above}");
        let is_or_below = |name: &str| {
            let rest = name.strip_suffix(&next);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let mut all = self.case.lines.iter();
        all.any(|(name, lines)| is_or_below(name) && lines.iter().any(|(at, _)| *at == list))
    }
}

/// The addresses of hosts files and options of dnsmasq for a name, of one type.
fn addresses_of(lines: &BTreeSet<&str>, rtype: u16) -> Answer {
    let words = lines.iter().flat_map(|line| line.split([' ', '/']));
    Answer::addresses(words.filter_map(|word| word.parse::<IpAddr>().ok()), rtype)
}

/// Response policy zones: of BIND and of Unbound.
fn of_policies(asked: &Asked<'_>) -> Option<&'static str> {
    let rule = asked.verdict?;
    let name = shown_name(&rule.key).ok()?;
    let list = usize::from(rule.terms.list);
    (rule.terms.scope == Scope::Below && asked.has_between(list, &name))
        .then_some("a wildcard is not for names below others")
}

fn of_unbound(asked: &Asked<'_>) -> Option<&'static str> {
    let zones = asked.longest(|line| line.starts_with("local-zone"));
    if zones.len() > 1 {
        return Some("the last zone of a name in several lists counts");
    }
    let zone = zones.first().copied().unwrap_or_default();
    let has_data = !asked
        .longest(|line| line.starts_with("local-data"))
        .is_empty();
    match (has_data, zone.contains("always_")) {
        (true, true) => Some("zones of types always_ have no data"),
        (true, false) => Some("data come before their zone"),
        _ => None,
    }
}

fn of_dnsmasq(asked: &Asked<'_>) -> Option<&'static str> {
    let lines = asked.longest(|_| true);
    let is_null = |line: &&str| line.ends_with("/0.0.0.0") || line.ends_with("/#");
    let has_address = lines
        .iter()
        .any(|line| line.starts_with("address=") && !line.ends_with('/'));
    if lines.len() > 1 {
        return Some("all lines of a name are one");
    }
    let is_block = lines
        .iter()
        .any(|line| is_null(line) && line.starts_with("address="));
    match (is_block, has_address && asked.ours == Answer::Nodata) {
        (true, _) => Some("a block by an address"),
        (_, true) => Some("other types go to the server"),
        _ => None,
    }
}

/// Names of hosts files have the addresses of all lines.
fn of_hosts(asked: &Asked<'_>) -> Option<&'static str> {
    let name = asked.question.name.to_ascii_lowercase();
    let lines = asked.lines().filter(|(at, _)| *at == name);
    let lines: BTreeSet<&str> = lines.map(|(_, (_, line))| line.as_str()).collect();
    match (addresses_of(&lines, asked.question.rtype), lines.is_empty()) {
        (_, true) => None,
        (Answer::Nodata, _) => matches!(asked.theirs, Answer::Upstream | Answer::Nodata)
            .then_some("other types go to the server"),
        (all, _) => (all == *asked.theirs).then_some("a block by an address"),
    }
}

fn of_adguard(asked: &Asked<'_>) -> Option<&'static str> {
    let rewritings = asked
        .lines()
        .filter(|(_, (_, line))| line.contains("dnsrewrite"));
    (rewritings.count() > 1).then_some("rewritings apply together")
}

/// Plain names are lines of hosts files with 0.0.0.0 to the library.
fn of_plain(asked: &Asked<'_>) -> Option<&'static str> {
    let null = Answer::addresses([Ipv4Addr::UNSPECIFIED.into()], asked.question.rtype);
    let is_dotted = asked.lines().any(|(_, (_, line))| line.starts_with('.'));
    match asked.ours == Answer::Nxdomain && *asked.theirs == null {
        true => Some("a block by an address"),
        false => is_dotted.then_some("names with a dot in front are no rules"),
    }
}

/// What our rule answers.
fn expected(verdict: Option<&Verdict>, question: &Question) -> Answer {
    let Some(verdict) = verdict else {
        return Answer::Upstream;
    };
    let null: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    match &verdict.terms.action {
        Action::Nxdomain => Answer::Nxdomain,
        Action::Nodata => Answer::Nodata,
        Action::Refused => Answer::Refused,
        Action::Drop => Answer::Drop,
        Action::Truncate => Answer::Truncated,
        Action::Pass => Answer::Upstream,
        Action::Null => Answer::addresses(null, question.rtype),
        Action::Addresses(all) => Answer::addresses(all.iter().copied(), question.rtype),
        Action::Name(key) => Answer::Name(shown_name(key).unwrap()),
        Action::Records(all) => {
            let all = all.iter().filter(|record| record.rtype == question.rtype);
            let all: BTreeSet<_> = all.map(|record| record.data.clone()).collect();
            match all.is_empty() {
                true => Answer::Nodata,
                false => Answer::Records(all),
            }
        }
    }
}

/// Names that lists have, others below, above and beside them, and some that nobody has.
fn questions(known: &[String], random: &mut fastrand::Rng) -> Vec<Question> {
    let mut all = Vec::new();
    let mut strange = Names::new(random.u64(..));
    while all.len() < QUESTIONS {
        let name = known[random.usize(..known.len())].clone();
        let parent = name.split_once('.').map(|(_, above)| above.to_owned());
        let mut name = match random.u8(..20) {
            0..=7 => name,
            8..=11 => format!("{}.{name}", ["www", "a", "b-1"][random.usize(..3)]),
            12 => format!("x.y{}.{name}", random.u8(..9)),
            13 | 14 => parent.unwrap_or(name),
            15 | 16 => format!("s{}.{}", random.u8(..9), parent.unwrap_or(name)),
            17 => format!("x{name}"),
            _ => strange.next().unwrap(),
        };
        if random.u8(..5) == 0 {
            let mixed = name.chars().map(|c| match random.bool() {
                true => c.to_ascii_uppercase(),
                false => c,
            });
            name = mixed.collect();
        }
        let rtype = [A, A, A, A, A, AAAA, AAAA, AAAA, TXT, SPF][random.usize(..10)];
        all.push(Question { name, rtype });
    }
    all
}

#[test]
fn unbound_answers_as_we_do() {
    let case = Case::new(Kind::Unbound, Format::Unbound, 1);
    let ready = |server| case.is_ready(server, &Answer::Nxdomain);
    let Some(program) = program("unbound") else {
        return;
    };
    let server = unbound(&program, &case.files, false, case.folder.path(), ready);
    case.compare("unbound", &case.asked(&server), of_unbound);
}

#[test]
fn unbound_answers_by_the_last_zone_of_a_name_in_a_list_as_we_do() {
    let mut random = fastrand::Rng::with_seed(8);
    let folder = tempfile::tempdir().unwrap();
    let (mut lines, mut questions) = (Vec::new(), Vec::new());
    let kinds = [
        "always_nxdomain",
        "always_nodata",
        "always_refuse",
        "always_transparent",
        "static",
        "redirect",
    ];
    for n in 0..400 {
        // Some are below others.
        let name = match n % 4 {
            0 if n > 0 => format!("below.n{}.example", n - 1),
            _ => format!("n{n}.example"),
        };
        let mut is_open = false;
        for _ in 0..random.usize(1..4) {
            let kind = kinds[random.usize(..kinds.len())];
            // Data stay in the zone, whatever it becomes, and types other than always_ show them.
            if matches!(kind, "static" | "redirect") && std::mem::replace(&mut is_open, true) {
                continue;
            }
            let mut line = format!("local-zone: \"{name}\" {kind}\n");
            if kind == "redirect" {
                let last = random.u8(1..4);
                line += &format!("local-data: \"{name} A 192.0.2.{last}\"\n");
            }
            lines.push((random.u32(..), line));
        }
        for name in [name.clone(), format!("www.{name}")] {
            questions.push(Question { name, rtype: A });
        }
    }
    // Zones of one name are not beside each other.
    lines.sort_by_key(|(order, _)| *order);
    let mut text: String = lines.into_iter().map(|(_, line)| line).collect();
    text += "local-zone: \"last.example\" always_nxdomain\n";
    let file = folder.path().join("list");
    std::fs::write(&file, &text).unwrap();
    let list = Source::file(&file).format(Format::Unbound);
    let (map, _) = Loader::new(vec![list], Options::default()).build().unwrap();
    let Some(program) = program("unbound") else {
        return;
    };
    let last = Question {
        name: "last.example".into(),
        rtype: A,
    };
    let ready = |server| says(server, &last, &Answer::Nxdomain);
    let server = unbound(&program, &[file], false, folder.path(), ready);
    let answers = ask(server.address, &questions, Duration::from_millis(500));
    for (question, theirs) in questions.iter().zip(&answers) {
        let found = map.verdict(question.name.as_bytes(), A).unwrap();
        let ours = expected(found.as_ref(), question);
        let of = text.lines().filter(|line| line.contains(&*question.name));
        let of: Vec<_> = of.collect();
        assert_eq!(&ours, theirs, "{}: {of:?}", question.name);
    }
    let distinct: BTreeSet<String> = answers.iter().map(|a| format!("{a:?}")).collect();
    assert!(distinct.len() > 5, "{distinct:?}");
}

#[test]
fn unbound_answers_response_policies_as_we_do() {
    let case = Case::new(Kind::Rpz, Format::Rpz, 2);
    let ready = |server| case.is_ready(server, &Answer::Nxdomain);
    let Some(program) = program("unbound") else {
        return;
    };
    let server = unbound(&program, &case.files, true, case.folder.path(), ready);
    case.compare("unbound, rpz", &case.asked(&server), of_policies);
}

#[test]
fn bind_answers_response_policies_as_we_do() {
    let case = Case::new(Kind::Rpz, Format::Rpz, 2);
    let ready = |server| case.is_ready(server, &Answer::Nxdomain);
    let Some(program) = program("named") else {
        return;
    };
    let server = bind(&program, &case.files, case.folder.path(), ready);
    // BIND answers by a part of a zone while it reads the others.
    let mut answers = case.asked(&server);
    loop {
        let again = case.asked(&server);
        if again == answers {
            break;
        }
        answers = again;
    }
    case.compare("bind", &answers, of_policies);
}

#[test]
fn dnsmasq_answers_as_we_do() {
    let case = Case::new(Kind::Dnsmasq, Format::Dnsmasq, 3);
    let ready = |server| case.is_ready(server, &Answer::Nxdomain);
    let Some(program) = program("dnsmasq") else {
        return;
    };
    let server = dnsmasq(
        &program,
        &case.files,
        "conf-file",
        case.folder.path(),
        ready,
    );
    case.compare("dnsmasq", &case.asked(&server), of_dnsmasq);
}

#[test]
fn dnsmasq_answers_hosts_files_as_we_do() {
    let case = Case::new(Kind::Hosts, Format::Hosts, 4);
    let blocked = Answer::addresses([Ipv4Addr::UNSPECIFIED.into()], A);
    let ready = |server| case.is_ready(server, &blocked);
    let Some(program) = program("dnsmasq") else {
        return;
    };
    let server = dnsmasq(
        &program,
        &case.files,
        "addn-hosts",
        case.folder.path(),
        ready,
    );
    case.compare("dnsmasq, hosts", &case.asked(&server), of_hosts);
}

#[test]
fn urlfilter_answers_as_we_do() {
    type Class = fn(&Asked<'_>) -> Option<&'static str>;
    let all: [(Kind, Format, u64, Class); 3] = [
        (Kind::AdBlock, Format::AdBlock, 5, of_adguard),
        (Kind::Plain, Format::Plain, 6, of_plain),
        (Kind::Hosts, Format::Hosts, 7, of_hosts),
    ];
    for (kind, format, seed, class) in all {
        let case = Case::new(kind, format, seed);
        let answers = urlfilter(&case.files, case.folder.path(), &case.questions);
        let Some(answers) = answers else { return };
        case.compare(&format!("urlfilter, {}", format.word()), &answers, class);
    }
}
