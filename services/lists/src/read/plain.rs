//! Plain lists and hosts files.

use std::net::IpAddr;

use super::{LeftOut, Out, name_or_wildcard, plain_name};
use crate::names::line_content;
use crate::records::is_null;
use crate::rule::{Action, Scope};

/// Names that machines have for themselves, beside those of IPv6 as `ip6-allnodes`.
const LOCAL: [&[u8]; 4] = [
    b"localhost",
    b"localhost.localdomain",
    b"local",
    b"broadcasthost",
];

/// `name`, `*.name` or `.name`.
pub fn plain(line: &[u8], out: &mut Out<'_>) -> Result<(), String> {
    let content = line_content(line);
    if content.is_empty() {
        return Ok(());
    }
    let (content, passes) = out.unmarked(content);
    if let Some(name) = content
        .strip_prefix(b".")
        .filter(|name| !matches!(*name, b"" | b"."))
    {
        out.block_or_pass(plain_name(name)?, Scope::WithBelow, passes);
        return Ok(());
    }
    let (key, is_wildcard) = name_or_wildcard(content)?;
    let scope = match is_wildcard {
        true => Scope::Below,
        false => out.plain_scope(),
    };
    out.block_or_pass(key, scope, passes);
    Ok(())
}

/// A line of a plain list, or of a hosts file.
pub fn mixed(line: &[u8], out: &mut Out<'_>) -> Result<(), String> {
    let mut words = line_content(line)
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    match (words.next().and_then(address), words.next()) {
        (Some(_), Some(_)) => hosts(line, out),
        _ => plain(line, out),
    }
}

/// `address name…`. A name without an address is taken, too, as in lists for ad blockers.
pub fn hosts(line: &[u8], out: &mut Out<'_>) -> Result<(), String> {
    let end = line
        .iter()
        .position(|byte| *byte == b'#')
        .unwrap_or(line.len());
    let mut words = line[..end]
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let Some(first) = words.next() else {
        return Ok(());
    };
    let Some(address) = address(first) else {
        return plain(&line[..end], out);
    };
    let mut fault = None;
    let mut any = false;
    for word in words {
        any = true;
        if is_local(word) || self::address(word).is_some() {
            out.leave(LeftOut::Local);
            continue;
        }
        let (word, passes) = out.unmarked(word);
        match name_or_wildcard(word) {
            Err(what) => fault = fault.or(Some(what)),
            Ok((key, is_wildcard)) => {
                let scope = match is_wildcard {
                    true => Scope::Below,
                    false => out.plain_scope(),
                };
                match is_null(address) || passes {
                    true => out.block_or_pass(key, scope, passes),
                    false => {
                        let terms = out.terms(scope, Action::Addresses(vec![address]));
                        out.rule(key, terms);
                    }
                }
            }
        }
    }
    match fault {
        Some(what) => Err(what),
        None if any => Ok(()),
        None => Err("there is no name behind the address".into()),
    }
}

/// Whether machines have a name for themselves.
fn is_local(word: &[u8]) -> bool {
    let lower = word.to_ascii_lowercase();
    let is_of_ip6 = lower.starts_with(b"ip6-") && !lower.contains(&b'.');
    is_of_ip6 || LOCAL.contains(&&lower[..])
}

/// An address, perhaps with a zone as `fe80::1%lo0`.
fn address(word: &[u8]) -> Option<IpAddr> {
    let word = std::str::from_utf8(word).ok()?;
    let word = word.split_once('%').map_or(word, |(address, _)| address);
    word.parse().ok()
}
