//! Detects reads behind the end of a mapped file.
//!
//! The last page of a mapping continues behind the end of its file. A read there is no fault, and
//! the address sanitizer does not know of the end. A fence tells the sanitizer that those bytes are
//! out of bounds.

#[cfg(sanitize = "address")]
#[allow(unsafe_code)]
mod asan {
    use std::ffi::c_void;
    use std::fs;
    use std::path::Path;

    unsafe extern "C" {
        fn __asan_poison_memory_region(from: *const c_void, bytes: usize);
        fn __asan_unpoison_memory_region(from: *const c_void, bytes: usize);
    }

    /// The bytes behind the ends of all mappings of a file, forbidden while the fence exists.
    pub struct Fence(Vec<(usize, usize)>);

    impl Fence {
        /// Finds the mappings by the file's name, which must be unique, and its length.
        pub fn behind(path: &Path, len: usize) -> Fence {
            let name = path.to_str().expect("a plain name");
            let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
            let tails = maps.lines().filter(|line| line.ends_with(name));
            let tails = tails.filter_map(|line| {
                let (from, to) = line.split_whitespace().next()?.split_once('-')?;
                let from = usize::from_str_radix(from, 16).ok()?;
                let to = usize::from_str_radix(to, 16).ok()?;
                (from + len < to).then(|| (from + len, to - from - len))
            });
            let tails: Vec<_> = tails.collect();
            for &(from, bytes) in &tails {
                // SAFETY: the call marks addresses in the sanitizer's shadow memory. They belong to
                // a mapping that outlives the fence.
                unsafe { __asan_poison_memory_region(from as *const c_void, bytes) };
            }
            Fence(tails)
        }

        /// The number of mappings that end in a fence.
        pub fn count(&self) -> usize {
            self.0.len()
        }
    }

    impl Drop for Fence {
        fn drop(&mut self) {
            for &(from, bytes) in &self.0 {
                // SAFETY: as in `behind`.
                unsafe { __asan_unpoison_memory_region(from as *const c_void, bytes) };
            }
        }
    }
}

#[cfg(sanitize = "address")]
pub use asan::Fence;

/// The replacement without the sanitizer: it forbids nothing.
#[cfg(not(sanitize = "address"))]
pub struct Fence;

#[cfg(not(sanitize = "address"))]
impl Fence {
    /// Does nothing.
    pub fn behind(_: &std::path::Path, _: usize) -> Fence {
        Fence
    }

    /// Always 0.
    pub fn count(&self) -> usize {
        0
    }
}
