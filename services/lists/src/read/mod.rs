//! Reads lists in all formats: line by line, each line as rules, as nothing, or as a fault.

mod adblock;
mod lines;
mod options;
mod plain;
mod rpz;
mod unbound;

use std::io::{BufRead, Cursor, Read};

use crate::error::ListError;
use crate::format::Format;
use crate::looks::ListTally;
use crate::names::{listed_name, shown};
use crate::rule::{Action, Class, Rule, Scope, Terms};
use crate::source::Source;
pub use lines::MAX_LINE;
use lines::{Line, Lines};

/// What a line is about that is understood, but has no rule for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Addresses, parts of pages, or patterns that are no names.
    Urls,
    /// Some clients, or some pages.
    Clients,
    /// Triggers of response policies other than the name of a question.
    Triggers,
    /// Other options of a server.
    Options,
    /// Names that each machine has for itself, as `localhost`.
    Local,
    /// The zone itself: its authority, servers and signatures.
    Zone,
}

impl LeftOut {
    /// All of them.
    pub const ALL: [LeftOut; 6] = [
        LeftOut::Urls,
        LeftOut::Clients,
        LeftOut::Triggers,
        LeftOut::Options,
        LeftOut::Local,
        LeftOut::Zone,
    ];

    /// The words for it.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::LeftOut;
    ///
    /// assert_eq!(LeftOut::Urls.words(), "about addresses, pages or patterns");
    /// ```
    pub fn words(self) -> &'static str {
        match self {
            LeftOut::Urls => "about addresses, pages or patterns",
            LeftOut::Clients => "about some clients or pages",
            LeftOut::Triggers => "with other triggers than names of questions",
            LeftOut::Options => "with other options",
            LeftOut::Local => "about names of the machine itself",
            LeftOut::Zone => "about the zone itself",
        }
    }
}

/// Counts of the lines of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All lines.
    pub lines: u64,
    /// Rules in them.
    pub rules: u64,
    /// Lines that are understood and have no rule, by [`LeftOut::ALL`].
    pub left_out: [u64; LeftOut::ALL.len()],
    /// Lines that are not understood.
    pub refused: u64,
}

/// How a list is read.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    /// Its number.
    pub list: u16,
    /// Its format.
    pub format: Format,
    /// Whether its names are exceptions.
    pub exceptions: bool,
    /// Whether its plain names, and those of a hosts file, stand for the names below them, too.
    pub below: bool,
    /// Whether `!` in front of such a name makes it pass.
    pub marks: bool,
    /// What rules do that only block.
    pub block: Action,
}

/// A rule as a line has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadRule {
    pub rule: Rule,
    /// Whether it cancels rules like it (`$badfilter`).
    pub is_bad_filter: bool,
    /// Whether it counts in place of the rules like it that come before it in the list. Else the
    /// first one counts.
    pub is_last: bool,
}

/// What comes of a line.
pub(crate) struct Out<'m> {
    manner: &'m Manner,
    /// The line that is read.
    pub line: u64,
    pub rules: Vec<ReadRule>,
    left_out: [u64; LeftOut::ALL.len()],
}

impl Out<'_> {
    /// A line without a rule for names.
    fn leave(&mut self, what: LeftOut) {
        self.left_out[what as usize] += 1;
    }

    /// The terms of a rule.
    fn terms(&self, scope: Scope, action: Action) -> Terms {
        Terms::new(scope, action, self.manner.list)
    }

    /// A rule that only blocks.
    fn block(&mut self, key: Vec<u8>, scope: Scope) {
        let terms = self.terms(scope, self.manner.block.clone());
        self.rule(key, terms);
    }

    /// A rule that only blocks, or one that passes if the name has a mark.
    fn block_or_pass(&mut self, key: Vec<u8>, scope: Scope, passes: bool) {
        match passes {
            true => {
                let terms = self.terms(scope, Action::Pass);
                self.rule(key, terms);
            }
            false => self.block(key, scope),
        }
        if self.manner.marks {
            self.replaces();
        }
    }

    /// A name without the mark in front of it, and whether it had one.
    fn unmarked<'t>(&self, name: &'t [u8]) -> (&'t [u8], bool) {
        match name.strip_prefix(b"!") {
            Some(name) if self.manner.marks => (name, true),
            _ => (name, false),
        }
    }

    fn rule(&mut self, key: Vec<u8>, terms: Terms) {
        self.rule_of_line(self.line, key, terms);
    }

    /// A rule that cancels those like it.
    fn bad_filter(&mut self, key: Vec<u8>, terms: Terms) {
        self.rule(key, terms);
        if let Some(rule) = self.rules.last_mut() {
            rule.is_bad_filter = true;
        }
    }

    /// The last rule counts in place of those like it that came before.
    fn replaces(&mut self) {
        if let Some(rule) = self.rules.last_mut() {
            rule.is_last = true;
        }
    }

    fn rule_of_line(&mut self, line: u64, key: Vec<u8>, mut terms: Terms) {
        if self.manner.exceptions {
            terms.action = Action::Pass;
            terms.class = match terms.class {
                Class::Important | Class::ImportantException => Class::ImportantException,
                _ => Class::Exception,
            };
        }
        self.rules.push(ReadRule {
            rule: Rule { key, terms, line },
            is_bad_filter: false,
            is_last: false,
        });
    }

    /// The scope of a plain name.
    fn plain_scope(&self) -> Scope {
        match self.manner.below {
            true => Scope::WithBelow,
            false => Scope::Exact,
        }
    }
}

/// Reads the key of a name that may be a wildcard `*.name`; returns whether it is one.
fn name_or_wildcard(text: &[u8]) -> Result<(Vec<u8>, bool), String> {
    match text.strip_prefix(b"*") {
        Some(b"" | b".") => Ok((Vec::new(), true)),
        Some(rest) if rest.first() == Some(&b'.') && rest.len() > 1 => {
            Ok((listed_name(&rest[1..])?.key, true))
        }
        _ => Ok((listed_name(text)?.key, false)),
    }
}

/// Reads the key of a name that may not be a wildcard.
fn plain_name(text: &[u8]) -> Result<Vec<u8>, String> {
    match name_or_wildcard(text)? {
        (key, false) => Ok(key),
        (_, true) => Err(format!(
            "\"{}\" is a wildcard, which has no meaning here",
            shown(text)
        )),
    }
}

/// A reader of one format.
enum Parser {
    Plain,
    Hosts,
    Dnsmasq,
    AdBlock,
    Unbound(unbound::Unbound),
    Rpz(rpz::Rpz),
}

impl Parser {
    fn new(format: Format) -> Self {
        match format {
            Format::Plain => Parser::Plain,
            Format::Hosts => Parser::Hosts,
            Format::Dnsmasq => Parser::Dnsmasq,
            Format::AdBlock => Parser::AdBlock,
            Format::Unbound => Parser::Unbound(unbound::Unbound::default()),
            Format::Rpz => Parser::Rpz(rpz::Rpz::default()),
        }
    }

    /// Reads a line. What is not understood is an error; rules that came before it count.
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), String> {
        match self {
            Parser::Plain if out.manner.marks => plain::mixed(line, out),
            Parser::Plain => plain::plain(line, out),
            Parser::Hosts => plain::hosts(line, out),
            Parser::Dnsmasq => options::dnsmasq(line, out),
            Parser::AdBlock => adblock::line(line, out),
            Parser::Unbound(unbound) => unbound.line(line, out),
            Parser::Rpz(rpz) => rpz.line(line, out),
        }
    }

    fn end(&mut self, out: &mut Out<'_>) -> Result<(), String> {
        match self {
            Parser::Unbound(unbound) => {
                unbound.end(out);
                Ok(())
            }
            Parser::Rpz(rpz) => rpz.end(out),
            _ => Ok(()),
        }
    }
}

/// How much of a text is looked at to recognise its format.
const HEAD: u64 = 1 << 16;

/// Reads the beginning of a text, and recognises its format. Returns the format, and all of the
/// text again.
pub(crate) fn recognised<R: BufRead>(
    mut input: R,
    source: &Source,
    name: &str,
) -> Result<(Format, impl BufRead + use<R>), ListError> {
    let mut head = Vec::new();
    let read = (&mut input).take(HEAD).read_to_end(&mut head);
    read.map_err(ListError::read(name))?;
    let is_all = (head.len() as u64) < HEAD;
    let format = match (
        source.format,
        Format::recognise(&head, is_all, source.marks),
    ) {
        (Some(format), _) | (None, Ok(format)) => format,
        (None, Err(looks_like)) => {
            return Err(ListError::NoFormat {
                list: name.into(),
                looks_like,
            });
        }
    };
    Ok((format, Cursor::new(head).chain(input)))
}

/// What a reading tells while it goes on.
pub(crate) enum Told<'t> {
    /// A rule.
    Rule(ReadRule),
    /// A line is not understood: its number, and why.
    Refused(u64, &'t str),
    /// Some thousand lines more were read.
    Lines,
}

/// Reads a list.
///
/// # Errors
/// Those of the input and of `tell`, and [`ListError::NotAList`].
pub(crate) fn read(
    input: impl BufRead,
    manner: &Manner,
    name: &str,
    mut tell: impl FnMut(Told<'_>) -> Result<(), ListError>,
) -> Result<Counts, ListError> {
    let mut parser = Parser::new(manner.format);
    let mut out = Out {
        manner,
        line: 0,
        rules: Vec::new(),
        left_out: Default::default(),
    };
    let mut counts = Counts::default();
    let mut tally = ListTally::default();
    let mut lines = Lines::new(input);
    loop {
        let before = out.left_out;
        let line = lines.read().map_err(ListError::read(name))?;
        let is_end = line.is_none();
        let (line, parsed) = match line {
            None => (&b""[..], parser.end(&mut out)),
            Some(Line::TooLong(bytes)) => {
                out.line = counts.lines + 1;
                (
                    &b""[..],
                    Err(format!(
                        "it has {bytes} bytes; a line has {MAX_LINE} at most"
                    )),
                )
            }
            Some(Line::Whole(line)) => {
                out.line = counts.lines + 1;
                (line, parser.line(without_mark(line), &mut out))
            }
        };
        counts.lines += u64::from(!is_end);
        let has_rules = !out.rules.is_empty();
        counts.rules += out.rules.iter().filter(|rule| !rule.is_bad_filter).count() as u64;
        for rule in out.rules.drain(..) {
            tell(Told::Rule(rule))?;
        }
        match parsed {
            Err(what) => {
                counts.refused += 1;
                tally.refuse(line);
                tell(Told::Refused(out.line, &what))?;
            }
            Ok(()) if has_rules || out.left_out != before => tally.take(),
            Ok(()) => {}
        }
        if is_end {
            break;
        }
        if counts.lines % 4096 == 0 {
            tell(Told::Lines)?;
        }
    }
    counts.left_out = out.left_out;
    match tally.check() {
        Ok(()) => Ok(counts),
        Err(not) => Err(ListError::NotAList {
            list: name.into(),
            format: manner.format,
            refused: not.refused,
            lines: not.lines,
            looks_like: not.looks_like,
        }),
    }
}

/// A line without byte order marks and carriage returns around it.
fn without_mark(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_prefix(b"\xef\xbb\xbf") {
        line = rest;
    }
    while let Some(rest) = line.strip_suffix(b"\r") {
        line = rest;
    }
    line
}

/// A line as text, for the formats that have nothing else.
fn utf8(line: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(line).map_err(|_| format!("\"{}\" is not UTF-8", shown(line)))
}

#[cfg(test)]
mod tests;
