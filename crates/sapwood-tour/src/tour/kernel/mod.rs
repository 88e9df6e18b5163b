//! Chapter: the same memory inside the kernel.

#[cfg(feature = "bpf")]
mod inside;

use serde_json::{Value, json};

use super::{Chapter, Tour};
use crate::errors::Error;

/// Maps that programs in the kernel read, where the kernel can have them.
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
            "this program was built without the feature `bpf`; `make tour` builds it with it, as root",
        )
    }
}

fn left_out(tour: &Tour, why: &str) -> Result<Value, Error> {
    tour.say(format!("(left out: {why})"))?;
    Ok(json!({ "skipped": why }))
}
