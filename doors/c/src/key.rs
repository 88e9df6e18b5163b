//! Domain names as keys.

use std::ffi::{c_char, c_int, c_void};

use sapwood::key::{dns_name, dns_name_from_wire, dns_name_in_message, dns_name_to_text};

use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::input::{bytes, place, text};
use crate::output::put_wanted;

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

c_api!(
    const SECTION: &str = "Keys";

    /// Room for any. A byte 0 or 1 within a label takes two bytes of the key, so the longest key
    /// has 504 bytes, although the longest name has 255 in wire form.
    pub enum sapwood_key_rooms {
        /// bytes of the longest key of a name
        SAPWOOD_KEY_DNS_MAX = 504,
        /// bytes of the longest text of a name, with its zero
        SAPWOOD_KEY_DNS_TEXT_MAX = 1004,
    }

    /// The key of a domain name in text or wire form: its labels in reverse order and in lower
    /// case, each ended by a zero byte; the root is empty. Keys sort in the canonical order of
    /// DNSSEC. SAPWOOD_KEY_DNS_MAX bytes are enough for any. The length is stored; -E2BIG if there
    /// is no room for it, with the length that is needed. -EINVAL: not a name. Any thread.
    ///
    /// Look at each result. A list of refused names that takes an error for "not listed" lets names
    /// pass that somebody has made for that.
    fn sapwood_key_dns_name(
        name: *const c_char,
        key: *mut c_void,
        room: usize,
        key_len: *mut usize,
    ) -> c_int {
        let name = text(name, "the name")?.to_bytes();
        let name = std::str::from_utf8(name)
            .map_err(|_| Failure::invalid("the name is not UTF-8; write bytes as \\DDD"))?;
        give(&dns_name(name).map_err(bad)?, key, room, key_len)
    }

    /// `wire` has the name without compression, and nothing behind it.
    fn sapwood_key_dns_wire(
        wire: *const c_void,
        wire_len: usize,
        key: *mut c_void,
        room: usize,
        key_len: *mut usize,
    ) -> c_int {
        let wire = bytes(wire, wire_len, "the name")?;
        give(&dns_name_from_wire(wire).map_err(bad)?, key, room, key_len)
    }

    /// The key of the name at byte `at` of a DNS message, which begins with its header. The name
    /// may be compressed, and other bytes may lie behind it: *end becomes the place of the first
    /// one (end may be NULL). Pointers must lead back, and 127 are followed at most, so messages
    /// from anybody can be given. -EINVAL: no name is there, or it is cut off; the message of the
    /// failure has the place.
    fn sapwood_key_dns_message(
        message: *const c_void,
        message_len: usize,
        at: usize,
        key: *mut c_void,
        room: usize,
        key_len: *mut usize,
        end: *mut usize,
    ) -> c_int {
        let message = bytes(message, message_len, "the message")?;
        let (made, behind) = dns_name_in_message(message, at).map_err(bad)?;
        give(&made, key, room, key_len)?;
        put_wanted(end, behind);
        Ok(0)
    }

    /// The name of a key, ended by a zero that text_len does not count. SAPWOOD_KEY_DNS_TEXT_MAX
    /// bytes are enough for any. -EINVAL: not the key of a name.
    fn sapwood_key_dns_text(
        key: *const c_void,
        key_len: usize,
        text: *mut c_char,
        room: usize,
        text_len: *mut usize,
    ) -> c_int {
        let key = bytes(key, key_len, "the key")?;
        let mut made = dns_name_to_text(key).map_err(bad)?.into_bytes();
        let text_len = place(text_len, "text_len")?;
        made.push(0);
        let result = give(&made, text.cast(), room, text_len);
        *text_len = made.len() - 1;
        result
    }
);
