//! [`BitPrefixes`]: a naive table of prefixes of bit strings.

/// A naive table of prefixes of bit strings. Each query looks at all prefixes. A bit string is a
/// slice of `bool`s, first bit first.
///
/// ```
/// use sapwood_model::oracle::BitPrefixes;
///
/// let mut table = BitPrefixes::new();
/// table.insert(&[true], 'a');
/// table.insert(&[true, false], 'b');
/// assert_eq!(table.lookup(&[true, false, true]), Some((2, &'b')));
/// assert_eq!(table.lookup(&[false]), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BitPrefixes<V> {
    entries: Vec<(Vec<bool>, V)>,
}

impl<V> BitPrefixes<V> {
    /// The empty table.
    #[must_use]
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// The number of prefixes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no prefixes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Stores a value at a prefix; returns the value before.
    pub fn insert(&mut self, prefix: &[bool], value: V) -> Option<V> {
        let old = self.remove(prefix);
        self.entries.push((prefix.to_vec(), value));
        old
    }

    /// Removes a prefix; returns its value.
    pub fn remove(&mut self, prefix: &[bool]) -> Option<V> {
        let at = self.entries.iter().position(|(p, _)| p == prefix)?;
        Some(self.entries.swap_remove(at).1)
    }

    /// The value at exactly this prefix.
    #[must_use]
    pub fn get(&self, prefix: &[bool]) -> Option<&V> {
        self.entries
            .iter()
            .find_map(|(p, v)| (p == prefix).then_some(v))
    }

    /// The longest stored prefix of `bits`: its length and its value.
    #[must_use]
    pub fn lookup(&self, bits: &[bool]) -> Option<(usize, &V)> {
        self.matches(bits).pop()
    }

    /// All stored prefixes of `bits`, shortest first: their lengths and values.
    #[must_use]
    pub fn matches(&self, bits: &[bool]) -> Vec<(usize, &V)> {
        let mut found: Vec<_> = self
            .entries
            .iter()
            .filter(|(prefix, _)| bits.starts_with(prefix))
            .map(|(prefix, value)| (prefix.len(), value))
            .collect();
        found.sort_by_key(|(len, _)| *len);
        found
    }

    /// The stored prefixes that start with `prefix`, in order.
    #[must_use]
    pub fn covered_by(&self, prefix: &[bool]) -> Vec<(&[bool], &V)> {
        let mut found: Vec<_> = self
            .entries
            .iter()
            .filter(|(p, _)| p.starts_with(prefix))
            .map(|(p, v)| (&p[..], v))
            .collect();
        found.sort_by_key(|(p, _)| *p);
        found
    }

    /// The stored prefixes that `prefix` covers, without itself and without those that another of
    /// them covers. In order.
    #[must_use]
    pub fn children(&self, prefix: &[bool]) -> Vec<(&[bool], &V)> {
        let mut inside = self.covered_by(prefix);
        inside.retain(|(p, _)| p.len() > prefix.len());
        let all = inside.clone();
        inside.retain(|(p, _)| !all.iter().any(|(q, _)| p != q && p.starts_with(q)));
        inside
    }

    /// All prefixes in order: a prefix before what it covers, 0 before 1.
    #[must_use]
    pub fn iter(&self) -> Vec<(&[bool], &V)> {
        self.covered_by(&[])
    }
}
