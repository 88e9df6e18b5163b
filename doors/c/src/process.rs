//! Which process this is: what belongs to a live map cannot be used by a child of `fork`.

/// The number of this process, as forks tell it from its parent and its children; not 0.
#[cfg(target_os = "linux")]
#[inline(always)]
pub fn current() -> u32 {
    sapwood_live::Process::current().number()
}

/// The same where there are no live maps.
#[cfg(not(target_os = "linux"))]
pub fn current() -> u32 {
    std::process::id().max(1)
}
