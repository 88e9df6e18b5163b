//! A reading of lists beside the map that they change.
//!
//! The texts are read line by line. A rule that the map has is marked, and one that it does not
//! have goes to the additions, a second map. At the end one walk over both, in the order of the
//! names, drops what has no mark and what is unnecessary. So a reading takes the memory of the
//! additions and of the marks, which is some bits a rule, and no second copy of the lists.
//!
//! A rule is not even added if the rules that are known make it unnecessary. One that the map has
//! may have no mark yet. The rules that it makes unnecessary wait; those for which it has no mark
//! at the end are taken then. If too many wait, or a later line came between, then the texts are
//! read once more.

use std::collections::BTreeSet;
use std::mem;

use sapwood::qp::{OrderedRead, QpMap};

use crate::additions::Additions;
use crate::error::{ListError, MAX_CANCELS, MAX_LISTS};
use crate::marks::Marks;
use crate::meta::META_KEY;
use crate::pending::Pending;
use crate::read::ReadRule;
use crate::reduce::{At, next, precedes_all, reduce, replaces};
use crate::rule::{Action, Rule, Terms};
use crate::value::{self, MANY, NotRules};
use crate::verdict::order;

/// Rules that `$badfilter` takes away, as keys and bytes.
pub type Cancels = BTreeSet<(Vec<u8>, Vec<u8>)>;

/// What becomes of a rule: it is taken, or the fault of its line.
pub type Taken = Result<(), String>;

/// After this many readings, the next one leaves no rule out while it reads.
const PASSES: usize = 4;

/// A loading: what the texts have had so far.
pub struct Loading<'o> {
    pub old: Option<&'o dyn OrderedRead<[u8]>>,
    /// Rules that the texts have, and the old map does not have.
    pub new: Additions<'o>,
    pub marks: Marks,
    /// The tiers of the lists, once their formats are known.
    pub tiers: Vec<u16>,
    /// The rules that `$badfilter` takes away, as keys and bytes: those that are known from before
    /// this reading, and those of this reading.
    pub cancels: Cancels,
    found_cancels: Cancels,
    pub cancelled: u64,
    /// How many times the texts were read before, with what `$badfilter` takes away now.
    round: usize,
    /// Whether a rule was left out because the next one does the same.
    has_skipped: bool,
    /// Whether such a rule may be necessary after all.
    again: bool,
    /// The names at and below which no rule is left out for this reason any more.
    careful: QpMap<()>,
    /// Rules that are unnecessary if other rules get their marks.
    pending: Pending,
    /// The most bytes of them in this reading.
    most_pending: usize,
    /// The bytes of a rule, for a moment.
    bytes: Vec<u8>,
}

/// What the rules that are known make of another one.
enum Judged<'o> {
    /// It is necessary.
    Needed,
    /// It comes between other rules, of which some may have been left out.
    Between,
    /// It is unnecessary, if the rules of this value of the old map get their marks.
    Unnecessary {
        because: Option<&'o [u8]>,
        /// Whether the next rule does the same. Otherwise another one comes first.
        is_next: bool,
    },
}

/// With more such names, nothing is left out before the end.
const MANY_CAREFUL: usize = 50_000;

impl<'o> Loading<'o> {
    pub fn new(
        lists: usize,
        old: Option<&'o dyn OrderedRead<[u8]>>,
        new: Additions<'o>,
        cancels: Cancels,
    ) -> Result<Self, ListError> {
        if lists > MAX_LISTS {
            return Err(ListError::TooMany { lists });
        }
        Ok(Loading {
            old,
            new,
            marks: Marks::default(),
            tiers: Vec::new(),
            cancels,
            found_cancels: Cancels::new(),
            cancelled: 0,
            round: 0,
            has_skipped: false,
            again: false,
            careful: QpMap::new(),
            pending: Pending::default(),
            most_pending: 0,
            bytes: Vec::new(),
        })
    }

    pub fn begin(&mut self) -> Result<(), ListError> {
        self.cancelled = 0;
        self.has_skipped = false;
        self.again = false;
        self.marks.forget_needs();
        self.found_cancels.clear();
        self.pending.clear();
        // Of lines that exclude each other the first one counts: each reading begins without any.
        self.new.clear()
    }

    /// Whether the texts have to be read once more, and prepares for it.
    pub fn is_to_be_read_again(&mut self) -> Result<bool, ListError> {
        if self.found_cancels != self.cancels {
            // What they take away may be marked, or have made others unnecessary.
            self.cancels = mem::take(&mut self.found_cancels);
            self.marks = Marks::default();
            self.round = 0;
            return Ok(true);
        }
        self.take_pending()?;
        self.round += 1;
        if self.again {
            return Ok(true);
        }
        let (Some(old), true) = (self.old, self.marks.needs_any()) else {
            return Ok(false);
        };
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        for (key, value) in old.range(all) {
            if &*key == META_KEY || !self.marks.is_needed(value) {
                continue;
            }
            let rules = value::terms(value)?.len();
            if !(0..rules).all(|number| self.marks.is_marked(value, number)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes rules of a text, and tells what is wrong with their lines, which are left out.
    ///
    /// What the maps have for all of them is looked for at once, so that its cache misses overlap.
    pub fn arrive(
        &mut self,
        batch: &mut Vec<ReadRule>,
        list: &str,
        mut tell: impl FnMut(u64, &str) -> Result<(), ListError>,
    ) -> Result<(), ListError> {
        let mut found: [Option<&[u8]>; BATCH] = [None; BATCH];
        let mut keys: [&[u8]; BATCH] = [b""; BATCH];
        while !batch.is_empty() {
            let some = batch.len().min(BATCH);
            let first = batch.iter().zip(&mut keys);
            first.for_each(|(read, key)| *key = &read.rule.key);
            match (self.old, self.new.read()) {
                (Some(old), _) => old.get_many(&keys[..some], &mut found[..some]),
                // The lines of the cache are of use, and not the answers: they change meanwhile.
                (None, Some(new)) => {
                    let mut before: [Option<&[u8]>; BATCH] = [None; BATCH];
                    new.get_many(&keys[..some], &mut before[..some]);
                }
                (None, None) => {}
            }
            keys = [b""; BATCH];
            for (read, old) in batch.drain(..some).zip(found) {
                let line = read.rule.line;
                if let Err(what) = self.arrive_one(read, old, list)? {
                    tell(line, &what)?;
                }
            }
        }
        Ok(())
    }

    /// `old` is what the old map has for the name. The inner error is the fault of the line.
    fn arrive_one(
        &mut self,
        read: ReadRule,
        old: Option<&'o [u8]>,
        list: &str,
    ) -> Result<Taken, ListError> {
        let Rule { key, terms, line } = read.rule;
        if read.is_bad_filter {
            if self.found_cancels.len() == MAX_CANCELS {
                let list = list.into();
                return Err(ListError::TooManyCancels { list, line });
            }
            // Rules of all lists are taken away.
            self.found_cancels.insert((key, cancel_bytes(terms)));
            return Ok(Ok(()));
        }
        if !self.cancels.is_empty() {
            let cancel = (key, cancel_bytes(terms.clone()));
            if self.cancels.contains(&cancel) {
                self.cancelled += 1;
                return Ok(Ok(()));
            }
            return self.take(&cancel.0, terms, old, read.is_last);
        }
        self.take(&key, terms, old, read.is_last)
    }

    /// Takes the rules that wait, if no rule that is certain makes them unnecessary.
    fn take_pending(&mut self) -> Result<(), ListError> {
        let pending = mem::take(&mut self.pending);
        self.most_pending = pending.bytes();
        let round = self.round;
        self.round = round.max(1);
        for left in pending.iter() {
            let terms = left.terms()?;
            // A later line may have a rule that this one excludes.
            let mut excludes = false;
            let new = self.new.get(left.key).unwrap_or_default();
            let old = self.old.and_then(|old| old.get(left.key));
            let of_old = value::rules(old.unwrap_or_default()).enumerate();
            let of_old = of_old.filter(|(number, _)| {
                old.is_some_and(|value| self.marks.is_marked(value, *number))
            });
            let all = value::rules(new).chain(of_old.map(|(_, rule)| rule));
            for rule in all {
                let (_, other) = rule?;
                excludes |= other.is_same_place(&terms) && other != terms;
            }
            if excludes || self.take(left.key, terms, old, left.is_last)?.is_err() {
                self.again = true;
            }
        }
        self.round = round;
        Ok(())
    }

    /// `old` is what the old map has for the name. `is_last`: of rules of the same place it is the
    /// last one that counts, and not the first.
    fn take(
        &mut self,
        key: &[u8],
        terms: Terms,
        old: Option<&'o [u8]>,
        is_last: bool,
    ) -> Result<Taken, ListError> {
        self.bytes.clear();
        value::put(&terms, &mut self.bytes);
        if let Some(old) = old.filter(|old| **old == self.bytes[..] && terms.is_unconditional()) {
            // The most frequent case: the map has just this rule.
            if self.new.is_empty() || self.new.get(key).is_none() {
                self.marks.mark(old, 0);
                return Ok(Ok(()));
            }
        }
        let bytes = mem::take(&mut self.bytes);
        let taken = self.take_beside(key, terms, (old, &bytes), is_last);
        self.bytes = bytes;
        taken
    }

    /// As [`take`](Self::take), with the rules that the old map has for the name, and the bytes of
    /// the rule.
    fn take_beside(
        &mut self,
        key: &[u8],
        terms: Terms,
        (old, bytes): (Option<&'o [u8]>, &[u8]),
        is_last: bool,
    ) -> Result<Taken, ListError> {
        // What the additions have for this name; most often there are none.
        let mut added = match self.new.get(key) {
            Some(added) => value::terms(added)?,
            None => Vec::new(),
        };
        let place = added.iter().position(|other| other.is_same_place(&terms));
        let gathers = |other: &Terms| other.action.gathers() && terms.action.gathers();
        // The rules of this name that the list has had, of those whose number has a limit.
        let is_beside = |other: &Terms| !other.is_unconditional() && other.list == terms.list;
        let mut beside = added.iter().filter(|other| is_beside(other)).count();
        // Whether the old map has a rule that this one excludes. A later line may have that one,
        // which must not count then: so this one stays until the end.
        let mut excludes = false;
        if let Some(old) = old {
            let mut found = (old == bytes).then_some(0);
            let mut before = None;
            if found.is_none() {
                for (number, rule) in value::rules(old).enumerate() {
                    let (part, other) = rule?;
                    let is_marked = self.marks.is_marked(old, number);
                    if part == bytes {
                        found = Some(number);
                    } else if other.is_same_place(&terms) {
                        before = (is_marked && !gathers(&other)).then_some(number);
                        excludes = true;
                    }
                    beside += usize::from(is_marked && part != bytes && is_beside(&other));
                }
            }
            // Of two rules that exclude each other, the first one counts, or the last one.
            match (found, place, before) {
                (Some(number), None, _) => {
                    let is_marked = self.marks.is_marked(old, number);
                    if !is_marked && !terms.is_unconditional() && beside >= MANY {
                        return Ok(Err(too_much("rules with conditions")));
                    }
                    self.marks.mark(old, number);
                    return Ok(Ok(()));
                }
                (Some(number), Some(place), _) if is_last && !gathers(&added[place]) => {
                    self.marks.mark(old, number);
                    added.remove(place);
                    self.replaced(key)?;
                    return self.add(key, added);
                }
                (_, _, Some(number)) if is_last => {
                    self.marks.unmark(old, number);
                    self.replaced(key)?;
                }
                (_, _, Some(_)) => return Ok(Ok(())),
                _ => {}
            }
        }
        if let Some(place) = place {
            let before = added[place].action.clone();
            if is_last && !gathers(&added[place]) && before != terms.action {
                added[place].action = terms.action;
                self.replaced(key)?;
                return self.add(key, added);
            }
            if !added[place].action.gather(terms.action) || added[place].action == before {
                return Ok(Ok(()));
            }
            if !is_small(&added[place].action) {
                return Ok(Err(too_much("addresses or records")));
            }
            return self.add(key, added);
        }
        match self.judge(key, &terms, excludes)? {
            Judged::Needed => {}
            Judged::Between => self.replaced(key)?,
            Judged::Unnecessary { because, is_next } => {
                self.has_skipped |= is_next;
                if let Some(value) = because {
                    self.wait(key, &terms, is_last, value)?;
                }
                return Ok(Ok(()));
            }
        }
        if !terms.is_unconditional() && beside >= MANY {
            return Ok(Err(too_much("rules with conditions")));
        }
        let is_less = |other: &Terms| order((0, other), (0, &terms), &self.tiers).is_lt();
        let at = added.partition_point(is_less);
        added.insert(at, terms);
        self.add(key, added)
    }

    fn add(&mut self, key: &[u8], rules: Vec<Terms>) -> Result<Taken, ListError> {
        let mut value = Vec::new();
        rules.iter().for_each(|terms| value::put(terms, &mut value));
        self.new.set(key, &value)?;
        Ok(Ok(()))
    }

    /// A rule that was known is another one now. What was left out because of it is read again.
    fn replaced(&mut self, key: &[u8]) -> Result<(), ListError> {
        if self.has_skipped && self.careful.get(key).is_none() {
            self.again = true;
            self.careful.insert(key, ())?;
        }
        Ok(())
    }

    /// Lets a rule wait that is unnecessary because of the rules of a value without marks.
    fn wait(
        &mut self,
        key: &[u8],
        terms: &Terms,
        is_last: bool,
        because: &[u8],
    ) -> Result<(), ListError> {
        let most = PENDING + 2 * self.old.map_or(0, OrderedRead::entries);
        let mut buffer = Vec::new();
        if self.pending.push(key, terms, is_last, most, &mut buffer) {
            return Ok(());
        }
        // Some have got the marks that they wait for.
        let mut pending = mem::take(&mut self.pending);
        let round = self.round;
        self.round = round.max(1);
        let kept = pending.retain(|left| {
            let judged = self.judge(left.key, &left.terms()?, false)?;
            Ok::<_, ListError>(!matches!(judged, Judged::Unnecessary { .. }))
        });
        self.pending = pending;
        self.round = round;
        kept?;
        // A few more would soon be too many again.
        let most = most / 4 * 3;
        if !self.pending.push(key, terms, is_last, most, &mut buffer) {
            self.marks.need(because);
        }
        Ok(())
    }

    /// What the rules that are known make of another one. One that is kept may only be unnecessary
    /// because another one certainly comes first.
    fn judge(&self, key: &[u8], terms: &Terms, mut is_kept: bool) -> Result<Judged<'o>, ListError> {
        if self.round >= PASSES || self.careful.len() > MANY_CAREFUL {
            return Ok(Judged::Needed);
        }
        // Each rule with the value of the old map that has it, if it has no mark yet.
        let mut known: Vec<(usize, Terms, Option<&'o [u8]>)> = Vec::new();
        if let Some(old) = self.old {
            for (at, value) in old.ancestors(key) {
                for (number, rule) in value::rules(value).enumerate() {
                    let (_, terms) = rule?;
                    let is_marked = self.marks.is_marked(value, number);
                    if is_marked || self.round == 0 {
                        known.push((at.len(), terms, (!is_marked).then_some(value)));
                    }
                }
            }
        }
        if !self.new.is_empty() {
            for (at, value) in self.new.ancestors(key) {
                for rule in value::rules(value) {
                    known.push((at.len(), rule?.1, None));
                }
            }
        }
        if known.is_empty() {
            return Ok(Judged::Needed);
        }
        let b: At<'_> = (key.len(), terms);
        let preceding = known
            .iter()
            .filter(|(at, a, _)| precedes_all((*at, a), b, &self.tiers));
        // One that has a mark is certain.
        let preceding = preceding.min_by_key(|(_, _, unmarked)| unmarked.is_some());
        if let Some((_, _, unmarked)) = preceding.filter(|(_, _, old)| old.is_none() || !is_kept) {
            return Ok(Judged::Unnecessary {
                because: *unmarked,
                is_next: false,
            });
        }
        // What it makes unnecessary may be marked later, so it has to be there until the end.
        is_kept |= known
            .iter()
            .any(|(at, other, _)| precedes_all(b, (*at, other), &self.tiers));
        is_kept |= !self.careful.is_empty() && self.careful.longest_prefix(key).is_some();
        let others = known
            .iter()
            .map(|(at, terms, unmarked)| ((*at, terms), *unmarked));
        Ok(match next(b, others, &self.tiers) {
            None => Judged::Needed,
            Some((other, _)) if !replaces(other, b) => Judged::Between,
            Some(_) if is_kept => Judged::Needed,
            Some((_, because)) => Judged::Unnecessary {
                because,
                is_next: true,
            },
        })
    }

    /// Bytes that the reading takes beside the map that is the outcome.
    pub fn extra_bytes(&self) -> usize {
        let new = self.old.map_or(0, |_| self.new.bytes());
        self.marks.bytes() + self.most_pending + new
    }
}

/// Bytes of rules that wait, beside two for each name of the map: so few take no memory that
/// counts.
const PENDING: usize = 1 << 12;

/// Rules that arrive at once.
pub const BATCH: usize = 16;

/// The bytes of a rule that `$badfilter` takes away, whatever list has it.
fn cancel_bytes(mut terms: Terms) -> Vec<u8> {
    terms.list = 0;
    let mut bytes = Vec::new();
    value::put(&terms, &mut bytes);
    bytes
}

/// The fault of a line that is one too many.
fn too_much(what: &str) -> String {
    format!("its name has more than {MANY} {what} in this list")
}

/// Whether an action is not beyond the limits of one rule.
fn is_small(action: &Action) -> bool {
    match action {
        Action::Addresses(all) => all.len() <= MANY,
        Action::Records(all) => all.len() <= MANY,
        _ => true,
    }
}

/// A walk over names in their order, which keeps the rules of the names above.
pub struct Walk<'t> {
    tiers: &'t [u16],
    path: Vec<u8>,
    above: Vec<(usize, Vec<Terms>)>,
    /// Vectors of names that are behind, for the next ones.
    spare: Vec<Vec<Terms>>,
    /// What becomes of the value of the last name.
    pub value: Vec<u8>,
}

impl<'t> Walk<'t> {
    pub fn new(tiers: &'t [u16]) -> Self {
        Walk {
            tiers,
            path: Vec::new(),
            above: Vec::new(),
            spare: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Makes the value of the next name: of the old rules that are marked, and of those that were
    /// added. Counts its rules by their lists.
    pub fn settle(
        &mut self,
        key: &[u8],
        old: Option<&[u8]>,
        added: Option<&[u8]>,
        marks: &Marks,
        kept: &mut [u64],
    ) -> Result<(), NotRules> {
        let mut rules = self.spare.pop().unwrap_or_default();
        rules.clear();
        for (number, rule) in value::rules(old.unwrap_or_default()).enumerate() {
            let (_, terms) = rule?;
            if marks.is_marked(old.unwrap_or_default(), number) {
                rules.push(terms);
            }
        }
        for rule in value::rules(added.unwrap_or_default()) {
            let (_, terms) = rule?;
            match rules.iter_mut().find(|other| other.is_same_place(&terms)) {
                // Both are of this reading, and the lines that exclude others are gone.
                Some(other) => drop(other.action.gather(terms.action)),
                None => rules.push(terms),
            }
        }
        rules.sort_by(|a, b| order((0, a), (0, b), self.tiers));
        while let Some((len, _)) = self.above.last() {
            if key.get(..*len) == Some(&self.path[..*len]) {
                break;
            }
            self.spare.extend(self.above.pop().map(|(_, rules)| rules));
        }
        reduce(key.len(), &mut rules, &self.above, self.tiers);
        self.value.clear();
        for terms in &rules {
            value::put(terms, &mut self.value);
            if let Some(kept) = kept.get_mut(usize::from(terms.list)) {
                *kept += 1;
            }
        }
        rules.retain(|terms| terms.scope.has(false));
        match rules.is_empty() {
            true => self.spare.push(rules),
            false => {
                self.path.clear();
                self.path.extend_from_slice(key);
                self.above.push((key.len(), rules));
            }
        }
        Ok(())
    }
}
