//! Engines of the suite `lists` in Rust, whose readers are threads.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use sapwood::key::dns_name;
use sapwood::qp::QpStore;
use sapwood_lists::{Fingerprints, Format, Loader, Meta, Options, Source, verdict};

use super::{LAST, Questions, Values, above, forget_peak, longest_gap, memory, text, texts};

/// Asks whether a name is blocked.
type Ask<'a> = Box<dyn FnMut(&str) -> Result<bool, String> + 'a>;

/// An engine that has a list.
trait Engine: Sync {
    /// Reads a list in the place of the one before.
    fn load(&self, list: &Path) -> Result<(), String>;

    /// A reader for one thread.
    fn reader(&self) -> Result<Ask<'_>, String>;

    /// Bytes of a file of it, if it has one.
    fn file(&self, list: &Path, folder: &Path) -> Result<Option<u64>, String>;
}

fn loader(list: &Path) -> Loader<'static> {
    let options = Options {
        strict: true,
        ..Options::default()
    };
    Loader::new(vec![Source::file(list).format(Format::AdBlock)], options)
}

/// A store that readers ask while it changes.
struct Stored(QpStore<[u8]>);

impl Engine for Stored {
    fn load(&self, list: &Path) -> Result<(), String> {
        // As `sapwood lists serve` does: nobody reads before the first list is there.
        let loaded = match self.0.is_empty() {
            true => loader(list).fill(&self.0),
            false => loader(list).reload(&self.0),
        };
        loaded.map_err(text)?;
        self.0.reclaim(usize::MAX);
        Ok(())
    }

    fn reader(&self) -> Result<Ask<'_>, String> {
        let mut reader = self.0.reader("bench").map_err(text)?;
        let meta = Meta::of(&reader.view()).map_err(text)?;
        Ok(Box::new(move |name| {
            let key = dns_name(name).map_err(text)?;
            let found = verdict(&reader.view(), &meta, &key, 1).map_err(text)?;
            let is_blocked = found.is_some();
            reader.quiescent();
            Ok(is_blocked)
        }))
    }

    fn file(&self, list: &Path, folder: &Path) -> Result<Option<u64>, String> {
        let (map, _) = loader(list).build().map_err(text)?;
        let file = folder.join("saved.lists");
        map.save(&file).map_err(text)?;
        Ok(Some(file.metadata().map_err(text)?.len()))
    }
}

/// A table of fingerprints, made anew from a map each time.
struct Printed(ArcSwapOption<Fingerprints>);

impl Engine for Printed {
    fn load(&self, list: &Path) -> Result<(), String> {
        let (map, _) = loader(list).build().map_err(text)?;
        let table = Fingerprints::new(map.entries()).map_err(text)?;
        drop(map);
        self.0.store(Some(Arc::new(table)));
        crate::alloc::trim();
        Ok(())
    }

    fn reader(&self) -> Result<Ask<'_>, String> {
        Ok(Box::new(move |name| {
            let key = dns_name(name).map_err(text)?;
            let table = self.0.load();
            let table = table.as_ref().ok_or("nothing is loaded")?;
            Ok(table.verdict(&key, 1).is_some())
        }))
    }

    fn file(&self, _list: &Path, _folder: &Path) -> Result<Option<u64>, String> {
        let table = self.0.load();
        Ok(table.as_ref().map(|table| table.to_bytes().len() as u64))
    }
}

/// A set of names, and a search for the name and those above it.
struct Hashed(ArcSwapOption<HashSet<Box<str>, RandomState>>);

impl Engine for Hashed {
    fn load(&self, list: &Path) -> Result<(), String> {
        let mut set = HashSet::with_hasher(RandomState::default());
        for line in BufReader::new(File::open(list).map_err(text)?).lines() {
            let line = line.map_err(text)?;
            let name = line
                .strip_prefix("||")
                .and_then(|rest| rest.strip_suffix('^'));
            if let Some(name) = name {
                set.insert(name.to_ascii_lowercase().into_boxed_str());
            }
        }
        self.0.store(Some(Arc::new(set)));
        crate::alloc::trim();
        Ok(())
    }

    fn reader(&self) -> Result<Ask<'_>, String> {
        Ok(Box::new(move |name| {
            let name = name.to_ascii_lowercase();
            let set = self.0.load();
            let set = set.as_ref().ok_or("nothing is loaded")?;
            Ok(above(&name).any(|name| set.contains(name)))
        }))
    }

    fn file(&self, _list: &Path, _folder: &Path) -> Result<Option<u64>, String> {
        Ok(None)
    }
}

/// Measures an engine.
pub fn measure(engine: &str, folder: &Path, questions: &Questions) -> Result<Values, String> {
    let engine: Box<dyn Engine> = match engine {
        "sapwood" => Box::new(Stored(QpStore::builder().build_inline().map_err(text)?)),
        "sapwood-fingerprints" => Box::new(Printed(ArcSwapOption::empty())),
        "hashbrown" => Box::new(Hashed(ArcSwapOption::empty())),
        _ => return Err(format!("there is no engine {engine}")),
    };
    let me = std::process::id();
    let [before, after] = texts(folder);
    crate::alloc::trim();
    let base = memory(me)?.0;
    let begin = Instant::now();
    engine.load(&before)?;
    let load = begin.elapsed().as_secs_f64();
    let rss = memory(me)?.0;
    forget_peak(me)?;
    let is_over = AtomicBool::new(false);
    let (reload, gap) = std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let mut ask = engine.reader()?;
            let name = &questions.all[1].0;
            // The name is in both texts or only in the second; it has an answer at any time.
            longest_gap(
                || ask(name).map(|found| _ = black_box(found)),
                || is_over.load(Ordering::Relaxed),
            )
        });
        let begin = Instant::now();
        let loaded = engine.load(&after);
        let time = begin.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        let gap = reads.join().map_err(|_| "a reader has failed".to_owned())?;
        loaded.and_then(|()| Ok::<_, String>((time, gap?)))
    })?;
    let peak = memory(me)?.1;
    let mut ask = engine.reader()?;
    let begin = Instant::now();
    for (name, is_blocked) in &questions.all {
        if ask(name)? != *is_blocked {
            return Err(format!(
                "WRONG: {name} is {}blocked",
                if *is_blocked { "not " } else { "" }
            ));
        }
    }
    let rate = questions.all.len() as f64 / begin.elapsed().as_secs_f64() / 1e6;
    for name in questions.gone.iter().map(String::as_str).chain([LAST[0]]) {
        if ask(name)? {
            return Err(format!("WRONG: {name} is still blocked"));
        }
    }
    drop(ask);
    let mut all = vec![
        ("load_s", load),
        ("reload_s", reload),
        ("reload_gap_ms", gap),
        ("rss_mb", rss),
        ("peak_mb", peak),
        (
            "bytes_per_rule",
            (rss - base).max(0.0) * 1e6 / questions.names as f64,
        ),
    ];
    if let Some(bytes) = engine.file(&after, folder)? {
        all.push(("file_mb", bytes as f64 / 1e6));
    }
    all.push(("ask_mops", rate));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lists::Set;

    #[test]
    fn engines_answer_as_the_list_says() {
        let folder = tempfile::tempdir().unwrap();
        let set = Set::new(3000, None).unwrap();
        set.write(sapwood_model::lists::Format::AdBlock, folder.path())
            .unwrap();
        let questions = Questions::read(folder.path(), 600).unwrap();
        for engine in ["sapwood", "sapwood-fingerprints", "hashbrown"] {
            let all = measure(engine, folder.path(), &questions).unwrap();
            assert!(
                all.iter().all(|(_, value)| value.is_finite()),
                "{engine}: {all:?}"
            );
            assert!(all.len() >= 7, "{engine}: {all:?}");
        }
        assert!(measure("none", folder.path(), &questions).is_err());
    }
}
