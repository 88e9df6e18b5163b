//! Malicious published maps: checked readers of all kinds answer or say what is wrong, end, and
//! read nothing outside the window. What `verify` finds sound answers as its walk does.
#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
use sapwood::lpm::ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sapwood::lpm::{Ipv4Fib, Ipv6Fib};
use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood_checked::lpm::CheckedFib;
use sapwood_checked::{Bytes, CheckedDenial, CheckedReader, Publisher, Source, Trouble, Window};
use sapwood_fuzz::Input;
use sapwood_fuzz::image::Scratch;
use sapwood_model::oracle::{ByteMap, Lpm, Prefix};

/// Words that refuse reads outside.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [u64]);

impl Window for Words<'_> {
    fn len(&self) -> usize {
        size_of_val(self.0)
    }

    fn u32(&self, at: usize) -> u32 {
        assert!(at % 4 == 0 && at + 4 <= self.len());
        self.0.u32(at)
    }

    fn u64(&self, at: usize) -> u64 {
        assert!(at % 8 == 0 && at + 8 <= self.len());
        self.0[at / 8]
    }
}

impl<'a> Source for Words<'a> {
    type Window = Words<'a>;
    type Error = Trouble;

    fn open(&self) -> Result<(Words<'a>, Publisher), Trouble> {
        Ok((*self, Publisher::Process))
    }

    fn error(&self, trouble: Trouble) -> Trouble {
        assert!(!trouble.to_string().is_empty());
        trouble
    }
}

/// Some keys, of which many are prefixes of others.
fn keys(input: &Input<'_>) -> Vec<Vec<u8>> {
    let letters = [0, b'a', b'b', 255];
    let key = |_| {
        let len = input.below(9) * [1, 1, 1, 40][input.below(4)];
        (0..len).map(|_| letters[input.below(4)]).collect()
    };
    (0..input.below(60)).map(key).collect()
}

/// The words of a map of one of all kinds, and whether it is a table of prefixes.
fn published(input: &Input<'_>) -> (Vec<u64>, bool) {
    let scratch = Scratch::new("checked");
    let arena = |layout| {
        let _ = fs::remove_file(&scratch.0);
        let options = ArenaOptions::default()
            .backing(Backing::File(scratch.0.clone()))
            .header(HeaderMode::Page)
            .layout_hash(layout);
        Arena::create(options).unwrap()
    };
    let kind = input.below(8);
    let entries: BTreeMap<Vec<u8>, u64> = keys(input).into_iter().zip(0..).collect();
    match kind {
        0 => drop(
            QpStore::<u64>::builder()
                .build_sorted_in(arena(QpStore::<u64>::layout_hash()), entries)
                .unwrap(),
        ),
        1 => {
            let map = QpShared::<u64>::builder()
                .with_index()
                .build_sorted_in(arena(QpShared::<u64>::layout_hash()), entries)
                .unwrap();
            // Some slots die.
            for key in keys(input) {
                map.remove(key).unwrap();
            }
        }
        2 | 3 => {
            let arena = arena(PointMap::<u64>::layout_hash());
            let map = PointMap::<u64>::builder().build_in(arena).unwrap();
            for (key, value) in entries {
                map.insert(key, value).unwrap();
            }
        }
        4 | 5 => {
            let texts: BTreeMap<_, _> = entries.into_keys().map(|key| (key.clone(), key)).collect();
            if kind == 4 {
                let arena = arena(QpShared::<[u8]>::layout_hash());
                let map = QpShared::<[u8]>::builder().build_sorted_in(arena, &texts);
                let map = map.unwrap();
                for key in keys(input) {
                    map.remove(key).unwrap();
                }
            } else {
                let arena = arena(QpStore::<[u8]>::layout_hash());
                let store = QpStore::<[u8]>::builder().build_in(arena).unwrap();
                let mut txn = store.begin();
                for (key, text) in texts {
                    txn.insert(key, &text[..]).unwrap();
                }
                // Some entries leave dead bytes.
                for key in keys(input) {
                    txn.remove(key).unwrap();
                }
                txn.commit();
            }
        }
        _ => {
            let bits = [6, 12][input.below(2)];
            let prefixes = (0..input.below(60)).map(|i| {
                let near = [0, 1 << 127, 1 << 100, 5 << 80][input.below(4)];
                let bits = near | (input.below(1 << 24) as u128) << [104, 90, 64][input.below(3)];
                (bits, input.below(129) as u8, i as u32 % 9)
            });
            let (v4, v6) = (Ipv4Fib::builder(), Ipv6Fib::builder());
            if kind == 6 {
                let prefixes = prefixes.map(|(bits, len, value)| {
                    let net = Ipv4Net::new(((bits >> 96) as u32).into(), len % 33);
                    (net.unwrap().trunc(), value)
                });
                let arena = arena(Ipv4Fib::<u32>::layout_hash());
                drop(v4.root_bits(bits).build_from_in(arena, prefixes).unwrap());
            } else {
                let prefixes = prefixes.map(|(bits, len, value)| {
                    (Ipv6Net::new(bits.into(), len).unwrap().trunc(), value)
                });
                let arena = arena(Ipv6Fib::<u32>::layout_hash());
                drop(v6.root_bits(bits).build_from_in(arena, prefixes).unwrap());
            }
        }
    }
    let bytes = fs::read(&scratch.0).unwrap();
    let words = bytes.chunks_exact(8);
    let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    (words.collect(), kind > 5)
}

/// Changes words; most of those that are not 0.
fn damage(words: &mut Vec<u64>, input: &Input<'_>) {
    let used: Vec<usize> = (0..words.len()).filter(|at| words[*at] != 0).collect();
    for _ in 0..input.below(12) {
        let at = match input.below(4) {
            0 => input.below(words.len()),
            1 => 6 + input.below(5),
            _ => used[input.below(used.len())],
        };
        let other = words[used[input.below(used.len())]];
        let half = 32 * input.below(2);
        words[at] = match input.below(5) {
            0 => words[at] ^ 1 << input.below(64),
            1 => input.draw().unwrap_or(0),
            2 => other,
            3 => words[at] & !(u64::from(u32::MAX) << half) | (other >> half << half),
            _ => words[at].wrapping_add((input.below(33) as u64).wrapping_sub(16) << half),
        };
    }
    if input.below(16) == 0 {
        words.truncate(input.below(words.len()));
    }
}

/// The entries before and after a key, and what is around it as a name.
type Beside = (
    Result<Option<(Vec<u8>, Bytes)>, Trouble>,
    Result<Option<(Vec<u8>, Bytes)>, Trouble>,
    Result<CheckedDenial<Bytes>, Trouble>,
);

fn is_cut(value: &Bytes) -> bool {
    value.0.first().is_some_and(|byte| byte % 3 == 1)
}

fn beside(reader: &CheckedReader<Words<'_>, Bytes>, key: &[u8]) -> Beside {
    let (before, after) = (reader.predecessor(key), reader.successor(key));
    assert!(!matches!(&before, Ok(Some((found, _))) if &found[..] >= key));
    assert!(!matches!(&after, Ok(Some((found, _))) if &found[..] <= key));
    let found = reader.denial(key, b'a', |_, value| is_cut(value));
    if let Ok(found) = &found {
        let closest = &found.closest;
        assert!(closest.encloser <= key.len());
        let mut above = closest.ancestor.iter().chain(&closest.cut);
        assert!(above.all(|(found, _)| key.starts_with(found)));
    }
    (before, after, found)
}

fn ask_map(words: Words<'_>, asked: &[Vec<u8>]) {
    let Ok(reader) = CheckedReader::<_, Bytes>::new(words) else {
        return;
    };
    let most = words.0.len() + 2;
    let all: Vec<_> = reader.unordered().collect();
    assert!(all.len() <= most);
    let answers: Vec<_> = asked.iter().map(|key| reader.get(key)).collect();
    let longest: Vec<_> = asked.iter().map(|key| reader.longest_prefix(key)).collect();
    let beside: Vec<_> = asked.iter().map(|key| beside(&reader, key)).collect();
    assert!(asked.iter().all(|key| reader.from_key(key).count() <= most));
    assert!(asked.iter().all(|key| reader.prefix(key).count() <= most));
    let Ok(len) = reader.verify() else { return };
    // A writer that died may have left entries that only the trie or the index has.
    if reader.has_order() != Ok(true) {
        return;
    }
    let all: BTreeMap<_, _> = all.into_iter().map(Result::unwrap).collect();
    assert_eq!(all.len(), len);
    let mut oracle = ByteMap::new();
    for (key, value) in &all {
        oracle.insert(key, value.clone());
    }
    for (key, beside) in asked.iter().zip(beside) {
        let (before, after, found) = beside;
        let copied = |entry: Option<(&[u8], &Bytes)>| {
            entry.map(|(key, value)| (key.to_vec(), value.clone()))
        };
        assert_eq!(before, Ok(copied(oracle.predecessor(key))));
        assert_eq!(after, Ok(copied(oracle.successor(key))));
        let (found, want) = (found.unwrap(), oracle.denial(key, b'a', is_cut));
        let at = |entry: &Option<(Vec<u8>, Bytes)>| entry.clone().map(|(key, _)| key);
        let is = |entry: &Option<(Vec<u8>, Bytes)>, want: Option<&[u8]>| {
            assert_eq!(at(entry).as_deref(), want);
        };
        is(&found.closest.exact, want.closest.exact);
        is(&found.closest.ancestor, want.closest.ancestor);
        is(&found.closest.wildcard, want.closest.wildcard);
        is(&found.closest.predecessor, want.closest.predecessor);
        is(&found.closest.cut, want.closest.cut);
        is(&found.predecessor, want.predecessor);
        is(&found.wildcard_predecessor, want.wildcard_predecessor);
        let ours = (
            found.closest.exists,
            found.closest.encloser,
            found.wildcard_exists,
        );
        let theirs = (
            want.closest.exists,
            want.closest.encloser,
            want.wildcard_exists,
        );
        assert_eq!(ours, theirs);
    }
    for ((key, answer), longest) in asked.iter().zip(answers).zip(longest) {
        assert_eq!(answer, Ok(all.get(key).cloned()));
        let mut prefixes = (0..=key.len()).rev().map(|len| &key[..len]);
        let want = prefixes.find_map(|prefix| {
            let value = all.get(prefix)?;
            Some((prefix.to_vec(), value.clone()))
        });
        assert_eq!(longest, Ok(want));
    }
}

fn ask_fib(words: Words<'_>, asked: &[u128]) {
    let Ok(reader) = CheckedFib::<_, Bytes>::new(words) else {
        return;
    };
    let width = reader.width().unwrap();
    let address = |bits: u128| match width {
        32 => IpAddr::from(Ipv4Addr::from((bits >> 96) as u32)),
        _ => Ipv6Addr::from(bits).into(),
    };
    let mut table = Lpm::new(width);
    let mut last = Ok(());
    let mut before = None;
    for entry in reader.iter() {
        match entry {
            Ok((net, value)) => {
                let bits = match net.addr() {
                    IpAddr::V4(addr) => u128::from(u32::from(addr)) << 96,
                    IpAddr::V6(addr) => addr.into(),
                };
                let prefix = Prefix::truncated(bits, net.prefix_len());
                assert!(prefix.bits == bits && before.is_none_or(|before| before < prefix));
                before = Some(prefix);
                table.insert(prefix, value);
            }
            Err(trouble) => last = Err(trouble),
        }
    }
    let mut asked = asked.to_vec();
    asked.extend(table.iter().take(40).map(|(prefix, _)| prefix.bits));
    let answers: Vec<_> = asked
        .iter()
        .map(|bits| reader.lookup(address(*bits)))
        .collect();
    let covering: Vec<_> = asked
        .iter()
        .map(|bits| reader.covering(IpNet::from(address(*bits))))
        .collect();
    let Ok(census) = reader.verify() else { return };
    if !census.is_settled() {
        return;
    }
    assert_eq!((last, table.len()), (Ok(()), census.prefixes));
    for (bits, found) in asked.iter().zip(covering) {
        let want = table.matches(Prefix::truncated(*bits, width).bits);
        let want = want.into_iter();
        let mut want: Vec<_> = want
            .map(|(prefix, value)| (prefix.len, value.clone()))
            .collect();
        want.sort_by_key(|(len, _)| *len);
        assert_eq!(found, Ok(want));
    }
    for (bits, answer) in asked.into_iter().zip(answers) {
        let want = table.lookup(Prefix::truncated(bits, width).bits);
        let want = want.map(|(prefix, value)| (prefix.len, value.clone()));
        assert_eq!(answer, Ok(want));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let input = Input::new(bytes);
    let (mut words, is_fib) = published(&input);
    let asked = keys(&input);
    damage(&mut words, &input);
    match is_fib {
        true => {
            let asked = (0..20).map(|i| (input.below(1 << 24) as u128) << (i * 5));
            ask_fib(Words(&words), &asked.collect::<Vec<_>>());
        }
        false => ask_map(Words(&words), &asked[..asked.len().min(12)]),
    }
});
