//! Makes a map of lists, or changes one to what its lists say now.

use std::ops::Bound::Unbounded;

use sapwood::qp::{OrderedRead, QpMap, QpStore};

use crate::additions::Additions;
use crate::error::ListError;
use crate::loading::{BATCH, Cancels, Loading, Walk};
use crate::map::ListMap;
use crate::meta::{ListInfo, META_KEY, Meta, tiers};
use crate::read::{self, Counts, Manner, Told};
use crate::rule::Action;
use crate::source::{Opened, Source};

/// How lists become a map.
#[derive(Clone, Debug)]
pub struct Options {
    /// What rules do that only say that a name is blocked. The default is [`Action::Nxdomain`].
    pub block: Action,
    /// Whether a line that is not understood is an error. By default it is left out.
    pub strict: bool,
    /// Whether a list may have no rule.
    pub allow_empty: bool,
    /// Whether a list may have less than half of the rules that it had at the reading before.
    pub allow_shrunk: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            block: Action::Nxdomain,
            strict: false,
            allow_empty: false,
            allow_shrunk: false,
        }
    }
}

/// What a loading tells while it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// A list is read.
    Begin {
        /// Its name.
        list: &'e str,
        /// Bytes of its file or text, which may be compressed.
        bytes: u64,
        /// How many times all lists were read before.
        pass: usize,
    },
    /// So many bytes of it were read.
    At(u64),
    /// A line is not understood, and left out. It is told once, in the first reading.
    Refused {
        /// The list.
        list: &'e str,
        /// The number of the line.
        line: u64,
        /// Why.
        what: &'e str,
    },
    /// All rules were read; they are brought together.
    Settle,
}

/// What a loading has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// What the map says of its lists.
    pub meta: Meta,
    /// The counts of each list's lines.
    pub counts: Vec<Counts>,
    /// Entries that were added, removed and changed.
    pub added: u64,
    /// See `added`.
    pub removed: u64,
    /// See `added`.
    pub changed: u64,
    /// How many times the lists were read.
    pub passes: usize,
    /// Rules that `$badfilter` has taken away.
    pub cancelled: u64,
    /// Bytes that the reading took beside the map that is the outcome: for additions, for
    /// marks, and for rules that wait.
    pub extra_bytes: usize,
}

impl Summary {
    /// Whether the map had all of it before.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::Summary;
    ///
    /// assert!(Summary::default().is_unchanged());
    /// ```
    pub fn is_unchanged(&self) -> bool {
        (self.added, self.removed, self.changed) == (0, 0, 0)
    }
}

/// What makes a map of lists.
///
/// ```
/// use sapwood_lists::{Action, Loader, Options, Source};
///
/// let hosts = Source::text("hosts", "0.0.0.0 ads.example\n");
/// let mine = Source::text("mine", "*.ads.example\n");
/// let (map, summary) = Loader::new(vec![hosts, mine], Options::default()).build()?;
/// assert_eq!((map.len(), summary.meta.lists()[1].rules), (1, 1));
/// let blocked = map.verdict("x.ads.example".as_ref(), 1)?.unwrap();
/// assert_eq!((blocked.terms.action, blocked.terms.list), (Action::Nxdomain, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Loader<'e> {
    sources: Vec<Source>,
    options: Options,
    tell: Box<dyn FnMut(Event<'_>) + 'e>,
    /// What `$badfilter` took away at the last loading.
    cancels: Cancels,
}

impl<'e> Loader<'e> {
    /// Of these lists. The first ones come before the others where their rules are alike.
    ///
    /// O(1).
    pub fn new(sources: Vec<Source>, options: Options) -> Self {
        Loader {
            sources,
            options,
            tell: Box::new(|_| {}),
            cancels: Cancels::new(),
        }
    }

    /// Calls a function with what happens meanwhile: for progress, and for messages.
    ///
    /// O(1).
    pub fn tell(mut self, tell: impl FnMut(Event<'_>) + 'e) -> Self {
        self.tell = Box::new(tell);
        self
    }

    /// Reads the lists into a new map.
    ///
    /// O(bytes of the lists).
    ///
    /// # Errors
    /// [`ListError`]: a list cannot be read, or is no list; the rules are more than a map can have.
    pub fn build(mut self) -> Result<(ListMap, Summary), ListError> {
        let own = Additions::Own(QpMap::new());
        let mut loading = Loading::new(self.sources.len(), None, own, Cancels::new())?;
        let summary = self.make(&mut loading)?;
        match loading.new {
            Additions::Own(map) => Ok((ListMap::new(map, summary.meta.clone()), summary)),
            Additions::Store(_) => Err(ListError::NotEmpty),
        }
    }

    /// Reads the lists into a store that is empty and that nobody reads yet: who did would see a
    /// part of the rules, because it is filled in many commits. So it takes the memory of the map
    /// and little beside it, where [`reload`](Self::reload) of an empty store takes three times as
    /// much. If anything fails, the store is empty again.
    ///
    /// O(bytes of the lists).
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// use sapwood_lists::{Loader, Options, Source};
    ///
    /// let store = QpStore::<[u8]>::builder().build_inline()?;
    /// let load = |text| Loader::new(vec![Source::text("a", text)], Options::default());
    /// let summary = load("x.example\ny.example\n").fill(&store)?;
    /// assert_eq!((summary.added, store.len()), (2, 3));
    /// assert!(load("z.example\n").fill(&store).is_err(), "it has entries");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ListError`]: also if the store has entries.
    ///
    /// # Panics
    /// When this thread has a transaction of the store open, for which it would wait forever.
    pub fn fill(&mut self, store: &QpStore<[u8]>) -> Result<Summary, ListError> {
        if !store.is_empty() {
            return Err(ListError::NotEmpty);
        }
        let cancels = self.cancels.clone();
        let filling = Additions::filling(store);
        let mut loading = Loading::new(self.sources.len(), None, filling, cancels)?;
        let made = self.make(&mut loading);
        if made.is_err() {
            loading.new.clear()?;
        }
        loading.new.end();
        self.cancels = loading.cancels;
        made
    }

    /// Reads the lists into additions that have nothing yet, and makes a whole map of them.
    fn make(&mut self, loading: &mut Loading<'_>) -> Result<Summary, ListError> {
        let mut summary = self.read(loading, None)?;
        let Loading {
            new, marks, tiers, ..
        } = loading;
        // Changes of a part at a time: nothing is changed under the walk.
        let mut kept = vec![0; self.sources.len()];
        let mut walk = Walk::new(tiers);
        let mut from: Option<Vec<u8>> = None;
        loop {
            let part = new.part(from.as_deref(), PART);
            for (key, added) in &part {
                walk.settle(key, None, Some(added), marks, &mut kept)?;
                if walk.value != *added {
                    new.set(key, &walk.value)?;
                }
            }
            match part.into_iter().next_back() {
                Some((key, _)) => from = Some(key),
                None => break,
            }
        }
        summary.added = new.len() as u64;
        summary.meta = self.meta(&summary, &kept);
        new.set(META_KEY, &summary.meta.value())?;
        Ok(summary)
    }

    /// Reads the lists, and changes a store to what they say, in one commit. If anything fails, the
    /// store stays as it was. A store that is empty, or that [`ListMap`] wrote, is allowed.
    ///
    /// O(bytes of the lists + entries of the store). It takes the memory of what changes, and
    /// for each rule that the store has some bits, and at most two bytes.
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// use sapwood_lists::{Loader, Options, Source};
    ///
    /// let store = QpStore::<[u8]>::builder().build_inline()?;
    /// let load = |text| Loader::new(vec![Source::text("a", text)], Options::default());
    /// load("x.example\ny.example\n").reload(&store)?;
    /// let summary = load("y.example\nz.example\n").reload(&store)?;
    /// assert_eq!((summary.added, summary.removed, summary.changed), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ListError`]: also if a list has become empty, or lost most of its rules.
    pub fn reload(&mut self, store: &QpStore<[u8]>) -> Result<Summary, ListError> {
        let version = store.version();
        let before = store.snapshot();
        let old: &dyn OrderedRead<[u8]> = &before;
        let had = match store.is_empty() {
            true => None,
            false => Some(Meta::of(old)?),
        };
        let cancels = self.cancels.clone();
        let own = Additions::Own(QpMap::new());
        let mut loading = Loading::new(self.sources.len(), Some(old), own, cancels)?;
        let mut summary = self.read(&mut loading, had.as_ref())?;
        let Loading {
            new,
            marks,
            tiers,
            cancels,
            ..
        } = loading;
        self.cancels = cancels;
        let mut kept = vec![0; self.sources.len()];
        let mut txn = store.begin();
        if store.version() != version {
            return Err(ListError::MapChanged);
        }
        let mut walk = Walk::new(&tiers);
        let skip = |key: &[u8]| key == META_KEY;
        let added = new.read().map(|new| new.range((Unbounded, Unbounded)));
        let mut added = added.into_iter().flatten().peekable();
        let mut had = before.iter().filter(|(key, _)| !skip(key)).peekable();
        loop {
            let (key, old_value, new_value) = match (had.peek(), added.peek()) {
                (None, None) => break,
                (Some((a, _)), Some((b, _))) if a == b => {
                    let (a, b) = (had.next(), added.next());
                    match (a, b) {
                        (Some((key, old)), Some((_, new))) => (key, Some(old), Some(new)),
                        _ => break,
                    }
                }
                (Some((a, _)), Some((b, _))) if a > b => match added.next() {
                    Some((key, new)) => (key, None, Some(new)),
                    None => break,
                },
                (Some(_), _) => match had.next() {
                    Some((key, old)) => (key, Some(old), None),
                    None => break,
                },
                (None, Some(_)) => match added.next() {
                    Some((key, new)) => (key, None, Some(new)),
                    None => break,
                },
            };
            walk.settle(&key, old_value, new_value, &marks, &mut kept)?;
            match (old_value, &walk.value[..]) {
                (None, b"") => {}
                (Some(old), new) if old == new => {}
                (Some(_), b"") => {
                    txn.remove(&key)?;
                    summary.removed += 1;
                }
                (old, new) => {
                    txn.insert(&key, new)?;
                    match old {
                        None => summary.added += 1,
                        Some(_) => summary.changed += 1,
                    }
                }
            }
        }
        summary.meta = self.meta(&summary, &kept);
        let value = summary.meta.value();
        let is_same = old.get(META_KEY) == Some(&value[..]);
        // Their memory goes before that of the version before.
        drop((added, had));
        drop((marks, new));
        if summary.is_unchanged() && is_same {
            txn.rollback();
            return Ok(summary);
        }
        txn.insert(META_KEY, &value)?;
        txn.commit();
        Ok(summary)
    }

    /// Reads the lists as often as they have to be.
    fn read(
        &mut self,
        loading: &mut Loading<'_>,
        had: Option<&Meta>,
    ) -> Result<Summary, ListError> {
        let mut opened = self
            .sources
            .iter()
            .map(Source::open)
            .collect::<Result<Vec<_>, _>>()?;
        let mut summary = Summary::default();
        loop {
            loading.begin()?;
            let first = summary.passes == 0;
            (summary.counts, summary.meta) = self.pass(loading, &mut opened, summary.passes)?;
            summary.passes += 1;
            if first {
                self.check(&summary, had)?;
            }
            if !loading.is_to_be_read_again()? {
                break;
            }
        }
        for (source, opened) in self.sources.iter().zip(&opened) {
            if !opened.is_same().map_err(ListError::read(source.name()))? {
                return Err(ListError::Changed {
                    list: source.name().into(),
                });
            }
        }
        (self.tell)(Event::Settle);
        summary.cancelled = loading.cancelled;
        summary.extra_bytes = loading.extra_bytes();
        Ok(summary)
    }

    /// Reads all lists once; returns their counts and what is known of them.
    fn pass(
        &mut self,
        loading: &mut Loading<'_>,
        opened: &mut [Opened],
        pass: usize,
    ) -> Result<(Vec<Counts>, Meta), ListError> {
        // Tiers depend on the formats, so these come first.
        let mut manners = Vec::new();
        for (number, (source, opened)) in self.sources.iter().zip(&mut *opened).enumerate() {
            let name = source.name();
            let text = opened.begin().map_err(ListError::read(name))?;
            let (format, _) = read::recognised(text, source, name)?;
            manners.push(Manner {
                list: number as u16,
                format,
                exceptions: source.exceptions,
                below: source.below,
                marks: source.marks,
                block: self.options.block.clone(),
            });
        }
        loading.tiers = tiers(manners.iter().map(|manner| manner.format));
        let (mut all, mut lists) = (Vec::new(), Vec::new());
        for ((source, opened), manner) in self.sources.iter().zip(opened).zip(&manners) {
            let list = source.name();
            let tell = &mut self.tell;
            let (bytes, read_bytes) = (opened.bytes(), opened.read());
            tell(Event::Begin { list, bytes, pass });
            let text = opened.begin().map_err(ListError::read(list))?;
            let source = source.clone().format(manner.format);
            let (_, text) = read::recognised(text, &source, list)?;
            let strict = self.options.strict;
            let refuse = |tell: &mut Box<dyn FnMut(Event<'_>) + 'e>, line, what: &str| {
                if strict {
                    return Err(ListError::Line {
                        list: list.into(),
                        line,
                        what: what.into(),
                    });
                }
                if pass == 0 {
                    tell(Event::Refused { list, line, what });
                }
                Ok(())
            };
            let mut batch = Vec::with_capacity(BATCH);
            // Lines that are understood, but are too many.
            let mut beyond = 0;
            let mut counts = read::read(text, manner, list, |told| {
                if let Told::Rule(rule) = told {
                    batch.push(rule);
                    if batch.len() < BATCH {
                        return Ok(());
                    }
                    return loading.arrive(&mut batch, list, |line, what| {
                        beyond += 1;
                        refuse(tell, line, what)
                    });
                }
                // What is told comes in the order of the lines.
                loading.arrive(&mut batch, list, |line, what| {
                    beyond += 1;
                    refuse(tell, line, what)
                })?;
                match told {
                    Told::Lines => tell(Event::At(read_bytes.get())),
                    Told::Refused(line, what) => refuse(tell, line, what)?,
                    Told::Rule(_) => {}
                }
                Ok(())
            })?;
            loading.arrive(&mut batch, list, |line, what| {
                beyond += 1;
                refuse(tell, line, what)
            })?;
            counts.rules -= beyond;
            counts.refused += beyond;
            lists.push(ListInfo {
                name: list.into(),
                format: manner.format,
                exceptions: manner.exceptions,
                below: manner.below,
                lines: counts.lines,
                rules: counts.rules,
                kept: 0,
                left_out: counts.left_out.iter().sum(),
                refused: counts.refused,
            });
            all.push(counts);
        }
        Ok((all, Meta::new(lists)))
    }

    /// Refuses lists that have become empty or lost most of their rules.
    fn check(&self, summary: &Summary, had: Option<&Meta>) -> Result<(), ListError> {
        for (list, source) in summary.meta.lists().iter().zip(&self.sources) {
            if source.is_withdrawn() {
                continue;
            }
            if list.rules == 0 && !self.options.allow_empty {
                return Err(ListError::Empty {
                    list: list.name.clone(),
                });
            }
            let before = had.iter().flat_map(|meta| meta.lists());
            let before = before
                .filter(|before| before.name == list.name)
                .map(|list| list.rules);
            let before = before.max().unwrap_or(0);
            let is_allowed = self.options.allow_shrunk || list.rules == 0;
            if list.rules.saturating_mul(2) < before && !is_allowed {
                return Err(ListError::Shrunk {
                    list: list.name.clone(),
                    now: list.rules,
                    before,
                });
            }
        }
        Ok(())
    }

    /// What the map says of its lists. `kept` has how many rules of each list the map keeps.
    fn meta(&self, summary: &Summary, kept: &[u64]) -> Meta {
        let lists = summary.meta.lists().iter().zip(kept);
        let lists = lists.map(|(list, kept)| ListInfo {
            kept: *kept,
            ..list.clone()
        });
        Meta::new(lists.collect())
    }
}

/// Entries that one part of a walk changes at once.
const PART: usize = 1 << 14;
