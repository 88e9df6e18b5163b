//! What programs count on each CPU.

use libbpf_rs::{MapCore, MapFlags};

use crate::error::Error;

/// The first so many numbers of a per-CPU array of `u64`s, each summed over all CPUs.
pub(crate) fn sums<const N: usize>(map: &impl MapCore) -> Result<[u64; N], Error> {
    let mut sums = [0; N];
    for (number, sum) in (0u32..).zip(&mut sums) {
        let words = map
            .lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| Error::system("reading counts", error))?;
        for word in words.unwrap_or_default() {
            *sum += word
                .try_into()
                .map(u64::from_ne_bytes)
                .map_err(|_| Error::Damaged("a count that is no u64".into()))?;
        }
    }
    Ok(sums)
}
