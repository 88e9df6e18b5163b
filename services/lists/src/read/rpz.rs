//! Response policy zones.

use std::mem;

use sapwood::key::dns_name_from_wire;

use super::{LeftOut, MAX_LINE, Out, utf8};
use crate::records::{self, CNAME, OwnedRecord};
use crate::rule::{Action, Scope, Terms};

/// The last labels of names that are triggers of other kinds.
const TRIGGERS: [&[u8]; 4] = [b"rpz-client-ip", b"rpz-ip", b"rpz-nsdname", b"rpz-nsip"];

/// Types of records that are about the zone itself, wherever they are: SOA, NS, DS, RRSIG, NSEC,
/// DNSKEY, NSEC3, NSEC3PARAM.
const OF_ZONES: [u16; 8] = [6, 2, 43, 46, 47, 48, 50, 51];

/// The state between lines.
pub struct Rpz {
    /// The lines of a record that has not ended, and the number of the first.
    text: String,
    first: u64,
    depth: usize,
    /// The name that relative names are below, in wire form.
    origin: Vec<u8>,
    /// The name of the zone, once it is known.
    apex: Option<Vec<u8>>,
    /// The last owner, in wire form.
    owner: Option<Vec<u8>>,
}

impl Default for Rpz {
    fn default() -> Self {
        Rpz {
            text: String::new(),
            first: 0,
            depth: 0,
            origin: vec![0],
            apex: None,
            owner: None,
        }
    }
}

impl Rpz {
    /// Reads a line, which may be a part of a record.
    pub fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), String> {
        let line = utf8(line)?;
        if self.text.is_empty() {
            self.first = out.line;
        }
        if self.text.len() + line.len() > MAX_LINE {
            self.forget();
            return Err(format!("a record has more than {MAX_LINE} bytes"));
        }
        self.depth = depth(line, self.depth).inspect_err(|_| self.forget())?;
        self.text.push_str(line);
        if self.depth > 0 {
            self.text.push('\n');
            return Ok(());
        }
        let text = mem::take(&mut self.text);
        out.line = self.first;
        self.entry(&text, out)
    }

    fn forget(&mut self) {
        self.text.clear();
        self.depth = 0;
    }

    /// At the end of the text.
    pub fn end(&mut self, out: &mut Out<'_>) -> Result<(), String> {
        match self.text.is_empty() {
            true => Ok(()),
            false => {
                out.line = self.first;
                Err("a parenthesis is not closed before the end".into())
            }
        }
    }

    fn entry(&mut self, text: &str, out: &mut Out<'_>) -> Result<(), String> {
        let words = text.trim_start();
        if words.is_empty() || words.starts_with(';') {
            return Ok(());
        }
        if let Some(directive) = text.strip_prefix('$') {
            return self.directive(directive, out);
        }
        let record = match (text.len() == words.len(), &self.owner) {
            (true, _) => records::record(text, &self.origin)?,
            (false, None) => return Err("there is no record before it whose name it has".into()),
            (false, Some(owner)) => {
                // Names in its data are relative to the origin.
                let mut record = records::record(&format!("@{text}"), &self.origin)?;
                record.owner.clone_from(owner);
                record
            }
        };
        self.owner = Some(record.owner.clone());
        self.record(record, out)
    }

    fn directive(&mut self, directive: &str, out: &mut Out<'_>) -> Result<(), String> {
        let content = directive.split(';').next().unwrap_or_default();
        let mut words = content.split_ascii_whitespace();
        let word = words.next().unwrap_or_default().to_ascii_uppercase();
        let value = words
            .next()
            .ok_or("there is no value behind the directive")?;
        match word.as_str() {
            "TTL" => {
                // Rules have the times of their own records only.
                out.leave(LeftOut::Zone);
                Ok(())
            }
            "ORIGIN" => {
                self.origin = records::name(value, &self.origin)?;
                out.leave(LeftOut::Zone);
                Ok(())
            }
            "INCLUDE" => Err("other files are not read; give them as lists of their own".into()),
            _ => Err(format!("${} is no directive", word.escape_debug())),
        }
    }

    fn record(&mut self, record: OwnedRecord, out: &mut Out<'_>) -> Result<(), String> {
        const SOA: u16 = 6;
        if record.record.rtype == SOA {
            self.apex = Some(record.owner.to_ascii_lowercase());
        }
        if OF_ZONES.contains(&record.record.rtype) {
            out.leave(LeftOut::Zone);
            return Ok(());
        }
        // A part of a zone has no record that names it.
        let apex = self
            .apex
            .as_ref()
            .unwrap_or(&self.origin)
            .to_ascii_lowercase();
        let Some(owner) = below(&record.owner, &apex) else {
            let names = [&record.owner, &apex].map(|wire| text_of(wire));
            return Err(format!("{} is not below the zone {}", names[0], names[1]));
        };
        let labels = labels(&owner);
        match labels.last() {
            None => {
                out.leave(LeftOut::Zone);
                return Ok(());
            }
            Some(last)
                if TRIGGERS
                    .iter()
                    .any(|trigger| last.eq_ignore_ascii_case(trigger)) =>
            {
                out.leave(LeftOut::Triggers);
                return Ok(());
            }
            Some(_) => {}
        }
        let (name, scope) = match owner.strip_prefix(b"\x01*") {
            Some(rest) => (rest, Scope::Below),
            None => (&owner[..], Scope::Exact),
        };
        let key = dns_name_from_wire(name).map_err(|error| error.to_string())?;
        let action = match record.record.rtype {
            CNAME => policy(record, &owner)?,
            _ => record.action()?,
        };
        let terms: Terms = out.terms(scope, action);
        out.rule(key, terms);
        Ok(())
    }
}

/// What an alias says, of a rule with this trigger.
fn policy(record: OwnedRecord, trigger: &[u8]) -> Result<Action, String> {
    let target = record.record.data.to_ascii_lowercase();
    Ok(match &target[..] {
        b"\0" => Action::Nxdomain,
        b"\x01*\0" => Action::Nodata,
        b"\x0crpz-passthru\0" => Action::Pass,
        b"\x08rpz-drop\0" => Action::Drop,
        b"\x0crpz-tcp-only\0" => Action::Truncate,
        // The form of passing before there was a word for it.
        same if same == trigger.to_ascii_lowercase() => Action::Pass,
        other
            if labels(other)
                .last()
                .is_some_and(|last| last.starts_with(b"rpz-")) =>
        {
            return Err(format!("{} is no policy that is known", text_of(other)));
        }
        _ => record.action()?,
    })
}

/// The labels of a name in wire form.
fn labels(wire: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    let mut rest = wire;
    while let Some((len, behind)) = rest.split_first() {
        match behind.split_at_checked(usize::from(*len)) {
            Some((label, behind)) if *len > 0 => {
                all.push(label);
                rest = behind;
            }
            _ => break,
        }
    }
    all
}

/// A name in wire form without that of the zone above it, which is in lower case.
fn below(name: &[u8], apex: &[u8]) -> Option<Vec<u8>> {
    let (own, above) = (labels(name), labels(apex));
    let rest = own.len().checked_sub(above.len())?;
    let is_below = own[rest..]
        .iter()
        .zip(above)
        .all(|(a, b)| a.eq_ignore_ascii_case(b));
    if !is_below {
        return None;
    }
    let mut wire = Vec::with_capacity(name.len());
    for label in &own[..rest] {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label);
    }
    wire.push(0);
    Some(wire)
}

fn text_of(wire: &[u8]) -> String {
    let key = dns_name_from_wire(wire).ok();
    let text = key.and_then(|key| crate::names::shown_name(&key).ok());
    text.unwrap_or_else(|| wire.escape_ascii().to_string())
}

/// How many parentheses are open behind a line.
fn depth(line: &str, mut depth: usize) -> Result<usize, String> {
    let mut bytes = line.bytes();
    let mut is_quoted = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => is_quoted = !is_quoted,
            b';' if !is_quoted => break,
            b'(' if !is_quoted => depth += 1,
            b')' if !is_quoted => {
                depth = depth
                    .checked_sub(1)
                    .ok_or("a parenthesis is closed that is not open")?;
            }
            _ => {}
        }
    }
    Ok(depth)
}
