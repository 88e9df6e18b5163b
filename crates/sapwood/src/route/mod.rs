//! Next-hop choice: groups by flow hash, and a bounded, expiring route cache.
