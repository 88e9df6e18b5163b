//! liburcu, where `liburcu-dev` and a C compiler are installed. Readers read snapshots of Sapwood's
//! trie in its read-side critical sections.

mod raw;

use std::sync::OnceLock;

use super::published::{Protection, Published, Version};
use crate::shim::{Link, Recipe};
use raw::{Functions, Pointer, Thread};

/// A flavour of liburcu, which determines how it tracks readers.
pub trait Flavour: Send + Sync + 'static {
    /// See [`Protection::NAME`].
    const NAME: &'static str;
    /// See [`Protection::NOTE`].
    const NOTE: &'static str;
    /// How to build the shim.
    const RECIPE: Recipe;
    /// The flavour's number among all flavours.
    const NUMBER: usize;
    /// The shim, or why there is none; determined once.
    fn shim() -> &'static OnceLock<Result<Functions, String>>;
}

/// The number of flavours.
const FLAVOURS: usize = 2;

/// Readers count themselves in and out; the thread that frees asks the kernel for their barriers.
pub struct Memb;

impl Flavour for Memb {
    const NAME: &'static str = "urcu-qp";
    const NOTE: &'static str = "QpStore, compacted as sapwood is; each commit publishes a snapshot \
         and frees the one before by call_rcu of liburcu-memb, each read transaction is a section \
         of it, entered through a shim";
    const RECIPE: Recipe = Recipe {
        library: "liburcu",
        link: Link::PkgConfig("liburcu-memb"),
        compiler: "cc",
        file: "shim.c",
        source: concat!(
            "#define FLAVOUR <urcu/urcu-memb.h>\n",
            include_str!("shim.c")
        ),
        arguments: [&[], &[]],
    };
    const NUMBER: usize = 0;

    fn shim() -> &'static OnceLock<Result<Functions, String>> {
        static SHIM: OnceLock<Result<Functions, String>> = OnceLock::new();
        &SHIM
    }
}

/// Readers report quiescent states, as Sapwood's do.
pub struct Qsbr;

impl Flavour for Qsbr {
    const NAME: &'static str = "urcu-qsbr-qp";
    const NOTE: &'static str = "the same with liburcu-qsbr; readers report a quiescent state after \
         each loop, as Sapwood's do, and the writer after each commit";
    const RECIPE: Recipe = Recipe {
        library: "liburcu",
        link: Link::PkgConfig("liburcu-qsbr"),
        compiler: "cc",
        file: "shim.c",
        source: concat!(
            "#define FLAVOUR <urcu/urcu-qsbr.h>\n",
            include_str!("shim.c")
        ),
        arguments: [&[], &[]],
    };
    const NUMBER: usize = 1;

    fn shim() -> &'static OnceLock<Result<Functions, String>> {
        static SHIM: OnceLock<Result<Functions, String>> = OnceLock::new();
        &SHIM
    }
}

/// `QpStore` with readers that a flavour of liburcu protects.
pub type Urcu<F> = Published<Pointer<F, Version>>;

impl<F: Flavour> Protection for Pointer<F, Version> {
    const NAME: &'static str = F::NAME;
    const NOTE: &'static str = F::NOTE;
    type Thread = Thread<F>;

    fn available() -> Result<(), String> {
        raw::functions::<F>().map(drop)
    }

    fn new(first: Version) -> Self {
        Pointer::new(first)
    }

    fn thread(&self) -> Thread<F> {
        Thread::register()
    }

    fn read<R>(&self, thread: &Thread<F>, f: impl FnOnce(&Version) -> R) -> R {
        self.read(thread, f)
    }

    fn publish(&self, thread: &Thread<F>, next: Version) {
        self.replace(thread, next);
    }

    fn quiescent(thread: &mut Thread<F>) {
        thread.quiescent();
    }

    fn settle(&self) {
        self.barrier();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// A value that counts how many of its kind are alive.
    struct Counted(Arc<AtomicUsize>, u64);

    impl Counted {
        fn new(there: &Arc<AtomicUsize>, number: u64) -> Self {
            there.fetch_add(1, Relaxed);
            Self(Arc::clone(there), number)
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }

    fn frees_what_nobody_reads<F: Flavour>() {
        if let Err(reason) = raw::functions::<F>() {
            println!("without {}: {reason}", F::NAME);
            return;
        }
        let there = Arc::new(AtomicUsize::new(0));
        let pointer = Pointer::<F, _>::new(Counted::new(&there, 0));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut thread = Thread::register();
                    let mut last = 0;
                    while !stop.load(Relaxed) {
                        for _ in 0..100 {
                            let seen = pointer.read(&thread, |counted| {
                                assert!(counted.0.load(Relaxed) > 0);
                                counted.1
                            });
                            assert!(seen >= last, "{}: {seen} after {last}", F::NAME);
                            last = seen;
                        }
                        thread.quiescent();
                    }
                });
            }
            let mut thread = Thread::register();
            for number in 1..=2_000 {
                pointer.replace(&thread, Counted::new(&there, number));
                thread.quiescent();
            }
            stop.store(true, Relaxed);
            drop(thread);
            pointer.barrier();
            assert_eq!(there.load(Relaxed), 1, "{}", F::NAME);
        });
        drop(pointer);
        assert_eq!(there.load(Relaxed), 0, "{}", F::NAME);
    }

    #[test]
    fn memb_frees_what_nobody_reads() {
        frees_what_nobody_reads::<Memb>();
    }

    #[test]
    fn qsbr_frees_what_nobody_reads() {
        frees_what_nobody_reads::<Qsbr>();
    }

    #[test]
    #[should_panic(expected = "registered once")]
    fn a_thread_is_registered_once() {
        if raw::functions::<Memb>().is_err() {
            panic!("registered once, if liburcu were here");
        }
        let _one = Thread::<Memb>::register();
        let _two = Thread::<Memb>::register();
    }
}
