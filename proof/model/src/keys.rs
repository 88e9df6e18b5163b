//! Seeded generators of awkward keys, and a pool that repeats them.

use fastrand::Rng;

/// The length of the longest key of a Sapwood map, in bytes.
pub const MAX_KEY: usize = 65_535;

/// A family of awkward keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 0 to 6 bytes of `{0, 1, 2}`: nearly all keys share prefixes, and most keys repeat.
    Tiny,
    /// Prefixes of a few strings full of zeros, the empty key among them: keys that end where
    /// others have a zero byte.
    Nested,
    /// Any first byte, and few bytes after it: nodes that grow to 256 children and shrink.
    Wide,
    /// Lengths up to [`MAX_KEY`], many of them near 255, 256 and [`MAX_KEY`], with long common
    /// prefixes.
    Long,
    /// Names of words, digits and separators, like symbols, paths and domains.
    Text,
    /// 1 to 40 random bytes.
    Binary,
}

impl Shape {
    /// All shapes.
    pub const ALL: [Shape; 6] = [
        Shape::Tiny,
        Shape::Nested,
        Shape::Wide,
        Shape::Long,
        Shape::Text,
        Shape::Binary,
    ];

    /// The shapes whose keys have less than 100 bytes.
    pub const SHORT: [Shape; 5] = [
        Shape::Tiny,
        Shape::Nested,
        Shape::Wide,
        Shape::Text,
        Shape::Binary,
    ];

    /// A key of this shape.
    #[must_use]
    pub fn key(self, rng: &mut Rng) -> Vec<u8> {
        match self {
            Shape::Tiny => (0..rng.usize(..=6)).map(|_| rng.u8(..3)).collect(),
            Shape::Nested => nested(rng),
            Shape::Wide => wide(rng),
            Shape::Long => long(rng),
            Shape::Text => text(rng),
            Shape::Binary => (0..rng.usize(1..=40)).map(|_| rng.u8(..)).collect(),
        }
    }
}

fn nested(rng: &mut Rng) -> Vec<u8> {
    const STEMS: [&[u8]; 4] = [
        &[0; 24],
        &[0, 0, 1, 0, 0, 0, 2, 0, 255, 0, 0, 1],
        &[255; 24],
        b"a\0\0b\0a\0\0\0b\x01a\xffb",
    ];
    let stem = STEMS[rng.usize(..STEMS.len())];
    stem[..rng.usize(..=stem.len())].to_vec()
}

fn wide(rng: &mut Rng) -> Vec<u8> {
    let mut key = vec![rng.u8(..)];
    // Half of the keys begin with any byte, so the root has many children. The others do so one
    // level below `x`.
    match rng.u8(..4) {
        0 => key.push(rng.u8(..4)),
        1 => key.insert(0, b'x'),
        _ => {}
    }
    key
}

fn long(rng: &mut Rng) -> Vec<u8> {
    let length = match rng.u8(..8) {
        0 => MAX_KEY - rng.usize(..2),
        1 => 254 + rng.usize(..4),
        // Evenly over the powers of two, so that short keys are as frequent as long ones.
        _ => (1_usize << rng.u32(..16)) + rng.usize(..8),
    };
    // Four stems with the same first 4 KiB. After that no period of 64 bytes repeats.
    let stem = rng.u8(..4);
    let mut key: Vec<u8> = (0..length.min(MAX_KEY))
        .map(|at| {
            if at < 4096 {
                (at % 64) as u8
            } else {
                (at / 64) as u8 ^ (at as u8) ^ stem
            }
        })
        .collect();
    if rng.bool() {
        let at = key.len() - 1 - rng.usize(..key.len().min(3));
        key[at] = rng.u8(..);
    }
    key
}

fn text(rng: &mut Rng) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "net", "dev", "get", "set", "init", "usr", "lib", "share", "doc", "com", "example", "www",
        "mail", "x86", "tcp", "alloc",
    ];
    let separator = b"_/.-"[rng.usize(..4)];
    let mut key = Vec::new();
    for component in 0..rng.usize(1..=6) {
        if component > 0 {
            key.push(separator);
        }
        key.extend_from_slice(WORDS[rng.usize(..WORDS.len())].as_bytes());
        if rng.u8(..4) == 0 {
            key.extend_from_slice(rng.u16(..300).to_string().as_bytes());
        }
    }
    key
}

/// A key that differs little from `key`: one byte is changed, added or dropped, or the end is cut.
#[must_use]
pub fn near(key: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut near = key.to_vec();
    match rng.u8(..4) {
        0 if near.len() < MAX_KEY => near.push([0, 1, 255, b'a'][rng.usize(..4)]),
        1 => drop(near.pop()),
        2 => near.truncate(rng.usize(..=key.len())),
        _ if !near.is_empty() => {
            let at = rng.usize(..near.len());
            near[at] = near[at].wrapping_add([1, 255, 128][rng.usize(..3)]);
        }
        _ => {}
    }
    near
}

/// An endless source of keys that often repeat.
///
/// Of sixteen keys, thirteen are from the pool, two are [`near`] a key of the pool, and one is new
/// and replaces a key of the pool.
///
/// ```
/// use sapwood_model::keys::KeyPool;
///
/// let keys: Vec<_> = KeyPool::new(1, 100).take(1000).collect();
/// let again: Vec<_> = KeyPool::new(1, 100).take(1000).collect();
/// assert_eq!(keys, again);
/// ```
#[derive(Clone, Debug)]
pub struct KeyPool {
    rng: Rng,
    shapes: Vec<Shape>,
    pool: Vec<Vec<u8>>,
}

impl KeyPool {
    /// A pool of `size` keys of all shapes; one in 32 is [`Shape::Long`].
    #[must_use]
    pub fn new(seed: u64, size: usize) -> Self {
        let mut shapes = vec![Shape::Long];
        shapes.extend(Shape::SHORT.iter().cycle().take(31));
        Self::with_shapes(seed, size, &shapes)
    }

    /// A pool of `size` keys whose shapes are drawn evenly from `shapes`. A shape that is named
    /// twice is drawn twice as often.
    ///
    /// # Panics
    ///
    /// If `size` is 0 or `shapes` is empty.
    #[must_use]
    pub fn with_shapes(seed: u64, size: usize, shapes: &[Shape]) -> Self {
        assert!(
            size > 0 && !shapes.is_empty(),
            "a pool has a size and shapes"
        );
        let mut rng = Rng::with_seed(seed);
        let pool = (0..size)
            .map(|_| shapes[rng.usize(..shapes.len())].key(&mut rng))
            .collect();
        Self {
            rng,
            shapes: shapes.to_vec(),
            pool,
        }
    }

    /// The next key.
    pub fn key(&mut self) -> Vec<u8> {
        let at = self.rng.usize(..self.pool.len());
        match self.rng.u8(..16) {
            0 => {
                let shape = self.shapes[self.rng.usize(..self.shapes.len())];
                self.pool[at] = shape.key(&mut self.rng);
                self.pool[at].clone()
            }
            1 | 2 => near(&self.pool[at], &mut self.rng),
            _ => self.pool[at].clone(),
        }
    }

    /// The generator that draws the keys, for other choices of the caller.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

impl Iterator for KeyPool {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        Some(self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_shape_keeps_its_promise() {
        let mut rng = Rng::with_seed(3);
        let mut draw =
            |shape: Shape| -> Vec<_> { (0..2000).map(|_| shape.key(&mut rng)).collect() };
        assert!(
            draw(Shape::Tiny)
                .iter()
                .all(|key| key.len() <= 6 && key.iter().all(|b| *b < 3))
        );
        assert!(draw(Shape::Nested).contains(&Vec::new()));
        let first: HashSet<_> = draw(Shape::Wide).iter().map(|key| key[0]).collect();
        assert!(first.len() > 250);
        let lengths: HashSet<_> = draw(Shape::Long).iter().map(Vec::len).collect();
        for length in [254, 255, 256, 257, MAX_KEY - 1, MAX_KEY] {
            assert!(lengths.contains(&length), "no key of {length} bytes");
        }
        assert!(draw(Shape::Text).iter().all(|key| key.is_ascii()));
        assert!(
            draw(Shape::Binary)
                .iter()
                .all(|key| (1..=40).contains(&key.len()))
        );
    }

    #[test]
    fn pooled_keys_repeat_and_fit() {
        let keys: Vec<_> = KeyPool::new(5, 200).take(5000).collect();
        assert!(keys.iter().all(|key| key.len() <= MAX_KEY));
        let distinct: HashSet<_> = keys.iter().collect();
        assert!(
            (200..2500).contains(&distinct.len()),
            "{} distinct",
            distinct.len()
        );
    }
}
