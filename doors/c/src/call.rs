//! The border that each call crosses: panics are caught, failures become numbers.

use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Failure, Outcome, record};

/// Runs the body of the function of this name. A failure becomes `-errno` and its message is
/// recorded. A panic becomes `-EFAULT`. A misuse of a checked handle ends the process.
#[inline(always)]
pub fn call(name: &'static str, body: impl FnOnce() -> Outcome) -> c_int {
    // What a panic leaves behind is described with each function; nothing here is looked at.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(result)) => result,
        Ok(Err(failure)) => failed(name, failure),
        Err(payload) => failed(name, panicked(payload)),
    }
}

/// The same for a lookup: `quick` has an answer, unless there is something to say about the
/// arguments. Then `slow` looks up and says it.
#[inline(always)]
pub fn look_up(
    name: &'static str,
    quick: impl FnOnce() -> Option<c_int>,
    slow: impl FnOnce() -> Outcome,
) -> c_int {
    match catch_unwind(AssertUnwindSafe(quick)) {
        Ok(Some(answer)) => answer,
        Ok(None) => slowly(name, slow),
        Err(payload) => failed(name, panicked(payload)),
    }
}

#[cold]
#[inline(never)]
fn slowly(name: &'static str, slow: impl FnOnce() -> Outcome) -> c_int {
    call(name, slow)
}

/// The same for a function that returns nothing.
#[inline(always)]
pub fn call_void(name: &'static str, body: impl FnOnce() -> Outcome<()>) {
    call(name, || body().map(|()| 0));
}

#[cold]
#[inline(never)]
fn failed(name: &'static str, failure: Failure) -> c_int {
    if failure.fatal {
        abort(name, &failure.message);
    }
    record(format!("{name}: {}", failure.message).into());
    -failure.code
}

/// Ends the process with a message, because a checked handle was used against its rules.
#[cold]
pub fn abort(name: &str, message: &str) -> ! {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "sapwood: {name}: {message}");
    std::process::abort()
}

#[cold]
#[inline(never)]
fn panicked(payload: Box<dyn Any + Send>) -> Failure {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    // The payload may have a drop of its own that panics.
    std::mem::forget(payload);
    let text = text.unwrap_or_else(|| "a panic without a text".to_owned());
    Failure::new(libc::EFAULT, text)
}
