//! Keys of names and tuples: decoding returns the encoded values, and keys sort in the order of the
//! values.
#![no_main]

use std::net::IpAddr;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use sapwood::key::{
    DNS_KEY_MAX, DNS_TEXT_MAX, TupleReader, dns_name, dns_name_from_wire, dns_name_in_message,
    dns_name_to_text, reverse, reverse_components, tuple,
};
use sapwood_model::oracle::name_in_message;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    raw: &'a [u8],
    names: [Vec<Vec<u8>>; 2],
    upper: bool,
    tuples: Vec<(Value, Value)>,
    kinds: Vec<u8>,
    separator: u8,
    places: [u16; 4],
}

#[derive(Arbitrary, Clone, Debug)]
enum Value {
    U8(u8),
    I16(i16),
    U32(u32),
    I64(i64),
    U128(u128),
    Bool(bool),
    F64(f64),
    Bytes(Vec<u8>),
    Text(String),
    Array([u8; 3]),
    Ip(IpAddr),
}

impl Value {
    fn push(&self, key: &mut Vec<u8>) {
        // Imported only here: `Part::push` would hide `Vec::push` for vectors of bytes.
        use sapwood::key::tuple::Part;
        match self {
            Value::U8(v) => v.push(key),
            Value::I16(v) => v.push(key),
            Value::U32(v) => v.push(key),
            Value::I64(v) => v.push(key),
            Value::U128(v) => v.push(key),
            Value::Bool(v) => v.push(key),
            Value::F64(v) => v.push(key),
            Value::Bytes(v) => v.push(key),
            Value::Text(v) => v.push(key),
            Value::Array(v) => v.push(key),
            Value::Ip(v) => v.push(key),
        }
    }

    /// The order that the key must have; `None` for values of different types.
    fn order(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(match (self, other) {
            (Value::U8(a), Value::U8(b)) => a.cmp(b),
            (Value::I16(a), Value::I16(b)) => a.cmp(b),
            (Value::U32(a), Value::U32(b)) => a.cmp(b),
            (Value::I64(a), Value::I64(b)) => a.cmp(b),
            (Value::U128(a), Value::U128(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::F64(a), Value::F64(b)) => a.total_cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Array(a), Value::Array(b)) => a.cmp(b),
            (Value::Ip(a), Value::Ip(b)) => a.cmp(b),
            _ => return None,
        })
    }

    fn read_back(&self, reader: &mut TupleReader<'_>) {
        match self {
            Value::U8(v) => assert_eq!(reader.read::<u8>().unwrap(), *v),
            Value::I16(v) => assert_eq!(reader.read::<i16>().unwrap(), *v),
            Value::U32(v) => assert_eq!(reader.read::<u32>().unwrap(), *v),
            Value::I64(v) => assert_eq!(reader.read::<i64>().unwrap(), *v),
            Value::U128(v) => assert_eq!(reader.read::<u128>().unwrap(), *v),
            Value::Bool(v) => assert_eq!(reader.read::<bool>().unwrap(), *v),
            Value::F64(v) => assert_eq!(reader.read::<f64>().unwrap().to_bits(), v.to_bits()),
            Value::Bytes(v) => assert_eq!(reader.read::<Vec<u8>>().unwrap(), *v),
            Value::Text(v) => assert_eq!(reader.read::<String>().unwrap(), *v),
            Value::Array(v) => assert_eq!(reader.read::<[u8; 3]>().unwrap(), *v),
            Value::Ip(v) => assert_eq!(reader.read::<IpAddr>().unwrap(), *v),
        }
    }
}

/// Labels as DNS allows them: their wire form, and the sort key of RFC 4034, which has the labels
/// from the last to the first, in lower case, compared as strings of unsigned bytes.
fn name_of(labels: &[Vec<u8>], upper: bool) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut wire = Vec::new();
    let mut order = Vec::new();
    for label in labels {
        let mut label = label.clone();
        label.truncate(63);
        if label.is_empty() || wire.len() + label.len() + 2 > 255 {
            continue;
        }
        if upper {
            label.make_ascii_uppercase();
        }
        wire.push(label.len() as u8);
        wire.extend_from_slice(&label);
        order.push(label.to_ascii_lowercase());
    }
    wire.push(0);
    order.reverse();
    (wire, order)
}

/// Whether bytes are an uncompressed wire form by RFC 1035.
fn is_wire(mut wire: &[u8]) -> bool {
    if wire.len() > 255 {
        return false;
    }
    while let Some((&len, rest)) = wire.split_first() {
        if len == 0 {
            return rest.is_empty();
        }
        let Some(rest) = rest.get(usize::from(len)..) else {
            return false;
        };
        if len > 63 {
            return false;
        }
        wire = rest;
    }
    false
}

fn names(input: &Input<'_>) {
    let (wire_a, order_a) = name_of(&input.names[0], false);
    let (wire_b, order_b) = name_of(&input.names[1], input.upper);
    let key_a = dns_name_from_wire(&wire_a).unwrap();
    let key_b = dns_name_from_wire(&wire_b).unwrap();
    assert_eq!(
        key_a.cmp(&key_b),
        order_a.cmp(&order_b),
        "{order_a:?} {order_b:?}"
    );
    assert_eq!(key_b.starts_with(&key_a), order_b.starts_with(&order_a));
    let text = dns_name_to_text(&key_a).unwrap();
    assert_eq!(dns_name(&text).unwrap(), key_a, "{text}");
    let dotted = if order_a.is_empty() { text } else { text + "." };
    assert_eq!(dns_name(&dotted).unwrap(), key_a, "{dotted}");

    assert_eq!(dns_name_from_wire(input.raw).is_ok(), is_wire(input.raw));
    if let Ok(key) = dns_name(input.raw) {
        let text = dns_name_to_text(&key).unwrap();
        assert_eq!(dns_name(text).unwrap(), key);
    }
    if let Ok(text) = dns_name_to_text(input.raw)
        && let Ok(key) = dns_name(&text)
    {
        // Only the case can differ: a key has only one spelling.
        assert_eq!(key, input.raw.to_ascii_lowercase(), "{text}");
    }
}

/// Names in a message of arbitrary bytes, against the definition. The first name that was made is
/// read again behind them, with a pointer in place of its last labels.
fn messages(input: &Input<'_>) {
    let last = (input.raw.len() as u16).saturating_add(1);
    let places = input.places.map(|place| place % last);
    for at in places.into_iter().chain([0]).map(usize::from) {
        let read = dns_name_in_message(input.raw, at);
        match name_in_message(input.raw, at, 127) {
            Some((wire, end)) => {
                let key = dns_name_from_wire(&wire).unwrap();
                assert!(key.len() <= DNS_KEY_MAX && at < end && end <= input.raw.len());
                assert!(dns_name_to_text(&key).unwrap().len() <= DNS_TEXT_MAX);
                assert_eq!(read, Ok((key, end)), "{at}");
            }
            None => assert!(read.is_err(), "{at}: {read:?}"),
        }
    }
    let (wire, _) = name_of(&input.names[0], false);
    let labels: Vec<_> = std::iter::successors(Some(0), |at| {
        let length = usize::from(wire[*at]);
        (length > 0).then_some(at + 1 + length)
    })
    .collect();
    let cut = labels[usize::from(input.places[0]) % labels.len()];
    let mut message = [&[0xff; 3], &wire[cut..], input.raw].concat();
    let at = message.len();
    message.extend_from_slice(&wire[..cut]);
    message.extend([0xc0, 3]);
    let end = message.len();
    message.extend_from_slice(input.raw);
    let key = dns_name_from_wire(&wire).unwrap();
    assert_eq!(dns_name_in_message(&message, at), Ok((key, end)));
}

fn tuples(input: &Input<'_>) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut wanted = std::cmp::Ordering::Equal;
    let mut values = Vec::new();
    for (one, two) in &input.tuples {
        let before = a.len();
        one.push(&mut a);
        assert!(a.len() > before);
        values.push(one);
        // The second tuple has the same types: where the drawn values differ in type, it takes the
        // value of the first.
        let two = if one.order(two).is_some() { two } else { one };
        two.push(&mut b);
        wanted = wanted.then(one.order(two).unwrap());
        assert_eq!(a.cmp(&b), wanted, "{:?}", input.tuples);
    }
    let mut reader = TupleReader::new(&a);
    for value in values {
        value.read_back(&mut reader);
    }
    reader.end().unwrap();
    if let [(Value::Text(x), Value::I64(y)), ..] = &input.tuples[..] {
        let key = tuple((x.as_str(), *y, "end"));
        let mut reader = TupleReader::new(&key);
        assert_eq!(reader.read::<String>().unwrap(), *x);
        assert_eq!(reader.read::<i64>().unwrap(), *y);
        assert_eq!(reader.read::<String>().unwrap(), "end");
    }
}

/// Reads arbitrary bytes as the types that the input chooses; encoding the result gives the same
/// bytes.
fn foreign_tuple(input: &Input<'_>) {
    let mut reader = TupleReader::new(input.raw);
    let mut again = Vec::new();
    for kind in &input.kinds {
        let read = match kind % 11 {
            0 => reader.read::<u8>().map(Value::U8),
            1 => reader.read::<i16>().map(Value::I16),
            2 => reader.read::<u32>().map(Value::U32),
            3 => reader.read::<i64>().map(Value::I64),
            4 => reader.read::<u128>().map(Value::U128),
            5 => reader.read::<bool>().map(Value::Bool),
            6 => reader.read::<f64>().map(Value::F64),
            7 => reader.read::<Vec<u8>>().map(Value::Bytes),
            8 => {
                let before = reader.clone();
                let read = reader.read::<String>().map(Value::Text);
                if read.is_err() {
                    reader = before;
                }
                read
            }
            9 => reader.read::<[u8; 3]>().map(Value::Array),
            _ => reader.read::<IpAddr>().map(Value::Ip),
        };
        match read {
            Ok(value) => value.push(&mut again),
            // A failed read consumes no byte.
            Err(error) => assert_eq!(error.at, again.len()),
        }
        assert!(input.raw.starts_with(&again), "{:?}", input.kinds);
    }
    assert_eq!(reader.end().is_ok(), again.len() == input.raw.len());
}

fuzz_target!(|input: Input<'_>| {
    names(&input);
    messages(&input);
    tuples(&input);
    foreign_tuple(&input);
    assert_eq!(reverse(reverse(input.raw)), input.raw);
    let turned = reverse_components(input.raw, input.separator);
    assert_eq!(reverse_components(turned, input.separator), input.raw);
});
