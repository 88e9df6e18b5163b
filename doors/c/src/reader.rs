//! Readers: threads that are registered with a domain.

use std::ffi::{c_char, c_int};

use sapwood::qsbr::{Domain, Guard, Reader};

use crate::c_api::c_api;
use crate::domain::sapwood_domain;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, Thread, free};
use crate::input::{place, text};
use crate::output::hand_out;

/// The inside of a reader's handle.
pub struct ReaderBody {
    registration: Reader,
    thread: Thread,
    checked: bool,
    /// Counts the ends of what the reader may use: what was read under another number is stale.
    epoch: u64,
}

impl Body for ReaderBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swRe");
    const NAME: &'static str = "reader";

    fn may_end(&self) -> Outcome<()> {
        self.thread.check("reader", self.checked)
    }
}

impl ReaderBody {
    /// A guard for a structure of `domain`. A checked reader looks at the thread as well.
    ///
    /// # Safety
    /// C uses what is read under the guard only until the reader's next `quiescent`.
    #[inline(always)]
    pub unsafe fn guard(&self, domain: &Domain) -> Outcome<Guard<'_>> {
        if self.checked {
            self.thread.check("reader", true)?;
        }
        if !self.registration.is_online() {
            return Err(self.offline());
        }
        let guard = self.registration.guard();
        if !guard.belongs_to(domain) {
            return Err(self.foreign());
        }
        Ok(guard)
    }

    /// The same, for lookups: nothing if there is something to say about the reader.
    ///
    /// # Safety
    /// As for [`guard`](Self::guard).
    #[inline(always)]
    pub unsafe fn quick_guard(&self, domain: &Domain) -> Option<Guard<'_>> {
        if self.checked || !self.registration.is_online() {
            return None;
        }
        let guard = self.registration.guard();
        guard.belongs_to(domain).then_some(guard)
    }

    /// The number under which things are read now.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the reader is checked.
    pub fn checked(&self) -> bool {
        self.checked
    }

    /// A failure if what was read under this number may be gone, or if this is another thread.
    #[inline]
    pub fn still(&self, epoch: u64, what: &str) -> Outcome<()> {
        if self.checked {
            self.thread.check("reader", true)?;
        }
        if epoch == self.epoch {
            return Ok(());
        }
        Err(self.stale(what))
    }

    #[cold]
    #[inline(never)]
    fn stale(&self, what: &str) -> Failure {
        Failure::misuse(
            format!("the {what} was made before the reader's last quiescent state"),
            self.checked,
        )
    }

    #[cold]
    #[inline(never)]
    fn offline(&self) -> Failure {
        Failure::misuse("the reader is offline".to_owned(), self.checked)
    }

    #[cold]
    #[inline(never)]
    fn foreign(&self) -> Failure {
        Failure::misuse(
            "the reader is of another domain than the structure".to_owned(),
            self.checked,
        )
    }
}

/// Runs `f` on a reader that belongs to this thread.
unsafe fn on(reader: *mut sapwood_reader, f: impl FnOnce(&mut ReaderBody)) -> Outcome {
    // SAFETY: C.
    let body = unsafe { Handle::exclusive(reader) }?;
    body.thread.check("reader", body.checked)?;
    f(body);
    Ok(0)
}

/// Reads a structure of `domain` under a guard of the reader or, where that is NULL, of a pin for
/// the moment. Nothing that `f` returns may be used after that.
///
/// # Safety
/// `reader` is NULL, or a reader that C may use now on this thread.
#[inline(always)]
pub unsafe fn read<R>(
    reader: *const sapwood_reader,
    domain: &Domain,
    f: impl FnOnce(Guard<'_>) -> R,
) -> Outcome<R> {
    if reader.is_null() {
        let pin = domain.pin();
        return Ok(f(pin.guard()));
    }
    // SAFETY: the caller's promise; `f` is done with the guard when it returns.
    Ok(f(unsafe { Handle::shared(reader)?.guard(domain) }?))
}

c_api!(
    /// A thread that is registered with a domain. It belongs to the thread that made it.
    pub type sapwood_reader = Handle<ReaderBody>;

    /// Registers this thread with a domain, under a name for stall reports. The reader is online:
    /// what is replaced from now on stays until it passes a quiescent state. -EAGAIN: too many
    /// readers.
    fn sapwood_reader_new(
        domain: *const sapwood_domain,
        name: *const c_char,
        out: *mut *mut sapwood_reader,
    ) -> c_int {
        let out = place(out, "out")?;
        let body = Handle::shared(domain)?;
        let name = text(name, "the name")?.to_string_lossy();
        let rules = Handle::rules(domain);
        let reader = ReaderBody {
            registration: body.domain.register(name)?,
            thread: Thread::here(),
            checked: rules.checked,
            epoch: 1,
        };
        hand_out(out, reader, rules)
    }

    /// Ends the registration. Its thread. Nothing that was read with it may be used any more.
    fn sapwood_reader_free(reader: *mut sapwood_reader) {
        free(reader)
    }

    /// Declares a quiescent state: this thread uses nothing any more that it read with this reader.
    /// An event loop calls it in each turn, a packet loop after each burst. Its thread. O(1), no
    /// fence.
    fn sapwood_reader_quiescent(reader: *mut sapwood_reader) -> c_int {
        let pass = |body: &mut ReaderBody| {
            body.epoch += 1;
            body.registration.quiescent();
        };
        on(reader, pass)
    }

    /// Goes offline before the thread blocks: a quiescent state that lasts. Its thread. O(1).
    fn sapwood_reader_offline(reader: *mut sapwood_reader) -> c_int {
        let pass = |body: &mut ReaderBody| {
            body.epoch += 1;
            body.registration.set_offline();
        };
        on(reader, pass)
    }

    /// Comes back online. Only an online reader may read. Its thread. O(1).
    fn sapwood_reader_online(reader: *mut sapwood_reader) -> c_int {
        let pass = |body: &mut ReaderBody| {
            body.epoch += 1;
            body.registration.set_online();
        };
        on(reader, pass)
    }

    /// Waits as sapwood_domain_synchronize, offline meanwhile; online afterwards. Its thread.
    fn sapwood_reader_synchronize(reader: *mut sapwood_reader) -> c_int {
        let pass = |body: &mut ReaderBody| {
            body.epoch += 1;
            body.registration.synchronize();
        };
        on(reader, pass)
    }
);
