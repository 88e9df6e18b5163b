//! Options of Unbound.

use super::{LeftOut, Out, plain_name, utf8};
use crate::records::{self, is_null};
use crate::rule::{Action, Scope};
use sapwood::key::dns_name_from_wire;

/// The state between lines: the last zone of type `redirect`. Records of its name are for all names
/// below it, too, if they come directly behind it.
#[derive(Default)]
pub struct Unbound {
    redirect: Option<Redirect>,
}

struct Redirect {
    key: Vec<u8>,
    line: u64,
    has_data: bool,
}

impl Unbound {
    /// `local-zone: name type` or `local-data: "record"`; other options are left out.
    pub fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), String> {
        let line = without_comment(utf8(line)?.trim());
        if line.is_empty() {
            return Ok(());
        }
        let (option, value) = line
            .split_once(':')
            .ok_or("it is no option of Unbound, which are OPTION: VALUE")?;
        let is_option = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if option.is_empty() || option.contains(|c| !is_option(c)) {
            return Err(format!(
                "\"{}\" is no option of Unbound",
                option.escape_debug()
            ));
        }
        match option {
            "local-zone" => {
                self.end(out);
                self.zone(value, out)
            }
            "local-data" => self.data(unquoted(value), out),
            _ => {
                out.leave(LeftOut::Options);
                Ok(())
            }
        }
    }

    fn zone(&mut self, value: &str, out: &mut Out<'_>) -> Result<(), String> {
        let value = value.trim();
        let (name, kind) = match value.strip_prefix('"') {
            Some(rest) => rest
                .split_once('"')
                .ok_or("there is no \" behind the name")?,
            None => value
                .split_once(|c: char| c.is_ascii_whitespace())
                .ok_or("there is no type behind the name")?,
        };
        let key = plain_name(name.as_bytes())?;
        let action = match unquoted(kind) {
            "always_nxdomain" | "static" => Action::Nxdomain,
            "always_nodata" => Action::Nodata,
            "refuse" | "always_refuse" => Action::Refused,
            "deny" | "always_deny" | "inform_deny" => Action::Drop,
            "always_null" => Action::Null,
            "transparent" | "typetransparent" | "always_transparent" | "inform" => Action::Pass,
            "redirect" | "inform_redirect" => {
                self.redirect = Some(Redirect {
                    key,
                    line: out.line,
                    has_data: false,
                });
                return Ok(());
            }
            "nodefault" | "noview" | "block_a" | "ipset" => {
                out.leave(LeftOut::Options);
                return Ok(());
            }
            other => {
                return Err(format!("\"{}\" is no type of a zone", other.escape_debug()));
            }
        };
        let terms = out.terms(Scope::WithBelow, action);
        out.rule(key, terms);
        out.replaces();
        Ok(())
    }

    fn data(&mut self, text: &str, out: &mut Out<'_>) -> Result<(), String> {
        let record = records::record(text, b"\0")?;
        let key = dns_name_from_wire(&record.owner).map_err(|error| error.to_string())?;
        let scope = match &mut self.redirect {
            Some(redirect) if redirect.key == key => {
                redirect.has_data = true;
                Scope::WithBelow
            }
            _ => Scope::Exact,
        };
        let is_block = record.record.address().is_some_and(is_null);
        match is_block && scope == Scope::WithBelow {
            // What lists write that know no better way to block a name.
            true => out.block(key, scope),
            false => {
                let terms = out.terms(scope, record.action()?);
                out.rule(key, terms);
            }
        }
        if scope == Scope::WithBelow {
            out.replaces();
        }
        Ok(())
    }

    /// A redirection without records has no answers.
    pub fn end(&mut self, out: &mut Out<'_>) {
        if let Some(redirect) = self.redirect.take().filter(|redirect| !redirect.has_data) {
            let terms = out.terms(Scope::WithBelow, Action::Nodata);
            out.rule_of_line(redirect.line, redirect.key, terms);
            out.replaces();
        }
    }
}

/// A line without the comment at its end, which begins with # outside of quotes.
fn without_comment(line: &str) -> &str {
    let mut is_quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' if !is_quoted => return line[..at].trim_end(),
            _ => {}
        }
    }
    line
}

/// A value without white space and quotes around it.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        let inner = value
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner;
        }
    }
    value
}
