//! The texts of a live map whose values are numbers: next hops of routes, values of ranges.
//!
//! They lie in a live store of their own, in a directory inside that of the map. Its keys are the
//! numbers as four bytes, most significant first. The writer stores a text before it uses its
//! number, and removes it some time after the last use. It never uses a number for another text. So
//! a reader finds the text of a number, or finds that it has to look the number up again.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sapwood::qp::QpStore;

use crate::{CheckedLiveReader, CheckedNames, Error, Live, LiveIdle, LiveReader};

/// How long a text that is not used stays. Readers that have found its number need it.
const STAYS: Duration = Duration::from_secs(2);

/// The attempts of a reader to find a number and its text.
const TRIES: usize = 1000;

/// The texts of a live map whose values are numbers, as the writer keeps them.
///
/// ```
/// use sapwood::maple::MapleMap;
/// use sapwood_live::{Live, LiveReader, LiveTextReader, LiveTexts};
/// # let folder = std::env::temp_dir().join(format!("sapwood-live-texts-{}", std::process::id()));
/// let map = Live::<MapleMap<u32>>::create(&folder)?;
/// let mut texts = LiveTexts::new(Live::create(LiveTexts::folder(&folder))?)?;
/// let number = texts.numbers(["web"])?[0];
/// map.store(80..=443, number)?;
/// texts.used(number);
///
/// // In another process:
/// let reader = LiveReader::<MapleMap<u32>>::open(&folder)?;
/// let text = LiveTextReader::open(&folder)?.find(|text| {
///     let number = reader.view().get(80).copied().expect("it stays");
///     Ok::<_, sapwood_live::Error>(text(number))
/// })?;
/// assert_eq!(text, "web");
/// # drop(reader);
/// # map.remove_map()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LiveTexts {
    store: Live<QpStore<[u8]>>,
    numbers: HashMap<Box<str>, u32>,
    uses: HashMap<u32, Uses>,
    /// Numbers that no entry used at some time, with the count of `idle` when that began.
    idle: VecDeque<(Instant, u32, u64)>,
    idled: u64,
    next: u32,
}

/// The text of a number.
struct Uses {
    text: Box<str>,
    /// How many entries use it.
    count: usize,
    /// When no entry used it, as `idled` counts.
    idle: u64,
}

impl LiveTexts {
    /// The name of their directory.
    pub(crate) const FOLDER: &str = "texts";

    /// The directory of the texts of a live map, in the map's directory.
    pub fn folder(map: &Path) -> PathBuf {
        map.join(Self::FOLDER)
    }

    /// The texts in a store, which this process has made or taken over in the
    /// [`folder`](Self::folder) of the map. No number is used yet: call [`used`](Self::used) for
    /// each entry that the map has.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the store has other entries than numbers with texts.
    pub fn new(store: Live<QpStore<[u8]>>) -> Result<Self, Error> {
        let mut texts = LiveTexts {
            store,
            numbers: HashMap::new(),
            uses: HashMap::new(),
            idle: VecDeque::new(),
            idled: 0,
            next: 0,
        };
        for (key, text) in texts.store.snapshot().iter() {
            let (Ok(key), Ok(text)) = (<[u8; 4]>::try_from(&*key), std::str::from_utf8(text))
            else {
                return Err(Error::Damaged {
                    path: texts.store.folder().to_owned(),
                    why: "not the texts of a live map; remove the directory".into(),
                });
            };
            let number = u32::from_be_bytes(key);
            texts.begin(number, text);
            texts.next = texts.next.max(number.saturating_add(1));
        }
        Ok(texts)
    }

    /// The numbers of texts. New texts are stored, in one commit.
    ///
    /// # Errors
    /// [`sapwood::qp::Error::Full`] when all numbers were used, and those of
    /// [`QpTxn::insert`](sapwood::qp::QpTxn::insert). No text is stored then.
    pub fn numbers<'t>(
        &mut self,
        all: impl IntoIterator<Item = &'t str>,
    ) -> Result<Vec<u32>, sapwood::Error> {
        let mut new: HashMap<&str, u32> = HashMap::new();
        let mut numbers = Vec::new();
        let mut txn = self.store.begin();
        for text in all {
            if let Some(number) = self.numbers.get(text).or(new.get(text)) {
                numbers.push(*number);
                continue;
            }
            let number = self.next + new.len() as u32;
            if number == u32::MAX {
                let max_entries = u32::MAX as usize;
                return Err(sapwood::qp::Error::Full { max_entries }.into());
            }
            txn.insert(number.to_be_bytes(), text.as_bytes())?;
            new.insert(text, number);
            numbers.push(number);
        }
        if new.is_empty() {
            return Ok(numbers);
        }
        txn.commit();
        self.next += new.len() as u32;
        for (text, number) in new {
            self.begin(number, text);
        }
        Ok(numbers)
    }

    /// Notes a text that is stored, and that no entry uses yet.
    fn begin(&mut self, number: u32, text: &str) {
        let uses = Uses {
            text: text.into(),
            count: 0,
            idle: 0,
        };
        self.numbers.insert(text.into(), number);
        self.uses.insert(number, uses);
        self.idles(number);
    }

    /// Notes that no entry uses a number from now on.
    fn idles(&mut self, number: u32) {
        self.idled += 1;
        if let Some(uses) = self.uses.get_mut(&number) {
            uses.idle = self.idled;
        }
        self.idle.push_back((Instant::now(), number, self.idled));
    }

    /// The text of a number.
    pub fn text(&self, number: u32) -> Option<&str> {
        self.uses.get(&number).map(|uses| &*uses.text)
    }

    /// Counts one more entry that uses a number.
    pub fn used(&mut self, number: u32) {
        if let Some(uses) = self.uses.get_mut(&number) {
            uses.count += 1;
        }
    }

    /// Counts one entry fewer that uses a number.
    pub fn left(&mut self, number: u32) {
        if let Some(uses) = self.uses.get_mut(&number) {
            uses.count = uses.count.saturating_sub(1);
            if uses.count == 0 {
                self.idles(number);
            }
        }
    }

    /// Removes texts that no entry has used for some time, and frees what readers have left.
    pub fn tidy(&mut self, budget: usize) {
        let mut gone = Vec::new();
        while let Some(&(since, number, idled)) = self.idle.front() {
            if since.elapsed() < STAYS {
                break;
            }
            self.idle.pop_front();
            // It may have been used again, and left again later.
            let is_idle = |uses: &Uses| uses.count == 0 && uses.idle == idled;
            if self.uses.get(&number).is_some_and(is_idle) {
                gone.push(number);
            }
        }
        if !gone.is_empty() {
            let mut txn = self.store.begin();
            let removed = gone
                .iter()
                .try_for_each(|number| txn.remove(number.to_be_bytes()).map(drop));
            match removed {
                Ok(()) => {
                    txn.commit();
                    for number in gone {
                        if let Some(uses) = self.uses.remove(&number) {
                            self.numbers.remove(&uses.text);
                        }
                    }
                }
                // There is no room for more garbage. They stay until they are used again.
                Err(_) => txn.rollback(),
            }
        }
        self.store.reclaim(budget);
    }

    /// Bytes of memory, and bytes of old versions that wait for readers.
    pub fn bytes(&self) -> (usize, usize) {
        let memory = self.store.memory();
        (memory.map.total(), memory.waiting.1)
    }
}

impl fmt::Debug for LiveTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveTexts")
            .field("len", &self.uses.len())
            .finish_non_exhaustive()
    }
}

/// The texts of a live map whose values are numbers, as a reader in another process finds them.
pub struct LiveTextReader {
    texts: Texts,
    folder: PathBuf,
}

enum Texts {
    Trusting(LiveIdle<QpStore<[u8]>>),
    Checked(CheckedNames<QpStore<[u8]>>),
}

impl LiveTextReader {
    /// Opens the texts of the live map in a directory.
    ///
    /// # Errors
    /// As [`LiveReader::open`].
    pub fn open(map: &Path) -> Result<Self, Error> {
        let folder = LiveTexts::folder(map);
        Ok(LiveTextReader {
            texts: Texts::Trusting(LiveReader::open(&folder)?.idle()),
            folder,
        })
    }

    /// The same for a directory in which this process may not write: see
    /// [`CheckedLiveReader::open_unregistered`].
    ///
    /// # Errors
    /// As [`CheckedLiveReader::open_unregistered`].
    pub fn open_unregistered(map: &Path) -> Result<Self, Error> {
        let folder = LiveTexts::folder(map);
        let texts = CheckedLiveReader::open_unregistered(&folder)?;
        Ok(LiveTextReader {
            texts: Texts::Checked(CheckedNames::new(texts)),
            folder,
        })
    }

    /// Calls `find` until there is a text for each number that it finds. `find` gets a function
    /// that returns the text of a number; without one it returns `None`, and is called again.
    ///
    /// # Errors
    /// Those of `find`; [`Error::Busy`] when the map changed during each of a thousand attempts.
    pub fn find<R, E: From<Error>>(
        &mut self,
        mut find: impl FnMut(&dyn Fn(u32) -> Option<String>) -> Result<Option<R>, E>,
    ) -> Result<R, E> {
        let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        for _ in 0..TRIES {
            let found = match &mut self.texts {
                Texts::Trusting(texts) => {
                    texts.read(|view| find(&|number| view.get(number.to_be_bytes()).map(shown)))
                }
                Texts::Checked(texts) => {
                    texts.ask(|texts| find(&|number| texts.get(number.to_be_bytes()).map(shown)))
                }
            }?;
            if let Some(found) = found? {
                return Ok(found);
            }
        }
        let path = self.folder.clone();
        Err(Error::Busy { path }.into())
    }
}

impl fmt::Debug for LiveTextReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveTextReader").finish_non_exhaustive()
    }
}
