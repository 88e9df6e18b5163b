//! The forms in which keys are given and printed.

use std::borrow::Cow;
use std::net::IpAddr;

use sapwood::key::dns_name_to_text;
use sapwood_lists::names::{asked_name, line_content, listed_name, shown_name};
use serde_json::{Value, json};

/// The form of keys in arguments, input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// The bytes themselves.
    Bytes,
    /// Hexadecimal digits.
    Hex,
    /// Domain names, which a map has in their canonical order.
    Dns,
    /// IPv4 addresses (four bytes) and IPv6 addresses (sixteen).
    Address,
}

impl KeyForm {
    /// The form that the options ask for.
    pub fn new(dns: bool, hex: bool) -> Self {
        match (dns, hex) {
            (true, _) => KeyForm::Dns,
            (_, true) => KeyForm::Hex,
            _ => KeyForm::Bytes,
        }
    }

    /// Parses a key that is asked for into its stored bytes.
    pub fn parse(self, text: &[u8]) -> Result<Cow<'_, [u8]>, String> {
        match self {
            KeyForm::Bytes => Ok(Cow::Borrowed(text)),
            KeyForm::Hex => unhex(text).map(Cow::Owned),
            KeyForm::Dns => asked_name(text.trim_ascii()).map(|name| Cow::Owned(name.key)),
            KeyForm::Address => address(text).map(Cow::Owned),
        }
    }

    /// Parses a key of a list into its stored bytes. Lists have fewer domain names than questions.
    pub fn parse_listed(self, text: &[u8]) -> Result<Cow<'_, [u8]>, String> {
        match self {
            KeyForm::Dns => listed_name(text).map(|name| Cow::Owned(name.key)),
            _ => self.parse(text),
        }
    }

    /// The key on a line of stdin. A line of domain names may have a comment and spaces, as in a
    /// list, and `None` has nothing else.
    pub fn on_line(self, line: &[u8]) -> Option<&[u8]> {
        match self {
            KeyForm::Dns => Some(line_content(line)).filter(|name| !name.is_empty()),
            KeyForm::Bytes | KeyForm::Hex | KeyForm::Address => Some(line),
        }
    }

    /// The text of a stored key.
    pub fn show(self, key: &[u8]) -> Result<Cow<'_, [u8]>, String> {
        match self {
            KeyForm::Bytes => Ok(Cow::Borrowed(key)),
            KeyForm::Hex => Ok(Cow::Owned(hex(key).into_bytes())),
            KeyForm::Dns => name(key).map(|name| Cow::Owned(name.into_bytes())),
            KeyForm::Address => address_of(key).map(|text| Cow::Owned(text.into_bytes())),
        }
    }

    /// A stored key in a JSON document. It is a string if the key is UTF-8; otherwise, and for
    /// [`KeyForm::Hex`], it is an object with the hexadecimal digits.
    pub fn json(self, key: &[u8]) -> Result<Value, String> {
        match (self, std::str::from_utf8(key)) {
            (KeyForm::Dns, _) => name(key).map(Value::from),
            (KeyForm::Address, _) => address_of(key).map(Value::from),
            (KeyForm::Bytes, Ok(text)) => Ok(Value::from(text)),
            (KeyForm::Bytes, Err(_)) | (KeyForm::Hex, _) => Ok(json!({ "hex": hex(key) })),
        }
    }
}

fn name(key: &[u8]) -> Result<String, String> {
    shown_name(key).map_err(|_| {
        let key = key.escape_ascii();
        format!("key \"{key}\" is not a domain name; was the map built with --dns?")
    })
}

fn address(text: &[u8]) -> Result<Vec<u8>, String> {
    let parsed = std::str::from_utf8(text).ok();
    match parsed.and_then(|text| text.trim().parse().ok()) {
        Some(IpAddr::V4(address)) => Ok(address.octets().to_vec()),
        Some(IpAddr::V6(address)) => Ok(address.octets().to_vec()),
        None => Err(format!(
            "\"{}\" is not an IPv4 or IPv6 address",
            text.escape_ascii()
        )),
    }
}

fn address_of(key: &[u8]) -> Result<String, String> {
    let v4 = <[u8; 4]>::try_from(key).map(IpAddr::from);
    let address = v4.or_else(|_| <[u8; 16]>::try_from(key).map(IpAddr::from));
    let address = address.map_err(|_| {
        let bytes = key.len();
        format!(
            "key {} has {bytes} bytes, and addresses have 4 or 16",
            hex(key)
        )
    })?;
    Ok(address.to_string())
}

/// Whether the bytes of a key are those of a domain name.
pub fn looks_like_dns(key: &[u8]) -> bool {
    key.len() > 1 && dns_name_to_text(key).is_ok()
}

pub(crate) fn hex(key: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    key.iter()
        .flat_map(|b| [b >> 4, b & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

pub(crate) fn unhex(text: &[u8]) -> Result<Vec<u8>, String> {
    let bad = || {
        let text = text.escape_ascii();
        format!("\"{text}\" is not a key in hexadecimal digits, two for each byte")
    };
    if !text.len().is_multiple_of(2) {
        return Err(bad());
    }
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    text.chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect::<Option<_>>()
        .ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_keys_print_as_they_were_given() {
        for (form, text, key) in [
            (KeyForm::Bytes, &b"a\xff"[..], &b"a\xff"[..]),
            (KeyForm::Hex, b"61ff", b"a\xff"),
            (KeyForm::Dns, b"www.example", b"example\0www\0"),
            (KeyForm::Address, b"192.0.2.7", &[192, 0, 2, 7]),
            (KeyForm::Address, b"::1", &1u128.to_be_bytes()),
        ] {
            assert_eq!(form.parse(text).unwrap(), key);
            assert_eq!(form.show(key).unwrap(), text);
        }
        assert!(KeyForm::Hex.parse(b"6").is_err());
        assert!(KeyForm::Hex.parse(b"6g").is_err());
        assert!(KeyForm::Dns.parse(b"a..b").is_err());
        assert!(KeyForm::Dns.show(b"abc").is_err());
        assert!(KeyForm::Address.parse(b"192.0.2").is_err());
        assert!(KeyForm::Address.show(b"abc").is_err());
    }

    #[test]
    fn domain_names_are_asked_for_more_freely_than_they_are_listed() {
        let dns = KeyForm::Dns;
        let name = "B\u{fc}cher.example ".as_bytes();
        assert_eq!(dns.parse(name).unwrap(), &b"example\0xn--bcher-kva\0"[..]);
        assert_eq!(dns.parse(b"a|b").unwrap(), &b"a|b\0"[..]);
        assert!(dns.parse_listed(b"a|b").is_err());
        assert_eq!(dns.parse_listed(br"a\|b").unwrap(), &b"a|b\0"[..]);
        assert_eq!(dns.show(b"a|b\0").unwrap(), &br"a\|b"[..]);
        assert_eq!(dns.on_line(b" a.example # note\r"), Some(&b"a.example"[..]));
        assert_eq!(dns.on_line(b"# note"), None);
        // Keys that are any bytes are all that is given.
        assert_eq!(KeyForm::Bytes.on_line(b" a # b\r"), Some(&b" a # b\r"[..]));
        assert_eq!(KeyForm::Bytes.on_line(b""), Some(&b""[..]));
        assert_eq!(KeyForm::Bytes.parse_listed(b"a|b").unwrap(), &b"a|b"[..]);
    }

    #[test]
    fn json_has_hexadecimal_digits_for_keys_that_are_not_text() {
        assert_eq!(KeyForm::Bytes.json(b"ab").unwrap(), json!("ab"));
        assert_eq!(KeyForm::Bytes.json(b"\xff").unwrap(), json!({"hex": "ff"}));
        assert_eq!(KeyForm::Hex.json(b"a").unwrap(), json!({"hex": "61"}));
        let address = KeyForm::Address.json(&[10, 0, 0, 1]).unwrap();
        assert_eq!(address, json!("10.0.0.1"));
    }
}
