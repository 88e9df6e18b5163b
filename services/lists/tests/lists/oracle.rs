//! The naive oracle: all rules in a vector, and the table of `docs/lists.md` word by word. It also
//! writes its rules as lines of lists.

use std::cmp::Ordering;
use std::net::IpAddr;

use sapwood_lists::{Action, Class, Format, Scope};

/// A rule as a line of a list says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Labels, the first one first.
    pub name: Vec<String>,
    pub scope: Scope,
    pub action: Action,
    pub class: Class,
    pub types: Option<(bool, Vec<u16>)>,
    pub except: Vec<Vec<String>>,
    pub list: usize,
    pub is_bad_filter: bool,
}

/// The types that rules and questions have.
pub const TYPES: [(u16, &str); 3] = [(1, "A"), (28, "AAAA"), (15, "MX")];

impl Said {
    /// How many labels of a question are in front of the name; `None` if it is not at or above.
    fn labels_below(&self, asked: &[String]) -> Option<usize> {
        asked
            .ends_with(&self.name)
            .then(|| asked.len() - self.name.len())
    }

    fn applies(&self, asked: &[String], rtype: u16) -> bool {
        let Some(below) = self.labels_below(asked) else {
            return false;
        };
        let has_name = match self.scope {
            Scope::Exact => below == 0,
            Scope::Below => below > 0,
            Scope::WithBelow => true,
        };
        let has_type = match &self.types {
            None => true,
            Some((others, types)) => types.contains(&rtype) != *others,
        };
        has_name && has_type && !self.except.iter().any(|except| asked.ends_with(except))
    }

    fn is_alike(&self, other: &Said) -> bool {
        self.name == other.name
            && self.scope == other.scope
            && self.class == other.class
            && self.types == other.types
            && self.except == other.except
    }
}

pub struct Oracle {
    rules: Vec<Said>,
    tiers: Vec<usize>,
}

impl Oracle {
    /// Of all lines of all lists, in their order.
    pub fn new(lines: &[Said], formats: &[Format]) -> Self {
        let mut rules: Vec<Said> = Vec::new();
        for said in lines.iter().filter(|said| !said.is_bad_filter) {
            let is_cancelled = lines.iter().any(|other| {
                other.is_bad_filter && other.is_alike(said) && other.action == said.action
            });
            if is_cancelled {
                continue;
            }
            let before = rules
                .iter_mut()
                .find(|other| other.list == said.list && other.is_alike(said));
            match before {
                None => rules.push(said.clone()),
                Some(before) => {
                    if let (Action::Addresses(all), Action::Addresses(more)) =
                        (&mut before.action, &said.action)
                    {
                        all.extend(more);
                        all.sort();
                        all.dedup();
                    } else if formats[said.list] == Format::Unbound
                        && said.scope == Scope::WithBelow
                    {
                        // Of the zones of one name, the last one counts.
                        before.action = said.action.clone();
                    }
                }
            }
        }
        // A tier for each zone, and one for the lists between two zones.
        let mut tiers = Vec::new();
        for (at, format) in formats.iter().enumerate() {
            let last = tiers.last().copied();
            let is_new = at > 0 && (*format == Format::Rpz || formats[at - 1] == Format::Rpz);
            tiers.push(last.map_or(0, |last: usize| last + usize::from(is_new)));
        }
        Oracle { rules, tiers }
    }

    /// The rule that wins.
    pub fn verdict(&self, asked: &[String], rtype: u16) -> Option<&Said> {
        let mut all: Vec<&Said> = self
            .rules
            .iter()
            .filter(|said| said.applies(asked, rtype))
            .collect();
        let is_rewriting = |said: &&Said| said.class == Class::Rewrite;
        if all
            .iter()
            .any(|said| is_rewriting(said) && said.action == Action::Pass)
        {
            all.retain(|said| !is_rewriting(said));
        }
        let mut best = *all.first()?;
        for said in &all[1..] {
            if self.compare(said, best) == Ordering::Less {
                best = said;
            }
        }
        Some(best)
    }

    /// The rows of the table, one after the other.
    fn compare(&self, a: &Said, b: &Said) -> Ordering {
        let class = |said: &Said| match said.class {
            Class::Rewrite => 1,
            Class::ImportantException => 2,
            Class::Important => 3,
            Class::Exception => 4,
            Class::Ordinary => 5,
        };
        let scope = |said: &Said| match said.scope {
            Scope::Exact => 1,
            Scope::Below => 2,
            Scope::WithBelow => 3,
        };
        let reversed = |except: &[Vec<String>]| -> Vec<Vec<String>> {
            let mut all: Vec<Vec<String>> = except.to_vec();
            all.iter_mut().for_each(|name| name.reverse());
            all
        };
        class(a)
            .cmp(&class(b))
            .then(self.tiers[a.list].cmp(&self.tiers[b.list]))
            .then(b.name.len().cmp(&a.name.len()))
            .then(a.list.cmp(&b.list))
            .then(scope(a).cmp(&scope(b)))
            .then(a.types.is_none().cmp(&b.types.is_none()))
            .then(a.except.is_empty().cmp(&b.except.is_empty()))
            .then(a.types.cmp(&b.types))
            .then(reversed(&a.except).cmp(&reversed(&b.except)))
    }
}

/// A random name of few labels, so that many are the same.
pub fn random_name(random: &mut fastrand::Rng, most: usize) -> Vec<String> {
    let labels = ["a", "b", "c-1", "_d"];
    let mut name: Vec<String> = (1..random.usize(1..=most))
        .map(|_| labels[random.usize(..labels.len())].to_owned())
        .collect();
    name.push(["x", "y", "example"][random.usize(..3)].to_owned());
    name
}

/// A random line of a list in a format, and what it says: perhaps nothing, or several rules.
pub fn random_line(random: &mut fastrand::Rng, format: Format, list: usize) -> (String, Vec<Said>) {
    let name = random_name(random, 4);
    let said = |scope, action| Said {
        name: name.clone(),
        scope,
        action,
        class: Class::Ordinary,
        types: None,
        except: Vec::new(),
        list,
        is_bad_filter: false,
    };
    let text = match random.bool() {
        true => name.join("."),
        false => name.join(".").to_uppercase(),
    };
    let address: IpAddr = match random.bool() {
        true => [192, 0, 2, random.u8(..3)].into(),
        false => [0x2001, 0xdb8, 0, 0, 0, 0, 0, random.u16(..3)].into(),
    };
    let addresses = || Action::Addresses(vec![address]);
    match format {
        Format::Plain => match random.u8(..8) {
            0 => ("# nothing".into(), vec![]),
            1 => (
                format!(".{text}."),
                vec![said(Scope::WithBelow, Action::Nxdomain)],
            ),
            2 => (
                format!("  *.{text}\t# x"),
                vec![said(Scope::Below, Action::Nxdomain)],
            ),
            _ => (
                format!("{text}\r"),
                vec![said(Scope::Exact, Action::Nxdomain)],
            ),
        },
        Format::Hosts => match random.u8(..6) {
            0 => ("127.0.0.1 localhost".into(), vec![]),
            1 => (
                format!("{address} {text}"),
                vec![said(Scope::Exact, addresses())],
            ),
            2 => {
                let rule = said(Scope::Exact, Action::Nxdomain);
                let mut other = rule.clone();
                other.name = random_name(random, 3);
                (
                    format!(":: {text}\t{} # x", other.name.join(".")),
                    vec![rule, other],
                )
            }
            _ => (
                format!("0.0.0.0 {text}"),
                vec![said(Scope::Exact, Action::Nxdomain)],
            ),
        },
        Format::Dnsmasq => {
            let (line, action) = match random.u8(..6) {
                0 => (format!("server=/{text}/#"), Action::Pass),
                1 => (format!("address=/{text}/{address}"), addresses()),
                2 => (format!("local=/{text}/"), Action::Nxdomain),
                3 => (format!("address=/{text}/0.0.0.0"), Action::Nxdomain),
                _ => (format!("address=/{text}/"), Action::Nxdomain),
            };
            (line, vec![said(Scope::WithBelow, action)])
        }
        Format::Unbound => {
            let (kind, action) = match random.u8(..8) {
                0 => ("always_nodata", Action::Nodata),
                1 => ("refuse", Action::Refused),
                2 => ("inform_deny", Action::Drop),
                3 => ("transparent", Action::Pass),
                4 => {
                    let family = if address.is_ipv4() { "A" } else { "AAAA" };
                    let line = format!("local-data: \"{text}. {family} {address}\"");
                    return (line, vec![said(Scope::Exact, addresses())]);
                }
                5 => {
                    let family = if address.is_ipv4() { "A" } else { "AAAA" };
                    let line = format!(
                        "local-zone: {text} redirect\nlocal-data: \"{text} 60 IN {family} {address}\""
                    );
                    return (line, vec![said(Scope::WithBelow, addresses())]);
                }
                _ => ("always_nxdomain", Action::Nxdomain),
            };
            (
                format!("local-zone: \"{text}.\" {kind}"),
                vec![said(Scope::WithBelow, action)],
            )
        }
        Format::Rpz => {
            let (owner, scope) = match random.bool() {
                true => (text, Scope::Exact),
                false => (format!("*.{text}"), Scope::Below),
            };
            let (data, action) = match random.u8(..9) {
                0 => ("CNAME *.".into(), Action::Nodata),
                1 => ("CNAME rpz-passthru.".into(), Action::Pass),
                2 => ("CNAME rpz-drop.".into(), Action::Drop),
                3 => ("CNAME rpz-tcp-only.".into(), Action::Truncate),
                4 => {
                    let target = b"example\0garden\0".to_vec();
                    ("CNAME garden.example.".into(), Action::Name(target))
                }
                5 if address.is_ipv4() => (format!("( A {address} )"), addresses()),
                5 => (format!("60 IN AAAA {address}"), addresses()),
                _ => ("CNAME .".to_owned(), Action::Nxdomain),
            };
            (format!("{owner} {data} ; x"), vec![said(scope, action)])
        }
        Format::AdBlock => {
            let (pattern, scope) = match random.u8(..5) {
                0 => (format!("|{text}^"), Scope::Exact),
                1 => (format!("||*.{text}^"), Scope::Below),
                _ => (format!("||{text}^"), Scope::WithBelow),
            };
            let mut rule = said(scope, Action::Nxdomain);
            let mut options = Vec::new();
            let is_exception = random.u8(..4) == 0;
            let is_important = random.u8(..6) == 0;
            rule.class = match (is_exception, is_important) {
                (true, true) => Class::ImportantException,
                (true, false) => Class::Exception,
                (false, true) => Class::Important,
                (false, false) => Class::Ordinary,
            };
            if is_important {
                options.push("important".to_owned());
            }
            if is_exception {
                rule.action = Action::Pass;
            }
            match random.u8(..10) {
                0 => {
                    let others = random.bool();
                    let mark = if others { "~" } else { "" };
                    let (number, word) = TYPES[random.usize(..3)];
                    options.push(format!("dnstype={mark}{word}"));
                    rule.types = Some((others, vec![number]));
                }
                1 => {
                    let mut except = random_name(random, 2);
                    except.extend(rule.name.clone());
                    options.push(format!("denyallow={}", except.join(".")));
                    rule.except.push(except);
                }
                2 if !is_important && is_exception => {
                    rule.class = Class::Rewrite;
                    options.push("dnsrewrite".into());
                }
                2 if !is_important => {
                    rule.class = Class::Rewrite;
                    rule.action = addresses();
                    options.push(format!("dnsrewrite={address}"));
                }
                3 => {
                    rule.is_bad_filter = true;
                    options.push("badfilter".into());
                }
                _ => {}
            }
            let options = match options.is_empty() {
                true => String::new(),
                false => format!("${}", options.join(",")),
            };
            let mark = if is_exception { "@@" } else { "" };
            (format!("{mark}{pattern}{options}"), vec![rule])
        }
    }
}

/// A random list: its text, and what its lines say.
pub fn random_list(
    random: &mut fastrand::Rng,
    format: Format,
    list: usize,
    lines: usize,
) -> (String, Vec<Said>) {
    let mut text = match format {
        Format::Rpz => "@ SOA ns.rpz. root.rpz. 1 2 3 4 5\n".to_owned(),
        _ => String::new(),
    };
    let mut all = Vec::new();
    // The zone of Unbound whose records are for all names below it.
    let mut redirect = None;
    for _ in 0..lines {
        let (line, mut said) = random_line(random, format, list);
        for said in said.iter_mut().filter(|_| format == Format::Unbound) {
            match said.scope {
                Scope::WithBelow => redirect = line.contains("redirect").then(|| said.name.clone()),
                _ if redirect.as_ref() == Some(&said.name) => said.scope = Scope::WithBelow,
                _ => {}
            }
        }
        text += &line;
        text.push('\n');
        all.extend(said);
    }
    (text, all)
}
