//! The lengths of tests.

/// Fewer steps where each takes long: under Miri, and where `SAPWOOD_OPS` asks for few, as under
/// sanitizers.
pub fn steps(n: usize) -> usize {
    let few =
        std::env::var("SAPWOOD_OPS").is_ok_and(|ops| ops.parse().is_ok_and(|n: u64| n < 100_000));
    match (cfg!(miri), few) {
        (true, _) => n / 100,
        (false, true) => n / 8,
        (false, false) => n,
    }
}

/// The number of recorded histories: `n`, or `SAPWOOD_ROUNDS`.
pub fn rounds(n: usize) -> usize {
    std::env::var("SAPWOOD_ROUNDS").map_or(n, |rounds| rounds.parse().expect("a number"))
}
