//! Options of dnsmasq.

use std::net::IpAddr;

use super::{LeftOut, Out, plain_name, utf8};
use crate::records::is_null;
use crate::rule::{Action, Scope};

/// `address=/name/…/address`, `server=/name/…/server` or `local=/name/…/`; other options are left
/// out.
pub fn dnsmasq(line: &[u8], out: &mut Out<'_>) -> Result<(), String> {
    let line = utf8(line)?.trim();
    // A comment begins at the beginning, or behind white space.
    let comment = line.char_indices().find(|(at, c)| {
        *c == '#' && (*at == 0 || line[..*at].ends_with(|c: char| c.is_ascii_whitespace()))
    });
    let line = comment.map_or(line, |(at, _)| line[..at].trim_end());
    if line.is_empty() {
        return Ok(());
    }
    let is_option = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let (option, value) = match line.split_once('=') {
        Some((option, value)) => (option.trim(), value.trim()),
        None if !line.contains(|c| !is_option(c)) => {
            out.leave(LeftOut::Options);
            return Ok(());
        }
        None => return Err("it is no option of dnsmasq, which are OPTION=VALUE".into()),
    };
    if option.is_empty() || option.contains(|c| !is_option(c)) {
        return Err(format!(
            "\"{}\" is no option of dnsmasq",
            option.escape_debug()
        ));
    }
    let Some(parts) = value.strip_prefix('/') else {
        out.leave(LeftOut::Options);
        return Ok(());
    };
    let is_answer = option == "address";
    if !is_answer && option != "server" && option != "local" {
        out.leave(LeftOut::Options);
        return Ok(());
    }
    let (names, target) = parts
        .rsplit_once('/')
        .ok_or("there is no / behind the name")?;
    // What the rule does; none if it only blocks.
    let action = match (is_answer, target) {
        (_, "") => Some(Action::Nxdomain),
        (true, "#") => None,
        (true, address) => match address.parse::<IpAddr>() {
            Ok(address) if is_null(address) => None,
            Ok(address) => Some(Action::Addresses(vec![address])),
            Err(_) => return Err(format!("\"{}\" is no address", address.escape_debug())),
        },
        // The name has a server of its own, or the usual ones: it is not blocked.
        (false, _) => Some(Action::Pass),
    };
    for name in names.split('/') {
        let name = name.trim_start_matches('.');
        let key = match name {
            "" => {
                // Names without dots, which no list is about.
                out.leave(LeftOut::Options);
                continue;
            }
            "#" => Vec::new(),
            _ if name.starts_with('*') => {
                return Err(format!(
                    "\"{}\" is a pattern: it is for names that only end so",
                    name.escape_debug()
                ));
            }
            name => plain_name(name.as_bytes())?,
        };
        match &action {
            None => out.block(key, Scope::WithBelow),
            Some(action) => {
                let terms = out.terms(Scope::WithBelow, action.clone());
                out.rule(key, terms);
            }
        }
    }
    Ok(())
}
