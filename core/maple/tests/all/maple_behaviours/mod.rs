//! Each behaviour of `MapleMap` in a test of its name: with nodes so small that few entries give
//! every shape of the tree, and with the usual nodes. The map is verified after every step.

mod alloc;
mod clears;
mod cursor;
mod dup;
mod fills;
mod iteration;
mod loads;
mod plans;
mod roots;
mod spans;
mod surface;
mod traces;
mod values;
mod widths;
