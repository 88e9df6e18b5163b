//! Block lists and response policies: readers of their formats, and one ordered map of the rules of
//! all lists, which other processes read while it changes.
//!
//! A [`Loader`] reads lists line by line and makes a map, or changes a live one by the difference,
//! in one commit. [`verdict`] finds which rule of which list answers a question. `docs/lists.md`
//! has the formats and the order of rules. The module [`names`] reads domain names as lists have
//! them.
//!
//! ```
//! use sapwood_lists::{Action, Loader, Options, Source};
//!
//! let ads = Source::text("ads", "||ads.example^\n||shop.example^$dnstype=AAAA\n");
//! let mine = Source::text("mine", "good.ads.example\n").exceptions(true).below(true);
//! let (map, summary) = Loader::new(vec![ads, mine], Options::default()).build()?;
//! assert_eq!(summary.meta.lists()[0].format.word(), "adblock");
//! let (a, aaaa) = (1, 28);
//! let blocked = map.verdict("www.ads.example".as_ref(), a)?.expect("it is below a rule");
//! assert_eq!((blocked.name(), blocked.terms.action), ("ads.example".into(), Action::Nxdomain));
//! let good = map.verdict("x.good.ads.example".as_ref(), a)?.expect("two rules apply");
//! assert_eq!((good.terms.action, good.terms.list), (Action::Pass, 1));
//! assert!(map.verdict("shop.example".as_ref(), a)?.is_none());
//! assert!(map.verdict("shop.example".as_ref(), aaaa)?.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod additions;
mod answer;
mod closest;
mod error;
mod fingerprints;
mod format;
mod load;
mod loading;
mod looks;
mod map;
mod marks;
mod meta;
pub mod names;
mod pending;
mod read;
mod records;
mod reduce;
mod rule;
mod source;
pub mod transfer;
mod value;
mod verdict;

pub use answer::Answer;
pub use closest::{ClosestEntry, Fate, closest_entries};
pub use error::{ListError, MAX_CANCELS, MAX_LISTS};
pub use fingerprints::{FINGERPRINTS_MAGIC, Fingerprints, FingerprintsError, MAX_VALUES};
pub use format::Format;
pub use load::{Event, Loader, Options, Summary};
pub use map::{ListMap, OpenListError, check, open, rule_entries};
pub use meta::{ListInfo, META_KEY, Meta};
pub use read::{Counts, LeftOut, MAX_LINE};
pub use records::rtype as record_type;
pub use rule::{Action, Class, Record, Rule, Scope, Terms, Types};
pub use source::Source;
pub use value::{NotRules, terms as rules_of};
pub use verdict::{Reason, Verdict, verdict};

/// The README, so that its example is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
