//! Rules of AdGuard and of other ad blockers.

use std::net::IpAddr;

use super::{LeftOut, Out, name_or_wildcard, plain, plain_name, utf8};
use crate::names::is_address;
use crate::records;
use crate::rule::{Action, Class, Scope, Types};

/// Marks of rules about parts of pages, behind their names.
const COSMETIC: [&str; 9] = [
    "##", "#@#", "#?#", "#@?#", "#$#", "#@$#", "#$?#", "#%#", "$$",
];

/// The options of a rule.
#[derive(Default)]
struct Options {
    is_important: bool,
    is_bad_filter: bool,
    types: Option<Types>,
    except: Vec<Vec<u8>>,
    rewrite: Option<Option<Action>>,
    left_out: Option<LeftOut>,
}

/// `||name^`, `|name|`, `name`, each perhaps with `@@` before and options behind; hosts; comments.
pub fn line(line: &[u8], out: &mut Out<'_>) -> Result<(), String> {
    let text = utf8(line)?.trim();
    if text.is_empty() || text.starts_with('!') || is_header(text) {
        return Ok(());
    }
    let has_marks = text.bytes().any(|byte| matches!(byte, b'#' | b'$'));
    let is_cosmetic = has_marks && COSMETIC.iter().any(|mark| text.contains(mark));
    if text.starts_with('#') && !COSMETIC.iter().any(|mark| text.starts_with(mark)) {
        return Ok(());
    }
    if is_cosmetic && !text.starts_with("||") || text.starts_with('/') {
        out.leave(LeftOut::Urls);
        return Ok(());
    }
    let mut words = text.split_ascii_whitespace();
    let is_address = words.next().is_some_and(is_address);
    if is_address && words.next().is_some() {
        return plain::hosts(line, out);
    }
    let (text, is_exception) = match text.strip_prefix("@@") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (pattern, options) = match text.find('$') {
        Some(at) => (&text[..at], options(&text[at + 1..])?),
        None => (text, Options::default()),
    };
    if let Some(what) = options.left_out {
        out.leave(what);
        return Ok(());
    }
    let Some((key, scope)) = name(pattern)? else {
        out.leave(LeftOut::Urls);
        return Ok(());
    };
    let (class, action) = match (options.rewrite, is_exception) {
        (Some(None), true) => (Class::Rewrite, Action::Pass),
        (Some(None), false) => return Err("there is no value behind dnsrewrite".into()),
        (Some(Some(_)), true) => {
            // An exception to one rewriting among several.
            out.leave(LeftOut::Urls);
            return Ok(());
        }
        (Some(Some(action)), false) => (Class::Rewrite, action),
        (None, true) if options.is_important => (Class::ImportantException, Action::Pass),
        (None, true) => (Class::Exception, Action::Pass),
        (None, false) if options.is_important => (Class::Important, out.manner.block.clone()),
        (None, false) => (Class::Ordinary, out.manner.block.clone()),
    };
    let mut terms = out.terms(scope, action);
    terms.class = class;
    terms.types = options.types;
    terms.except = options.except;
    match options.is_bad_filter {
        true => out.bad_filter(key, terms),
        false => out.rule(key, terms),
    }
    Ok(())
}

/// Whether a line says which program the list is for: `[Adblock Plus 2.0]`.
fn is_header(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']') && !text.contains("##")
}

/// The name of a pattern, and which names it is for; `None` if it is no pattern of names.
fn name(pattern: &str) -> Result<Option<(Vec<u8>, Scope)>, String> {
    let (inner, is_tree) = match pattern.strip_prefix("||") {
        Some(inner) => (inner, true),
        None => (pattern.strip_prefix('|').unwrap_or(pattern), false),
    };
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let (inner, ends) = match inner.strip_suffix('^') {
        Some(inner) => (inner, true),
        None => (inner, !is_tree || pattern.ends_with('|')),
    };
    // Without an end, it is for all names that begin so.
    if !ends && !inner.is_empty() {
        return Ok(None);
    }
    if inner.bytes().any(is_of_urls) || is_address(inner) || inner.starts_with('.') {
        return Ok(None);
    }
    let wildcard = inner.strip_prefix("*.");
    if wildcard.unwrap_or(inner).contains('*') {
        return match inner {
            // Everything.
            "*" => Ok(Some((Vec::new(), Scope::WithBelow))),
            _ => Ok(None),
        };
    }
    if inner.is_empty() {
        return Err("there is no name".into());
    }
    let (key, is_wildcard) = name_or_wildcard(inner.as_bytes())?;
    let scope = match (is_wildcard, is_tree) {
        (true, _) => Scope::Below,
        (false, true) => Scope::WithBelow,
        (false, false) => Scope::Exact,
    };
    Ok(Some((key, scope)))
}

/// Whether a byte is one of addresses and patterns, and of no name.
fn is_of_urls(byte: u8) -> bool {
    const ALL: [bool; 256] = {
        let (mut all, mut at) = ([false; 256], 0);
        let bytes = b"/:?=&~@^[]()|,;%+!'\"<>{}";
        while at < bytes.len() {
            all[bytes[at] as usize] = true;
            at += 1;
        }
        all
    };
    ALL[usize::from(byte)]
}

/// Reads the options behind `$`.
fn options(text: &str) -> Result<Options, String> {
    let mut all = Options::default();
    for option in split(text) {
        let (word, value) = match option.split_once('=') {
            Some((word, value)) => (word, Some(value)),
            None => (option.as_str(), None),
        };
        match (word, value) {
            ("important", None) => all.is_important = true,
            ("badfilter", None) => all.is_bad_filter = true,
            ("dnstype", Some(value)) => all.types = Some(types(value)?),
            ("denyallow", Some(value)) => {
                for name in value.split('|') {
                    all.except.push(plain_name(name.as_bytes())?);
                }
                all.except.sort_unstable();
                all.except.dedup();
            }
            ("dnsrewrite", None | Some("")) => all.rewrite = Some(None),
            ("dnsrewrite", Some(value)) => all.rewrite = Some(Some(rewrite(value)?)),
            ("client" | "ctag", _) => all.left_out = Some(LeftOut::Clients),
            // Options of browsers: the rule is for some of the loads of some pages.
            (word, _) if is_word(word) => all.left_out = Some(LeftOut::Clients),
            _ => return Err(format!("\"{}\" is no option", option.escape_debug())),
        }
    }
    Ok(all)
}

fn is_word(word: &str) -> bool {
    let word = word.strip_prefix('~').unwrap_or(word);
    let is_of_words = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !word.is_empty() && word.chars().all(is_of_words)
}

/// Options between commas. A backslash before one makes it a part of a value.
fn split(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_escape = c == '\\' && chars.peek() == Some(&',');
        let c = if is_escape {
            chars.next().unwrap_or(c)
        } else {
            c
        };
        match (c, is_escape, all.last_mut()) {
            (',', false, _) => all.push(String::new()),
            (c, _, Some(last)) => last.push(c),
            (_, _, None) => {}
        }
    }
    all
}

/// `A|AAAA`, or `~A|~AAAA` for all others.
fn types(value: &str) -> Result<Types, String> {
    let (mut types, mut others) = (Vec::new(), None);
    for word in value.split('|') {
        let (word, is_other) = match word.strip_prefix('~') {
            Some(word) => (word, true),
            None => (word, false),
        };
        if *others.get_or_insert(is_other) != is_other {
            return Err("dnstype has types with and without ~".into());
        }
        types.push(records::rtype(word)?);
    }
    types.sort_unstable();
    types.dedup();
    Ok(Types {
        others: others.unwrap_or(false),
        types,
    })
}

/// What a rewriting does: a word, an address, a name, or `WORD;TYPE;VALUE`.
fn rewrite(value: &str) -> Result<Action, String> {
    let word = |word: &str| match word.to_ascii_uppercase().as_str() {
        "NOERROR" => Some(Action::Nodata),
        "NXDOMAIN" => Some(Action::Nxdomain),
        "REFUSED" => Some(Action::Refused),
        _ => None,
    };
    let no_word = |word: &str| format!("there is no rewriting to \"{}\"", word.escape_debug());
    let mut parts = value.splitn(3, ';');
    let first = parts.next().unwrap_or_default();
    match (parts.next(), parts.next()) {
        (Some(kind), Some(data)) => {
            let code = word(first).ok_or_else(|| no_word(first))?;
            if kind.is_empty() && data.is_empty() || code != Action::Nodata {
                return Ok(code);
            }
            // Names have no dot behind them here.
            let dot = match kind.to_ascii_uppercase().as_str() {
                "CNAME" | "PTR" | "MX" | "SRV" if !data.ends_with('.') => ".",
                _ => "",
            };
            records::record(&format!(". 300 IN {kind} {data}{dot}"), b"\0")?.action()
        }
        (None, _) => {
            if let Some(action) = word(first) {
                return Ok(action);
            }
            if first.eq_ignore_ascii_case("SERVFAIL") {
                return Err(no_word(first));
            }
            match first.parse::<IpAddr>() {
                Ok(address) => Ok(Action::Addresses(vec![address])),
                Err(_) => Ok(Action::Name(plain_name(first.as_bytes())?)),
            }
        }
        (Some(_), None) => Err("a rewriting has three parts: WORD;TYPE;VALUE".into()),
    }
}
