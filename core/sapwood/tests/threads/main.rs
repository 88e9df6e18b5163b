//! The library's tests with threads, and of memory that is kept for readers: the thread sanitizer
//! runs these. They are separate from `tests/all` because the sanitizer needs everything compiled
//! anew.

mod examples;
mod garbage;
mod hard_limit;
mod histories;
mod lpm_threads;
mod maple_published;
mod maple_threads;
mod maple_txns;
mod route_table;
mod route_threads;
mod shared_threads;
mod single_flight;
mod threads;
mod tokio;
mod versions;

#[allow(dead_code)] // Each program uses only a part of it.
#[path = "../support"]
mod support {
    #[cfg(all(unix, not(miri)))]
    #[path = "raw/attached.rs"]
    pub mod attached;
    #[cfg(all(unix, not(miri)))]
    pub mod folder;
    pub mod lpm;
    pub mod progress;
    pub mod ranges;
    pub mod ranges_script;
    pub mod route_table;
    pub mod script;
    pub mod shared;
    pub mod steps;
    pub mod values;
}
