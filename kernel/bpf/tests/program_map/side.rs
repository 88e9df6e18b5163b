//! Questions to C code, and the trait of its two environments.
#![allow(dead_code)] // The fuzz target uses a part.

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Trie = 0,
    Index = 1,
    Lookup = 2,
    /// A value of one word.
    Insert = 3,
    InsertValue = 4,
    Remove = 5,
    /// The flags are the expected value.
    CompareExchange = 6,
    GetOrInsert = 7,
    PopFirst = 8,
    /// The flags are the time.
    PopDue = 9,
    /// The flags are the time, the second word of the value is the sequence number.
    PushDue = 10,
    /// A removal that returns the value.
    Take = 11,
    /// The value is the place of the new value in the arena, and its bytes.
    SetFrom = 12,
    /// Adds the first word of the value to as many words as the second says.
    UpdateWith = 13,
    /// Adds the first word.
    Count = 14,
    /// The first word becomes the sum.
    Sum = 15,
}

pub const ANY: u64 = 0;
pub const NOEXIST: u64 = 1;
pub const EXIST: u64 = 2;

pub const ENOENT: i64 = -2;
pub const EAGAIN: i64 = -11;
pub const ENOMEM: i64 = -12;
pub const EBUSY: i64 = -16;
pub const EEXIST: i64 = -17;
pub const EINVAL: i64 = -22;
pub const E2BIG: i64 = -7;
pub const ENOSPC: i64 = -28;
pub const ENODATA: i64 = -61;
pub const EOPNOTSUPP: i64 = -95;

/// Bytes of a question and its answer.
pub const ASK: usize = 24 + 64 + 256;

/// An environment that runs the C code.
pub trait Side {
    fn exchange(&mut self, question: &[u8; ASK]) -> [u8; ASK];

    /// Bytes of the longest key that can be asked for.
    fn longest(&self) -> usize {
        254
    }

    /// The image of a key of more than 254 bytes. Unless they are put into the arena, it has other
    /// bytes than the key: that does for what refuses long keys.
    fn long_image(&self, key: &[u8]) -> [u8; 256] {
        let mut image = [0; 256];
        image[0] = 255;
        image[16..24].copy_from_slice(&(key.len() as u64).to_ne_bytes());
        image
    }

    /// The result, and the value words of a lookup that found something, or of an entry that was
    /// taken.
    fn ask(
        &mut self,
        what: What,
        window: u32,
        flags: u64,
        key: &[u8],
        value: &[u64],
    ) -> (i64, [u64; 8]) {
        let (result, value, _) = self.ask_for_key(what, window, flags, key, value);
        (result, value)
    }

    /// The same with the image of the key afterwards, which is that of an entry that was taken.
    fn ask_for_key(
        &mut self,
        what: What,
        window: u32,
        flags: u64,
        key: &[u8],
        value: &[u64],
    ) -> (i64, [u64; 8], [u8; 256]) {
        let mut ask = [0u8; ASK];
        ask[0..4].copy_from_slice(&(what as u32).to_ne_bytes());
        ask[4..8].copy_from_slice(&window.to_ne_bytes());
        ask[8..16].copy_from_slice(&flags.to_ne_bytes());
        for (i, word) in value.iter().enumerate() {
            ask[24 + 8 * i..32 + 8 * i].copy_from_slice(&word.to_ne_bytes());
        }
        if key.len() > 254 {
            ask[88..].copy_from_slice(&self.long_image(key));
        } else {
            ask[88] = key.len() as u8;
            ask[89..89 + key.len()].copy_from_slice(key);
        }
        let answer = self.exchange(&ask);
        let word = |at: usize| u64::from_ne_bytes(answer[at..at + 8].try_into().unwrap());
        let value = std::array::from_fn(|i| word(24 + 8 * i));
        let image = answer[88..].try_into().unwrap();
        (word(16) as i64, value, image)
    }
}
