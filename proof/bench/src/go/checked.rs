//! The readers in Rust that check what they read, over the files that Go reads.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use sapwood::key::dns_name;
use sapwood::lpm::{FibFile, IpFib, SavedHop};
use sapwood::maple::{MapleFile, MapleMap};
use sapwood::qp::{QpFile, QpStore};
use sapwood_lists::verdict;
use sapwood_live::CheckedLiveReader;

use super::{Asked, NONE, text};
use crate::clock::CpuClock;

/// Compares all answers of an operation, and then measures it for this long: nanoseconds each.
fn timed<Q>(
    asked: &Asked,
    questions: &[Q],
    time: Duration,
    mut ask: impl FnMut(&Q) -> Result<Option<u64>, String>,
) -> Result<f64, String> {
    for ((question, wanted), text) in questions.iter().zip(&asked.answers).zip(&asked.questions) {
        let got = ask(question)?.unwrap_or(NONE);
        if got != *wanted {
            return Err(format!("{}, {text}: {got}, not {wanted}", asked.metric));
        }
    }
    let wanted = asked
        .answers
        .iter()
        .fold(0, |sum: u64, answer| sum.wrapping_add(*answer));
    let (clock, mut passes) = (CpuClock::start(), 0);
    loop {
        let mut sum = 0_u64;
        for question in questions {
            sum = sum.wrapping_add(ask(question)?.unwrap_or(NONE));
        }
        if sum != wanted {
            return Err(format!(
                "{}: the answers make {sum}, not {wanted}",
                asked.metric
            ));
        }
        passes += 1;
        let took = clock.elapsed();
        if took >= time {
            return Ok(took.as_secs_f64() * 1e9 / (passes * questions.len()) as f64);
        }
    }
}

/// The keys of names, which lie one behind the other, as in Go.
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn new(names: &[String]) -> Result<Self, String> {
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for name in names {
            bytes.extend_from_slice(&dns_name(name).map_err(text)?);
            ends.push(bytes.len());
        }
        Ok(Keys { bytes, ends })
    }

    fn all(&self) -> Vec<&[u8]> {
        let ends = self.ends.windows(2);
        ends.map(|at| &self.bytes[at[0]..at[1]]).collect()
    }
}

/// Measures each operation of a case, of which the files are in this folder.
pub fn measure(
    case: &str,
    folder: &Path,
    asked: &[Asked],
    time: Duration,
) -> Result<Vec<f64>, String> {
    let map = folder.join("map");
    match case {
        "names" => names(&map, asked, time),
        "names-live" => live_names(&map, asked, time),
        "routes-v4" | "routes-v6" => routes(&map, asked, time),
        "routes-live" => live_routes(&map, asked, time),
        "ranges" | "ranges-live" => ranges(case == "ranges-live", &map, asked, time),
        _ => lists(&map, asked, time),
    }
}

fn names(map: &Path, asked: &[Asked], time: Duration) -> Result<Vec<f64>, String> {
    let file = QpFile::<u64>::open(map).map_err(text)?;
    let each = asked.iter().map(|asked| {
        if !asked.metric.starts_with("closest") {
            let keys = Keys::new(&asked.questions)?;
            return timed(asked, &keys.all(), time, |key| Ok(file.get(key).copied()));
        }
        timed(asked, &asked.questions, time, |name| {
            let key = dns_name(name).map_err(text)?;
            let found = file.closest(&key, 0, |_, _| false);
            Ok(found.ancestor.map(|(_, value)| *value))
        })
    });
    each.collect()
}

fn live_names(map: &Path, asked: &[Asked], time: Duration) -> Result<Vec<f64>, String> {
    let mut reader = CheckedLiveReader::<QpStore<u64>>::open(map).map_err(text)?;
    let each = asked.iter().map(|asked| {
        if !asked.metric.starts_with("closest") {
            let keys = Keys::new(&asked.questions)?;
            return timed(asked, &keys.all(), time, |key| {
                reader.read(|map| map.get(key)).map_err(text)
            });
        }
        timed(asked, &asked.questions, time, |name| {
            let key = dns_name(name).map_err(text)?;
            let found = reader.read(|map| map.closest(&key, 0, |_, _| false));
            Ok(found.map_err(text)?.ancestor.map(|(_, value)| value))
        })
    });
    each.collect()
}

fn addresses(asked: &Asked) -> Result<Vec<IpAddr>, String> {
    let all = asked.questions.iter();
    all.map(|address| address.parse().map_err(text)).collect()
}

fn routes(map: &Path, asked: &[Asked], time: Duration) -> Result<Vec<f64>, String> {
    let file = FibFile::open(map).map_err(text)?;
    let each = asked.iter().map(|asked| {
        timed(asked, &addresses(asked)?, time, |address| {
            let Some((_, hop)) = file.lookup(*address) else {
                return Ok(None);
            };
            match file.hop(hop) {
                Some(SavedHop::Number(number)) => Ok(Some(number)),
                other => Err(format!("a next hop is {other:?}")),
            }
        })
    });
    each.collect()
}

fn live_routes(map: &Path, asked: &[Asked], time: Duration) -> Result<Vec<f64>, String> {
    let mut reader = CheckedLiveReader::<IpFib<u64>>::open(map).map_err(text)?;
    let each = asked.iter().map(|asked| {
        timed(asked, &addresses(asked)?, time, |address| {
            let found = reader.read(|table| table.lookup(*address));
            Ok(found.map_err(text)?.map(|(_, hop)| hop))
        })
    });
    each.collect()
}

fn ranges(live: bool, map: &Path, asked: &[Asked], time: Duration) -> Result<Vec<f64>, String> {
    let each = asked.iter().map(|asked| {
        let indices = asked.questions.iter().map(|index| index.parse::<u64>());
        let indices: Vec<_> = indices.collect::<Result<_, _>>().map_err(text)?;
        if live {
            let mut reader = CheckedLiveReader::<MapleMap<u64>>::open(map).map_err(text)?;
            return timed(asked, &indices, time, |index| {
                let found = reader.read(|ranges| ranges.get(*index)).map_err(text)?;
                Ok(found.map(|(_, value)| value))
            });
        }
        let file = MapleFile::<u64>::open(map).map_err(text)?;
        let view = file.view();
        timed(asked, &indices, time, |index| Ok(view.get(*index).copied()))
    });
    each.collect()
}

fn lists(map: &Path, asked: &[Asked], time: Duration) -> Result<Vec<f64>, String> {
    let (file, meta) = sapwood_lists::open(map).map_err(text)?;
    let each = asked.iter().map(|asked| {
        timed(asked, &asked.questions, time, |name| {
            let key = dns_name(name).map_err(text)?;
            let found = verdict(&file, &meta, &key, 1).map_err(text)?;
            Ok(found.map(|_| 1))
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go::make;

    #[test]
    fn maps_of_all_cases_answer_as_the_oracle_does() {
        let folder = tempfile::tempdir().unwrap();
        for case in crate::suite::GO_CASES {
            if case.ends_with("-live") && !cfg!(target_os = "linux") {
                continue;
            }
            let folder = folder.path().join(case);
            let mut made = make(case, &folder, 2000).unwrap();
            let answers = made.asked.iter().flat_map(|asked| &asked.answers);
            let found = answers.filter(|answer| **answer != NONE);
            assert!(found.count() > 100, "{case}");
            let time = Duration::from_millis(1);
            let all = measure(case, &folder, &made.asked, time).unwrap();
            assert_eq!(all.len(), made.asked.len(), "{case}");
            assert!(all.iter().all(|ns| *ns > 0.0), "{case}");
            // A wrong answer is told.
            made.asked[0].answers[7] ^= 1 << 40;
            let error = measure(case, &folder, &made.asked, time).unwrap_err();
            assert!(error.contains(&made.asked[0].questions[7]), "{error}");
        }
    }
}
