//! The counters of programs, which are kept per CPU.

use libbpf_rs::{MapCore, MapFlags};

use crate::error::Error;

/// Adds the numbers of a per-CPU array of `u64`s, each summed over all CPUs, to `sums`.
///
/// # Errors
/// The system's error; [`Error::Damaged`] when the map's values are no `u64`s.
pub fn add_counts(map: &impl MapCore, sums: &mut [u64]) -> Result<(), Error> {
    for (number, sum) in (0u32..).zip(sums) {
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{ProgramMapShape, Serviced};

    #[test]
    fn reports_are_readable() {
        let served = Serviced {
            fetched: 3,
            starved: true,
            ..Serviced::default()
        };
        let said = "3 blocks fetched, 0 freed, 0 given; no memory for more";
        assert_eq!(served.to_string(), said);

        let shape = ProgramMapShape {
            entries: 5,
            ..ProgramMapShape::default()
        };
        assert!(shape.to_string().starts_with("entries "), "{shape}");
    }
}
