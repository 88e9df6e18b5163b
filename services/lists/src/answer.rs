//! What a resolver puts into the answer to a question that a rule answers.

use std::net::IpAddr;

use sapwood::key::{DnsNameError, dns_name, dns_name_to_text};

use crate::rule::{Action, Record};
use crate::verdict::Verdict;

/// What a resolver answers with, beside the action itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Records of the question's type. Addresses have the time to live of [`Record`]s that stand
    /// among records.
    pub records: Vec<Record>,
    /// The key of the name that the question's name is another one for.
    pub name: Option<Vec<u8>>,
}

impl Verdict {
    /// What the rule puts into the answer to a question for the name of a key, of this type: the
    /// addresses or records of this type, or the other name with the question's name in the place
    /// of its asterisk. Rules that only block have none of them.
    ///
    /// O(bytes of the rule).
    ///
    /// ```
    /// use sapwood_lists::{Loader, Options, Source};
    ///
    /// let list = Source::text("a", "192.0.2.1 x.example\n2001:db8::1 x.example\n");
    /// let (map, _) = Loader::new(vec![list], Options::default()).build()?;
    /// let found = map.verdict("x.example".as_ref(), 28)?.expect("it is listed");
    /// let answer = found.answer(b"example\0x\0", 28)?;
    /// assert_eq!((answer.records.len(), answer.records[0].data.len()), (1, 16));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`DnsNameError`]: the question's name is too long for the place of the asterisk.
    pub fn answer(&self, asked: &[u8], rtype: u16) -> Result<Answer, DnsNameError> {
        let all: Vec<Record> = match &self.terms.action {
            Action::Null => vec![
                Record::of_address(IpAddr::from([0; 4])),
                Record::of_address(IpAddr::from([0; 16])),
            ],
            Action::Addresses(addresses) => {
                addresses.iter().copied().map(Record::of_address).collect()
            }
            Action::Records(records) => records.clone(),
            Action::Name(key) => {
                let name = Some(in_place_of_asterisk(key, asked)?);
                return Ok(Answer {
                    name,
                    ..Answer::default()
                });
            }
            _ => Vec::new(),
        };
        let records = all.into_iter().filter(|record| record.rtype == rtype);
        Ok(Answer {
            records: records.collect(),
            name: None,
        })
    }
}

/// The key with another one in the place of its first label, if this is an asterisk.
fn in_place_of_asterisk(key: &[u8], asked: &[u8]) -> Result<Vec<u8>, DnsNameError> {
    let above = match key.strip_suffix(b"*\0") {
        Some(above) if above.is_empty() || above.ends_with(b"\0") => above,
        _ => return Ok(key.to_vec()),
    };
    let whole = [above, asked].concat();
    // A name that is too long is found when it is read.
    dns_name(dns_name_to_text(&whole)?)?;
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{A, AAAA, Scope, Terms};
    use crate::verdict::Reason;

    fn verdict(action: Action) -> Verdict {
        Verdict {
            key: b"x\0".to_vec(),
            terms: Terms::new(Scope::WithBelow, action, 0),
            why: Reason::Only,
            others: 0,
        }
    }

    #[test]
    fn answers_have_the_records_of_the_type_or_the_other_name() {
        let [v4, v6] = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse::<IpAddr>().unwrap());
        let text = Record {
            rtype: 16,
            ttl: 60,
            data: b"\x02hi".to_vec(),
        };
        let records = |action: Action, rtype| verdict(action).answer(b"x\0a\0", rtype).unwrap();
        let both = Action::addresses([v4, v6]);
        for (action, rtype, data) in [
            (Action::Nxdomain, A, None),
            (Action::Null, A, Some(vec![0; 4])),
            (Action::Null, AAAA, Some(vec![0; 16])),
            (Action::Null, 16, None),
            (both.clone(), A, Some(vec![192, 0, 2, 1])),
            (both, 15, None),
            (Action::Records(vec![text.clone()]), 16, Some(text.data)),
            (Action::Records(vec![Record::of_address(v4)]), AAAA, None),
        ] {
            let about = format!("{action} {rtype}");
            let answer = records(action, rtype);
            let found = answer.records.first().map(|record| record.data.clone());
            assert_eq!((found, answer.name), (data, None), "{about}");
        }
        for (target, name) in [
            (&b"y\0"[..], &b"y\0"[..]),
            (b"y\0*\0", b"y\0x\0a\0"),
            (b"*\0", b"x\0a\0"),
            (b"y\0a*\0", b"y\0a*\0"),
        ] {
            let answer = records(Action::Name(target.to_vec()), A);
            assert_eq!(
                (answer.name.as_deref(), answer.records.len()),
                (Some(name), 0)
            );
        }
        let long = dns_name([["a"; 60].join("."), ["b"; 60].join(".")].join(".")).unwrap();
        let target = dns_name("*.much.too.long.to.stand.behind.it").unwrap();
        assert!(verdict(Action::Name(target)).answer(&long, A).is_err());
    }
}
