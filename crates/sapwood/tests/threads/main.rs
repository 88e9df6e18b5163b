//! The tests of the library with threads, and of what is kept for readers: those that the thread
//! sanitizer runs. They are apart from `tests/all` because it has to compile everything anew for
//! them.

mod examples;
mod garbage;
mod hard_limit;
mod histories;
mod lpm_threads;
mod maple_threads;
mod route_table;
mod route_threads;
mod shared_threads;
mod threads;
mod tokio;
mod versions;

#[allow(dead_code)] // Each program uses its part.
#[path = "../support"]
mod support {
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
