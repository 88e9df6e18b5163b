//! Maps inside the kernel, as the suite `bpf` compares them: [`engines`] for whole keys, and [`rig`], which has programs
//! ask them.

pub mod engines;
pub mod rig;
