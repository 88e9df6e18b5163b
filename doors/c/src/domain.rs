//! Domains: the readers that a structure's garbage waits for.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::time::Duration;

use sapwood::qsbr::{Domain, DomainBuilder, LimitPolicy, WaitsForItself};

use crate::call::{call, call_void};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, Rules, free};
use crate::input::{Extensible, extensible, place};

/// The flag of a domain or an owned map whose handles are checked.
pub const CHECKED: c_uint = 1;
/// The flag of a domain whose writers wait at the hard limit.
const BLOCK: c_uint = 2;

/// The inside of a domain's handle.
pub struct DomainBody {
    /// The domain, which its readers and structures share.
    pub domain: Domain,
    /// Whether its handle, its readers and the structures made in it are checked.
    pub checked: bool,
}

impl Body for DomainBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swDo");
    const NAME: &'static str = "domain";
}

/// C's `sapwood_domain`.
pub type sapwood_domain = Handle<DomainBody>;

/// The choices for a domain.
#[repr(C)]
#[derive(Debug, Default)]
pub struct sapwood_domain_options {
    /// `sizeof` this structure.
    pub size: usize,
    /// `SAPWOOD_CHECKED`, `SAPWOOD_BLOCK`.
    pub flags: c_uint,
    /// The most readers; 0: no limit.
    pub max_readers: c_uint,
    /// Bytes of garbage from which writers free before they go on; 0: none.
    pub soft_limit: usize,
    /// Bytes of garbage that changes do not pass; 0: none.
    pub hard_limit: usize,
    /// Milliseconds after which a reader counts as stalled; 0: the default.
    pub stall_after_ms: u64,
}

// SAFETY: integers, of which the first is the size.
unsafe impl Extensible for sapwood_domain_options {
    const NAME: &'static str = "sapwood_domain_options";
}

impl sapwood_domain_options {
    /// A builder with these choices.
    pub fn builder(&self) -> Outcome<DomainBuilder> {
        known_flags(self.flags, CHECKED | BLOCK)?;
        let mut builder = Domain::builder();
        if self.max_readers != 0 {
            builder = builder.max_readers(self.max_readers as usize);
        }
        if self.soft_limit != 0 {
            builder = builder.soft_limit(self.soft_limit);
        }
        if self.hard_limit != 0 {
            builder = builder.hard_limit(self.hard_limit);
        }
        if self.stall_after_ms != 0 {
            builder = builder.stall_after(Duration::from_millis(self.stall_after_ms));
        }
        if self.flags & BLOCK != 0 {
            builder = builder.policy(LimitPolicy::Block);
        }
        Ok(builder)
    }
}

/// A reader or a snapshot that holds garbage back.
#[repr(C)]
#[derive(Debug)]
pub struct sapwood_stall {
    /// `sizeof` this structure.
    pub size: usize,
    /// The name of the reader or the snapshot; valid until the callback returns.
    pub name: *const c_char,
    /// `enum sapwood_stall_kind`.
    pub kind: c_int,
    /// Always 0.
    pub reserved: c_uint,
    /// For how long, in nanoseconds.
    pub stood_for_ns: u64,
    /// The number of generations, or of versions for a snapshot.
    pub generations: u64,
    /// The most bytes that wait because of it.
    pub bytes: usize,
}

/// C's function that is told of a stall.
pub type sapwood_stall_fn =
    Option<unsafe extern "C" fn(stall: *const sapwood_stall, ctx: *mut c_void)>;

/// The domain that the caller named, or a new one, and the rules for what is made in it.
///
/// # Safety
/// `at` is NULL, or a domain that may be used.
pub unsafe fn or_new(at: *const sapwood_domain, checked: bool) -> Outcome<(Domain, Rules)> {
    if at.is_null() {
        return Ok((Domain::new(), checked.into()));
    }
    // SAFETY: the caller's promise.
    let (body, rules) = unsafe { (Handle::shared(at)?, Handle::rules(at)) };
    Ok((body.domain.clone(), rules.or_checked(checked)))
}

/// Refuses flags that a function does not know.
pub fn known_flags(flags: c_uint, known: c_uint) -> Outcome<()> {
    if flags & !known != 0 {
        return Err(Failure::invalid(format!(
            "flags {:#x} are not known here",
            flags & !known
        )));
    }
    Ok(())
}

/// Makes a domain.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_domain_new(
    options: *const sapwood_domain_options,
    out: *mut *mut sapwood_domain,
) -> c_int {
    call("sapwood_domain_new", || {
        let out = place(out, "out")?;
        // SAFETY: C.
        let options: sapwood_domain_options = unsafe { extensible(options) }?;
        let builder = options.builder()?;
        let checked = options.flags & CHECKED != 0;
        let body = DomainBody {
            domain: builder.build(),
            checked,
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(body, checked) };
        Ok(0)
    })
}

/// Frees the handle of a domain.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_domain_free(domain: *mut sapwood_domain) {
    // SAFETY: C.
    call_void("sapwood_domain_free", || unsafe { free(domain) });
}

/// Runs deferred functions whose grace period is over.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_domain_poll(domain: *const sapwood_domain, most: usize) -> c_int {
    call("sapwood_domain_poll", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(domain) }?;
        let ran = body.domain.poll_budget(most.min(c_int::MAX as usize));
        Ok(ran as c_int)
    })
}

struct Deferred {
    run: unsafe extern "C" fn(*mut c_void),
    ctx: *mut c_void,
}

// SAFETY: the header says that any thread that polls may call the function with `ctx`.
unsafe impl Send for Deferred {}

impl Deferred {
    fn run(self) {
        // SAFETY: C gave both for this, and this happens once.
        unsafe { (self.run)(self.ctx) }
    }
}

/// Defers a function to the end of a grace period.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_domain_defer(
    domain: *const sapwood_domain,
    bytes: usize,
    run: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
    ctx: *mut c_void,
) -> c_int {
    call("sapwood_domain_defer", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(domain) }?;
        let run = run.ok_or_else(|| Failure::null("the function"))?;
        let deferred = Deferred { run, ctx };
        body.domain
            .defer(bytes, move || deferred.run())
            .map_err(|limit| Failure::new(libc::EAGAIN, limit.to_string()))?;
        Ok(0)
    })
}

/// The bytes that wait for readers.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_domain_garbage(
    domain: *const sapwood_domain,
    bytes: *mut usize,
) -> c_int {
    call("sapwood_domain_garbage", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(domain) }?;
        let bytes = place(bytes, "bytes")?;
        // SAFETY: C.
        unsafe { *bytes = body.domain.garbage() };
        Ok(0)
    })
}

/// Waits for a grace period.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_domain_synchronize(domain: *const sapwood_domain) -> c_int {
    call("sapwood_domain_synchronize", || {
        // SAFETY: C.
        let domain = &unsafe { Handle::shared(domain) }?.domain;
        let waits = |error: WaitsForItself| Failure::new(libc::EDEADLK, error.to_string());
        domain.try_synchronize().map(|()| 0).map_err(waits)
    })
}

/// Calls a function with each reader and snapshot that holds garbage back for long.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_domain_stalls(
    domain: *const sapwood_domain,
    each: sapwood_stall_fn,
    ctx: *mut c_void,
) -> c_int {
    use sapwood::qsbr::StallKind;
    call("sapwood_domain_stalls", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(domain) }?;
        let stalls = body.domain.stalls();
        let count = stalls.len() as c_int;
        let Some(each) = each else { return Ok(count) };
        for stall in stalls {
            let name = CString::new(stall.name.replace('\0', "?")).unwrap_or_default();
            let told = sapwood_stall {
                size: size_of::<sapwood_stall>(),
                name: name.as_ptr(),
                kind: match stall.kind {
                    StallKind::Reader => 0,
                    StallKind::Pinned => 1,
                    StallKind::Snapshot => 2,
                    _ => 3,
                },
                reserved: 0,
                stood_for_ns: u64::try_from(stall.stood_for.as_nanos()).unwrap_or(u64::MAX),
                generations: stall.generations,
                bytes: stall.bytes,
            };
            // SAFETY: C gave both for this.
            unsafe { each(&raw const told, ctx) };
        }
        Ok(count)
    })
}
