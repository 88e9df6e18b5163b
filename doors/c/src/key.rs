//! Domain names as keys.

use std::ffi::{c_char, c_int, c_void};

use sapwood::key::{dns_name, dns_name_from_wire, dns_name_in_message, dns_name_to_text};

use crate::call::call;
use crate::error::{Failure, Outcome};
use crate::input::{bytes, place, text};

/// Copies a key or text to the caller.
unsafe fn give(made: &[u8], buf: *mut c_void, room: usize, len: *mut usize) -> Outcome {
    let len = place(len, "len")?;
    // SAFETY: C.
    unsafe { *len = made.len() };
    if made.len() > room {
        return Err(Failure::new(
            libc::E2BIG,
            format!("{} bytes do not fit into {room}", made.len()),
        ));
    }
    if !made.is_empty() {
        let buf = place(buf, "buf")?;
        // SAFETY: C. There is room for them.
        unsafe { buf.cast::<u8>().copy_from(made.as_ptr(), made.len()) };
    }
    Ok(0)
}

fn bad(error: sapwood::key::DnsNameError) -> Failure {
    Failure::invalid(error.to_string())
}

/// The key of a domain name in text form.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_key_dns_name(
    name: *const c_char,
    key: *mut c_void,
    room: usize,
    key_len: *mut usize,
) -> c_int {
    call("sapwood_key_dns_name", || {
        // SAFETY: C.
        unsafe {
            let name = text(name, "the name")?.to_bytes();
            let name = std::str::from_utf8(name)
                .map_err(|_| Failure::invalid("the name is not UTF-8; write bytes as \\DDD"))?;
            give(&dns_name(name).map_err(bad)?, key, room, key_len)
        }
    })
}

/// The key of a domain name in wire form.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_key_dns_wire(
    wire: *const c_void,
    wire_len: usize,
    key: *mut c_void,
    room: usize,
    key_len: *mut usize,
) -> c_int {
    call("sapwood_key_dns_wire", || {
        // SAFETY: C.
        unsafe {
            let wire = bytes(wire, wire_len, "the name")?;
            give(&dns_name_from_wire(wire).map_err(bad)?, key, room, key_len)
        }
    })
}

/// The key of a domain name in a DNS message.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_key_dns_message(
    message: *const c_void,
    message_len: usize,
    at: usize,
    key: *mut c_void,
    room: usize,
    key_len: *mut usize,
    end: *mut usize,
) -> c_int {
    call("sapwood_key_dns_message", || {
        // SAFETY: C.
        unsafe {
            let message = bytes(message, message_len, "the message")?;
            let (made, behind) = dns_name_in_message(message, at).map_err(bad)?;
            give(&made, key, room, key_len)?;
            if let Some(end) = end.as_mut() {
                *end = behind;
            }
            Ok(0)
        }
    })
}

/// The text form of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_key_dns_text(
    key: *const c_void,
    key_len: usize,
    text: *mut c_char,
    room: usize,
    text_len: *mut usize,
) -> c_int {
    call("sapwood_key_dns_text", || {
        // SAFETY: C.
        unsafe {
            let key = bytes(key, key_len, "the key")?;
            let mut made = dns_name_to_text(key).map_err(bad)?.into_bytes();
            let text_len = place(text_len, "text_len")?;
            made.push(0);
            let result = give(&made, text.cast(), room, text_len);
            *text_len = made.len() - 1;
            result
        }
    })
}
