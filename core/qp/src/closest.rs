//! The answer of a zone for one name.

use super::{ReadEntry, Value};
use core::fmt;

/// The result of `closest`: what a name server needs to answer for a name.
///
/// Names are keys whose labels each end with a separator, the topmost label first, as
/// [`dns_name`](sapwood_common::key::dns_name) makes them. The root is the empty key.
///
/// - *Closest encloser* (RFC 4592): the longest name at or above the asked name that exists. A name
///   exists if it has an entry, or if an entry lies below it.
/// - *Wildcard*: `*` below the closest encloser. It matters only when the asked name does not
///   exist.
/// - *Predecessor*: the entry before the name. In a zone without delegations, it is the owner of
///   the NSEC record that covers the name. [`Denial`] has the owner in all zones, and the rest of
///   what proves that a name is not there.
///
/// ```
/// use sapwood::key::dns_name;
/// use sapwood::qp::QpMap;
/// let mut zone = QpMap::new();
/// for name in ["org", "*.org", "a.b.org", "example.org", "www.example.org"] {
///     zone.insert(dns_name(name)?, name)?;
/// }
/// let name = dns_name("mail.c.org")?;
/// let found = zone.closest(&name, 0, |_, name| *name == "example.org");
/// assert!(found.exact.is_none() && found.cut.is_none());
/// assert_eq!(&name[..found.encloser], dns_name("org")?);
/// assert_eq!(found.wildcard.map(|(_, name)| *name), Some("*.org"));
/// assert_eq!(found.predecessor.map(|(_, name)| *name), Some("a.b.org"));
///
/// // `b.org` has no entry, but one lies below it: it exists, and no wildcard stands for it.
/// let name = dns_name("b.org")?;
/// let found = zone.closest(&name, 0, |_, _| false);
/// assert!(found.exists && found.exact.is_none() && found.wildcard.is_none());
///
/// let below = zone.closest(dns_name("www.example.org")?, 0, |_, name| *name == "example.org");
/// assert_eq!(below.cut.map(|(_, name)| *name), Some("example.org"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Closest<'a, V: ?Sized + Value> {
    /// The entry of the name itself.
    pub exact: Option<ReadEntry<'a, V>>,
    /// Whether the name exists: it has an entry, or an entry lies below it.
    pub exists: bool,
    /// The length of the closest encloser in bytes: it is that prefix of the name. It is 0, the
    /// root, when no other name at or above the name exists.
    pub encloser: usize,
    /// The entry of the longest name at or above the asked name that has an entry.
    pub ancestor: Option<ReadEntry<'a, V>>,
    /// The entry of the wildcard below the closest encloser; none when the name exists. A wildcard
    /// without an entry may exist by entries below it: see [`Denial::wildcard_exists`].
    pub wildcard: Option<ReadEntry<'a, V>>,
    /// The entry with the greatest key less than the name.
    pub predecessor: Option<ReadEntry<'a, V>>,
    /// The topmost entry at or above the name for which `is_cut` returned true.
    pub cut: Option<ReadEntry<'a, V>>,
}

impl<V: ?Sized + Value> Clone for Closest<'_, V> {
    fn clone(&self) -> Self {
        Closest {
            exact: self.exact.clone(),
            exists: self.exists,
            encloser: self.encloser,
            ancestor: self.ancestor.clone(),
            wildcard: self.wildcard.clone(),
            predecessor: self.predecessor.clone(),
            cut: self.cut.clone(),
        }
    }
}

impl<V: ?Sized + Value + fmt::Debug> fmt::Debug for Closest<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closest")
            .field("exact", &self.exact)
            .field("exists", &self.exists)
            .field("encloser", &self.encloser)
            .field("ancestor", &self.ancestor)
            .field("wildcard", &self.wildcard)
            .field("predecessor", &self.predecessor)
            .field("cut", &self.cut)
            .finish()
    }
}

/// The result of `denial`: what a name server of a signed zone needs to prove that a name is not
/// there, or has no such records. Its searches go beyond those of [`Closest`], which it holds.
///
/// A name is *below a cut* if `is_cut` returns true for an entry above it. Names below a delegation
/// point (glue, and what is hidden by it) own no NSEC records, so the predecessors here are the
/// greatest entries below no cut. As with `closest`, the caller says which entries are cuts: the
/// zone's own apex is none.
///
/// | the name | | NSEC records of |
/// |---|---|---|
/// | does not exist, nor does the wildcard | NXDOMAIN | `predecessor`, `wildcard_predecessor` |
/// | does not exist, the wildcard has an entry | the wildcard's records | `predecessor` |
/// | does not exist, the wildcard exists without an entry | NODATA | `predecessor`,
/// `wildcard_predecessor` |
/// | exists without an entry | NODATA | `predecessor` |
///
/// ```
/// use sapwood::key::dns_name;
/// use sapwood::qp::QpMap;
/// let mut zone = QpMap::new();
/// for name in ["example", "a.example", "f.*.e.example", "sub.example", "ns.sub.example"] {
///     zone.insert(dns_name(name)?, name)?;
/// }
/// let is_cut = |_: &[u8], name: &&str| *name == "sub.example";
///
/// // The entry before `t.example` is glue. The NSEC record of `sub.example` covers the name.
/// let found = zone.denial(dns_name("t.example")?, 0, is_cut);
/// assert_eq!(found.closest.predecessor.map(|(_, name)| *name), Some("ns.sub.example"));
/// assert_eq!(found.predecessor.map(|(_, name)| *name), Some("sub.example"));
/// // That of `example` shows that there is no `*.example`.
/// assert_eq!(found.wildcard_predecessor.map(|(_, name)| *name), Some("example"));
///
/// // `*.e.example` has no entry, but one below it: no records, but the name is not denied.
/// let found = zone.denial(dns_name("something.e.example")?, 0, is_cut);
/// assert!(found.wildcard_exists && found.closest.wildcard.is_none());
/// assert_eq!(found.wildcard_predecessor.map(|(_, name)| *name), Some("a.example"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Denial<'a, V: ?Sized + Value> {
    /// What `closest` returns for the name.
    pub closest: Closest<'a, V>,
    /// Whether the wildcard below the closest encloser exists: it has an entry, or an entry lies
    /// below it. False when the name exists.
    pub wildcard_exists: bool,
    /// The entry with the greatest key less than the name that is below no cut.
    pub predecessor: Option<ReadEntry<'a, V>>,
    /// The entry with the greatest key less than the wildcard that is below no cut; none when the
    /// name exists.
    pub wildcard_predecessor: Option<ReadEntry<'a, V>>,
}

impl<V: ?Sized + Value> Clone for Denial<'_, V> {
    fn clone(&self) -> Self {
        Denial {
            closest: self.closest.clone(),
            wildcard_exists: self.wildcard_exists,
            predecessor: self.predecessor.clone(),
            wildcard_predecessor: self.wildcard_predecessor.clone(),
        }
    }
}

impl<V: ?Sized + Value + fmt::Debug> fmt::Debug for Denial<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denial")
            .field("closest", &self.closest)
            .field("wildcard_exists", &self.wildcard_exists)
            .field("predecessor", &self.predecessor)
            .field("wildcard_predecessor", &self.wildcard_predecessor)
            .finish()
    }
}
