//! Tries of all shapes that the format allows, written at random.

use std::collections::BTreeMap;

use fastrand::Rng;
use sapwood_format::cluster::tag;
use sapwood_format::header::{self, PAGE};
use sapwood_format::inline::{self, Entries, Extent};
use sapwood_format::{self as format, branch, cluster, leaf};

use super::Words;
use crate::nodes::mismatch;

pub(super) type Map = BTreeMap<Vec<u8>, u64>;

/// Writes random tries of all shapes that the format allows.
pub(super) struct Builder<'a> {
    pub(super) words: &'a Words,
    pub(super) rng: &'a mut Rng,
    /// The place of the next node.
    pub(super) end: usize,
    /// How many of 10 nodes become clusters, on average.
    clusters: u32,
    /// How many of 10 clusters are inline, if their keys fit one.
    inline: u32,
    /// How many of 10 slots of clusters of cells are dead, on average, and the keys that were
    /// there.
    dying: u32,
    pub(super) dead: Vec<Vec<u8>>,
    /// The numbers of written nodes: branches, clusters, locked ones of both, leaves.
    pub(super) wrote: [usize; 4],
}

impl<'a> Builder<'a> {
    /// A builder that has written nothing yet. `of_ten` has three shares, each of ten: the nodes
    /// that become clusters, the clusters that are inline, and the slots of the others that are
    /// dead.
    pub(super) fn new(words: &'a Words, rng: &'a mut Rng, of_ten: [u32; 3]) -> Self {
        let [clusters, inline, dying] = of_ten;
        Builder {
            words,
            rng,
            end: PAGE,
            clusters,
            inline,
            dying,
            dead: Vec::new(),
            wrote: [0; 4],
        }
    }

    pub(super) fn build(&mut self, map: &Map) {
        let keys: Vec<(&[u8], u64)> = map.iter().map(|(k, v)| (k.as_slice(), *v)).collect();
        let cell = match keys.is_empty() {
            true => 0,
            false => self.node(&keys),
        };
        let at = header::root_at(header::ROOT);
        self.words.write(at, &u64::from(cell).to_ne_bytes());
    }

    /// Writes a node to a new place, and returns its reference.
    fn write(&mut self, bytes: &[u8]) -> u32 {
        let at = self.end;
        self.words.write(at, bytes);
        // Some nodes have a gap behind them.
        self.end = (at + bytes.len()).next_multiple_of(8) + 32 * self.rng.usize(..3);
        (at / 8) as u32
    }

    pub(super) fn leaf(&mut self, key: &[u8], value: u64) -> u32 {
        let mut bytes = value.to_ne_bytes().to_vec();
        let filled = leaf::key_at(8, key.len()) - 8;
        bytes.extend_from_slice(&leaf::length(key.len())[..filled]);
        bytes.extend_from_slice(key);
        bytes.resize(leaf::block(8, key.len()), 0);
        self.wrote[3] += 1;
        format::leaf_cell(self.write(&bytes))
    }

    /// A byte that separates the left key from the right one where they part.
    fn between(&mut self, left: &[u8], right: &[u8], at: usize) -> u8 {
        let most = right[at];
        match left.get(at) {
            Some(left) => self.rng.u8(left + 1..=most),
            None => self.rng.u8(..=most),
        }
    }

    pub(super) fn node(&mut self, keys: &[(&[u8], u64)]) -> u32 {
        if let [(key, value)] = keys {
            return self.leaf(key, *value);
        }
        let part = |pair: &[(&[u8], u64)]| mismatch(pair[0].0, pair[1].0).unwrap();
        let parts: Vec<usize> = keys.windows(2).map(part).collect();
        let (least, most) = (*parts.iter().min().unwrap(), *parts.iter().max().unwrap());
        let fits = keys.len() <= cluster::SLOTS_MAX && most - least <= cluster::REACH;
        if fits && self.rng.u32(..10) < self.clusters {
            return self.cluster(keys, &parts, least, most);
        }
        // Runs of keys with the same byte. Some neighbouring runs are then joined, if they fit
        // a cluster.
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut from = 0;
        for to in 1..=keys.len() {
            if to == keys.len() || parts[to - 1] == least {
                runs.push((from, to));
                from = to;
            }
        }
        let mut children: Vec<(usize, usize, bool)> = Vec::new();
        for (i, (from, to)) in runs.iter().copied().enumerate() {
            if let Some((first, end, joined)) = children.last_mut() {
                let most = parts[*first..to - 1].iter().max().unwrap();
                let fits = to - *first <= cluster::SLOTS_MAX && most - least <= 255;
                // At least two runs remain.
                let two = *first > 0 || i + 1 < runs.len();
                if fits && two && self.rng.u32(..20) < self.clusters {
                    (*end, *joined) = (to, true);
                    continue;
                }
            }
            children.push((from, to, false));
        }
        let (mut labels, mut cells) = (Vec::new(), Vec::new());
        for (from, to, joined) in children {
            if from > 0 {
                labels.push(self.between(keys[from - 1].0, keys[from].0, least));
            }
            let inner = from..to - 1;
            cells.push(match joined {
                true => {
                    let most = *parts[inner.clone()].iter().max().unwrap();
                    self.cluster(&keys[from..to], &parts[inner], least, most)
                }
                false => self.node(&keys[from..to]),
            });
        }
        self.branch(least, &labels, &cells)
    }

    pub(super) fn branch(&mut self, offset: usize, labels: &[u8], cells: &[u32]) -> u32 {
        let locked = self.rng.u32(0..8) / 7 * branch::MARK;
        self.wrote[0] += 1;
        self.wrote[2] += usize::from(locked != 0);
        let header = branch::header(offset, labels.len()) | locked;
        let mut bytes = header.to_ne_bytes().to_vec();
        if labels.len() <= branch::SMALL_MAX {
            bytes.extend_from_slice(labels);
            bytes.resize(
                4 + labels.len().next_multiple_of(4),
                labels[labels.len() - 1],
            );
        } else {
            bytes.extend((0..=255).map(|byte| {
                let child = labels.iter().filter(|label| **label <= byte).count();
                (child - labels.len() / 256) as u8
            }));
        }
        bytes.extend(cells.iter().flat_map(|cell| cell.to_ne_bytes()));
        format::branch_cell(self.write(&bytes))
    }

    fn cluster(
        &mut self,
        keys: &[(&[u8], u64)],
        parts: &[usize],
        least: usize,
        most: usize,
    ) -> u32 {
        let base = self.rng.usize(most.saturating_sub(255)..=least);
        if self.rng.u32(..10) < self.inline {
            if let Some(cell) = self.inline(keys, parts, least, base) {
                return cell;
            }
        }
        let room = self.rng.usize(keys.len().div_ceil(4)..=8) * 4;
        let header = cluster::header(base, keys.len(), room);
        let locked = self.rng.u32(0..8) / 7 * branch::FRESH;
        self.wrote[1] += 1;
        self.wrote[2] += usize::from(locked != 0);
        let mut cells = Vec::new();
        for (i, (key, value)) in keys.iter().enumerate() {
            // The last slot is never dead.
            let dead = i + 1 < keys.len() && self.rng.u32(..10) < self.dying;
            cells.push(if dead { 0 } else { self.leaf(key, *value) });
            self.dead.extend(dead.then(|| key.to_vec()));
        }
        let mut bytes = (header | locked).to_ne_bytes().to_vec();
        bytes.extend(keys.iter().map(|(key, _)| tag(key)));
        bytes.resize(4 + room, 0);
        bytes.extend(cells.iter().flat_map(|cell| cell.to_ne_bytes()));
        bytes.resize(4 + 5 * room, 0);
        bytes.extend(self.borders(keys, parts, base, room));
        format::cluster_cell(self.write(&bytes))
    }

    /// Both arrays of a cluster's borders.
    fn borders(
        &mut self,
        keys: &[(&[u8], u64)],
        parts: &[usize],
        base: usize,
        room: usize,
    ) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(parts.iter().map(|part| (part - base) as u8));
        bytes.resize(room + 1, 0);
        for (pair, &at) in keys.windows(2).zip(parts) {
            bytes.push(match pair[0].0.len() == at {
                true => 0,
                false => self.between(pair[0].0, pair[1].0, at),
            });
        }
        bytes.resize(2 * room, 0);
        bytes
    }

    /// Writes an inline cluster, if the keys fit one: with some of the bytes that they share as its
    /// prefix, entries in any order, and dead bytes between them.
    fn inline(
        &mut self,
        keys: &[(&[u8], u64)],
        parts: &[usize],
        least: usize,
        base: usize,
    ) -> Option<u32> {
        let room = self.rng.usize(keys.len().div_ceil(4)..=8) * 4;
        let shared = least.min(inline::PREFIX_MAX);
        let prefix = [0, shared, self.rng.usize(..=shared)][self.rng.usize(..3)];
        let mut end = ENTRIES.heap_at(room.min(inline::SLOTS_MAX), prefix);
        let mut order: Vec<usize> = (0..keys.len()).collect();
        self.rng.shuffle(&mut order);
        let (mut places, mut dead) = (vec![0; keys.len()], 0);
        let mut outside = vec![false; keys.len()];
        for slot in order {
            let tail = keys[slot].0.len() - prefix;
            outside[slot] = tail > inline::TAIL_MAX || self.rng.u8(..8) == 0;
            let gap = 8 * (self.rng.usize(..12) / 10);
            places[slot] = end + gap;
            dead += gap;
            end += gap;
            end += match outside[slot] {
                true => ENTRIES.outside(),
                false => ENTRIES.entry(tail, 0),
            };
        }
        if room > inline::SLOTS_MAX || end > inline::END_MAX {
            return None;
        }
        let spare = 8 * self.rng.usize(..4);
        let extent = Extent {
            end,
            block: (inline::block(end) + spare).min(inline::BLOCK_MAX),
            prefix,
            dead,
        };
        let fresh = self.rng.u32(0..8) / 7 * branch::FRESH;
        self.wrote[1] += 1;
        self.wrote[2] += usize::from(fresh != 0);
        let mut bytes = (inline::header(base, keys.len(), room) | fresh)
            .to_ne_bytes()
            .to_vec();
        bytes.extend(extent.word().to_ne_bytes());
        bytes.extend(keys.iter().map(|(key, _)| tag(key)));
        bytes.resize(inline::places_at(room), 0);
        bytes.extend(places.iter().map(|place| (place / ENTRIES.step) as u8));
        bytes.resize(inline::prefix_at(room), 0);
        bytes.extend(&keys[0].0[..prefix]);
        bytes.extend(self.borders(keys, parts, base, room));
        bytes.resize(extent.block, 0);
        for (slot, (key, value)) in keys.iter().enumerate() {
            let mut entry = value.to_ne_bytes().to_vec();
            if outside[slot] {
                entry[..4].copy_from_slice(&self.leaf(key, *value).to_ne_bytes());
                entry.push(inline::OUTSIDE);
            } else {
                entry.push((key.len() - prefix) as u8);
                entry.extend(&key[prefix..]);
            }
            bytes[places[slot]..][..entry.len()].copy_from_slice(&entry);
        }
        Some(format::cluster_cell(self.write(&bytes)) | format::LEAF)
    }
}

/// The layout of the entries of inline clusters.
const ENTRIES: Entries = Entries::of(8, 8);

/// A key of one of several kinds: many prefixes, all bytes, long ones with distant differences.
fn key(rng: &mut Rng, kind: u32) -> Vec<u8> {
    let mut bytes =
        |len: usize, letters: u8| -> Vec<u8> { (0..len).map(|_| rng.u8(..=letters)).collect() };
    match kind {
        0 => bytes(3, 1),
        1 => bytes(2, 255),
        2 => bytes(1, 255),
        3 => bytes(40, 1),
        4 => {
            let mut key = vec![7; 700];
            let short = bytes(2, 255);
            let (at, len) = (usize::from(short[0]) * 2, usize::from(short[1]));
            key[at] = 8;
            key.truncate(at + len);
            key
        }
        _ => {
            let len = bytes(1, 6)[0].into();
            bytes(len, 3)
        }
    }
}

pub(super) fn any_key(rng: &mut Rng, kinds: u32) -> Vec<u8> {
    let kind = rng.u32(..kinds);
    let mut key = key(rng, kind);
    if rng.u8(..4) == 0 {
        key.truncate(rng.usize(..=key.len()));
    }
    key
}

/// A trie of at most this many random keys, its end, and its contents.
pub(super) fn some_trie(rng: &mut Rng, most: usize) -> (Words, usize, Map, [usize; 4]) {
    let kinds = rng.u32(1..=6);
    let mut map: Map = (0..rng.usize(..=most))
        .map(|i| (any_key(rng, kinds), i as u64))
        .collect();
    let words = Words::new((PAGE + 4096 + map.len() * 1200) / 8);
    let of_ten = [rng.u32(..=10), rng.u32(..=10), rng.u32(..=9)];
    let mut builder = Builder::new(&words, rng, of_ten);
    builder.build(&map);
    let (end, wrote) = (builder.end, builder.wrote);
    for key in builder.dead {
        map.remove(&key);
    }
    (words, end, map, wrote)
}

pub(super) fn entries_of(keys: &[&'static str], value: u64) -> Vec<(&'static [u8], u64)> {
    keys.iter().map(|key| (key.as_bytes(), value)).collect()
}
