//! What crosses the border: panics do not, messages do.

use std::ffi::CStr;

use sapwood_capi::call::call;
use sapwood_capi::error::{Failure, sapwood_last_error, sapwood_strerror};

fn last_error() -> String {
    let mut buffer = [0u8; 300];
    // SAFETY: there is room for that many bytes.
    unsafe { sapwood_last_error(buffer.as_mut_ptr().cast(), buffer.len()) };
    CStr::from_bytes_until_nul(&buffer)
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}

/// A panic becomes `-EFAULT`, and its text is the message.
#[test]
fn a_panic_becomes_a_number() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let results = [
        call("sapwood_test", || panic!("a text")),
        call("sapwood_test", || panic!("a text with {}", 1)),
        call("sapwood_test", || std::panic::panic_any(7)),
    ];
    std::panic::set_hook(hook);
    assert_eq!(results, [-libc::EFAULT; 3]);
    assert_eq!(last_error(), "sapwood_test: a panic without a text");
}

/// Messages are those of the thread's last failure, and are cut between characters.
#[test]
fn messages_are_kept_for_each_thread() {
    let fail = |text: &'static str| call("f", move || Err(Failure::invalid(text)));
    assert_eq!(fail("wrong"), -libc::EINVAL);
    std::thread::spawn(move || {
        assert_eq!(last_error(), "");
        fail("other");
        assert_eq!(last_error(), "f: other");
    })
    .join()
    .unwrap();
    assert_eq!(last_error(), "f: wrong");
    fail("ä");
    let mut small = [1u8; 5];
    // SAFETY: there is room for that many bytes.
    let whole = unsafe { sapwood_last_error(small.as_mut_ptr().cast(), small.len()) };
    assert_eq!((whole, &small), (5, b"f: \0\x01"));
}

/// Each result has a text, whatever it is.
#[test]
fn every_result_has_a_text() {
    for result in [0, 1, -1, -libc::ENOENT, i32::MIN, i32::MAX, -100_000] {
        // SAFETY: the function returns texts of the library.
        let text = unsafe { CStr::from_ptr(sapwood_strerror(result)) };
        assert!(!text.to_str().unwrap().is_empty());
    }
}

/// Each type of handle begins with a word of its own, so that none is taken for another.
#[test]
fn no_two_types_of_handles_have_the_same_word() {
    let mut words = Vec::new();
    for file in std::fs::read_dir(crate::support::here().join("src")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let found = text.split("*b\"sw").skip(1);
        words.extend(found.map(|rest| rest.split('"').next().unwrap().to_owned()));
    }
    let all = words.len();
    words.sort();
    words.dedup();
    assert!(all > 25, "only {all} types of handles were found");
    assert_eq!(words.len(), all, "two of these are the same: {words:?}");
}
