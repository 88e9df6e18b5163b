//! The memory mappings of this process, from /proc/self/maps.

use std::fs;
use std::ops::RangeInclusive;

use super::super::Missing;

/// A memory mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The addresses of the mapping.
    pub range: RangeInclusive<u64>,
    /// The path of the file, or the kernel's name of the mapping; it may be empty. Bytes that are
    /// not UTF-8 are replaced.
    pub name: String,
}

/// The mappings of this process, in order of addresses. The kernel does not write the table at one
/// moment, so two mappings may overlap.
///
/// # Errors
///
/// If the system has no such table: only Linux has it.
pub fn mappings() -> Result<Vec<Mapping>, Missing> {
    const NAME: &str = "mappings";
    let text = fs::read("/proc/self/maps").map_err(|error| Missing::new(NAME, error))?;
    parse(&String::from_utf8_lossy(&text)).map_err(|what| Missing::new(NAME, what))
}

/// Parses a whole table. The error names a bad line.
fn parse(text: &str) -> Result<Vec<Mapping>, String> {
    let lines = text.lines();
    lines
        .map(|line| mapping(line).ok_or_else(|| format!("{line:?} is not a mapping")))
        .collect()
}

/// Parses `start-end permissions offset device inode name`. The end is one after the last address.
/// The name is the rest of the line, blanks included.
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let [_permissions, _offset, _device, inode] = [(); 4].map(|()| fields.next());
    inode.filter(|inode| !inode.is_empty())?;
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    // The end of the last page of all is 2^64, which the kernel writes as 0.
    let (start, end) = (hex(start)?, hex(end)?.wrapping_sub(1));
    (start <= end).then(|| Mapping {
        range: start..=end,
        name: fields.next().unwrap_or("").trim_start().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table() {
        let table = parse(
            "\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus-daemon
00e24000-011f7000 rw-p 00000000 00:00 0           [heap]
35b1800000-35b1820000 r-xp 00001000 08:02 135522  /opt/two  blanks/lib x.so
7f2c00000000-7f2c00021000 rw-p 00000000 00:00 0 
7f2c10000000-7f2c10001000 rw-s 00000000 00:01 1024                       /memfd:a (b) (deleted)
fffffffffffff000-0000000000000000 --xp 00000000 00:00 0
",
        )
        .unwrap();
        let names: Vec<_> = table.iter().map(|mapping| &*mapping.name).collect();
        let expected = [
            "/usr/bin/dbus-daemon",
            "[heap]",
            "/opt/two  blanks/lib x.so",
            "",
            "/memfd:a (b) (deleted)",
            "",
        ];
        assert_eq!(names, expected);
        assert_eq!(table[2].range, 0x35_b180_0000..=0x35_b181_ffff);
        assert_eq!(table[5].range, 0xffff_ffff_ffff_f000..=u64::MAX);
    }

    #[test]
    fn bad_lines_are_errors() {
        assert_eq!(parse("").unwrap(), []);
        for line in [
            "nonsense",
            "1000 r--p 00000000 00:00 7 x",
            "2000-1000 r--p 00000000 00:00 7 x",
            "1000-1000 r--p 00000000 00:00 7 x",
            "1000-20g0 r--p 00000000 00:00 7 x",
            "1000-2000",
            "1000-2000 r--p 00000000 00:00",
            "10000000000000000-20000000000000000 r--p 00000000 00:00 7 x",
        ] {
            let text = format!("0-1000 r--p 00000000 00:00 7\n{line}\n");
            assert!(parse(&text).unwrap_err().contains(line), "{line}");
        }
    }
}
