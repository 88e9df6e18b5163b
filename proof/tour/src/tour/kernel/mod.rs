//! Chapter: maps that programs inside the kernel read.

#[cfg(feature = "bpf")]
mod inside;

use serde_json::{Value, json};

use super::{Chapter, Tour};
use crate::errors::Error;

/// The chapter on maps inside the kernel, for kernels that have BPF arenas.
pub struct Kernel;

impl Chapter for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn title(&self) -> &'static str {
        "In the kernel"
    }

    #[cfg(feature = "bpf")]
    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        match sapwood_bpf::check() {
            Ok(()) => inside::run(tour),
            Err(why) => left_out(tour, &why.to_string()),
        }
    }

    #[cfg(not(feature = "bpf"))]
    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        left_out(
            tour,
            "this program was built without the feature `bpf`; \
             as root, `make tour` builds and runs it with the feature",
        )
    }
}

fn left_out(tour: &Tour, why: &str) -> Result<Value, Error> {
    tour.say(format!("(left out: {why})"))?;
    Ok(json!({ "skipped": why }))
}
