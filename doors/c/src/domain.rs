//! Domains: the readers that a structure's garbage waits for.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::time::Duration;

use sapwood::qsbr::{Domain, DomainBuilder, LimitPolicy, WaitsForItself};

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, Rules, free};
use crate::input::{extensible, given, place};
use crate::output::{hand_out, put};

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

extensible!(sapwood_domain_options);

impl sapwood_domain_options {
    /// A builder with these choices.
    pub fn builder(&self) -> Outcome<DomainBuilder> {
        known_flags(self.flags, SAPWOOD_CHECKED | SAPWOOD_BLOCK)?;
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
        if self.flags & SAPWOOD_BLOCK != 0 {
            builder = builder.policy(LimitPolicy::Block);
        }
        Ok(builder)
    }
}

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

c_api!(
    const SECTION: &str = "Domains and readers";

    /// A domain: what is replaced or removed in its structures is freed when all of its readers
    /// have passed a quiescent state. Several structures may share a domain.
    pub type sapwood_domain = Handle<DomainBody>;

    /// structures, domains: misuse ends the process with a message
    pub const SAPWOOD_CHECKED: c_uint = 1;

    /// domains: a change at the hard limit waits, instead of -EAGAIN
    pub const SAPWOOD_BLOCK: c_uint = 2;

    #[derive(Debug)]
    pub struct sapwood_domain_options {
        /// sizeof(struct sapwood_domain_options)
        pub size: usize,
        /// SAPWOOD_CHECKED: also its readers and structures; SAPWOOD_BLOCK
        pub flags: c_uint,
        /// 0: no limit
        pub max_readers: c_uint,
        /// bytes of garbage from which writers free more; 0: none
        pub soft_limit: usize,
        /// bytes of garbage that changes do not pass; 0: none
        pub hard_limit: usize,
        /// from when on sapwood_domain_stalls names a reader; 0: a default
        pub stall_after_ms: u64,
    }

    /// Makes a domain. O(1).
    fn sapwood_domain_new(
        options: *const sapwood_domain_options,
        out: *mut *mut sapwood_domain,
    ) -> c_int {
        let out = place(out, "out")?;
        let options: sapwood_domain_options = given(options)?;
        let builder = options.builder()?;
        let checked = options.flags & SAPWOOD_CHECKED != 0;
        let body = DomainBody {
            domain: builder.build(),
            checked,
        };
        hand_out(out, body, checked)
    }

    /// Frees the handle. The domain itself lives as long as its readers and structures, so the
    /// order does not matter. One thread at a time.
    fn sapwood_domain_free(domain: *mut sapwood_domain) {
        free(domain)
    }

    /// Runs at most `most` deferred functions whose grace period is over, and returns how many ran.
    /// It does not wait. An event loop calls it in each turn. Any thread.
    fn sapwood_domain_poll(domain: *const sapwood_domain, most: usize) -> c_int {
        let body = Handle::shared(domain)?;
        let ran = body.domain.poll_budget(most.min(c_int::MAX as usize));
        Ok(ran as c_int)
    }

    /// Defers run(ctx) to the end of a grace period. It runs once, on a thread that polls, or on
    /// the one that lets go of the domain, or that defers at a limit of garbage. Until then `bytes`
    /// count as garbage. -EAGAIN: the hard limit is reached, nothing can be freed now, and run is
    /// not called. Any thread.
    fn sapwood_domain_defer(
        domain: *const sapwood_domain,
        bytes: usize,
        run: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
        ctx: *mut c_void,
    ) -> c_int {
        let body = Handle::shared(domain)?;
        let run = run.ok_or_else(|| Failure::null("the function"))?;
        let deferred = Deferred { run, ctx };
        body.domain
            .defer(bytes, move || deferred.run())
            .map_err(|limit| Failure::new(libc::EAGAIN, limit.to_string()))?;
        Ok(0)
    }

    /// Stores the number of bytes that wait for readers. Any thread. O(1).
    fn sapwood_domain_garbage(domain: *const sapwood_domain, bytes: *mut usize) -> c_int {
        let body = Handle::shared(domain)?;
        put(bytes, "bytes", body.domain.garbage())
    }

    /// Waits until each reader has passed a quiescent state or is offline. The caller's own reader
    /// must be offline: -EDEADLK after three seconds, as the thread would wait for itself; so would
    /// one whose reader went to another thread and was not used there yet. Any thread.
    fn sapwood_domain_synchronize(domain: *const sapwood_domain) -> c_int {
        let domain = &Handle::shared(domain)?.domain;
        let waits = |error: WaitsForItself| Failure::new(libc::EDEADLK, error.to_string());
        domain.try_synchronize().map(|()| 0).map_err(waits)
    }

    pub enum sapwood_stall_kind {
        SAPWOOD_STALL_READER = 0,
        SAPWOOD_STALL_PINNED = 1,
        SAPWOOD_STALL_SNAPSHOT = 2,
        SAPWOOD_STALL_SOURCE = 3,
    }

    #[derive(Debug)]
    pub struct sapwood_stall {
        pub size: usize,
        /// of the reader or the snapshot; valid until the callback returns
        pub name: *const c_char,
        /// enum sapwood_stall_kind
        pub kind: c_int,
        /// 0
        pub reserved: c_uint,
        pub stood_for_ns: u64,
        /// begun since its last quiescent state; of a snapshot: versions
        pub generations: u64,
        /// the most bytes that wait because of it
        pub bytes: usize,
    }

    pub type sapwood_stall_fn =
        Option<unsafe extern "C" fn(stall: *const sapwood_stall, ctx: *mut c_void)>;

    /// Calls each(stall, ctx) for each reader and snapshot that holds garbage back for long, and
    /// returns their number. each may be NULL. Any thread.
    fn sapwood_domain_stalls(
        domain: *const sapwood_domain,
        each: sapwood_stall_fn,
        ctx: *mut c_void,
    ) -> c_int {
        use sapwood::qsbr::StallKind;

        let body = Handle::shared(domain)?;
        let stalls = body.domain.stalls();
        let count = stalls.len() as c_int;
        let Some(each) = each else { return Ok(count) };
        for stall in stalls {
            let name = CString::new(stall.name.replace('\0', "?")).unwrap_or_default();
            let told = sapwood_stall {
                size: size_of::<sapwood_stall>(),
                name: name.as_ptr(),
                kind: match stall.kind {
                    StallKind::Reader => SAPWOOD_STALL_READER,
                    StallKind::Pinned => SAPWOOD_STALL_PINNED,
                    StallKind::Snapshot => SAPWOOD_STALL_SNAPSHOT,
                    _ => SAPWOOD_STALL_SOURCE,
                },
                reserved: 0,
                stood_for_ns: u64::try_from(stall.stood_for.as_nanos()).unwrap_or(u64::MAX),
                generations: stall.generations,
                bytes: stall.bytes,
            };
            // C gave both for this.
            each(&raw const told, ctx);
        }
        Ok(count)
    }
);
