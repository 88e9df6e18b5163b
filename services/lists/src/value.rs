//! The values of the map: the rules of a name, in bytes.
//!
//! ```text
//! 0        bits 0 to 3: the action; 4 and 5: the scope; 6: conditions follow; 7: a number of the
//!          list follows (without it, the list is number 0)
//! list     the number of the list
//! then, if conditions follow:
//!          a byte: bits 0 to 2 the class; 3: types follow; 4: these are the types it is not for;
//!          5: names follow that it is not for
//! types    their number, and each type
//! names    their number, and each key with its length
//! then what the action has: addresses, each with 4 or 16 before it; a key; records
//! ```
//!
//! Numbers take 7 bits a byte, the lowest first, and bit 7 says that more follow. A value is one
//! rule after the other, in the order of their ranks. A rule of the first list that only blocks
//! takes one byte, and one of the next 127 lists takes two.

use std::net::IpAddr;

use crate::rule::{Action, Class, Record, Scope, Terms, Types};

/// The most rules with conditions that one list has for one name, and the most addresses or records
/// of one rule.
pub const MANY: usize = 1000;

const CONDITIONS: u8 = 1 << 6;
const LISTED: u8 = 1 << 7;
const TYPES: u8 = 1 << 3;
const OTHERS: u8 = 1 << 4;
const EXCEPT: u8 = 1 << 5;

/// A value is not one of a map of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value is not that of a list's rules")]
pub struct NotRules;

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number > 127 {
        out.push(number as u8 | LISTED);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Adds the bytes of a rule to a value.
pub fn put(terms: &Terms, out: &mut Vec<u8>) {
    let action = match &terms.action {
        Action::Nxdomain => 0,
        Action::Nodata => 1,
        Action::Refused => 2,
        Action::Drop => 3,
        Action::Truncate => 4,
        Action::Pass => 5,
        Action::Null => 6,
        Action::Addresses(_) => 7,
        Action::Name(_) => 8,
        Action::Records(_) => 9,
    };
    let scope = (terms.scope as u8) << 4;
    let has_conditions = terms.class != Class::Ordinary || !terms.is_unconditional();
    let conditions = if has_conditions { CONDITIONS } else { 0 };
    let listed = if terms.list > 0 { LISTED } else { 0 };
    out.push(action | scope | conditions | listed);
    if terms.list > 0 {
        put_number(terms.list.into(), out);
    }
    if has_conditions {
        let (types, others) = match &terms.types {
            None => (0, 0),
            Some(types) => (TYPES, if types.others { OTHERS } else { 0 }),
        };
        let except = if terms.except.is_empty() { 0 } else { EXCEPT };
        out.push(terms.class as u8 | types | others | except);
        if let Some(types) = &terms.types {
            put_number(types.types.len() as u64, out);
            types
                .types
                .iter()
                .for_each(|rtype| put_number((*rtype).into(), out));
        }
        if except > 0 {
            put_number(terms.except.len() as u64, out);
            terms.except.iter().for_each(|key| put_bytes(key, out));
        }
    }
    match &terms.action {
        Action::Addresses(addresses) => {
            put_number(addresses.len() as u64, out);
            for address in addresses {
                match address {
                    IpAddr::V4(address) => put_bytes(&address.octets(), out),
                    IpAddr::V6(address) => put_bytes(&address.octets(), out),
                }
            }
        }
        Action::Name(key) => put_bytes(key, out),
        Action::Records(records) => {
            put_number(records.len() as u64, out);
            for record in records {
                put_number(record.rtype.into(), out);
                put_number(record.ttl.into(), out);
                put_bytes(&record.data, out);
            }
        }
        _ => {}
    }
}

/// What is left of a value that is read.
struct Rest<'v>(&'v [u8]);

impl<'v> Rest<'v> {
    fn byte(&mut self) -> Result<u8, NotRules> {
        let (first, rest) = self.0.split_first().ok_or(NotRules)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, NotRules> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte & LISTED == 0 {
                return Ok(number);
            }
        }
        Err(NotRules)
    }

    fn small<N: TryFrom<u64>>(&mut self) -> Result<N, NotRules> {
        N::try_from(self.number()?).map_err(|_| NotRules)
    }

    /// A number of things that follow.
    fn count(&mut self) -> Result<usize, NotRules> {
        let count: usize = self.small()?;
        if count > self.0.len() {
            return Err(NotRules);
        }
        Ok(count)
    }

    fn bytes(&mut self) -> Result<&'v [u8], NotRules> {
        let len = self.count()?;
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(bytes)
    }

    /// One rule.
    fn rule(&mut self) -> Result<Terms, NotRules> {
        let first = self.byte()?;
        let scope = match first >> 4 & 3 {
            0 => Scope::Exact,
            1 => Scope::Below,
            2 => Scope::WithBelow,
            _ => return Err(NotRules),
        };
        let list = match first & LISTED {
            0 => 0,
            _ => self.small()?,
        };
        let mut terms = Terms::new(scope, Action::Nxdomain, list);
        if first & CONDITIONS != 0 {
            let byte = self.byte()?;
            let class = Class::ALL.get(usize::from(byte & 7)).ok_or(NotRules)?;
            terms.class = *class;
            if byte & TYPES != 0 {
                let types = (0..self.count()?).map(|_| self.small());
                terms.types = Some(Types {
                    types: types.collect::<Result<_, _>>()?,
                    others: byte & OTHERS != 0,
                });
            }
            if byte & EXCEPT != 0 {
                let except = (0..self.count()?).map(|_| self.bytes().map(<[u8]>::to_vec));
                terms.except = except.collect::<Result<_, _>>()?;
            }
        }
        terms.action = match first & 15 {
            0 => Action::Nxdomain,
            1 => Action::Nodata,
            2 => Action::Refused,
            3 => Action::Drop,
            4 => Action::Truncate,
            5 => Action::Pass,
            6 => Action::Null,
            7 => {
                let addresses = (0..self.count()?).map(|_| {
                    let bytes = self.bytes()?;
                    match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
                        (Ok(octets), _) => Ok(IpAddr::from(octets)),
                        (_, Ok(octets)) => Ok(IpAddr::from(octets)),
                        _ => Err(NotRules),
                    }
                });
                Action::Addresses(addresses.collect::<Result<_, _>>()?)
            }
            8 => Action::Name(self.bytes()?.to_vec()),
            9 => {
                let records = (0..self.count()?).map(|_| {
                    Ok(Record {
                        rtype: self.small()?,
                        ttl: self.small()?,
                        data: self.bytes()?.to_vec(),
                    })
                });
                Action::Records(records.collect::<Result<_, _>>()?)
            }
            _ => return Err(NotRules),
        };
        Ok(terms)
    }
}

/// The rules of a value, each with its bytes.
///
/// # Errors
/// [`NotRules`], after which nothing follows.
pub fn rules(value: &[u8]) -> impl Iterator<Item = Result<(&[u8], Terms), NotRules>> {
    let mut rest = Rest(value);
    std::iter::from_fn(move || {
        let before = rest.0;
        if before.is_empty() {
            return None;
        }
        let read = rest.rule();
        Some(match read {
            Ok(terms) => Ok((&before[..before.len() - rest.0.len()], terms)),
            Err(error) => {
                rest.0 = &[];
                Err(error)
            }
        })
    })
}

/// The rules in a value of a map, in their order.
///
/// O(length of the value).
///
/// ```
/// use sapwood_lists::{Action, rules_of};
///
/// let rules = rules_of(&[0x20])?;
/// assert_eq!((rules.len(), &rules[0].action), (1, &Action::Nxdomain));
/// assert!(rules_of(&[0xff]).is_err());
/// # Ok::<(), sapwood_lists::NotRules>(())
/// ```
///
/// # Errors
/// [`NotRules`]: it is another kind of value.
pub fn terms(value: &[u8]) -> Result<Vec<Terms>, NotRules> {
    rules(value)
        .map(|rule| rule.map(|(_, terms)| terms))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any terms, with everything that they may have.
    pub fn random_terms(random: &mut fastrand::Rng) -> Terms {
        let action = match random.u8(..10) {
            0 => Action::Nxdomain,
            1 => Action::Nodata,
            2 => Action::Refused,
            3 => Action::Drop,
            4 => Action::Truncate,
            5 => Action::Pass,
            6 => Action::Null,
            7 => Action::addresses((0..random.usize(1..4)).map(|_| match random.bool() {
                true => IpAddr::from(random.u32(..).to_be_bytes()),
                false => IpAddr::from(random.u128(..).to_be_bytes()),
            })),
            8 => Action::Name(b"x\0*\0".to_vec()),
            _ => Action::Records(
                (0..random.usize(1..3))
                    .map(|_| Record {
                        rtype: random.u16(..),
                        ttl: random.u32(..),
                        data: (0..random.usize(..9)).map(|_| random.u8(..)).collect(),
                    })
                    .collect(),
            ),
        };
        let mut terms = Terms::new(random.choice(Scope::ALL).unwrap(), action, 0);
        if random.bool() {
            terms.list = random.u16(..);
        }
        if random.bool() {
            terms.class = random.choice(Class::ALL).unwrap();
            terms.types = random.bool().then(|| Types {
                others: random.bool(),
                types: (0..random.usize(..4)).map(|_| random.u16(..)).collect(),
            });
            terms.except = (0..random.usize(..3))
                .map(|n| b"abc\0"[n..].to_vec())
                .collect();
        }
        terms
    }

    #[test]
    fn values_read_as_what_was_put_into_them() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..5000 {
            let all: Vec<Terms> = (0..random.usize(..4))
                .map(|_| random_terms(&mut random))
                .collect();
            let mut value = Vec::new();
            all.iter().for_each(|terms| put(terms, &mut value));
            assert_eq!(terms(&value).as_ref(), Ok(&all));
            let parts: Vec<&[u8]> = rules(&value).map(|rule| rule.unwrap().0).collect();
            assert_eq!(parts.concat(), value);
            // A damaged value is an error or other rules, never a panic.
            if !value.is_empty() {
                let at = random.usize(..value.len());
                value[at] ^= 1 << random.u8(..8);
                value.truncate(random.usize(..=value.len()));
                let _ = terms(&value);
            }
        }
    }

    #[test]
    fn rules_that_only_block_take_a_byte_or_two() {
        for (list, bytes) in [(0, 1), (1, 2), (127, 2), (128, 3), (u16::MAX, 4)] {
            for scope in Scope::ALL {
                let mut value = Vec::new();
                put(&Terms::new(scope, Action::Nxdomain, list), &mut value);
                assert_eq!(value.len(), bytes);
            }
        }
    }

    #[test]
    fn other_values_are_refused() {
        let missing = [0x30, 0x0f, 0x80, 0x07, 0x40, 0x08];
        for wrong in missing {
            assert_eq!(terms(&[wrong]), Err(NotRules), "{wrong:#x}");
        }
        assert_eq!(
            terms(&[0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
            Err(NotRules)
        );
        assert_eq!(
            terms(&[7, 1, 5, 1, 2, 3, 4, 5]),
            Err(NotRules),
            "an address of five bytes"
        );
        assert_eq!(rules(&[0x30, 0]).count(), 1, "nothing follows an error");
    }
}
