//! The peers in Rust: a file for each, which implements what each suite asks of it. Those in other
//! languages, which need bindings, are in `native`, `urcu` and `dpdk` beside the suites' engines.

pub mod arcswap;
pub mod blart;
pub mod blaze;
pub mod btree;
pub mod dashmap;
pub mod evicting;
pub mod ip_network_table;
pub mod iptrie;
pub mod left_right;
pub mod masstree;
pub mod nodit;
pub mod owned;
pub mod papaya;
pub mod prefix_trie;
pub mod rangemap;
pub mod rwlock;
pub mod scc;
pub mod skiplist;
pub mod treebitmap;
