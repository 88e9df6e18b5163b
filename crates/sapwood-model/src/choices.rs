//! [`Choices`]: the decisions of a test.

/// Where a test takes its decisions from: a seed, or a fuzzer's bytes.
///
/// ```
/// use sapwood_model::choices::Choices;
///
/// let mut rng = fastrand::Rng::with_seed(7);
/// assert!(rng.below(10) < 10);
/// ```
pub trait Choices {
    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize;

    /// Whether there is more to draw from. A seed never ends.
    fn more(&self) -> bool {
        true
    }

    /// One of two.
    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    /// One of these.
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

impl Choices for fastrand::Rng {
    fn below(&mut self, n: usize) -> usize {
        self.usize(..n)
    }
}
