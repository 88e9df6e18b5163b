//! Keys from the string section of the kernel's type information.

use super::{DataSet, Missing};

const NAME: &str = "btf";

/// The strings of `/sys/kernel/btf/vmlinux`: about 125,000 names of types, members and functions.
///
/// # Errors
///
/// If the kernel has no BTF, or the file is malformed.
pub fn btf_strings() -> Result<DataSet, Missing> {
    let file =
        std::fs::read("/sys/kernel/btf/vmlinux").map_err(|error| Missing::new(NAME, error))?;
    let section = strings(&file).ok_or_else(|| {
        Missing::new(
            NAME,
            "the file has no BTF header in the byte order of this machine",
        )
    })?;
    let keys = section
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(Box::from);
    Ok(DataSet::distinct(
        NAME,
        "strings of the running kernel's BTF".into(),
        keys,
    ))
}

/// The string section of a file. The header is `{u16 magic, u8 version, u8 flags, u32 hdr_len, u32
/// type_off, u32 type_len, u32 str_off, u32 str_len}` in the byte order of the machine, and offsets
/// count from its end.
fn strings(file: &[u8]) -> Option<&[u8]> {
    let word =
        |at: usize| Some(u32::from_ne_bytes(file.get(at..at + 4)?.try_into().ok()?) as usize);
    let magic = u16::from_ne_bytes(file.get(..2)?.try_into().ok()?);
    if magic != 0xEB9F {
        return None;
    }
    let start = word(4)?.checked_add(word(16)?)?;
    file.get(start..start.checked_add(word(20)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_followed() {
        let mut file = 0xEB9F_u16.to_ne_bytes().to_vec();
        file.extend([1, 0]);
        for word in [24_u32, 0, 4, 4, 5] {
            file.extend(word.to_ne_bytes());
        }
        file.extend(b"TYPE\0int\0");
        assert_eq!(strings(&file), Some(&b"\0int\0"[..]));
        assert_eq!(strings(&file[..28]), None);
        assert_eq!(strings(b"\0\0"), None);
    }
}
