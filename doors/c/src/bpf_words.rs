//! Plain words in a window of an arena.

use std::ffi::{c_char, c_int};

use sapwood_bpf::Words;

use crate::bpf::{must_be_new, name, sapwood_bpf_arena};
use crate::c_api::c_api;
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::place;
use crate::output::{hand_out, put};

/// The inside of the handle of words.
pub struct WordsBody {
    words: Words,
}

impl Body for WordsBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swBW");
    const NAME: &'static str = "words";
}

/// The words, which have one of this number.
unsafe fn with<'a>(at: *const sapwood_bpf_words, number: usize) -> Outcome<&'a Words> {
    // SAFETY: C.
    let words = &unsafe { Handle::shared(at) }?.words;
    if number >= words.len() {
        let text = format!("there is no word {number}: there are {}", words.len());
        return Err(Failure::new(libc::ERANGE, text));
    }
    Ok(words)
}

c_api!(
    /// Words of 64 bits that programs and this process read and write, each atomically
    /// (sw_window(number, SW_KIND_WORDS), sw_u64, sw_set_u64): counters, settings, requests, and
    /// the rooms for long keys of programs (sapwood/key.bpf.h): SW_KEY_ROOM_BYTES for each
    /// processor. Variables of a program's own in the arena have no place; take words. Any thread,
    /// unless it is said otherwise.
    const SECTION: &str = "Words in an arena";

    pub type sapwood_bpf_words = Handle<WordsBody>;

    /// Makes a window of this name (1 to 24 bytes) with this many words, which are 0, and takes
    /// memory for all of them. This process becomes the arena's owner.
    fn sapwood_bpf_words_create(
        arena: *const sapwood_bpf_arena,
        window_name: *const c_char,
        count: usize,
        out: *mut *mut sapwood_bpf_words,
    ) -> c_int {
        let out = place(out, "out")?;
        let body = Handle::shared(arena)?;
        let window_name = name(window_name, "the name")?;
        must_be_new(&body.arena, window_name)?;
        let words = Words::create(&body.arena, window_name, count)?;
        hand_out(out, WordsBody { words }, Handle::rules(arena))
    }

    /// Closes the window. One thread at a time.
    fn sapwood_bpf_words_free(words: *mut sapwood_bpf_words) {
        free(words)
    }

    /// Frees the handle, and leaves the window to programs. One thread at a time.
    fn sapwood_bpf_words_leave(words: *mut sapwood_bpf_words) -> c_int {
        Handle::take(words)?.words.leave();
        Ok(0)
    }

    /// Returns the number of the window, by which programs name it.
    fn sapwood_bpf_words_number(words: *const sapwood_bpf_words) -> c_int {
        Ok(Handle::shared(words)?.words.window().number as c_int)
    }

    /// Stores the word of this number. -ERANGE: there is none.
    fn sapwood_bpf_words_get(
        words: *const sapwood_bpf_words,
        number: usize,
        word: *mut u64,
    ) -> c_int {
        put(word, "word", with(words, number)?.get(number))
    }

    /// Writes the word of this number. -ERANGE: there is none.
    fn sapwood_bpf_words_set(words: *const sapwood_bpf_words, number: usize, word: u64) -> c_int {
        with(words, number)?.set(number, word);
        Ok(0)
    }
);
