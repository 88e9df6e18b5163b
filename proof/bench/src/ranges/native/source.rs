//! The sources of the kernel's maple tree, where Debian's package linux-source is installed. The
//! benchmark unpacks them beside the shim, compiles them with it, and removes them: it keeps
//! nothing of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The unpacked parts: the tree, the kernel's stand-ins for user space, and the headers of both.
const PARTS: [&str; 6] = [
    "*/lib/maple_tree.c",
    "*/tools/testing/radix-tree/*",
    "*/tools/include/*",
    "*/tools/arch/*/include/*",
    "*/include/linux/*",
    "*/include/asm-generic/*",
];

/// The newest installed package.
fn package() -> Option<PathBuf> {
    let there = fs::read_dir("/usr/src").ok()?.flatten();
    let named = there.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("linux-source-") && name.contains(".tar.")
    });
    let version = |path: &PathBuf| {
        let name = path.to_string_lossy().into_owned();
        let numbers = name.split(|c: char| !c.is_ascii_digit());
        let numbers = numbers.filter_map(|digits| digits.parse().ok());
        numbers.collect::<Vec<u32>>()
    };
    named.max_by_key(version)
}

/// Unpacks the sources into a folder; returns the compiler's arguments for them.
pub(super) fn maple_tree(folder: &Path) -> Result<String, String> {
    let package = package().ok_or("linux-source is not installed")?;
    let kernel = folder.join("kernel");
    // The files that the kernel's own Makefile of these tests generates.
    let generated = folder.join("generated");
    for new in [&kernel, &generated] {
        fs::create_dir_all(new).map_err(|error| error.to_string())?;
    }
    for (name, text) in [
        ("bit-length.h", "#define CONFIG_64BIT 1\n"),
        ("map-shift.h", "#define XA_CHUNK_SHIFT 6\n"),
        ("autoconf.h", "#include \"bit-length.h\"\n"),
    ] {
        fs::write(generated.join(name), text).map_err(|error| error.to_string())?;
    }
    let unpacked = Command::new("tar")
        .arg("xf")
        .arg(&package)
        .arg("-C")
        .arg(&kernel)
        .args(["--strip-components=1", "--wildcards"])
        .args(PARTS)
        .output()
        .map_err(|error| format!("no tar: {error}"))?;
    let tree = kernel.join("lib/maple_tree.c");
    if !tree.exists() {
        let errors = String::from_utf8_lossy(&unpacked.stderr);
        let first = errors.lines().next().unwrap_or("no message");
        return Err(format!("{}: no maple tree: {first}", package.display()));
    }
    let (folder, kernel) = (folder.display(), kernel.display());
    Ok(format!(
        "-DMAPLE_SOURCE=\"{kernel}/lib/maple_tree.c\" -I{folder} -I{kernel}/tools/testing/radix-tree \
         -I{kernel}/tools/include"
    ))
}
