//! The keys of the tour: names of this machine, generated names, and the user's keys.

use std::collections::BTreeMap;
use std::path::Path;

use sapwood::key::{dns_name, dns_name_to_text};
use sapwood::qp::{Key, MAX_KEY, QpMap, ReadEntry};
use sapwood_model::data::{DataSet, btf_strings, domains, kallsyms, paths};
use serde_json::{Value, json};

use super::TourArgs;
use crate::errors::Error;
use crate::progress::Progress;
use crate::records::{Record, Records};

const DOMAINS: usize = 1_000_000;
const QUICK_DOMAINS: usize = 100_000;
const MOST_PATHS: usize = 200_000;
/// How many misses are generated for a set, and how many keys are drawn from it for lookups.
pub const SAMPLE: usize = 250_000;

/// Distinct keys, the maps of them, and keys that are not among them.
pub struct Set {
    pub name: String,
    pub how: String,
    /// The keys in random order. The value of a key is its place here.
    pub keys: Vec<Box<[u8]>>,
    pub misses: Vec<Box<[u8]>>,
    /// Whether the keys are domain names in canonical form.
    pub dns: bool,
    /// The map of the keys, after the first chapter has built it.
    pub map: QpMap<u64>,
    /// The oracle that has the right answers.
    pub oracle: BTreeMap<Box<[u8]>, u64>,
}

/// An entry of an oracle in the form in which maps give theirs.
pub fn as_entry<'a, K: AsRef<[u8]>>((key, value): (&'a K, &'a u64)) -> ReadEntry<'a, u64> {
    (Key::from(key), value)
}

impl Set {
    fn new(name: String, mut data: DataSet, dns: bool, limit: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(7);
        rng.shuffle(&mut data.keys);
        data.keys.truncate(limit);
        let count = data.keys.len().min(SAMPLE);
        // A small or dense file may not allow this many misses.
        let misses = data.mutated_within(count, 4 * count, rng.u64(..));
        Set {
            name,
            how: data.how,
            keys: data.keys,
            misses,
            dns,
            map: QpMap::new(),
            oracle: BTreeMap::new(),
        }
    }

    pub fn key_bytes(&self) -> usize {
        self.keys.iter().map(|key| key.len()).sum()
    }

    /// The text of a key.
    pub fn show(&self, key: &[u8]) -> String {
        match dns_name_to_text(key) {
            Ok(name) if self.dns => name,
            _ => key.escape_ascii().to_string(),
        }
    }

    pub fn describe(&self) -> Value {
        json!({
            "name": self.name,
            "how": self.how,
            "keys": self.keys.len(),
            "key_bytes": self.key_bytes(),
        })
    }
}

/// All sets that this machine can give, and the reasons why others are missing.
pub fn load(args: &TourArgs) -> Result<(Vec<Set>, Vec<String>), Error> {
    let limit = args.limit.unwrap_or(usize::MAX);
    let names = limit.min(if args.quick { QUICK_DOMAINS } else { DOMAINS });
    let mut progress = Progress::new("gathering keys", Some(3 + args.files.len() as u64), false);
    let mut sets = Vec::new();
    let mut missing = Vec::new();
    match kallsyms() {
        Ok(data) => sets.push(Set::new("kernel symbols".into(), data, false, limit)),
        Err(why) => {
            missing.push(why.to_string());
            match btf_strings() {
                Ok(data) => sets.push(Set::new("kernel names".into(), data, false, limit)),
                Err(why) => missing.push(why.to_string()),
            }
        }
    }
    progress.step();
    match paths(Path::new("/usr"), limit.min(MOST_PATHS)) {
        Ok(data) => sets.push(Set::new("file paths".into(), data, false, limit)),
        Err(why) => missing.push(why.to_string()),
    }
    progress.step();
    let mut data = domains(names.max(1), 1);
    for key in &mut data.keys {
        *key = dns_name(&key)
            .map_err(|e| Error::Tour(format!("a generated name is not a domain name: {e}")))?
            .into();
    }
    sets.push(Set::new("domain names".into(), data, true, limit));
    progress.step();
    for file in &args.files {
        let data = lines(file)?;
        if data.keys.is_empty() {
            missing.push(format!("no keys in {}", file.display()));
        } else {
            let name = file.file_name().unwrap_or(file.as_os_str());
            sets.push(Set::new(
                name.to_string_lossy().into_owned(),
                data,
                false,
                limit,
            ));
        }
        progress.step();
    }
    Ok((sets, missing))
}

/// The lines of a file that can be keys.
fn lines(file: &Path) -> Result<DataSet, Error> {
    let mut records = Records::open(file, false)?;
    let mut keys: Vec<Box<[u8]>> = Vec::new();
    let mut long = 0;
    while let Some((_, record)) = records.read()? {
        match record {
            Record::Whole([]) => {}
            Record::Whole(key) if key.len() <= MAX_KEY => keys.push(key.into()),
            _ => long += 1,
        }
    }
    let mut how = format!("lines of {}", file.display());
    if long > 0 {
        how += &format!("; {long} too long for keys");
    }
    Ok(DataSet::distinct("file", how, keys))
}

/// Keys stored one after the other, so that reading them costs each map the same.
pub struct Flat {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Flat {
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a Box<[u8]>>) -> Self {
        let mut flat = Flat {
            bytes: Vec::new(),
            ends: vec![0],
        };
        for key in keys {
            flat.bytes.extend_from_slice(key);
            flat.ends.push(flat.bytes.len());
        }
        flat
    }

    /// At most `count` of the keys, drawn at random.
    pub fn drawn(keys: &[Box<[u8]>], count: usize, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut order: Vec<usize> = (0..keys.len()).collect();
        rng.shuffle(&mut order);
        order.truncate(count);
        Flat::new(order.into_iter().map(|i| &keys[i]))
    }

    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    pub fn get(&self, i: usize) -> &[u8] {
        &self.bytes[self.ends[i]..self.ends[i + 1]]
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i))
    }
}
