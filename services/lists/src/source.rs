//! Where lists come from.

use std::cell::Cell;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use sapwood_input::{Counted, decompressed};

use crate::error::ListError;
use crate::format::Format;
use crate::read::{self, Counts, Manner, Told};
use crate::rule::{Action, Rule};

/// A list that is to be read, and how.
///
/// ```
/// use sapwood_lists::{Format, Source};
///
/// let ads = Source::file("/etc/lists/ads.txt").format(Format::Hosts).below(true);
/// assert_eq!(ads.name(), "/etc/lists/ads.txt");
/// let mine = Source::text("mine", "good.ads.example\n").exceptions(true);
/// assert_eq!(mine.name(), "mine");
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    place: Place,
    pub(crate) format: Option<Format>,
    pub(crate) exceptions: bool,
    pub(crate) below: bool,
    pub(crate) marks: bool,
    most: u64,
}

/// The most bytes of a compressed list when it is decompressed, if nothing else is said.
const MOST: u64 = 1 << 30;

#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    Text(Arc<[u8]>),
    Kept(Arc<Kept>),
}

/// A file that is only ever replaced as a whole: the copy of a zone. Its rules may be withdrawn.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    is_withdrawn: AtomicBool,
}

impl Kept {
    pub fn new(path: PathBuf) -> Self {
        Kept {
            path,
            is_withdrawn: AtomicBool::new(false),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Withdraws the rules, or gives them back. Returns whether that is a change.
    pub fn withdraw(&self, withdraw: bool) -> bool {
        self.is_withdrawn.swap(withdraw, Ordering::Relaxed) != withdraw
    }

    /// Notes in the file's time that it is as it has to be. Without it, the file seems older.
    pub fn touch(&self) {
        let file = File::options().append(true).open(&self.path);
        let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
    }
}

impl Source {
    /// A list in a file, whose path is its name. Each loading opens the file again.
    ///
    /// O(1): nothing is read yet.
    pub fn file(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        Self::new(path.display().to_string(), Place::File(path.into()))
    }

    /// A list in memory.
    ///
    /// O(length of the text), which is copied.
    pub fn text(name: impl Into<String>, text: impl AsRef<[u8]>) -> Self {
        Self::new(name.into(), Place::Text(text.as_ref().into()))
    }

    /// A list that is replaced as a whole.
    pub(crate) fn kept(name: String, kept: Arc<Kept>) -> Self {
        Self::new(name, Place::Kept(kept))
    }

    /// Whether the rules of the list are withdrawn: then it has none.
    pub(crate) fn is_withdrawn(&self) -> bool {
        match &self.place {
            Place::Kept(kept) => kept.is_withdrawn.load(Ordering::Relaxed),
            _ => false,
        }
    }

    fn new(name: String, place: Place) -> Self {
        Source {
            name,
            place,
            format: None,
            exceptions: false,
            below: false,
            marks: false,
            most: MOST,
        }
    }

    /// The format, which else is recognised.
    ///
    /// O(1).
    pub fn format(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// Whether the names of the list are exceptions: they pass, whatever other lists say.
    ///
    /// O(1).
    pub fn exceptions(mut self, exceptions: bool) -> Self {
        self.exceptions = exceptions;
        self
    }

    /// Whether the names of a plain list or of a hosts file stand for the names below them, too.
    /// Without it, they stand for themselves alone.
    ///
    /// O(1).
    pub fn below(mut self, below: bool) -> Self {
        self.below = below;
        self
    }

    /// Whether a plain list, or a hosts file, has marks: a name with `!` in front of it passes,
    /// with the names that the line is for. Lines of both forms may be in one list then, and of
    /// lines that are alike the last one counts. Other formats have no marks.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::{Action, Loader, Options, Source};
    ///
    /// let text = "ads.example\n!good.ads.example\n0.0.0.0 bad.good.ads.example\n";
    /// let list = Source::text("mine", text).below(true).marks(true);
    /// let (map, _) = Loader::new(vec![list], Options::default()).build()?;
    /// let action = |name: &str| map.verdict(name.as_ref(), 1).map(|it| it.unwrap().terms.action);
    /// assert_eq!(action("www.ads.example")?, Action::Nxdomain);
    /// assert_eq!(action("www.good.ads.example")?, Action::Pass);
    /// assert_eq!(action("bad.good.ads.example")?, Action::Nxdomain);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn marks(mut self, marks: bool) -> Self {
        self.marks = marks;
        self
    }

    /// The most bytes that a list in gzip or bzip2 may have when it is decompressed. With more, its
    /// reading is an error. Without this, it is 1 GiB. Lists that are not compressed have no limit.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood_lists::Source;
    ///
    /// let list = Source::file("/etc/lists/ads.txt.gz").decompressed_most(4 << 30);
    /// assert_eq!(list.name(), "/etc/lists/ads.txt.gz");
    /// ```
    pub fn decompressed_most(mut self, bytes: u64) -> Self {
        self.most = bytes;
        self
    }

    /// The name of the list.
    ///
    /// O(1).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of the list, if it is a file.
    ///
    /// O(1).
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::File(path) => Some(path),
            Place::Text(_) | Place::Kept(_) => None,
        }
    }

    /// Reads the rules of the list, line by line, as those of a list of this number. Rules that
    /// only block do what `block` says. Rules with `$badfilter` are passed over. The counts tell
    /// how many lines were not understood.
    ///
    /// O(bytes of the list), in memory for one line.
    ///
    /// ```
    /// use sapwood_lists::{Action, Source};
    ///
    /// let list = Source::text("a", "0.0.0.0 a.example\n192.0.2.1 b.example\n");
    /// let mut all = Vec::new();
    /// let (format, counts) = list.each_rule(0, &Action::Nxdomain, |rule| {
    ///     all.push(format!("{} {} {}", rule.line, rule.name(), rule.terms.action));
    /// })?;
    /// assert_eq!(all, ["1 a.example nxdomain", "2 b.example addresses 192.0.2.1"]);
    /// assert_eq!((format.word(), counts.refused), ("hosts", 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ListError`]: the list cannot be read, or is no list.
    pub fn each_rule(
        &self,
        list: u16,
        block: &Action,
        mut each: impl FnMut(Rule),
    ) -> Result<(Format, Counts), ListError> {
        let mut opened = self.open()?;
        let text = opened.begin().map_err(ListError::read(&self.name))?;
        let (format, text) = read::recognised(text, self, &self.name)?;
        let manner = Manner {
            list,
            format,
            exceptions: self.exceptions,
            below: self.below,
            marks: self.marks,
            block: block.clone(),
        };
        let counts = read::read(text, &manner, &self.name, |told| {
            match told {
                Told::Rule(read) if !read.is_bad_filter => each(read.rule),
                _ => {}
            }
            Ok(())
        })?;
        Ok((format, counts))
    }

    /// Opens the list, for one reading or more of the same text.
    pub(crate) fn open(&self) -> Result<Opened, ListError> {
        let held = match &self.place {
            Place::Text(text) => Ok(Held::Text(Arc::clone(text))),
            Place::File(path) => Held::file(path),
            Place::Kept(_) if self.is_withdrawn() => Ok(Held::Text(Arc::default())),
            Place::Kept(kept) => Held::kept(&kept.path),
        };
        Ok(Opened {
            held: held.map_err(ListError::read(&self.name))?,
            most: self.most,
            read: Rc::default(),
        })
    }
}

/// A list that is open.
pub(crate) struct Opened {
    held: Held,
    most: u64,
    /// Bytes that were read since the beginning, before decompression.
    read: Rc<Cell<u64>>,
}

enum Held {
    File(File, Stamp),
    Kept(File, u64),
    Text(Arc<[u8]>),
}

/// What changes when a file is written.
type Stamp = (u64, Option<SystemTime>);

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), metadata.modified().ok())
}

impl Held {
    fn file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if metadata.is_file() {
            return Ok(Held::File(file, stamp(&metadata)));
        }
        // What cannot be read twice is kept.
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(Held::Text(text.into()))
    }

    fn kept(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Held::Kept(file, bytes))
    }
}

impl Opened {
    /// The text from its beginning, without compression.
    pub fn begin(&mut self) -> io::Result<Box<dyn BufRead + '_>> {
        let input: Box<dyn Read + '_> = match &mut self.held {
            Held::File(file, _) | Held::Kept(file, _) => {
                file.seek(SeekFrom::Start(0))?;
                Box::new(file)
            }
            Held::Text(text) => Box::new(&text[..]),
        };
        self.read.set(0);
        let input = Counted::new(input, Rc::clone(&self.read));
        decompressed(input, Some(self.most))
    }

    /// How many of the bytes were read since the beginning. It counts meanwhile.
    pub fn read(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.read)
    }

    /// Bytes of the file or the text, which may be compressed.
    pub fn bytes(&self) -> u64 {
        match &self.held {
            Held::File(_, (bytes, _)) | Held::Kept(_, bytes) => *bytes,
            Held::Text(text) => text.len() as u64,
        }
    }

    /// Whether the text is still the one that was opened.
    pub fn is_same(&self) -> io::Result<bool> {
        match &self.held {
            Held::File(file, before) => Ok(stamp(&file.metadata()?) == *before),
            Held::Text(_) | Held::Kept(..) => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn files_are_read_again_from_their_beginning_and_changes_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, "abc").unwrap();
        let mut opened = Source::file(&path).open().unwrap();
        for _ in 0..2 {
            let mut text = String::new();
            opened.begin().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), opened.bytes()), ("abc", 3));
            assert!(opened.is_same().unwrap());
        }
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"d").unwrap();
        assert!(!opened.is_same().unwrap());
        let error = Source::file(folder.path()).open().err().unwrap();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
        assert!(Source::file(folder.path().join("no")).open().is_err());
        let mut text = Source::text("t", "xy").open().unwrap();
        for _ in 0..2 {
            let mut all = String::new();
            text.begin().unwrap().read_to_string(&mut all).unwrap();
            assert_eq!((all.as_str(), text.bytes()), ("xy", 2));
        }
    }
}
