//! Routes as other programs write them. Each is recognised by its contents.

pub(crate) mod bird;
pub(crate) mod ip_route;
pub(crate) mod json;
pub(crate) mod netstat;
pub(crate) mod show_bgp;
