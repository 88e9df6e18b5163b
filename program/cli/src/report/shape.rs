//! The shape of a saved map, of any kind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use sapwood::maple::{MapleMemory, is_range_file};
use sapwood::qp::{AnyFile, AnyValues, QpShape};
use serde_json::{Value, json};

use crate::errors::Error;
use crate::names::{open_error, with_file};
use crate::numbers::length;
use crate::ranges::table::Ranges;
use crate::routes::load::Routes;
use crate::routes::table;

/// A saved map: the shape of its file, and what only maps of its kind have.
pub struct Shape {
    /// The file.
    pub path: PathBuf,
    /// What the map is, such as `a map of names to numbers`.
    pub kind: &'static str,
    /// What an entry is called, in the plural.
    pub unit: &'static str,
    /// The number of entries.
    pub entries: usize,
    /// The length of the file.
    pub file_bytes: usize,
    /// The shape of the trie that the file is; a file of ranges is none.
    pub trie: Option<QpShape>,
    /// The counts that maps of this kind have.
    pub counts: Vec<Counts>,
    /// The map of ranges in memory.
    pub memory: Option<MapleMemory>,
}

/// How many things there are of each size or kind.
pub struct Counts {
    /// What is counted, such as `IPv4 routes by prefix length`.
    pub title: &'static str,
    /// The name in documents.
    pub name: &'static str,
    /// The sizes in order, and how many things have them.
    pub counts: Vec<(String, u64)>,
}

/// How many next hops are named; the others are one.
const HOPS: usize = 20;

impl Shape {
    /// Reads a map after checking all of it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        if is_range_file(path) {
            return Self::of_ranges(path);
        }
        match AnyFile::open_any(path).map_err(|error| error.cause) {
            Ok(map) => Self::of_names(path, &map),
            Err(cause) if cause.is_other_layout() => {
                if table::is_one(path) {
                    return Self::of_routes(path);
                }
                Err(open_error(path, "map", cause))
            }
            Err(cause) => Err(open_error(path, "map", cause)),
        }
    }

    fn of_names(path: &Path, map: &AnyFile) -> Result<Self, Error> {
        let trie = with_file!(map, map => map.shape()).map_err(corrupt(path))?;
        let kind = match map {
            AnyValues::Numbers(_) => "a map of names to numbers",
            AnyValues::Bytes(_) => "a map of names to texts",
        };
        Ok(Shape {
            path: path.into(),
            kind,
            unit: "names",
            entries: map.entries(),
            file_bytes: with_file!(map, map => map.file_bytes()),
            trie: Some(trie),
            counts: Vec::new(),
            memory: None,
        })
    }

    fn of_routes(path: &Path) -> Result<Self, Error> {
        let file = table::open(path, true)?;
        let trie = file.shape().map_err(corrupt(path))?;
        let table = Routes::of_table(&file);
        let mut lengths = [BTreeMap::new(), BTreeMap::new()];
        let mut hops = vec![0u64; table.names.len()];
        for (net, hop) in table.iter() {
            let lengths = &mut lengths[usize::from(matches!(net, IpNet::V6(_)))];
            *lengths.entry(net.prefix_len()).or_default() += 1;
            hops[hop as usize] += 1;
        }
        let titles = [
            ("IPv4 routes by prefix length", "ipv4_lengths"),
            ("IPv6 routes by prefix length", "ipv6_lengths"),
        ];
        let lengths = lengths.into_iter().zip(titles);
        let mut counts: Vec<Counts> = lengths
            .map(|(lengths, (title, name))| Counts {
                title,
                name,
                counts: lengths
                    .into_iter()
                    .map(|(l, n)| (format!("/{l}"), n))
                    .collect(),
            })
            .collect();
        let hops = table.names.iter().cloned().zip(hops);
        counts.push(Counts {
            title: "Routes by next hop",
            name: "next_hops",
            counts: most(hops.collect()),
        });
        counts.retain(|counts| !counts.counts.is_empty());
        Ok(Shape {
            path: path.into(),
            kind: "a table of routes",
            unit: "routes",
            entries: table.len(),
            file_bytes: file.file_bytes(),
            trie: Some(trie),
            counts,
            memory: None,
        })
    }

    fn of_ranges(path: &Path) -> Result<Self, Error> {
        let (ranges, file_bytes) = Ranges::open(path)?;
        let map = ranges.map();
        let (mut sizes, mut gaps) = (BTreeMap::new(), BTreeMap::new());
        map.read(|view| {
            for (range, _) in view.iter() {
                *sizes.entry(power(length(&range))).or_default() += 1;
            }
            let ends = map.first().zip(map.last());
            // The space before the first range and after the last one is no gap between ranges.
            let span = ends.map(|((first, _), (last, _))| *first.start()..=*last.end());
            for gap in span.into_iter().flat_map(|span| view.gaps(span)) {
                *gaps.entry(power(length(&gap))).or_default() += 1;
            }
        });
        let named = |counts: BTreeMap<u32, u64>| {
            let counts = counts.into_iter();
            counts
                .map(|(power, count)| (sizes_of(power), count))
                .collect()
        };
        let mut counts = vec![
            Counts {
                title: "Ranges by size",
                name: "sizes",
                counts: named(sizes),
            },
            Counts {
                title: "Gaps between ranges by size",
                name: "gaps",
                counts: named(gaps),
            },
        ];
        counts.retain(|counts| !counts.counts.is_empty());
        Ok(Shape {
            path: path.into(),
            kind: "a map of ranges",
            unit: "ranges",
            entries: map.len(),
            file_bytes,
            trie: None,
            counts,
            memory: Some(map.memory()),
        })
    }

    /// The bytes of the file by kind, if it is a trie.
    pub fn bytes(&self) -> Option<[(&'static str, usize); 4]> {
        let trie = self.trie.as_ref()?;
        let parts = [
            ("branches", trie.branches.1),
            ("clusters", trie.clusters.1),
            ("leaves, with keys and values", trie.leaf_bytes),
        ];
        let all: usize = parts.iter().map(|(_, bytes)| bytes).sum();
        let rest = self.file_bytes.saturating_sub(all);
        let [branches, clusters, leaves] = parts;
        Some([branches, clusters, leaves, ("header and padding", rest)])
    }

    /// The bytes of the map of ranges in memory, by kind.
    pub fn memory_bytes(&self) -> Option<[(&'static str, usize); 5]> {
        let memory = self.memory.as_ref()?;
        let parts = [
            ("leaves", memory.leaves.1),
            ("inner nodes", memory.inner.1),
            ("values", memory.values.1),
            ("free and pooled", memory.pooled + memory.arena.free),
        ];
        let all: usize = parts.iter().map(|(_, bytes)| bytes).sum();
        let rest = memory.total().saturating_sub(all);
        let [leaves, inner, values, free] = parts;
        Some([leaves, inner, values, free, ("room and tables", rest)])
    }

    /// A number of bytes for each entry.
    pub fn each(&self, bytes: usize) -> f64 {
        bytes as f64 / self.entries.max(1) as f64
    }

    /// The shape as a document.
    pub fn json(&self) -> Value {
        let trie = self.trie.as_ref().map(|trie| {
            json!({
                "entries": trie.entries,
                "key_bytes": trie.key_bytes,
                "leaf_bytes": trie.leaf_bytes,
                "branches": { "count": trie.branches.0, "bytes": trie.branches.1 },
                "clusters": { "count": trie.clusters.0, "bytes": trie.clusters.1 },
                "depth_mean": trie.depth_mean,
                "depth_max": trie.depth_max,
                "depths": trie.depths,
                "fill_mean": trie.fill_mean,
                "fills": trie.fills,
            })
        });
        let counts = self.counts.iter().map(|counts| {
            let list = counts.counts.iter();
            let list = list.map(|(of, count)| json!({ "of": of, "count": count }));
            (counts.name.to_owned(), list.collect())
        });
        let memory = self.memory.as_ref().map(|memory| {
            json!({
                "height": memory.height,
                "leaves": { "count": memory.leaves.0, "bytes": memory.leaves.1 },
                "inner": { "count": memory.inner.0, "bytes": memory.inner.1 },
                "bytes": memory.total(),
            })
        });
        json!({
            "file": self.path.to_string_lossy(),
            "kind": self.kind,
            "entries": self.entries,
            "file_bytes": self.file_bytes,
            "bytes_per_entry": self.each(self.file_bytes),
            "trie": trie,
            "counts": counts.collect::<serde_json::Map<String, Value>>(),
            "memory": memory,
        })
    }
}

fn corrupt(path: &Path) -> impl FnOnce(String) -> Error {
    move |what| Error::NotAMap {
        path: path.into(),
        what,
    }
}

/// The next hops with the most routes, and the others together.
fn most(mut hops: Vec<(String, u64)>) -> Vec<(String, u64)> {
    // A next hop whose routes were all replaced is still in the list of names.
    hops.retain(|(_, count)| *count > 0);
    hops.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let others = hops.split_off(hops.len().min(HOPS));
    for (name, _) in &mut hops {
        if name.is_empty() {
            *name = "(none)".to_owned();
        }
    }
    if !others.is_empty() {
        let all = others.iter().map(|(_, count)| count).sum();
        hops.push((format!("{} others", others.len()), all));
    }
    hops
}

/// The greatest power of two that is not greater than a size, as its exponent.
fn power(size: u128) -> u32 {
    size.max(1).ilog2()
}

/// The sizes from a power of two on, up to the next one.
fn sizes_of(power: u32) -> String {
    match power {
        0 => "1".to_owned(),
        1..=19 => format!("{} to {}", 1u32 << power, (1u32 << (power + 1)) - 1),
        _ => format!("2^{power} to 2^{} - 1", power + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_by_powers_of_two() {
        assert_eq!([1, 2, 3, 4, 1 << 64].map(power), [0, 1, 1, 2, 64]);
        let named = [0, 1, 10, 40].map(sizes_of);
        assert_eq!(named, ["1", "2 to 3", "1024 to 2047", "2^40 to 2^41 - 1"]);
    }

    #[test]
    fn the_next_hops_with_the_most_routes_are_named() {
        let hops = (0..30).map(|i| (format!("hop {i:02}"), i)).collect();
        let most = most(hops);
        assert_eq!(most.len(), HOPS + 1);
        assert_eq!(most[0], ("hop 29".into(), 29));
        // 1 to 9; hop 0 has no route.
        assert_eq!(most[HOPS], ("9 others".into(), 45));
    }
}
