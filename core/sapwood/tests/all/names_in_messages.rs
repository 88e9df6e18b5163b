//! Names in DNS messages, which come from anybody: compressed, cut off, and in circles.

use sapwood::key::{
    DNS_KEY_MAX, DnsNameError, dns_name, dns_name_from_wire, dns_name_in_message, dns_name_to_text,
};
use sapwood_model::oracle::name_in_message;

/// The greatest number of pointers that are followed.
const POINTERS: usize = 127;

/// The text of a name in a message, and where it ends.
fn text(message: &[u8], at: usize) -> Result<(String, usize), DnsNameError> {
    let (key, end) = dns_name_in_message(message, at)?;
    Ok((dns_name_to_text(&key).unwrap(), end))
}

/// A pointer to this place.
fn to(place: usize) -> [u8; 2] {
    (0xc000 | place as u16).to_be_bytes()
}

/// A label of this many bytes.
fn label(length: usize) -> Vec<u8> {
    [vec![length as u8], vec![b'x'; length]].concat()
}

#[test]
fn a_name_ends_where_it_ends_in_the_message_whatever_follows() {
    let question = b"\x03www\x07Example\x03org\x00\x00\x01\x00\x01";
    let wanted = Ok(("www.example.org".into(), 17));
    assert_eq!(text(question, 0), wanted);
    // From the middle of it on, and the root.
    assert_eq!(text(question, 4), Ok(("example.org".into(), 17)));
    assert_eq!(text(question, 16), Ok((".".into(), 17)));
    let alone = dns_name_from_wire(&question[..17]).unwrap();
    assert_eq!(dns_name_in_message(question, 0).unwrap().0, alone);
}

#[test]
fn pointers_lead_to_the_rest_of_a_name_and_end_it() {
    let mut message = b"\x03org\x00\x07example".to_vec();
    message.extend(to(0)); // at 13
    message.extend(b"\x03www"); // at 15
    message.extend(to(5));
    message.extend(to(15)); // at 21: nothing but a pointer
    message.extend([9; 4]);
    assert_eq!(text(&message, 5), Ok(("example.org".into(), 15)));
    assert_eq!(text(&message, 15), Ok(("www.example.org".into(), 21)));
    assert_eq!(text(&message, 21), Ok(("www.example.org".into(), 23)));
    // The root, by a pointer to its byte.
    assert_eq!(text(b"\x01a\x00\xc0\x02", 3), Ok((".".into(), 5)));
}

#[test]
fn the_farthest_place_of_a_pointer_is_16383() {
    let mut message = vec![0; 16_383];
    message.extend(b"\x01a\x00\x01b\xff\xff");
    assert_eq!(text(&message, 16_386), Ok(("b.a".into(), 16_390)));
}

#[test]
fn pointers_that_do_not_lead_back_are_refused() {
    let bad = |at| Err(DnsNameError::BadPointer { at });
    // To itself, and to the label before it.
    assert_eq!(text(b"\xc0\x00", 0), bad(0));
    assert_eq!(text(b"\x01a\xc0\x00", 0), bad(2));
    assert_eq!(text(b"\x00\x01a\xc0\x01", 1), bad(3));
    // Forward, and behind the end.
    assert_eq!(text(b"\xc0\x02\x01a\x00", 0), bad(0));
    assert_eq!(text(b"\xff\xff", 0), bad(0));
    // Two that lead to each other.
    assert_eq!(text(b"\xc0\x02\xc0\x00", 2), bad(0));
    // Back, then forward into the place where it came from.
    assert_eq!(text(b"\x01a\xc0\x04\x01b\xc0\x00", 4), bad(2));
    // A name before it whose labels reach over it.
    assert_eq!(text(b"\x03abc\xc0\x00", 4), bad(4));
}

#[test]
fn as_many_pointers_are_followed_as_a_name_has_labels() {
    // Each pointer leads to the one before it, and the first to the root.
    let chain = |pointers: usize| {
        let mut message = vec![0];
        message.extend((0..pointers).flat_map(|n| to(if n == 0 { 0 } else { 2 * n - 1 })));
        let at = 2 * pointers - 1;
        dns_name_in_message(&message, at)
    };
    assert_eq!(chain(POINTERS), Ok((vec![], 2 * POINTERS + 1)));
    assert_eq!(chain(POINTERS + 1), Err(DnsNameError::BadPointer { at: 1 }));
    // One label before each pointer: the longest name that there is.
    let mut message = vec![0];
    let mut last = 0;
    for _ in 0..POINTERS {
        let here = message.len();
        message.extend(b"\x01a");
        message.extend(to(last));
        last = here;
    }
    let (key, end) = dns_name_in_message(&message, last).unwrap();
    assert_eq!((key, end), (b"a\0".repeat(POINTERS), message.len()));
}

#[test]
fn what_is_cut_off_is_told_with_its_place() {
    let bad = |at| Err(DnsNameError::BadWire { at });
    let message = b"\x00\x03www\x01a\xc0\x00";
    let wanted = [
        (0, bad(1)),
        (1, bad(1)),
        (4, bad(1)),
        (5, bad(5)),
        (6, bad(5)),
        (7, bad(7)),
        (8, bad(7)),
    ];
    for (length, wanted) in wanted {
        assert_eq!(text(&message[..length], 1), wanted, "{length}");
    }
    assert_eq!(text(message, 1), Ok(("www.a".into(), 9)));
    // Places behind the end, the greatest as well.
    for at in [9, 10, usize::MAX] {
        assert_eq!(text(message, at), bad(at));
    }
}

#[test]
fn labels_have_63_bytes_and_other_kinds_are_refused() {
    let message = [label(63), vec![0]].concat();
    assert_eq!(text(&message, 0).unwrap().1, 65);
    // 64 is the first of the reserved kinds; 65 was the bit string of RFC 2673.
    for kind in 0x40..=0xbf {
        let message = [vec![kind], vec![b'x'; 200], vec![0]].concat();
        assert_eq!(text(&message, 0), Err(DnsNameError::BadWire { at: 0 }));
        let message = [vec![1, b'a', kind], vec![0; 200]].concat();
        assert_eq!(text(&message, 0), Err(DnsNameError::BadWire { at: 2 }));
    }
}

#[test]
fn names_have_255_bytes_at_most_however_they_are_compressed() {
    let long = [label(63), label(63), label(63)].concat();
    let whole = |last| [long.clone(), label(last), vec![0]].concat();
    assert_eq!(dns_name_in_message(&whole(61), 0).unwrap().1, 255);
    let too_long = Err(DnsNameError::NameTooLong { len: 256 });
    assert_eq!(dns_name_in_message(&whole(62), 0), too_long);
    // The same by a pointer to the last label.
    for (last, is_name) in [(61, true), (62, false)] {
        let message = [label(last), vec![0], long.clone(), to(0).to_vec()].concat();
        let read = dns_name_in_message(&message, last + 2);
        assert_eq!(read.is_ok(), is_name);
        if let Ok((_, end)) = read {
            assert_eq!(end, message.len());
        }
    }
    // 127 labels of one byte, and 128.
    let short = [label(1).repeat(127), vec![0]].concat();
    assert_eq!(dns_name_in_message(&short, 0).unwrap().1, 255);
    let shorter = [label(1).repeat(128), vec![0]].concat();
    let too_long = Err(DnsNameError::NameTooLong { len: 257 });
    assert_eq!(dns_name_in_message(&shorter, 0), too_long);
    // The longest key, of zeros.
    let zeros: Vec<u8> = whole(61)
        .iter()
        .map(|&b| if b == b'x' { 0 } else { b })
        .collect();
    assert_eq!(dns_name_in_message(&zeros, 0).unwrap().0.len(), DNS_KEY_MAX);
}

/// Random messages of labels and pointers to places where something begins, against the definition.
#[test]
fn random_messages_are_read_as_the_definition_says() {
    let mut rng = fastrand::Rng::with_seed(81);
    let (mut names, mut pointed, mut refused) = (0, 0, 0);
    for _ in 0..if cfg!(miri) { 50 } else { 4000 } {
        let mut message = Vec::new();
        let mut begins = vec![0];
        while message.len() < 400 && rng.u8(..40) != 0 {
            begins.push(message.len());
            match rng.u8(..12) {
                0..=5 => {
                    let most = if rng.u8(..10) == 0 { 66 } else { 4 };
                    let length = rng.u8(1..most);
                    message.push(length);
                    message.extend((0..length).map(|_| *rng.choice(b"aZ\0\x01.\\").unwrap()));
                }
                6..=8 => message.push(0),
                9 => message.push(rng.u8(..)),
                _ => message.extend(to(
                    rng.choice(&begins).unwrap() + usize::from(rng.u8(..30) == 0)
                )),
            }
        }
        if rng.bool() {
            message.truncate(rng.usize(..=message.len()));
        }
        for at in 0..message.len() + 2 {
            let wanted = name_in_message(&message, at, POINTERS);
            let read = dns_name_in_message(&message, at);
            match wanted {
                Some((wire, end)) => {
                    names += 1;
                    pointed += usize::from(end - at < wire.len());
                    let key = dns_name_from_wire(&wire).unwrap();
                    assert_eq!(read, Ok((key, end)), "{at} of {message:x?}");
                }
                None => {
                    refused += 1;
                    assert!(read.is_err(), "{at} of {message:x?}");
                }
            }
        }
    }
    assert!(
        names > 100 && pointed > 10 && refused > 100,
        "{names} {pointed} {refused}"
    );
    assert_eq!(
        dns_name("").unwrap(),
        dns_name_in_message(&[0], 0).unwrap().0
    );
}
