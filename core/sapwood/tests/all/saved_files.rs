//! The files in `tests/files`: what Rust, C, Python and the program save for the same entries, byte
//! for byte, and what each of them reads. Old files are there, too, which all of them refuse. The
//! tests of C (`doors/c`), of Python (`doors/python`) and of the program (`program/cli`) use the
//! same files.
#![cfg(all(unix, not(miri)))]

use std::fs;
use std::path::{Path, PathBuf};

use sapwood::lpm::ipnet::IpNet;
use sapwood::lpm::{BitFile, BitString, FibFile, FibFileBuilder, IpFib, NullRoute, SavedHop};
use sapwood::maple::{MapleFile, MapleMap, save_strings};
use sapwood::qp::OpenCause;
use sapwood::route::{Group, RouteTable};

use crate::support::folder::Folder;

pub(crate) fn committed(name: &str) -> PathBuf {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    files.join(name)
}

/// Compares what `save` writes with a committed file, or writes that when `SAPWOOD_WRITE` is set.
fn saves(name: &str, save: impl FnOnce(&Path)) -> PathBuf {
    let folder = Folder::quick(&format!("saved-{name}"));
    let path = folder.file(name);
    save(&path);
    let (made, there) = (fs::read(&path).unwrap(), committed(name));
    if std::env::var_os("SAPWOOD_WRITE").is_some() {
        fs::write(&there, &made).unwrap();
    }
    assert!(
        fs::read(&there).unwrap() == made,
        "{name} differs; if a new format is meant, run the test with SAPWOOD_WRITE=1"
    );
    there
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn builder(routes: &[(&str, SavedHop<'_>)]) -> FibFileBuilder {
    let mut builder = FibFileBuilder::new();
    for (prefix, hop) in routes {
        let hop = builder.hop(hop).unwrap();
        builder.insert(net(prefix), hop).unwrap();
    }
    builder
}

#[test]
fn tables_of_routes() {
    use SavedHop::{Name, Null};
    let names = [
        ("10.0.0.0/8", Name("core")),
        ("192.0.2.0/24", Name("lab")),
        ("2001:db8::/32", Name("core")),
    ];
    let path = saves("names.routes", |path| builder(&names).save(path).unwrap());
    let file = FibFile::open(path).unwrap();
    assert_eq!(
        file.listed().flatten().collect::<Vec<_>>(),
        [Name("core"), Name("lab")]
    );
    let nulls = [
        ("10.0.0.0/8", Null(NullRoute::Blackhole)),
        ("192.0.2.0/24", Name("core")),
    ];
    let path = saves("nulls.routes", |path| builder(&nulls).save(path).unwrap());
    let file = FibFile::open(path).unwrap();
    assert_eq!(
        file.hop(file.get(net("10.0.0.0/8")).unwrap()),
        Some(nulls[0].1.clone())
    );

    let numbers = [
        (net("10.0.0.0/8"), 64_500u64),
        (net("10.1.2.0/24"), u64::from(u32::MAX)),
        (net("2001:db8::/32"), 7),
    ];
    let fib = IpFib::from_iter(numbers);
    let path = saves("numbers.routes", |path| fib.snapshot().save(path).unwrap());
    let again = IpFib::<u32>::builder().load(path).unwrap();
    assert_eq!(again.get(numbers[1].0), Some(u32::MAX));

    let routes = RouteTable::<u64>::new().unwrap();
    let group = Group::new([(1, 1), (2, 3)]);
    routes.insert(net("10.0.0.0/8"), group.clone()).unwrap();
    routes
        .insert(net("2001:db8::/32"), Group::single(7))
        .unwrap();
    let path = saves("groups.routes", |path| {
        routes.snapshot().save(path).unwrap()
    });
    let again = RouteTable::<u64>::builder().load(path).unwrap();
    let all = again.snapshot();
    assert_eq!(all.group([10, 1, 2, 3].into()), Some(&group));
    assert_eq!(all.len(), 2);
}

#[test]
fn maps_of_ranges() {
    let numbers = MapleMap::from_iter([(5..=9, 7u64), (20..=u64::MAX, u64::MAX)]);
    let path = saves("numbers.ranges", |path| {
        numbers.snapshot().save(path).unwrap()
    });
    let file = MapleFile::<u64>::open(&path).unwrap();
    assert_eq!(file.view().get(9), Some(&7));
    assert_eq!(file.file_bytes() as u64, fs::metadata(&path).unwrap().len());
    let strings = MapleFile::open_strings(&path, <[u8]>::to_vec).unwrap_err();
    assert!(matches!(
        strings.cause,
        OpenCause::NotByteStrings { size: 8, .. }
    ));

    let texts = [
        (0..=9, "left"),
        (20..=29, "right"),
        (1 << 63..=u64::MAX, ""),
    ];
    let path = saves("texts.ranges", |path| {
        save_strings(texts.clone(), path).unwrap()
    });
    let file = MapleFile::open_strings(&path, |text| String::from_utf8(text.to_vec())).unwrap();
    let found = file
        .view()
        .iter()
        .map(|(range, text)| (range, text.as_deref().unwrap()));
    assert!(found.eq(texts));
    let error = MapleFile::<u64>::open(&path).unwrap_err();
    assert!(
        matches!(error.cause, OpenCause::ByteStrings { .. }),
        "{error}"
    );
}

/// Tables that earlier versions saved, with a leaf for each entry.
#[test]
fn tables_saved_before_clusters_held_entries_are_read() {
    for name in ["names", "groups"] {
        let [old, new] = ["-1", ""].map(|format| committed(&format!("{name}{format}.routes")));
        assert!(fs::read(&old).unwrap() != fs::read(&new).unwrap());
        let [old, new] = [old, new].map(|path| FibFile::open(path).unwrap());
        assert!(old.listed().eq(new.listed()));
        assert!(old.iter().eq(new.iter()));
        for (net, hop) in new.iter() {
            assert_eq!(old.hop(hop), new.hop(hop));
            let addr = net.addr();
            assert_eq!(old.lookup(addr), new.lookup(addr), "{net}");
        }
    }
    let bits = |bytes: &[u8], len| BitString::truncated(bytes, len).unwrap();
    let table = BitFile::<u32>::open(committed("program-1.routes")).unwrap();
    assert!(table.iter().eq([(bits(&[0x40, 0xa0], 12), &0)]));
    assert!(table.names().eq([b"core"]));
    let table = BitFile::<u32>::open(committed("library-1.routes")).unwrap();
    assert!(table.iter().eq([(bits(&[4, 10], 16), &7)]));
    assert_eq!(table.names_len(), 0);
}

#[test]
fn old_files() {
    let path = committed("program-1.ranges");
    let numbers = MapleFile::<u64>::open(&path).unwrap_err();
    let texts = MapleFile::open_strings(&path, <[u8]>::to_vec).unwrap_err();
    for error in [numbers, texts] {
        assert!(matches!(error.cause, OpenCause::OldFile { .. }), "{error}");
        assert!(
            error.to_string().ends_with(
                "the file is a map of ranges in format 1 of the program `sapwood`, of an earlier \
                 version; build it anew by `sapwood ranges build`"
            ),
            "{error}"
        );
    }
    for name in ["program-1.routes", "library-1.routes"] {
        let error = FibFile::open(committed(name)).unwrap_err();
        assert!(matches!(error.cause, OpenCause::OldFile { .. }), "{error}");
    }
}

#[test]
fn torn_and_hostile_files_of_strings_are_refused() {
    use sapwood::arena::{HEADER_LEN, write_image};
    let folder = Folder::quick("saved-strings");
    let path = folder.file("ranges");
    let whole = fs::read(committed("texts.ranges")).unwrap();
    let open = || MapleFile::open_strings(&path, <[u8]>::to_vec);
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(open().is_err(), "{len} bytes");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        assert!(open().is_err(), "byte {at}");
    }
    // With right checksums, other bytes are refused or a map in order, whose strings are all there.
    let header = crate::support::folder::decoded(&whole);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut opened = 0;
    for _ in 0..2_000 {
        let mut body = whole[HEADER_LEN..].to_vec();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..body.len());
            body[at] = rng.u8(..);
        }
        let mut other = header;
        if rng.u8(..8) == 0 {
            other.roots[0] = rng.u64(..8);
        }
        write_image(&path, &[&body], other).unwrap();
        match open() {
            Ok(file) => {
                opened += 1;
                let strings: usize = file.view().iter().map(|(_, text)| text.len()).sum();
                assert_eq!(strings, "leftright".len());
                assert!(
                    file.view()
                        .iter()
                        .is_sorted_by(|a, b| a.0.end() < b.0.start())
                );
            }
            Err(error) => assert!(matches!(error.cause, OpenCause::Corrupt(_)), "{error}"),
        }
    }
    assert!(opened > 0);
}
