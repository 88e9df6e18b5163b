//! Watches files for changes, by looking at them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The time between two looks.
const EVERY: Duration = Duration::from_millis(200);

/// The age of a change after which the next one leaves a trace in the file's times.
const YOUNG: Duration = Duration::from_millis(50);

/// What changes when a file is written, or when another file gets its name.
type Mark = [i64; 7];

/// The last look at files, and the files that were read.
pub struct Watch {
    paths: Vec<PathBuf>,
    next: Instant,
    seen: Vec<Option<Mark>>,
    read: Vec<Option<Mark>>,
}

impl Watch {
    /// Watches files that are read after this call. It waits for a moment if one has just been
    /// written.
    pub fn begin(paths: &[&Path]) -> Self {
        let mut watch = Watch {
            paths: paths.iter().map(|path| path.to_path_buf()).collect(),
            next: Instant::now() + EVERY,
            seen: Vec::new(),
            read: Vec::new(),
        };
        watch.will_read();
        watch
    }

    /// Notes that the files are read after this call.
    pub fn will_read(&mut self) {
        for path in &self.paths {
            let modified = std::fs::metadata(path).and_then(|meta| meta.modified());
            if let Ok(Ok(age)) = modified.map(|time| SystemTime::now().duration_since(time)) {
                std::thread::sleep(YOUNG.saturating_sub(age));
            }
        }
        self.seen = self.marks();
        self.read.clone_from(&self.seen);
    }

    /// Whether a file is another one than that which was read, and none was changed between the
    /// last two looks. Files that are missing do not count.
    pub fn has_changed(&mut self) -> bool {
        if Instant::now() < self.next {
            return false;
        }
        self.next = Instant::now() + EVERY;
        let now = self.marks();
        let rest = now == self.seen;
        let mut both = now.iter().zip(&self.read);
        let is_other = both.any(|(now, read)| now.is_some() && now != read);
        self.seen = now;
        rest && is_other
    }

    fn marks(&self) -> Vec<Option<Mark>> {
        self.paths.iter().map(|path| mark(path)).collect()
    }
}

fn mark(path: &Path) -> Option<Mark> {
    let meta = std::fs::metadata(path).ok()?;
    Some([
        meta.dev() as i64,
        meta.ino() as i64,
        meta.size() as i64,
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until the file has changed, and reads it then.
    fn changes(watch: &mut Watch) -> bool {
        for _ in 0..3 {
            watch.next = Instant::now();
            std::thread::sleep(YOUNG);
            if watch.has_changed() {
                watch.will_read();
                return true;
            }
        }
        false
    }

    #[test]
    fn changes_are_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, "a").unwrap();
        let mut watch = Watch::begin(&[&path]);
        assert!(!changes(&mut watch));
        std::fs::write(&path, "b").unwrap();
        assert!(changes(&mut watch));
        assert!(!changes(&mut watch));
        let other = folder.path().join("other");
        std::fs::write(&other, "b").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(changes(&mut watch));
        assert!(!changes(&mut watch));
        std::fs::remove_file(&path).unwrap();
        assert!(!changes(&mut watch));
        std::fs::write(&path, "c").unwrap();
        assert!(changes(&mut watch));
        let mut watch = Watch::begin(&[&path, &folder.path().join("missing"), &other]);
        assert!(!changes(&mut watch));
        std::fs::write(&other, "d").unwrap();
        assert!(changes(&mut watch));
        assert!(!changes(&mut watch));
    }
}
