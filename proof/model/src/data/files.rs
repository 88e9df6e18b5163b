//! Keys from files of the machine: kernel symbols, file paths, a list of domain names.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{DataSet, Missing};

/// The names in `/proc/kallsyms`, without addresses, kinds and modules; about 121,000.
///
/// # Errors
///
/// If the file does not exist or has no names.
pub fn kallsyms() -> Result<DataSet, Missing> {
    const NAME: &str = "kallsyms";
    let text = fs::read("/proc/kallsyms").map_err(|error| Missing::new(NAME, error))?;
    let names = text.split(|byte| *byte == b'\n').filter_map(|line| {
        // A line is "address kind name", and for a module a tab and "[module]".
        let name = line.split(|byte| *byte == b' ' || *byte == b'\t').nth(2)?;
        (!name.is_empty()).then(|| Box::from(name))
    });
    let set = DataSet::distinct(NAME, "symbol names of the running kernel".into(), names);
    if set.keys.is_empty() {
        return Err(Missing::new(NAME, "the file has no names"));
    }
    Ok(set)
}

/// The paths of the files and folders below `root`, at most `limit`. Each folder comes before its
/// contents, which are sorted by name. Symbolic links are listed but not followed.
///
/// # Errors
///
/// If `root` has no files.
pub fn paths(root: &Path, limit: usize) -> Result<DataSet, Missing> {
    const NAME: &str = "paths";
    let mut found = Vec::new();
    walk(root, limit, &mut found);
    if found.is_empty() {
        return Err(Missing::new(
            NAME,
            format!("no files below {}", root.display()),
        ));
    }
    let how = format!("file paths below {}", root.display());
    Ok(DataSet::distinct(NAME, how, found))
}

/// Lists a folder; one that cannot be read counts as empty.
fn walk(folder: &Path, limit: usize, found: &mut Vec<Box<[u8]>>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut entries: Vec<(PathBuf, bool)> = entries
        .flatten()
        .map(|entry| {
            (
                entry.path(),
                entry.file_type().is_ok_and(|kind| kind.is_dir()),
            )
        })
        .collect();
    entries.sort_unstable();
    for (path, is_folder) in entries {
        if found.len() >= limit {
            return;
        }
        found.push(path.as_os_str().as_bytes().into());
        if is_folder {
            walk(&path, limit, found);
        }
    }
}

/// The domain names of a gzipped list with one name in each line, in lower case and without a
/// final dot.
///
/// # Errors
///
/// If the file cannot be read or unpacked.
pub fn domains_gz(file: &Path) -> Result<DataSet, Missing> {
    const NAME: &str = "domains-real";
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let missing = |error| Missing::new(NAME, format!("{name}: {error}"));
    let packed = fs::File::open(file).map_err(missing)?;
    let mut keys = Vec::new();
    for line in BufReader::new(flate2::read::GzDecoder::new(packed)).lines() {
        let line = line.map_err(missing)?.to_ascii_lowercase();
        let domain = line.trim().trim_end_matches('.');
        if !domain.is_empty() {
            keys.push(domain.as_bytes().into());
        }
    }
    Ok(DataSet::distinct(
        NAME,
        format!("domain names of {name}"),
        keys,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("sapwood-model-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn paths_come_in_walk_order_and_stop_at_the_limit() {
        let root = scratch("walk");
        fs::create_dir_all(root.join("b/c")).unwrap();
        fs::write(root.join("a"), "").unwrap();
        fs::write(root.join("b.d"), "").unwrap();
        let names = |limit| -> Vec<String> {
            let set = paths(&root, limit).unwrap();
            let below = root.as_os_str().len() + 1;
            set.keys
                .iter()
                .map(|key| String::from_utf8_lossy(&key[below..]).into_owned())
                .collect()
        };
        assert_eq!(names(10), ["a", "b", "b/c", "b.d"]);
        assert_eq!(names(2), ["a", "b"]);
        fs::remove_dir_all(&root).unwrap();
        assert!(paths(&root, 10).is_err());
    }

    #[test]
    fn domains_unpack() {
        let folder = scratch("gz");
        let file = folder.join("list.gz");
        let mut gz =
            flate2::write::GzEncoder::new(fs::File::create(&file).unwrap(), Default::default());
        gz.write_all(b"Example.COM.\n\nexample.com\nexample.org\n")
            .unwrap();
        gz.finish().unwrap();
        let set = domains_gz(&file).unwrap();
        assert_eq!(
            set.keys,
            [Box::from(*b"example.com"), Box::from(*b"example.org")] as [Box<[u8]>; 2]
        );
        let error = domains_gz(&folder.join("none.gz")).unwrap_err();
        assert!(
            error.to_string().starts_with("no domains-real: none.gz: "),
            "{error}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
