//! Tests with threads whose interleaving shuttle chooses, in one program. They are separate from
//! the other tests because they need the library compiled for shuttle: `RUSTFLAGS="--cfg shuttle"
//! cargo test -p sapwood --test shuttle --release`. `SHUTTLE_RUNS` makes them longer. Each check
//! prints the number of schedules that it ran.
#![cfg(shuttle)]

mod lpm;
mod maple;
mod route;
mod shared;
mod store;

#[allow(dead_code)] // Each program uses only a part of it.
#[path = "../support"]
mod support {
    pub mod lpm;
    pub mod progress;
    pub mod ranges;
    pub mod ranges_script;
    pub mod script;
    pub mod steps;
    pub mod values;
}

/// The number of schedules that a check runs: `n`, or `SHUTTLE_RUNS` if that is more.
fn runs(n: usize) -> usize {
    std::env::var("SHUTTLE_RUNS").map_or(n, |runs| n.max(runs.parse().expect("a number")))
}

/// Runs the test under random schedules.
fn check_random(test: impl Fn() + Send + Sync + 'static, schedules: usize) {
    shuttle::check_random(test, schedules);
    println!("{schedules} schedules");
}

/// Runs the test under schedules with `depth` changes of priority.
fn check_pct(test: impl Fn() + Send + Sync + 'static, schedules: usize, depth: usize) {
    shuttle::check_pct(test, schedules, depth);
    println!("{schedules} schedules");
}
