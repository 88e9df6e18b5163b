//! Domain names made after a model.

use fastrand::Rng;

use super::{DataSet, random};

/// `count` distinct domain names that look like a resolver's cache or a list of popular sites.
///
/// The model, in the order in which a name is drawn:
///
/// 1. *Top-level domain* by its share of registrations: `com` 45 %, then `net`, `org`, `de`, `uk`
///    and so on; six are registries of two labels, such as `co.uk`.
/// 2. *Zone*: a registered name below it. A third of all names are drawn by Zipf's law (exponent 1)
///    from `count / 4` zones that exist already, so that few zones have very many names and most
///    have one; the rest have a zone of their own. A zone's label is one to three words; a word is
///    by Zipf's law one of 5,000 made of one to three syllables. One label in eight joins its words
///    by a hyphen, one in ten ends in digits.
/// 3. *Host*: none (40 %; 15 % in a shared zone), `www` (25 %), or one or two labels: usual
///    services (`mail`, `api`, `cdn`), services with a number (`ns12`), or words.
///
/// That gives 2 to 5 labels, about 20 bytes on average (22 for a million names), and a long common
/// prefix only by chance: a real list is alike, but shorter (13.5 bytes for the OpenDNS one).
#[must_use]
pub fn domains(count: usize, seed: u64) -> DataSet {
    let mut model = Model::new(count, seed);
    let names = std::iter::repeat_with(|| model.name().into_bytes().into_boxed_slice());
    random::distinct(
        "domains",
        format!("domain names made after a model, seed {seed}"),
        count,
        names,
    )
}

/// Top-level domains and their shares in a thousand.
const TOP_LEVEL: [(&str, u32); 28] = [
    ("com", 450),
    ("net", 55),
    ("org", 50),
    ("de", 50),
    ("co.uk", 35),
    ("cn", 35),
    ("ru", 30),
    ("nl", 25),
    ("com.br", 20),
    ("fr", 18),
    ("info", 18),
    ("it", 17),
    ("com.au", 15),
    ("pl", 15),
    ("in", 13),
    ("xyz", 13),
    ("ca", 13),
    ("es", 12),
    ("ch", 12),
    ("co.jp", 12),
    ("io", 11),
    ("eu", 11),
    ("se", 10),
    ("us", 10),
    ("online", 10),
    ("org.uk", 10),
    ("com.cn", 10),
    ("biz", 20),
];

const SERVICES: [&str; 16] = [
    "mail",
    "api",
    "cdn",
    "blog",
    "shop",
    "m",
    "img",
    "static",
    "ns",
    "mx",
    "dev",
    "login",
    "news",
    "static-assets",
    "edge",
    "smtp",
];

struct Model {
    rng: Rng,
    words: Vec<String>,
    zones: Vec<String>,
    most_zones: usize,
}

impl Model {
    fn new(count: usize, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let words = (0..5000).map(|_| word(&mut rng)).collect();
        Self {
            rng,
            words,
            zones: Vec::new(),
            most_zones: (count / 4).max(1),
        }
    }

    fn name(&mut self) -> String {
        if self.rng.u8(..3) == 0 && !self.zones.is_empty() {
            let zone = zipf(&mut self.rng, self.zones.len());
            let host = self.host(15);
            return host + &self.zones[zone];
        }
        let zone = self.zone();
        if self.zones.len() < self.most_zones {
            self.zones.push(zone.clone());
        }
        self.host(40) + &zone
    }

    /// The labels before the zone, each with its dot; nothing in `bare` of a hundred names.
    fn host(&mut self, bare: u8) -> String {
        match self.rng.u8(..100) {
            n if n < bare => String::new(),
            n if n < bare + 25 => "www.".into(),
            n if n < 93 => self.host_label(),
            _ => self.host_label() + &self.host_label(),
        }
    }

    fn host_label(&mut self) -> String {
        let service = SERVICES[zipf(&mut self.rng, SERVICES.len())];
        match self.rng.u8(..3) {
            0 => format!("{service}."),
            1 => format!("{service}{}.", zipf(&mut self.rng, 200) + 1),
            _ => format!("{}.", self.words[zipf(&mut self.rng, self.words.len())]),
        }
    }

    fn zone(&mut self) -> String {
        let words = [1, 2, 2, 2, 3][self.rng.usize(..5)];
        let joint = if self.rng.u8(..8) == 0 { "-" } else { "" };
        let mut label = String::new();
        for at in 0..words {
            if at > 0 {
                label += joint;
            }
            label += &self.words[zipf(&mut self.rng, self.words.len())];
        }
        if self.rng.u8(..10) == 0 {
            label += &self.rng.u16(1..2030).to_string();
        }
        let total: u32 = TOP_LEVEL.iter().map(|(_, share)| share).sum();
        let mut at = self.rng.u32(..total);
        let mut top = "";
        for (name, share) in TOP_LEVEL {
            top = name;
            if at < share {
                break;
            }
            at -= share;
        }
        format!("{label}.{top}")
    }
}

/// One to three syllables: an onset, a vowel and now and then a coda.
pub(super) fn word(rng: &mut Rng) -> String {
    const ONSETS: [&str; 24] = [
        "b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr",
        "ch", "sh", "pl", "br", "", "",
    ];
    const VOWELS: [&str; 9] = ["a", "e", "i", "o", "u", "ea", "oo", "ai", "y"];
    const CODAS: [&str; 12] = ["", "", "", "", "n", "r", "s", "t", "l", "ck", "ng", "x"];
    let mut word = String::new();
    for _ in 0..[1, 1, 2, 2, 3][rng.usize(..5)] {
        word += ONSETS[rng.usize(..ONSETS.len())];
        word += VOWELS[rng.usize(..VOWELS.len())];
        word += CODAS[rng.usize(..CODAS.len())];
    }
    word
}

/// A rank below `ranks`, each about as likely as one divided by its place.
pub(super) fn zipf(rng: &mut Rng, ranks: usize) -> usize {
    // The continuous law has the distribution function ln(1 + x) / ln(1 + ranks); this is its
    // inverse.
    let rank = (rng.f64() * (ranks as f64 + 1.0).ln()).exp() - 1.0;
    (rank as usize).min(ranks - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_model() {
        let set = domains(50_000, 1);
        assert_eq!(set.keys.len(), 50_000);
        let mut com = 0;
        let mut labels = [0_usize; 8];
        for key in &set.keys {
            let name = std::str::from_utf8(key).unwrap();
            assert!(
                name.split('.')
                    .all(|label| !label.is_empty() && label.len() < 64),
                "{name}"
            );
            labels[name.split('.').count()] += 1;
            com += usize::from(name.ends_with(".com"));
        }
        assert_eq!(labels[..2], [0, 0]);
        assert_eq!(labels[6..], [0, 0]);
        assert!((20_000..26_000).contains(&com), "{com} below com");
        let mean = set.key_bytes() / set.keys.len();
        assert!((14..23).contains(&mean), "{mean} bytes on average");
        assert_eq!(set, domains(50_000, 1));
    }

    #[test]
    fn zipf_favours_the_first() {
        let mut rng = Rng::with_seed(1);
        let mut hits = [0_u32; 100];
        for _ in 0..100_000 {
            hits[zipf(&mut rng, 100)] += 1;
        }
        assert!(hits[0] > 3 * hits[3] && hits[99] > 0);
    }
}
