//! Name servers that have lists: Unbound, BIND and dnsmasq, and a server behind them.

pub mod dns;
pub mod servers;
