//! What processes saw and did, and whether one leader's log explains it.
//!
//! A process writes a line for each event into a file of its own:
//!
//! | line | who writes it | what it says |
//! |---|---|---|
//! | `T commit term tag digest` | the recorder | the log has this version |
//! | `I tag` | a publisher | it is about to publish this version |
//! | `A commit tag` | a publisher | the version is stored for good |
//! | `start` | a follower | a process begins, with an empty map |
//! | `V tag digest` | a follower | its map was made this version |
//! | `S tag digest` | a reader, in the same process or in one of its own | it has seen this version |
//! | `R count` | a follower | it has started from a snapshot as often as this |
//! | `X count` | a follower | it has been evicted as often as this |
//! | `E commit digest` | a follower | the end: its map has this commit |
//!
//! A version is known by its tag, which each commit changes. The digest is that of the whole map.

use std::collections::{HashMap, HashSet};

/// The texts of all files.
#[derive(Debug, Default, Clone)]
pub struct Histories {
    pub recorder: String,
    pub publishers: Vec<String>,
    pub followers: Vec<String>,
    /// Readers in processes of their own: `S` lines.
    pub readers: Vec<String>,
}

/// How much was checked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub commits: u64,
    pub acknowledged: u64,
    pub terms: u64,
    pub applied: u64,
    pub seen: u64,
    /// Processes of followers.
    pub runs: u64,
    /// How often versions were passed over by starting from a snapshot again.
    pub jumps: u64,
    /// How often followers were evicted.
    pub evictions: u64,
}

/// The versions of the log.
struct Truth<'a> {
    /// The number and the digest of each version, by its tag.
    versions: HashMap<&'a str, (u64, &'a str)>,
    /// Tags by number, from 1.
    tags: Vec<&'a str>,
}

/// The lines of a file: the last one counts only when it is whole.
fn lines(text: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| (line, line.split_whitespace().collect()))
}

fn number(text: &str, line: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("no number in the line {line:?}"))
}

impl Histories {
    /// Whether each follower shows the leader's versions in order and no others, and no
    /// acknowledged commit is lost.
    pub fn check(&self) -> Result<Checked, String> {
        let mut checked = Checked::default();
        let truth = self.truth(&mut checked)?;
        for publisher in &self.publishers {
            truth.acknowledged(publisher, &mut checked)?;
        }
        for (number, follower) in self.followers.iter().enumerate() {
            truth
                .follower(follower, &mut checked)
                .map_err(|error| format!("follower {number}: {error}"))?;
        }
        for reader in &self.readers {
            let mut seen = 0;
            for (line, words) in lines(reader) {
                let ["S", tag, digest] = words[..] else {
                    return Err(format!("unknown: {line:?}"));
                };
                truth.seen(tag, digest, line, &mut seen)?;
                checked.seen += 1;
            }
        }
        Ok(checked)
    }

    fn truth(&self, checked: &mut Checked) -> Result<Truth<'_>, String> {
        let mut intended = HashSet::new();
        for publisher in &self.publishers {
            for (line, words) in lines(publisher) {
                match words[..] {
                    ["I", tag] => {
                        intended.insert(tag);
                    }
                    ["A", ..] => {}
                    _ => return Err(format!("unknown: {line:?}")),
                }
            }
        }
        let mut truth = Truth {
            versions: HashMap::new(),
            tags: Vec::new(),
        };
        let mut term = 0;
        for (line, words) in lines(&self.recorder) {
            let ["T", commit, epoch, tag, digest] = words[..] else {
                return Err(format!("unknown: {line:?}"));
            };
            let commit = number(commit, line)?;
            if commit != truth.tags.len() as u64 + 1 {
                return Err(format!("the log goes on with {line:?}"));
            }
            let epoch = number(epoch, line)?;
            if epoch < term {
                return Err(format!("an earlier term wrote {line:?}"));
            }
            checked.terms += u64::from(epoch > term);
            term = epoch;
            if !intended.contains(tag) {
                return Err(format!("nobody wrote the log's {line:?}"));
            }
            if truth.versions.insert(tag, (commit, digest)).is_some() {
                return Err(format!("twice in the log: {line:?}"));
            }
            truth.tags.push(tag);
        }
        checked.commits = truth.tags.len() as u64;
        Ok(truth)
    }
}

impl Truth<'_> {
    fn acknowledged(&self, text: &str, checked: &mut Checked) -> Result<(), String> {
        let mut last = 0;
        for (line, words) in lines(text) {
            let ["A", commit, tag] = words[..] else {
                continue;
            };
            let commit = number(commit, line)?;
            let found = usize::try_from(commit - 1)
                .ok()
                .and_then(|at| self.tags.get(at));
            if found != Some(&tag) {
                return Err(format!(
                    "an acknowledged commit is lost: {line:?}, and the log has {found:?} there"
                ));
            }
            if commit <= last {
                return Err(format!("acknowledged out of order: {line:?}"));
            }
            last = commit;
            checked.acknowledged += 1;
        }
        Ok(())
    }

    /// The number of a version that somebody saw.
    fn known(&self, tag: &str, digest: &str, line: &str) -> Result<u64, String> {
        match self.versions.get(tag) {
            None => Err(format!("a version that the log does not have: {line:?}")),
            Some((commit, wanted)) if *wanted != digest => Err(format!(
                "torn: {line:?}, but commit {commit} has the digest {wanted}"
            )),
            Some((commit, _)) => Ok(*commit),
        }
    }

    /// Readers never go back, not even when another process takes the map over.
    fn seen(&self, tag: &str, digest: &str, line: &str, seen: &mut u64) -> Result<(), String> {
        let commit = self.known(tag, digest, line)?;
        if commit < *seen {
            return Err(format!("a reader saw commit {seen}, and then {line:?}"));
        }
        *seen = commit;
        Ok(())
    }

    fn follower(&self, text: &str, checked: &mut Checked) -> Result<(), String> {
        let (mut at, mut seen) = (0, 0);
        let mut run = Run::default();
        let mut end = None;
        for (line, words) in lines(text) {
            match words[..] {
                ["start"] => {
                    // A killed process may not have counted its last start from a snapshot.
                    run.ended(1)?;
                    run = Run::default();
                    checked.runs += 1;
                }
                ["V", tag, digest] => {
                    let commit = self.known(tag, digest, line)?;
                    let is_first = run.versions == 0;
                    if commit < at || commit == at && !is_first {
                        return Err(format!("commit {at} and then an earlier version: {line:?}"));
                    }
                    if !is_first && commit > at + 1 {
                        run.jumps.push((at, commit));
                        checked.jumps += 1;
                    }
                    at = commit;
                    run.versions += 1;
                    checked.applied += 1;
                }
                ["S", tag, digest] => {
                    self.seen(tag, digest, line, &mut seen)?;
                    checked.seen += 1;
                }
                ["R", count] => run.restored = number(count, line)?,
                ["X", count] => {
                    let count = number(count, line)?;
                    if count <= run.evicted {
                        return Err(format!("evictions are counted down: {line:?}"));
                    }
                    checked.evictions += count - run.evicted;
                    run.evicted = count;
                }
                ["E", commit, digest] => end = Some((number(commit, line)?, digest)),
                _ => return Err(format!("unknown: {line:?}")),
            }
        }
        run.ended(0)?;
        let newest = self.tags.last().map(|tag| self.versions[tag]);
        if end != newest {
            return Err(format!("it ends with {end:?}, the log with {newest:?}"));
        }
        Ok(())
    }
}

/// One process of a follower.
#[derive(Default)]
struct Run {
    versions: u64,
    restored: u64,
    evicted: u64,
    /// From which commit to which it went on.
    jumps: Vec<(u64, u64)>,
}

impl Run {
    /// Nothing is passed over but by starting from a snapshot, which may have happened more often
    /// than was counted. The first start explains the first version, and nothing else.
    fn ended(&self, more: u64) -> Result<(), String> {
        let Run {
            restored, jumps, ..
        } = self;
        if jumps.len() as u64 > restored.saturating_sub(1) + more {
            return Err(format!(
                "versions were skipped: {jumps:?}, with {restored} starts from a snapshot"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five commits of two terms, and a follower that was killed once.
    fn good() -> Histories {
        Histories {
            recorder: "T 1 1 a d1\nT 2 1 b d2\nT 3 2 c d3\nT 4 2 d d4\nT 5 2 e d5\n".into(),
            publishers: vec![
                // The answer to "b" was lost, and "x" was never stored.
                "I a\nA 1 a\nI b\nI x\n".into(),
                "I c\nA 3 c\nI d\nI e\nA 4 d\nA 5 e\n".into(),
            ],
            followers: vec![
                "start\nR 1\nV a d1\nS a d1\nV b d2\nV c d3\nS c d3\nX 1\nstart\nV d d4\nR 1\n\
                 S d d4\nV e d5\nE 5 d5\n"
                    .into(),
                "start\nR 1\nV c d3\nV d d4\nV e d5\nE 5 d5\nS e d".into(),
            ],
            readers: vec!["S b d2\nS b d2\nS e d5\n".into()],
        }
    }

    #[test]
    fn a_good_history_is_taken() {
        let wanted = Checked {
            commits: 5,
            acknowledged: 4,
            terms: 2,
            applied: 8,
            seen: 6,
            runs: 3,
            jumps: 0,
            evictions: 1,
        };
        assert_eq!(good().check(), Ok(wanted));
    }

    #[test]
    fn planted_faults_are_refused() {
        let refused = |what: &str, plant: &dyn Fn(&mut Histories)| {
            let mut histories = good();
            plant(&mut histories);
            let error = histories.check().expect_err(what);
            assert!(error.contains(what), "{what}: {error}");
        };
        let in_follower = |histories: &mut Histories, from: &str, to: &str| {
            let text = &mut histories.followers[0];
            assert!(text.contains(from), "{from}");
            *text = text.replace(from, to);
        };
        refused("versions were skipped: [(1, 3)]", &|all| {
            all.followers[1] = "start\nR 1\nV a d1\nV c d3\nV d d4\nV e d5\nE 5 d5\n".into();
        });
        // One more may have been skipped by a start that was not counted, but not two.
        refused("versions were skipped: [(1, 3), (3, 5)]", &|all| {
            all.followers[1] = "start\nR 1\nV a d1\nV c d3\nV e d5\nstart\nR 1\nE 5 d5\n".into();
        });
        refused("then an earlier version", &|all| {
            in_follower(all, "V a d1\nS a d1\nV b d2", "V b d2\nS a d1\nV a d1");
        });
        refused("then an earlier version", &|all| {
            in_follower(all, "start\nV d d4", "start\nV b d2\nV d d4");
        });
        refused("then an earlier version", &|all| {
            in_follower(all, "V b d2", "V b d2\nV b d2");
        });
        refused("a reader saw commit 3", &|all| {
            in_follower(all, "S d d4", "S a d1");
        });
        refused("a reader saw commit 5", &|all| all.readers[0] += "S d d4\n");
        refused("the log does not have", &|all| all.readers[0] += "S x d6\n");
        refused("torn", &|all| in_follower(all, "S c d3", "S c d2"));
        refused("torn", &|all| in_follower(all, "V c d3", "V c d9"));
        refused("the log does not have", &|all| {
            in_follower(all, "V c d3", "V x d3");
        });
        refused("counted down", &|all| {
            in_follower(all, "X 1", "X 1\nX 1");
        });
        refused("it ends with", &|all| in_follower(all, "E 5 d5", "E 4 d4"));
        refused("it ends with", &|all| in_follower(all, "E 5 d5", "E 5 d4"));
        refused("it ends with", &|all| in_follower(all, "E 5 d5\n", ""));
        refused("is lost", &|all| {
            all.recorder = all.recorder.replace("T 5 2 e d5\n", "");
        });
        refused("is lost", &|all| {
            all.publishers[0] += "A 2 x\n";
        });
        refused("acknowledged out of order", &|all| {
            all.publishers[1] += "A 4 d\n";
        });
        refused("nobody wrote", &|all| {
            all.publishers[0] = all.publishers[0].replace("I b\n", "");
        });
        refused("an earlier term", &|all| {
            all.recorder = all.recorder.replace("T 5 2", "T 5 1");
        });
        refused("the log goes on with", &|all| {
            all.recorder = all.recorder.replace("T 2 1 b d2\n", "");
        });
        refused("twice in the log", &|all| {
            all.recorder += "T 6 2 e d6\n";
        });
    }
}
