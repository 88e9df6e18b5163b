//! Longest-prefix match over IPv4, IPv6 and any bit string.

pub use ipnet;
