//! Generated block lists: their names, in the proportions of public lists, and their lines.

use fastrand::Rng;

/// The formats of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A name in each line.
    Plain,
    /// A hosts file.
    Hosts,
    /// Options of dnsmasq.
    Dnsmasq,
    /// Options of Unbound.
    Unbound,
    /// A response policy zone.
    Rpz,
    /// Rules of AdGuard.
    AdBlock,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] = [
        Format::Plain,
        Format::Hosts,
        Format::Dnsmasq,
        Format::Unbound,
        Format::Rpz,
        Format::AdBlock,
    ];
}

/// The last labels of names, the usual ones more than once.
const TOPS: [&str; 20] = [
    "com", "com", "com", "com", "com", "com", "com", "com", "net", "net", "org", "ru", "xyz",
    "top", "info", "de", "co.uk", "com.br", "io", "cn",
];

/// Labels that lists are full of.
const WORDS: [&str; 16] = [
    "ads",
    "track",
    "stats",
    "cdn",
    "www",
    "pixel",
    "metrics",
    "click",
    "img",
    "api",
    "adserver",
    "analytics",
    "tags",
    "log",
    "s",
    "banner",
];

/// Draws names as public lists have them: two labels in two of five, three in two of five, more in
/// the others; a quarter of them are below or beside a name that came before.
///
/// ```
/// let mut names = sapwood_model::lists::Names::new(7);
/// let first: Vec<String> = names.by_ref().take(3).collect();
/// assert!(first.iter().all(|name| name.contains('.')));
/// assert_eq!(first, sapwood_model::lists::Names::new(7).take(3).collect::<Vec<_>>());
/// ```
pub struct Names {
    random: Rng,
    /// Names that others are below.
    recent: Vec<String>,
}

impl Names {
    /// The names of a seed.
    pub fn new(seed: u64) -> Self {
        Names {
            random: Rng::with_seed(seed),
            recent: Vec::new(),
        }
    }

    fn label(&mut self) -> String {
        let random = &mut self.random;
        let len = random.usize(4..15);
        let mut label: String = (0..len).map(|_| random.char('a'..='z')).collect();
        if random.u8(..4) == 0 {
            label += &random.u16(..1000).to_string();
        }
        label
    }

    fn word(&mut self) -> String {
        match self.random.u8(..3) {
            0 => self.label(),
            1 => format!(
                "{}{}",
                WORDS[self.random.usize(..WORDS.len())],
                self.random.u16(..500)
            ),
            _ => WORDS[self.random.usize(..WORDS.len())].to_owned(),
        }
    }
}

impl Iterator for Names {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let is_below = !self.recent.is_empty() && self.random.u8(..4) == 0;
        let mut name = match is_below {
            true => self.recent[self.random.usize(..self.recent.len())].clone(),
            false => {
                let top = TOPS[self.random.usize(..TOPS.len())];
                format!("{}.{top}", self.label())
            }
        };
        let more = match self.random.u8(..10) {
            _ if is_below => 1,
            0..=4 => 0,
            5..=7 => 1,
            8 => 2,
            _ => 3,
        };
        for _ in 0..more {
            name = format!("{}.{name}", self.word());
        }
        if self.recent.len() < 4096 {
            self.recent.push(name.clone());
        } else {
            let at = self.random.usize(..self.recent.len());
            self.recent[at].clone_from(&name);
        }
        Some(name)
    }
}

/// What a list begins with: the records of a zone, or nothing.
pub fn head(format: Format) -> &'static str {
    match format {
        Format::Rpz => {
            "$TTL 60\n@ SOA localhost. root.localhost. 1 3600 600 86400 60\n@ NS localhost.\n"
        }
        Format::AdBlock => "! a list\n",
        _ => "# a list\n",
    }
}

/// The line of a name, or its two lines, without the end of the last. One in `rare` of them is of
/// another kind than the usual one of its format.
///
/// ```
/// use sapwood_model::lists::{Format, line};
///
/// let mut random = fastrand::Rng::with_seed(7);
/// assert_eq!(line(Format::Hosts, "ads.example", &mut random, usize::MAX), "0.0.0.0 ads.example");
/// ```
pub fn line(format: Format, name: &str, random: &mut Rng, rare: usize) -> String {
    let is_rare = random.usize(..rare) == 0;
    let v4 = format!("192.0.2.{}", random.u8(1..20));
    let v6 = format!("2001:db8::{:x}", random.u8(1..20));
    let is_v4 = random.bool();
    let address = if is_v4 { &v4 } else { &v6 };
    let family = if is_v4 { "A" } else { "AAAA" };
    if !is_rare {
        return match format {
            Format::Plain => name.to_owned(),
            Format::Hosts => format!("0.0.0.0 {name}"),
            Format::Dnsmasq => format!("local=/{name}/"),
            Format::Unbound => format!("local-zone: \"{name}.\" always_nxdomain"),
            Format::Rpz => format!("{name} CNAME .\n*.{name} CNAME ."),
            Format::AdBlock => format!("||{name}^"),
        };
    }
    let mut one_of = |kinds: &[&str]| kinds[random.usize(..kinds.len())].to_owned();
    match format {
        Format::Plain => one_of(&["*.", "."]) + name,
        Format::Hosts => {
            let address = one_of(&[address, "127.0.0.1", "::"]);
            format!("{address} {name}")
        }
        Format::Dnsmasq => match one_of(&["server", "address", "null", "all", "none"]).as_str() {
            "server" => format!("server=/{name}/#"),
            "address" => format!("address=/{name}/{address}"),
            "null" => format!("address=/{name}/0.0.0.0"),
            "all" => format!("address=/{name}/#"),
            _ => format!("address=/{name}/"),
        },
        Format::Unbound => match one_of(&[
            "redirect",
            "data",
            "data",
            "static",
            "always_nodata",
            "refuse",
            "always_refuse",
            "deny",
            "always_deny",
            "inform_deny",
            "always_null",
            "transparent",
            "typetransparent",
            "always_transparent",
            "inform",
        ])
        .as_str()
        {
            "data" => format!("local-data: \"{name}. 60 IN {family} {address}\""),
            // No name is below this one: Unbound does not start with data there.
            "redirect" => format!(
                "local-zone: \"only-{name}.\" redirect\n\
                 local-data: \"only-{name}. 60 IN {family} {address}\""
            ),
            kind => format!("local-zone: \"{name}.\" {kind}"),
        },
        Format::Rpz => {
            let owner = one_of(&["", "*."]) + name;
            match one_of(&[
                "CNAME *.",
                "CNAME rpz-passthru.",
                "CNAME rpz-drop.",
                "CNAME rpz-tcp-only.",
                "CNAME garden.example.",
                "CNAME .",
                "",
                "TXT \"walled\"",
            ])
            .as_str()
            {
                "" => format!("{owner} {family} {address}"),
                data => format!("{owner} {data}"),
            }
        }
        Format::AdBlock => {
            let kind = one_of(&[
                "@@||{n}^",
                "@@||{n}^",
                "||{n}^$important",
                "@@||{n}^$important",
                "|{n}^",
                "||*.{n}^",
                "||{n}^$dnstype=AAAA",
                "||{n}^$dnstype=~A",
                "||{n}^$denyallow=www.{n}",
                "||{n}^$badfilter",
                "||{n}^$dnsrewrite={v}",
                "||{n}^$dnsrewrite=REFUSED",
                "||{n}^$dnsrewrite=NXDOMAIN;;",
                "||{n}^$dnsrewrite=garden.example",
                "@@||{n}^$dnsrewrite",
                "||{n}/page.js",
                "{n}##.banner",
            ]);
            kind.replace("{n}", name).replace("{v}", address)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_proportions_of_public_lists() {
        let names: Vec<String> = Names::new(1).take(20_000).collect();
        let labels = |count| {
            let with = names.iter().filter(|name| name.split('.').count() == count);
            with.count() as f64 / names.len() as f64
        };
        assert!((0.25..0.45).contains(&labels(2)), "{}", labels(2));
        assert!((0.25..0.45).contains(&labels(3)), "{}", labels(3));
        let all: std::collections::HashSet<&String> = names.iter().collect();
        assert!(all.len() > names.len() * 9 / 10, "{}", all.len());
        assert!(names.iter().all(|name| name.len() < 200));
    }

    #[test]
    fn rare_lines_are_as_rare_as_asked() {
        for format in Format::ALL {
            let mut random = Rng::with_seed(3);
            let usual = line(format, "x.example", &mut random, usize::MAX);
            let all = (0..2000).map(|_| line(format, "x.example", &mut random, 10));
            let rare = all.filter(|line| *line != usual).count();
            assert!((100..300).contains(&rare), "{format:?} {rare}");
        }
    }
}
