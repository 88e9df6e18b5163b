//! What a map says of its lists: an entry whose key no domain name has.

use std::collections::HashMap;

use sapwood::qp::OrderedRead;

use crate::error::ListError;
use crate::format::Format;
use crate::rule::{Action, Scope, Terms};
use crate::source::Source;
use crate::value::NotRules;

/// The key of the entry. Keys of domain names never begin with this byte, which ends a label.
pub const META_KEY: &[u8] = b"\0lists";

/// What a map knows of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListInfo {
    /// Its name: the path of its file.
    pub name: String,
    /// The format that it was read as.
    pub format: Format,
    /// Whether its names are exceptions.
    pub exceptions: bool,
    /// Whether its plain names stand for all names below them, too.
    pub below: bool,
    /// Lines.
    pub lines: u64,
    /// Rules in these lines.
    pub rules: u64,
    /// Rules that the map has. Others come again, or other rules make them unnecessary.
    pub kept: u64,
    /// Lines about what is no matter of names.
    pub left_out: u64,
    /// Lines that were not understood.
    pub refused: u64,
}

impl ListInfo {
    /// The line of the list's file that has a rule of this name, with the scope, the class and the
    /// conditions of these terms. The file may have changed since the map was made: `None` if it
    /// has no such line any more.
    ///
    /// O(bytes of the file).
    ///
    /// ```
    /// use sapwood_lists::{Loader, Options, Source};
    ///
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.ads", std::process::id()));
    /// std::fs::write(&path, "a.example\nb.example\n")?;
    /// let (map, _) = Loader::new(vec![Source::file(&path)], Options::default()).build()?;
    /// let found = map.verdict("b.example".as_ref(), 1)?.expect("it is listed");
    /// let list = &map.meta().lists()[0];
    /// assert_eq!(list.line_of(&found.key, &found.terms)?, Some(2));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ListError`]: the file cannot be read, or is no such list any more.
    pub fn line_of(&self, key: &[u8], terms: &Terms) -> Result<Option<u64>, ListError> {
        let found = self.lines_of(&[(key, terms)])?;
        Ok(found.into_iter().next().flatten())
    }

    /// The lines of several rules of this list, each as [`line_of`](Self::line_of) finds it. The
    /// file is read once.
    ///
    /// O(bytes of the file + rules).
    ///
    /// ```
    /// use sapwood_lists::{Loader, Options, Source};
    ///
    /// # let path = std::env::temp_dir().join(format!("sapwood-docs-{}.ads", std::process::id()));
    /// std::fs::write(&path, "a.example\nb.example\n")?;
    /// let (map, _) = Loader::new(vec![Source::file(&path)], Options::default()).build()?;
    /// let ask = |name: &str| map.verdict(name.as_ref(), 1).map(|it| it.expect("it is listed"));
    /// let (a, b) = (ask("a.example")?, ask("b.example")?);
    /// let lines = map.meta().lists()[0].lines_of(&[(&b.key, &b.terms), (&a.key, &a.terms)])?;
    /// assert_eq!(lines, [Some(2), Some(1)]);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ListError`]: the file cannot be read, or is no such list any more.
    pub fn lines_of(&self, rules: &[(&[u8], &Terms)]) -> Result<Vec<Option<u64>>, ListError> {
        let list = Source::file(&self.name).format(self.format);
        let list = list.exceptions(self.exceptions).below(self.below);
        let mut found = vec![None; rules.len()];
        let mut wanted: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for (at, (key, _)) in rules.iter().enumerate() {
            wanted.entry(key).or_default().push(at);
        }
        let number = rules.first().map_or(0, |(_, terms)| terms.list);
        // Of the zones of a name, the last one counts there.
        let is_last =
            |terms: &Terms| self.format == Format::Unbound && terms.scope == Scope::WithBelow;
        list.each_rule(number, &Action::Nxdomain, |rule| {
            for at in wanted.get(&rule.key[..]).into_iter().flatten() {
                let (_, terms) = rules[*at];
                let is_free = found[*at].is_none() || is_last(terms);
                if is_free && rule.terms.is_same_place(terms) {
                    found[*at] = Some(rule.line);
                }
            }
        })?;
        Ok(found)
    }
}

/// What a map knows of its lists.
///
/// ```
/// use sapwood_lists::{Loader, Meta, Options, Source};
///
/// let lists = vec![Source::text("a", "x.example\n"), Source::text("b", "0.0.0.0 x.example\n")];
/// let (map, _) = Loader::new(lists, Options::default()).build()?;
/// let meta = Meta::of(map.entries())?;
/// assert_eq!(meta.lists()[1].name, "b");
/// assert_eq!(meta.tiers(), [0, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    lists: Vec<ListInfo>,
    tiers: Vec<u16>,
}

/// The version of the entry's bytes.
const VERSION: u8 = 1;

impl Meta {
    /// Of these lists, in their order.
    ///
    /// O(lists).
    pub fn new(lists: Vec<ListInfo>) -> Self {
        let tiers = tiers(lists.iter().map(|list| list.format));
        Meta { lists, tiers }
    }

    /// The lists, by their numbers.
    ///
    /// O(1).
    pub fn lists(&self) -> &[ListInfo] {
        &self.lists
    }

    /// The tier of each list. Ordinary rules of a lesser tier win over those of greater ones. Each
    /// zone of response policies is a tier, and so are the other lists between two of them.
    ///
    /// O(1).
    pub fn tiers(&self) -> &[u16] {
        &self.tiers
    }

    /// Reads it from a map of rules.
    ///
    /// O(lists).
    ///
    /// # Errors
    /// [`NotRules`]: it is another kind of map.
    pub fn of(map: &dyn OrderedRead<[u8]>) -> Result<Self, NotRules> {
        let value = map.get(META_KEY).ok_or(NotRules)?;
        Self::read(value).ok_or(NotRules)
    }

    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let mut rest = value.strip_prefix(&[VERSION])?;
        let mut lists = Vec::new();
        while !rest.is_empty() {
            let (head, behind) = rest.split_at_checked(2 + 5 * 8 + 4)?;
            let format = Format::ALL.get(usize::from(head[0]))?;
            let number = |n: usize| -> Option<u64> {
                let bytes = head.get(2 + 8 * n..10 + 8 * n)?;
                Some(u64::from_le_bytes(bytes.try_into().ok()?))
            };
            let len = u32::from_le_bytes(head.get(42..)?.try_into().ok()?);
            let (name, behind) = behind.split_at_checked(usize::try_from(len).ok()?)?;
            lists.push(ListInfo {
                name: String::from_utf8(name.to_vec()).ok()?,
                format: *format,
                exceptions: head[1] & 1 != 0,
                below: head[1] & 2 != 0,
                lines: number(0)?,
                rules: number(1)?,
                kept: number(2)?,
                left_out: number(3)?,
                refused: number(4)?,
            });
            rest = behind;
        }
        Some(Meta::new(lists))
    }

    /// The bytes of the entry.
    pub(crate) fn value(&self) -> Vec<u8> {
        let mut value = vec![VERSION];
        for list in &self.lists {
            value.push(list.format as u8);
            value.push(u8::from(list.exceptions) | u8::from(list.below) << 1);
            for number in [
                list.lines,
                list.rules,
                list.kept,
                list.left_out,
                list.refused,
            ] {
                value.extend(number.to_le_bytes());
            }
            value.extend((list.name.len() as u32).to_le_bytes());
            value.extend(list.name.as_bytes());
        }
        value
    }
}

/// The tier of each list of these formats.
pub fn tiers(formats: impl IntoIterator<Item = Format>) -> Vec<u16> {
    let (mut tier, mut last) = (0, None);
    let next = |format: Format| {
        let is_zone = format == Format::Rpz;
        if last.is_some_and(|last| last || is_zone) {
            tier += 1;
        }
        last = Some(is_zone);
        tier
    };
    formats.into_iter().map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_a_tier_each_and_other_lists_share_one() {
        use Format::*;
        assert_eq!(
            tiers([Rpz, Hosts, AdBlock, Rpz, Rpz, Plain]),
            [0, 1, 1, 2, 3, 4]
        );
        assert_eq!(tiers([Plain, Plain]), [0, 0]);
        assert_eq!(tiers([]), [0; 0]);
    }

    #[test]
    fn what_was_written_is_read_and_damage_is_refused() {
        let list = |name: &str, format| ListInfo {
            name: name.into(),
            format,
            exceptions: format == Format::Hosts,
            below: format == Format::Plain,
            lines: 1,
            rules: u64::MAX,
            kept: 3,
            left_out: 4,
            refused: 5,
        };
        let lists = Format::ALL
            .map(|format| list("b\u{fc}cher", format))
            .to_vec();
        let meta = Meta::new(lists);
        let value = meta.value();
        assert_eq!(Meta::read(&value).as_ref(), Some(&meta));
        assert_eq!(Meta::read(&[VERSION]), Some(Meta::default()));
        for len in 0..value.len() {
            let part = Meta::read(&value[..len]);
            assert!(
                part.is_none_or(|part| meta.lists.starts_with(&part.lists)),
                "{len}"
            );
        }
        let mut other = value.clone();
        other[1] = 200;
        assert_eq!(Meta::read(&other), None);
        other[0] = VERSION + 1;
        assert_eq!(Meta::read(&other), None);
    }
}
