//! Files: what is saved is read back, and what is damaged is refused.
#![cfg(not(miri))]

use sapwood_arena::*;
use std::fs;
use std::path::PathBuf;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("sapwood-arena-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refused(image: &[u8], path: &PathBuf) -> OpenError {
    fs::write(path, image).unwrap();
    let read = ImageMap::read(path, 5).map(|_| ()).unwrap_err();
    let mapped = ImageMap::open(path, 5, true).map(|_| ()).unwrap_err();
    assert_eq!(read.to_string(), mapped.to_string());
    mapped
}

#[test]
fn an_image_is_read_back_or_refused() {
    let folder = Folder::new("image");
    let path = folder.file("image");
    let mut header = Header::new(5);
    header.roots[7] = 77;
    write_image(&path, &[&[1; 10], &[], &[2; 90]], header).unwrap();
    write_image(&path, &[&[1; 10], &[], &[2; 100]], header).unwrap();
    assert_eq!(
        fs::read_dir(&folder.0).unwrap().count(),
        1,
        "no temporary file is left"
    );
    let good = fs::read(&path).unwrap();
    for image in [
        ImageMap::open(&path, 5, true).unwrap(),
        ImageMap::read(&path, 5).unwrap(),
    ] {
        assert_eq!(image.bytes(), good);
        assert_eq!(
            (image.len(), image.header().roots[7]),
            (HEADER_LEN + 110, 77)
        );
        assert!(image.base() as usize % 64 == 0);
    }
    assert!(matches!(
        ImageMap::open(&path, 6, true),
        Err(OpenError::Header(HeaderError::Layout {
            found: 5,
            expected: 6
        }))
    ));
    let other = folder.file("other");
    for len in 0..good.len() {
        match refused(&good[..len], &other) {
            OpenError::Header(HeaderError::TooShort { len: l }) => {
                assert!(l == len && len < HEADER_LEN)
            }
            OpenError::Header(HeaderError::Length { actual, .. }) => assert_eq!(actual, len as u64),
            error => panic!("length {len}: {error}"),
        }
    }
    let mut longer = good.clone();
    longer.push(0);
    assert!(matches!(
        refused(&longer, &other),
        OpenError::Header(HeaderError::Length { .. })
    ));
    for at in (0..good.len()).step_by(7).chain(0..130) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        refused(&bad, &other);
    }
    let mut bad = good.clone();
    bad[HEADER_LEN + 3] ^= 1;
    assert!(matches!(
        refused(&bad, &other),
        OpenError::Header(HeaderError::BodyChecksum)
    ));
    assert!(
        ImageMap::open(&other, 5, false).is_ok(),
        "the contents are checked on request"
    );
}

#[test]
fn what_is_no_image_is_named() {
    let folder = Folder::new("no-image");
    assert!(matches!(
        ImageMap::open(&folder.0, 5, true),
        Err(OpenError::NotAFile)
    ));
    assert!(matches!(
        ImageMap::open(folder.file("none"), 5, true),
        Err(OpenError::Io(_))
    ));
    let text = folder.file("text");
    fs::write(&text, vec![b'x'; 5000]).unwrap();
    assert!(matches!(
        ImageMap::open(&text, 5, true),
        Err(OpenError::Header(HeaderError::Magic { .. }))
    ));
    fs::write(&text, []).unwrap();
    assert!(matches!(
        ImageMap::open(&text, 5, true),
        Err(OpenError::Header(HeaderError::TooShort { len: 0 }))
    ));
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = Folder::new("failed");
    let taken = folder.file("taken");
    // A directory of that name cannot be replaced by a file.
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("inside"), b"x").unwrap();
    assert!(write_image(&taken, &[b"abc"], Header::new(5)).is_err());
    assert_eq!(
        fs::read_dir(&folder.0).unwrap().count(),
        1,
        "no temporary file is left"
    );
    assert!(write_image(folder.file("no/such/folder"), &[b"abc"], Header::new(5)).is_err());
    assert!(write_image("/", &[b"abc"], Header::new(5)).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    // /dev/full is not a directory to write beside; a file size limit is the portable stand-in, and
    // needs a child.
    if std::env::var_os("SAPWOOD_FULL_DISK").is_none() {
        let exe = std::env::current_exe().unwrap();
        // `trap ''` makes the kernel answer EFBIG instead of a signal. Blocks of `ulimit -f` are
        // 512 or 1024 bytes.
        let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact files::a_full_disk_is_an_error --nocapture";
        let mut child = std::process::Command::new("sh");
        let out = child
            .args(["-c", script])
            .arg(exe)
            .env("SAPWOOD_FULL_DISK", "1")
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        return;
    }
    let folder = Folder::new("full");
    let path = folder.file("image");
    write_image(&path, &[b"old"], Header::new(5)).unwrap();
    assert!(write_image(&path, &[&vec![1; 1 << 20]], Header::new(5)).is_err());
    assert_eq!(
        fs::read_dir(&folder.0).unwrap().count(),
        1,
        "no temporary file is left"
    );
    assert_eq!(
        &ImageMap::open(&path, 5, true).unwrap().bytes()[HEADER_LEN..],
        b"old"
    );

    let shared = ArenaOptions::default()
        .backing(Backing::File(folder.file("shared")))
        .header(HeaderMode::Page);
    let mut arena = Arena::create(shared).unwrap();
    let mut blocks = 0;
    while arena.alloc(1000, Kind(0), Area::Nodes).is_ok() {
        blocks += 1;
        assert!(blocks < 1000, "the file should be full");
    }
    assert!(blocks > 10);
    arena.verify().unwrap();
}

#[cfg(unix)]
#[test]
fn a_live_file_is_seen_by_others() {
    let folder = Folder::new("live");
    let path = folder.file("live");
    let options = ArenaOptions::default()
        .backing(Backing::File(path.clone()))
        .header(HeaderMode::Page)
        .layout_hash(9);
    let mut arena = Arena::create(options.clone()).unwrap();
    assert!(
        Arena::create(options).is_err(),
        "an existing file is not touched"
    );
    assert!(arena.is_stable());
    let r = arena.alloc(16, Kind(0), Area::Leaves).unwrap();
    // SAFETY: a fresh block of 16 bytes.
    unsafe { arena.base().add(r.byte_offset()).write_bytes(0xEE, 16) };
    arena.set_root(0, u64::from(r.get())).unwrap();
    arena.refresh_header(1);

    assert!(FileMap::open(&path, 8).is_err());
    assert!(
        ImageMap::open(&path, 9, false).is_err(),
        "a live file is not sealed"
    );
    let mut map = FileMap::open(&path, 9).unwrap();
    let header = map.header().unwrap();
    assert_eq!(
        (header.generation, header.roots[0], header.sealed),
        (1, u64::from(r.get()), false)
    );
    let at = header.roots[0] as usize * UNIT;
    assert!(at + 16 <= header.frontier as usize && header.frontier as usize <= map.len());
    // SAFETY: within the mapping; the block is live.
    assert_eq!(unsafe { map.base().add(at).read() }, 0xEE);

    for _ in 0..100 {
        arena.alloc(4000, Kind(0), Area::Leaves).unwrap();
    }
    arena.refresh_header(2);
    assert!(
        matches!(map.header(), Err(HeaderError::Length { .. })),
        "the header says more than is mapped"
    );
    map.refresh().unwrap();
    assert_eq!(map.header().unwrap().generation, 2);
    assert!(matches!(
        FileMap::open(&folder.0, 9),
        Err(OpenError::NotAFile)
    ));
    arena.verify().unwrap();
    drop(arena);
    assert!(
        FileMap::open(&path, 9).is_ok(),
        "the file outlives its owner"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_memfd_can_be_passed_on() {
    let mut region = FileRegion::memfd("test").unwrap();
    region.grow(4096).unwrap();
    let file = fs::File::from(region.as_fd().try_clone_to_owned().unwrap());
    let options = ArenaOptions::default()
        .header(HeaderMode::Page)
        .layout_hash(3);
    let mut arena = Arena::with_region(Box::new(region), options).unwrap();
    let big = arena.alloc(1 << 20, Kind(0), Area::Nodes).unwrap();
    arena.alloc(8, Kind(0), Area::Nodes).unwrap();
    arena.set_root(1, 42).unwrap();
    let map = FileMap::from_file(file, 3).unwrap();
    assert_eq!(map.header().unwrap().roots[1], 42);
    // SAFETY: known only here.
    unsafe { arena.free(big, 1 << 20, Kind(0)) };
    assert!(arena.release_free(1000) > 900 << 10);
    arena.verify().unwrap();
}
