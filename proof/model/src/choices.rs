//! [`Choices`]: the decisions of a test.

/// A source of decisions for a test: a seed, or a fuzzer's bytes.
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

    /// Whether the source can give more decisions. A seed never ends.
    fn more(&self) -> bool {
        true
    }

    /// True or false.
    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    /// One of these values.
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

impl Choices for fastrand::Rng {
    fn below(&mut self, n: usize) -> usize {
        self.usize(..n)
    }
}
