//! Parses the lines of /proc/PID/maps.

use std::borrow::Cow;
use std::ops::RangeInclusive;

/// The text that the kernel adds to the name of a deleted file.
const DELETED: &str = " (deleted)";

/// A memory mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The addresses of the mapping.
    pub range: RangeInclusive<u64>,
    /// The permissions as the kernel writes them, such as `r-xp`.
    pub permissions: String,
    /// The place in the file where the mapping begins, in bytes.
    pub offset: u64,
    /// The device of the file, as the kernel writes it.
    pub device: String,
    /// The file's number on its device; 0 if the mapping has no file.
    pub inode: u64,
    /// The path of the file, or the kernel's name of the mapping; it may be empty. Bytes that are
    /// not UTF-8 are replaced.
    pub name: String,
    /// Whether the file is deleted.
    pub deleted: bool,
}

/// Parses a whole table. The error is the number of a bad line and its fault.
pub fn parse(text: &[u8]) -> Result<Vec<Mapping>, (u64, String)> {
    let lines = text.split(|byte| *byte == b'\n').zip(1..);
    lines
        .filter(|(line, _)| !line.is_empty())
        .map(|(line, number)| {
            parse_line(&String::from_utf8_lossy(line))
                .ok_or_else(|| (number, "not a mapping".to_owned()))
        })
        .collect()
}

/// Parses `start-end permissions offset device inode name`. The end is one after the last address.
/// The name is the rest of the line, blanks included.
fn parse_line(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let (field, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = behind;
        field
    };
    let [range, permissions, offset, device, inode] = [(); 5].map(|()| field());
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (start, end) = range.split_once('-')?;
    // The end of the last page of all is 2^64, which the kernel writes as 0.
    let (start, end) = (hex(start)?, hex(end)?.wrapping_sub(1));
    if start > end || permissions.is_empty() || device.is_empty() {
        return None;
    }
    let name = rest.trim_start_matches(' ');
    let (name, deleted) = match name.strip_suffix(DELETED) {
        Some(name) => (name, true),
        None => (name, false),
    };
    Some(Mapping {
        range: start..=end,
        permissions: permissions.into(),
        offset: hex(offset)?,
        device: device.into(),
        inode: inode.parse().ok()?,
        name: name.into(),
        deleted,
    })
}

impl Mapping {
    /// The name as the kernel writes it.
    pub fn full_name(&self) -> Cow<'_, str> {
        match self.deleted {
            true => Cow::Owned(format!("{}{DELETED}", self.name)),
            false => Cow::Borrowed(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus-daemon
00e24000-011f7000 rw-p 00000000 00:00 0           [heap]
35b1800000-35b1820000 r-xp 00001000 08:02 135522  /opt/two  blanks/lib x.so
7f2c00000000-7f2c00021000 rw-p 00000000 00:00 0 
7f2c10000000-7f2c10001000 rw-s 00000000 00:01 1024                       /memfd:a (b) (deleted)
7f2c20000000-7f2c20001000 rw-p 00000000 00:00 0                          [anon:a name]
7f2c30000000-7f2c30001000 r--p fffff000 fd:01 18446744073709551615       /a (deleted) file
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn a_table() {
        let table = parse(TABLE.as_bytes()).unwrap();
        let names: Vec<_> = table.iter().map(|mapping| &*mapping.name).collect();
        assert_eq!(
            names,
            [
                "/usr/bin/dbus-daemon",
                "[heap]",
                "/opt/two  blanks/lib x.so",
                "",
                "/memfd:a (b)",
                "[anon:a name]",
                "/a (deleted) file",
                "[vsyscall]",
            ]
        );
        assert_eq!(
            table[2],
            Mapping {
                range: 0x35_b180_0000..=0x35_b181_ffff,
                permissions: "r-xp".into(),
                offset: 0x1000,
                device: "08:02".into(),
                inode: 135_522,
                name: "/opt/two  blanks/lib x.so".into(),
                deleted: false,
            }
        );
        let deleted: Vec<_> = table.iter().map(|mapping| mapping.deleted).collect();
        assert_eq!(deleted.iter().position(|deleted| *deleted), Some(4));
        assert_eq!(deleted.iter().filter(|deleted| **deleted).count(), 1);
        assert_eq!(table[4].full_name(), "/memfd:a (b) (deleted)");
        assert_eq!(table[1].full_name(), "[heap]");
        assert_eq!(table[6].inode, u64::MAX);
        assert_eq!(
            table[7].range,
            0xffff_ffff_ff60_0000..=0xffff_ffff_ff60_0fff
        );
    }

    #[test]
    fn the_very_last_page() {
        for end in ["0", "0000000000000000"] {
            let line = format!("fffffffffffff000-{end} r--p 00000000 00:00 0");
            let table = parse(line.as_bytes()).unwrap();
            assert_eq!(table[0].range, 0xffff_ffff_ffff_f000..=u64::MAX);
        }
    }

    #[test]
    fn names_that_are_not_utf_8() {
        let table = parse(b"1000-2000 r--p 00000000 00:00 7 /a\xffb\n").unwrap();
        assert_eq!(table[0].name, "/a\u{fffd}b");
    }

    #[test]
    fn bad_lines_are_errors() {
        assert_eq!(parse(b"").unwrap(), []);
        for line in [
            "nonsense",
            "1000 r--p 00000000 00:00 7 x",
            "2000-1000 r--p 00000000 00:00 7 x",
            "1000-1000 r--p 00000000 00:00 7 x",
            "1000-20g0 r--p 00000000 00:00 7 x",
            "1000-2000",
            "1000-2000 r--p",
            "1000-2000 r--p 00000000 00:00",
            "1000-2000 r--p 00000000 00:00 x",
            "1000-2000 r--p x 00:00 7",
            "10000000000000000-20000000000000000 r--p 00000000 00:00 7 x",
        ] {
            let text = format!("0-1000 r--p 00000000 00:00 7\n{line}\n");
            assert_eq!(
                parse(text.as_bytes()),
                Err((2, "not a mapping".into())),
                "{line}"
            );
        }
    }
}
