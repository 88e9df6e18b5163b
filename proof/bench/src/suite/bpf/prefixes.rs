//! Longest prefixes: of IPv4 and IPv6 addresses, and of a network number with an address.

use std::net::Ipv6Addr;

use ipnet::{Ipv4Net, Ipv6Net};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sapwood::lpm::BitString;
use sapwood_bpf::{BitFibMap, BpfArena, Ipv4Map, Ipv6Map, ProgramMap, Programs};
use sapwood_model::data::routes as model;
use sapwood_model::oracle::LpmByLength;
use sapwood_model::oracle::lpm::{Prefix, to_v4};
use sapwood_programs as objects;

use crate::bpf::rig::{self, CHANGES, Questions};
use crate::clock::CpuClock;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;

pub const CASES: [&str; 5] = ["lpm-100k", "lpm-full", "lpm6-100k", "lpm6-full", "lpm-bits"];

const OURS: &str = "sapwood-bpf";
const PROGRAMS: &str = "sapwood-bpf-programs";
const TRIE: &str = "kernel-lpm-trie";

/// The bits of a network number with an address.
const NETWORK_BITS: u8 = 56;

/// Runs these cases.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let cases = options.chosen(CASES);
    for (at, name) in cases.iter().enumerate() {
        match routes(name, options) {
            Ok(case) => case.run(options, cases.len() - at, report)?,
            Err(missing) => {
                report.begin(format!("{name}: {missing}"));
            }
        }
    }
    Ok(())
}

/// The kind of the queries, which determines the tables and the programs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    V4,
    V6,
    Bits,
}

impl Kind {
    /// The number of bits of a query.
    fn width(self) -> u8 {
        match self {
            Kind::V4 => 32,
            Kind::V6 => 128,
            Kind::Bits => NETWORK_BITS,
        }
    }

    /// The number of words of a question after the first.
    fn words(self) -> usize {
        match self {
            Kind::V4 => 0,
            Kind::V6 | Kind::Bits => 2,
        }
    }

    fn engines(self) -> &'static [&'static str] {
        match self {
            Kind::V4 | Kind::V6 => &[OURS, TRIE],
            Kind::Bits => &[OURS, PROGRAMS, TRIE],
        }
    }

    /// The peer's map in the object.
    fn trie(self) -> &'static str {
        match self {
            Kind::V4 => "sw_lpm_trie",
            Kind::V6 => "sw_lpm_trie6",
            Kind::Bits => "sw_lpm_trie_bits",
        }
    }

    /// The program that looks up for an engine, or the one that only reads the questions.
    fn program(self, engine: Option<&str>) -> &'static str {
        match (self, engine) {
            (Kind::V4, None) => "sw_run_empty",
            (_, None) => "sw_run3_empty",
            (Kind::V4, Some(TRIE)) => "sw_run_lpm_trie",
            (Kind::V6, Some(TRIE)) => "sw_run_trie6",
            (Kind::Bits, Some(TRIE)) => "sw_run_trie_bits",
            (Kind::V4, _) => "sw_run_fib",
            (Kind::V6, _) => "sw_run_fib6",
            (Kind::Bits, _) => "sw_run_bits",
        }
    }

    /// A prefix in the form of the kernel's trie.
    fn key(self, prefix: Prefix) -> Vec<u8> {
        let mut key = u32::from(prefix.len).to_ne_bytes().to_vec();
        key.extend(&prefix.bits.to_be_bytes()[..usize::from(self.width() / 8)]);
        key
    }
}

/// A question about some bits, with the expected value, 0 for none.
#[derive(Clone, Copy)]
struct Question {
    bits: u128,
    len: u8,
    value: u32,
}

/// Writes questions where programs read them.
fn set(kind: Kind, to: &mut Questions, questions: impl IntoIterator<Item = Question>) {
    let words = |question: Question| {
        let Question { bits, len, value } = question;
        let value = u64::from(value);
        match kind {
            Kind::V4 => [u64::from(u32::from(to_v4(bits))) | value << 32, 0, 0],
            Kind::V6 | Kind::Bits => {
                let [high, low] = [(bits >> 64) as u64, bits as u64].map(u64::to_be);
                [value | u64::from(len) << 32, high, low]
            }
        }
    };
    to.set_words(questions.into_iter().map(words));
}

/// A table, and bit strings with the expected answers.
struct Case {
    name: &'static str,
    how: String,
    kind: Kind,
    /// Values are never 0, which stands for no value.
    routes: Vec<(Prefix, u32)>,
    hits: Vec<Question>,
    /// Few questions, or none, where the table covers nearly all addresses.
    misses: Vec<Question>,
}

fn routes(name: &'static str, options: &Options) -> Result<Case, String> {
    let random = options.size(100_000, 10_000);
    let (kind, prefixes, how) = match name {
        "lpm-full" | "lpm6-full" => {
            let folder = options.data.as_ref().ok_or("--data names no folder")?;
            let file = folder.join("bgp-prefixes-2024-01.txt.gz");
            let file = model::routes_gz(&file).map_err(|e| e.to_string())?;
            let (kind, all) = match name {
                "lpm-full" => (Kind::V4, file.v4),
                _ => (Kind::V6, file.v6),
            };
            let step = all.len().div_ceil(options.size(all.len(), 20_000)).max(1);
            let some: Vec<_> = all.into_iter().step_by(step).collect();
            (kind, some, "the global table of January 2024")
        }
        "lpm-100k" => (
            Kind::V4,
            model::random_v4(random, 1),
            "random prefixes of 8 to 32 bits, seed 1",
        ),
        "lpm6-100k" => (
            Kind::V6,
            random_between(random, 16..=64, |rng| rng.u128(..)),
            "random prefixes of 16 to 64 bits, seed 1",
        ),
        _ => (
            Kind::Bits,
            // Prefixes of a thousand networks.
            random_between(random, 32..=NETWORK_BITS, |rng| {
                u128::from(rng.u32(..1_000)) << 104 | rng.u128(..) >> 24
            }),
            "a network number of 24 bits, of a thousand, and 8 to 32 bits of an address, seed 1",
        ),
    };
    let hops = model::next_hops(prefixes.len(), 1).into_iter();
    let routes: Vec<_> = prefixes
        .iter()
        .copied()
        .zip(hops.map(|hop| hop + 1))
        .collect();
    let oracle: LpmByLength<u32> = routes.iter().copied().collect();
    let many = options.size(131_072, 8192);
    let answer = |bits: u128| Question {
        bits,
        len: kind.width(),
        value: oracle.lookup(bits).map_or(0, |(_, value)| *value),
    };
    let hits = model::addresses_within(&prefixes, kind.width(), many, 2);
    let misses = model::random_addresses(kind.width(), 4 * many, 3);
    let misses = misses.into_iter().map(answer);
    Ok(Case {
        name,
        how: format!("{} prefixes; {how}", routes.len()),
        kind,
        hits: hits.into_iter().map(answer).collect(),
        misses: misses.filter(|one| one.value == 0).take(many).collect(),
        routes,
    })
}

/// This number of distinct prefixes with lengths in a range.
fn random_between(
    count: usize,
    lengths: std::ops::RangeInclusive<u8>,
    mut bits: impl FnMut(&mut fastrand::Rng) -> u128,
) -> Vec<Prefix> {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut seen = std::collections::HashSet::new();
    let mut all = Vec::new();
    while all.len() < count {
        let bits = bits(&mut rng);
        let prefix = Prefix::truncated(bits, rng.u8(lengths.clone()));
        if seen.insert(prefix) {
            all.push(prefix);
        }
    }
    all
}

fn v4(prefix: Prefix) -> Ipv4Net {
    Ipv4Net::new_assert(prefix.v4_addr(), prefix.len)
}

fn v6(prefix: Prefix) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::from(prefix.bits), prefix.len)
}

fn bits(prefix: Prefix) -> Result<BitString, String> {
    BitString::truncated(&prefix.bits.to_be_bytes(), prefix.len.into()).map_err(|e| e.to_string())
}

/// The table that this process writes.
enum Table {
    V4(Ipv4Map<u32>),
    V6(Ipv6Map<u32>),
    Bits(BitFibMap<u64>),
}

impl Table {
    fn new(arena: &BpfArena, case: &Case) -> Result<Table, String> {
        let (name, bytes) = ("routes", 512 << 20);
        let routes = case.routes.iter().copied();
        Ok(match case.kind {
            Kind::V4 => Table::V4(
                Ipv4Map::builder(arena, name)
                    .bytes(bytes)
                    .build_from(routes.map(|(prefix, value)| (v4(prefix), value)))
                    .map_err(|e| e.to_string())?,
            ),
            Kind::V6 => Table::V6(
                Ipv6Map::builder(arena, name)
                    .bytes(bytes)
                    .build_from(routes.map(|(prefix, value)| (v6(prefix), value)))
                    .map_err(|e| e.to_string())?,
            ),
            Kind::Bits => {
                let table = BitFibMap::builder(arena, name).bytes(bytes).build();
                let table = table.map_err(|e| e.to_string())?;
                let mut txn = table.begin();
                for (prefix, value) in routes {
                    let value = u64::from(value);
                    txn.insert(bits(prefix)?, value)
                        .map_err(|e| e.to_string())?;
                }
                txn.commit();
                table.compact().map_err(|e| e.to_string())?;
                table.domain().synchronize();
                table.reclaim(usize::MAX);
                Table::Bits(table)
            }
        })
    }

    fn window(&self) -> u32 {
        match self {
            Table::V4(table) => table.window().number,
            Table::V6(table) => table.window().number,
            Table::Bits(table) => table.window().number,
        }
    }

    fn bytes(&self) -> u64 {
        let bytes = match self {
            Table::V4(table) => table.memory().total(),
            Table::V6(table) => table.memory().total(),
            Table::Bits(table) => table.memory().map.total(),
        };
        bytes as u64
    }

    /// Removes a prefix and inserts it again.
    fn change(&self, prefix: Prefix, value: u32) -> Result<(), String> {
        let said = |error: sapwood::lpm::Error| error.to_string();
        match self {
            Table::V4(table) => {
                table.remove(v4(prefix)).map_err(said)?;
                table.insert(v4(prefix), value).map_err(|e| said(e.error))?;
            }
            Table::V6(table) => {
                table.remove(v6(prefix)).map_err(said)?;
                table.insert(v6(prefix), value).map_err(|e| said(e.error))?;
            }
            Table::Bits(table) => {
                let (prefix, value) = (bits(prefix)?, value.into());
                table.remove(&prefix).map_err(said)?;
                table.insert(&prefix, value).map_err(|e| said(e.error))?;
            }
        }
        Ok(())
    }
}

/// All tables of a case.
struct Tables {
    ours: Table,
    /// For bit strings, also a table that programs write.
    written: Option<ProgramMap<u64>>,
    trie: MapHandle,
}

impl Tables {
    fn window(&self, engine: &str) -> u32 {
        match &self.written {
            Some(written) if engine == PROGRAMS => written.window().number,
            _ => self.ours.window(),
        }
    }

    fn bytes(&self, engine: &str) -> Result<u64, String> {
        match (&self.written, engine) {
            (_, TRIE) => rig::memlock(&self.trie),
            (Some(written), PROGRAMS) => {
                let memory = written.memory().map_err(|e| e.to_string())?;
                Ok(memory.frontier as u64)
            }
            _ => Ok(self.ours.bytes()),
        }
    }

    /// Removes prefixes and inserts them again; returns nanoseconds of processor time per change.
    fn change(&self, engine: &str, kind: Kind, routes: &[(Prefix, u32)]) -> Result<f64, String> {
        let clock = CpuClock::start();
        for (prefix, value) in routes {
            if engine == OURS {
                self.ours.change(*prefix, *value)?;
            } else {
                let key = kind.key(*prefix);
                let put = self.trie.delete(&key);
                put.and_then(|()| self.trie.update(&key, &value.to_ne_bytes(), MapFlags::ANY))
                    .map_err(|e| e.to_string())?;
            }
        }
        Ok(clock.elapsed().as_nanos() as f64 / (2 * routes.len()) as f64)
    }

    /// Does the same by a program.
    fn change_by_program(
        &self,
        engine: &str,
        programs: &Programs,
        questions: &Questions,
    ) -> Result<f64, String> {
        let names = match engine {
            TRIE => ["sw_run_trie_bits_remove", "sw_run_trie_bits_insert"],
            _ => ["sw_run_bits_remove", "sw_run_bits_insert"],
        };
        let (mut sum, mut served) = (0.0, 0.0);
        for name in names {
            let window = self.window(engine);
            // The kernel allocates within its calls, so this process's service of Sapwood's table
            // counts, too.
            let answers = rig::ask_between(programs, name, questions, window, CHANGES, || {
                if engine == PROGRAMS {
                    let clock = CpuClock::start();
                    self.serve()?;
                    served += clock.elapsed().as_nanos() as f64;
                }
                Ok(())
            })?;
            if answers.wrong > 0 {
                return Err(format!("WRONG: {name}: {} changes refused", answers.wrong));
            }
            sum += answers.each;
        }
        Ok((sum + served / questions.count() as f64) / 2.0)
    }

    /// Replaces the blocks that programs took.
    fn serve(&self) -> Result<(), String> {
        match &self.written {
            Some(written) => written.service().map(drop).map_err(|e| e.to_string()),
            None => Ok(()),
        }
    }
}

impl Case {
    /// All routes, as questions or as changes.
    fn all(&self) -> impl Iterator<Item = Question> {
        self.routes.iter().map(|(prefix, value)| Question {
            bits: prefix.bits,
            len: prefix.len,
            value: *value,
        })
    }

    fn run(&self, options: &Options, cases_left: usize, report: &mut Report) -> Result<(), String> {
        let kind = self.kind;
        report.begin(format!("{}: {}", self.name, self.how));
        let arena = BpfArena::create(2 << 30).map_err(|e| e.to_string())?;
        let programs = rig::load(&arena, objects::BENCH_PREFIXES, 8, self.routes.len())?;
        let room = |name, count| Questions::room_of_words(&arena, name, count, kind.words());
        let mut hits = room("hits", self.hits.len())?;
        let mut misses = room("misses", self.misses.len().max(1))?;
        let mut hot = room("hot", 1000)?.again();
        let mut changes = room("changes", self.routes.len())?;
        let tables = Tables {
            ours: Table::new(&arena, self)?,
            written: match kind {
                Kind::Bits => Some(
                    ProgramMap::builder(&arena, "written")
                        .bytes(512 << 20)
                        .max_entries(self.routes.len())
                        .with_trie()
                        .build()
                        .map_err(|e| e.to_string())?,
                ),
                _ => None,
            },
            trie: rig::handle(&programs, kind.trie())?,
        };
        let before = rig::slabs()?;
        for (prefix, value) in &self.routes {
            let value = value.to_ne_bytes();
            let put = tables
                .trie
                .update(&kind.key(*prefix), &value, MapFlags::ANY);
            put.map_err(|e| e.to_string())?;
        }
        let slabs = rig::grown(&before, &rig::slabs()?);
        if tables.written.is_some() {
            set(kind, &mut changes, self.all());
            let window = tables.window(PROGRAMS);
            let name = "sw_run_bits_insert";
            let put = rig::ask_between(&programs, name, &changes, window, CHANGES, || {
                tables.serve()
            })?;
            if put.wrong > 0 {
                return Err(format!("WRONG: {} prefixes were not inserted", put.wrong));
            }
        }
        let wanted = kind.engines().iter().copied();
        let mut engines: Vec<_> = wanted
            .filter(|engine| options.wants_engine(engine))
            .collect();
        let mut samples = Samples::new(self.name, kind.engines());
        for engine in &engines {
            let bytes = tables.bytes(engine)? as f64;
            samples.add(engine, &Measure::new("memory_mb", bytes / 1e6, "MB"));
            // Sapwood's tables have no memory outside the arena.
            let taken = if *engine == TRIE { slabs as f64 } else { bytes };
            samples.add(engine, &Measure::new("memory_taken_mb", taken / 1e6, "MB"));
        }
        for round in options.rounds(&format!("bpf: {}", self.name), cases_left) {
            let mut rng = fastrand::Rng::with_seed(round.into());
            let mut asked = self.hits.clone();
            rng.shuffle(&mut asked);
            set(kind, &mut hot, asked.iter().take(1000).copied());
            set(kind, &mut hits, asked);
            let mut asked = self.misses.clone();
            rng.shuffle(&mut asked);
            set(kind, &mut misses, asked);
            let turn = usize::from(round > 0 && engines.len() > 1);
            engines.rotate_left(turn);
            let mut lists = vec![("lookup_ns", &hits), ("hot_ns", &hot)];
            if self.misses.len() >= 1000 {
                lists.push(("miss_ns", &misses));
            }
            for (metric, questions) in lists {
                let empty = rig::ask(&programs, kind.program(None), questions, 0)?.each;
                for engine in &engines {
                    let program = kind.program(Some(engine));
                    let window = tables.window(engine);
                    let answers = rig::ask(&programs, program, questions, window)?;
                    if answers.wrong > 0 {
                        return Err(format!(
                            "WRONG: {engine}: {metric}: {} answers",
                            answers.wrong
                        ));
                    }
                    let each = (answers.each - empty).max(0.0);
                    samples.add(engine, &Measure::new(metric, each, "ns"));
                }
            }
            let mut some = self.routes.clone();
            rng.shuffle(&mut some);
            some.truncate(options.size(4096, 512));
            for engine in engines.iter().filter(|engine| **engine != PROGRAMS) {
                let each = tables.change(engine, kind, &some)?;
                samples.add(engine, &Measure::new("update_user_ns", each, "ns"));
            }
            if kind == Kind::Bits {
                set(
                    kind,
                    &mut changes,
                    some.iter().map(|(prefix, value)| Question {
                        bits: prefix.bits,
                        len: prefix.len,
                        value: *value,
                    }),
                );
                for engine in engines.iter().filter(|engine| **engine != OURS) {
                    let each = tables.change_by_program(engine, &programs, &changes)?;
                    samples.add(engine, &Measure::new("update_bpf_ns", each, "ns"));
                }
            }
        }
        report.end(samples, &[TRIE]);
        Ok(())
    }
}
