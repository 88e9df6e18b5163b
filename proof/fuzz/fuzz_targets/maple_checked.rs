//! Memories of published range maps with any words changed: every call of a checked reader ends and
//! reads nothing outside, what it returns is in order, and an heir is a whole map or is refused.
#![no_main]

#[path = "../../../core/sapwood/tests/support/words.rs"]
mod words;

use libfuzzer_sys::fuzz_target;
use sapwood::arena::{Arena, ArenaOptions, Backing, HEADER_LEN, HeaderMode};
use sapwood::maple::{MapleMap, PlainValue, Window};
use sapwood_checked::Fixed;
use sapwood_checked::maple::CheckedMaple;
use sapwood_fuzz::Input;
use sapwood_fuzz::image::Scratch;
use words::Words;

fn arena<V: PlainValue>(backing: Backing) -> Arena {
    let options = ArenaOptions::default()
        .backing(backing)
        .header(HeaderMode::Page)
        .layout_hash(MapleMap::<V>::layout_hash())
        .chunk(512)
        .limit(1 << 22);
    Arena::create(options).unwrap()
}

fn spoil<V: PlainValue>(input: &Input<'_>, make: impl Fn(u64) -> V) {
    let scratch = Scratch::new("published");
    let (leaf, fanout) = [(128, 4), (192, 5), (512, 36)][input.below(3)];
    let builder = MapleMap::<V>::builder().nodes(leaf, fanout);
    let map = builder
        .clone()
        .build_in(arena::<V>(Backing::File(scratch.0.clone())))
        .unwrap();
    for n in 0..input.below(200) as u64 {
        let start = (input.below(1 << 12) as u64) << input.below(40);
        let end = start + ((input.below(40) as u64) << input.below(20));
        map.store(start..=end, make(n)).unwrap();
    }
    let mut words = Words::of(&scratch.0);
    let used = words.0.iter().rposition(|&word| word != 0).unwrap_or(0) + 1;
    let first = HEADER_LEN / 8;
    let place = |input: &Input<'_>| match used > first && input.below(4) > 0 {
        true => first + input.below(used - first),
        false => 6 + input.below(8),
    };
    for _ in 0..input.below(12) {
        let at = place(input);
        match input.below(4) {
            0 => words.0[at] ^= 1 << input.below(64),
            1 => words.0[at] = words.0[place(input)],
            2 => words.0[at] = words.0[at].wrapping_add(1 << (8 * input.below(8))),
            _ => words.0[at] = input.draw().unwrap_or(0),
        }
    }
    if input.below(8) == 0 {
        words.0.truncate(input.below(used + 1));
    }
    use_all::<V>(&words, input);
    match builder.restore_in(
        arena::<V>(Backing::Mmap { reserve: 1 << 22 }),
        words.clone(),
    ) {
        Ok(heir) => {
            heir.verify().unwrap();
            let reader = CheckedMaple::<_, V>::new(Fixed(words)).unwrap();
            assert_eq!(reader.iter().count(), heir.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn use_all<V: PlainValue>(words: &Words, input: &Input<'_>) {
    let Ok(reader) = CheckedMaple::<_, V>::new(Fixed(words.clone())) else {
        return;
    };
    let _ = reader.verify();
    let mut next = Some(0);
    for (range, _) in reader.iter().map_while(Result::ok) {
        assert!(range.start() <= range.end());
        assert!(next.is_some_and(|next| next <= *range.start()));
        next = range.end().checked_add(1);
    }
    for _ in 0..8 {
        let at = (input.below(1 << 12) as u64) << input.below(52);
        if let Ok(Some((range, _))) = reader.get(at) {
            assert!(range.contains(&at));
        }
        let size = 1 << input.below(64);
        for window in [Window::new(at..=u64::MAX), Window::new(0..=at).from_end()] {
            if let Ok(Some(gap)) = reader.find_gap(size, window) {
                assert_eq!(gap.end() - gap.start(), size - 1);
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let input = Input::new(bytes);
    match input.below(2) {
        0 => spoil(&input, |n| n),
        _ => spoil(&input, |n| [n; 3]),
    }
});
