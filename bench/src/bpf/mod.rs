//! Maps inside the kernel, as the suite `bpf` compares them: [`engines`] for whole keys, and [`rig`], which has programs
//! ask them. For packets: namespaces ([`space`]), and a router with its neighbours in them ([`network`]).

pub mod engines;
pub mod network;
pub mod rig;
pub mod space;
