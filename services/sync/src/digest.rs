//! The digest of a map's contents, which a change changes in constant time.

/// The digest of a map: the sum, modulo 2¹²⁸, of a hash of each entry.
///
/// So it does not depend on the order or the history of the changes. The hash is the first half of
/// BLAKE3. The digest finds faults of programs, disks and networks. It does not hold against
/// someone who chooses entries so that sums collide: who may write the log is for its service to
/// decide.
///
/// ```
/// use sapwood_sync::Digest;
///
/// let mut digest = Digest::default();
/// digest.add(b"a", b"1");
/// digest.add(b"b", b"2");
/// digest.remove(b"a", b"1");
/// let mut other = Digest::default();
/// other.add(b"b", b"2");
/// assert_eq!(digest, other);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest(pub u128);

impl Digest {
    /// Adds an entry that the map did not have.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_add(hash(key, value));
    }

    /// Removes an entry that the map had.
    pub fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_sub(hash(key, value));
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The hash of an entry.
fn hash(key: &[u8], value: &[u8]) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(value);
    let whole = hasher.finalize();
    u128::from_le_bytes(*whole.as_bytes().first_chunk().expect("32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_border_between_key_and_value_counts() {
        assert_ne!(hash(b"ab", b"c"), hash(b"a", b"bc"));
        assert_ne!(hash(b"", b"abc"), hash(b"abc", b""));
        // A fixed value: machines of all kinds and versions must agree.
        let mut digest = Digest::default();
        digest.add(b"example.org", b"192.0.2.1");
        assert_eq!(digest.to_string(), "1e4e0c080d258857a8be45381a516b7b");
    }
}
