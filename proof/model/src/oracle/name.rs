//! A domain name in a DNS message, by its definition.

/// A name that a message holds: its bytes in wire form without compression, and the place of the
/// first byte behind it. `None` if there is no such name at this place.
///
/// A pointer leads to another name, and is the end of its own. The other name must begin before
/// `at`, or before the name to which the last pointer led. A name has 255 bytes at most, and as
/// many pointers as `pointers`.
///
/// ```
/// use sapwood_model::oracle::name_in_message;
/// let message = b"\x01b\x01a\x00\x01c\xc0\x02...";
/// assert_eq!(name_in_message(message, 0, 127), Some((b"\x01b\x01a\x00".to_vec(), 5)));
/// assert_eq!(name_in_message(message, 5, 127), Some((b"\x01c\x01a\x00".to_vec(), 9)));
/// assert_eq!(name_in_message(message, 5, 0), None);
/// assert_eq!(name_in_message(b"\x01c\xc0\x00", 0, 127), None);
/// ```
#[must_use]
pub fn name_in_message(message: &[u8], at: usize, pointers: usize) -> Option<(Vec<u8>, usize)> {
    let (mut name, mut end) = (Vec::new(), at);
    loop {
        let length = usize::from(*message.get(end)?);
        match length >> 6 {
            0 => {
                let label = message.get(end..=end + length)?;
                name.extend_from_slice(label);
                end += label.len();
            }
            3 => {
                let there = (length & 63) * 256 + usize::from(*message.get(end + 1)?);
                let may_lead_there = there < at && pointers > 0;
                let (rest, _) = may_lead_there
                    .then(|| name_in_message(message, there, pointers - 1))
                    .flatten()?;
                name.extend_from_slice(&rest);
                end += 2;
            }
            _ => return None,
        }
        if name.len() > 255 {
            return None;
        }
        if length == 0 || length >= 192 {
            return Some((name, end));
        }
    }
}
