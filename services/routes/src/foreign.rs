//! Files that have no routes, told by their first bytes.

use sapwood::arena::MAGIC;

/// The first bytes of a kind of files.
const MAGICS: [(&[u8], &str); 29] = [
    (b"\x7fELF", "an ELF program or library"),
    (b"\xa1\xb2\xc3\xd4", "a capture of packets (pcap)"),
    (b"\xd4\xc3\xb2\xa1", "a capture of packets (pcap)"),
    (b"\xa1\xb2\x3c\x4d", "a capture of packets (pcap)"),
    (b"\x4d\x3c\xb2\xa1", "a capture of packets (pcap)"),
    (b"\x0a\x0d\x0d\x0a", "a capture of packets (pcapng)"),
    (b"\x1f\x8b", "a gzip file inside of a compressed file"),
    (b"BZh", "a bzip2 file inside of a compressed file"),
    (b"\xfd7zXZ\0", "an xz file, which \"xz -d\" decompresses"),
    (
        b"\x28\xb5\x2f\xfd",
        "a zstd file, which \"zstd -d\" decompresses",
    ),
    (
        b"\x04\x22\x4d\x18",
        "an lz4 file, which \"lz4 -d\" decompresses",
    ),
    (
        b"\x1f\x9d",
        "a file of \"compress\", which \"uncompress\" decompresses",
    ),
    (b"PK\x03\x04", "a zip file"),
    (b"PK\x05\x06", "a zip file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z file"),
    (b"Rar!", "a rar file"),
    (b"%PDF", "a PDF document"),
    (b"%!PS", "a PostScript document"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"SQLite format 3", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"\0asm", "a WebAssembly program"),
    (b"!<arch>", "an archive of \"ar\", or a Debian package"),
    (b"-----BEGIN ", "a PEM file: a key or a certificate"),
    (b"#!/", "a script"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    (b"MZ", "a program of Windows"),
];

/// What begins a text of another kind, in small letters.
const TEXTS: [(&str, &str); 6] = [
    ("<!doctype html", "an HTML page"),
    ("<html", "an HTML page"),
    ("<?xml", "an XML document"),
    ("<svg", "an SVG picture"),
    ("http/1.", "an answer of HTTP with its head"),
    (
        "codes: k - kernel",
        "the text of \"show ip route\", of which only the JSON is read",
    ),
];

/// The kind of a file that begins so, if it is one that has no routes.
pub(crate) fn foreign(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(&MAGIC) {
        return Some("a saved file");
    }
    if let Some((_, kind)) = MAGICS.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Some(kind);
    }
    if start.get(257..262) == Some(b"ustar") {
        return Some("a tar archive");
    }
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let text = start.trim_ascii_start();
    let begin = text[..text.len().min(20)].to_ascii_lowercase();
    let known = TEXTS
        .iter()
        .find(|(known, _)| begin.starts_with(known.as_bytes()));
    if let Some((_, kind)) = known {
        return Some(kind);
    }
    let is_utf16 = start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff");
    let is_binary = start[..start.len().min(512)].contains(&0);
    (is_binary && !is_utf16).then_some("a binary file of a kind that is not known")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for (start, kind) in [
            (&b"<!DOCTYPE html>\n<html>"[..], "an HTML page"),
            (b"\n <HTML lang=en>", "an HTML page"),
            (b"\x7fELF\x02\x01", "an ELF program or library"),
            (
                b"\xd4\xc3\xb2\xa1\x02\0\x04\0",
                "a capture of packets (pcap)",
            ),
            (b"1\x002\x00", "a binary file of a kind that is not known"),
        ] {
            assert_eq!(foreign(start), Some(kind));
        }
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert_eq!(foreign(&tar), Some("a tar archive"));
        for text in [
            &b""[..],
            b"10.0.0.0/8 a\n",
            b"\xff\xfe1\0",
            b"# x",
            b"<",
            b"{",
        ] {
            assert_eq!(foreign(text), None);
        }
    }
}
