//! Maps inside the kernel, as the suite `bpf` compares them: [`engines`] for whole keys, and
//! [`rig`], which has programs query them. [`held`] measures how long the kernel keeps processors
//! to itself. For packets there are namespaces ([`space`]), and a router with its neighbours in
//! them ([`network`]).

pub mod engines;
pub mod held;
pub mod network;
pub mod rig;
pub mod space;
