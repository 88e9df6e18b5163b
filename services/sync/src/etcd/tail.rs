//! The frames after a commit: first those that are there, then those that come.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use etcd_client::{
    GetOptions, KeyValue, SortOrder, SortTarget, WatchFilterType, WatchOptions, WatchStream,
};
use tokio::time::{Instant, timeout};

use super::Shared;
use super::service::{Failure, Why};
use crate::{Error, Frame, Tail};

/// The most bytes of an answer of etcd that is read.
const MOST_BYTES: usize = 256 << 20;
/// How many bytes of frames a page should have.
const PAGE_BYTES: usize = 4 << 20;
/// The most frames of a page.
const MOST_FRAMES: i64 = 4_096;

/// The frames of a log after a commit.
///
/// It lists what is there at one revision, then it watches from that revision on. Whatever ends the
/// watch, it lists again from its own position: nothing is lost as long as etcd has it.
pub(super) struct EtcdTail {
    shared: Arc<Shared>,
    /// The commit that comes next.
    next: u64,
    /// The pieces of it that were passed: their term, and how many.
    pieces: (u64, u32),
    ready: VecDeque<Frame>,
    state: State,
    /// How many frames the next page may have.
    page: i64,
}

enum State {
    /// Nothing is known.
    Lost,
    /// The frames of a revision are being read, from this key on.
    Listing {
        revision: i64,
        head: u64,
        from: Vec<u8>,
        /// Whether the first frame has been sought with the key of the next commit alone.
        is_first: bool,
    },
    /// What comes after this revision is to be watched.
    Listed { revision: i64 },
    Watching {
        watch: Box<WatchStream>,
        /// The number of the endpoint.
        endpoint: usize,
        /// When etcd was last heard, and whether it has been asked for a sign since.
        heard: Instant,
        is_asked: bool,
    },
}

impl EtcdTail {
    pub(super) async fn begin(shared: &Arc<Shared>, commit: u64) -> Result<Self, Error> {
        let mut tail = EtcdTail {
            shared: shared.clone(),
            next: commit.saturating_add(1),
            pieces: (0, 0),
            ready: VecDeque::new(),
            state: State::Lost,
            page: 16,
        };
        // A gap shows where the list begins.
        while matches!(
            tail.state,
            State::Lost | State::Listing { is_first: true, .. }
        ) {
            tail.step().await?;
        }
        Ok(tail)
    }

    /// One call to etcd. A step that is dropped half-way is done again.
    async fn step(&mut self) -> Result<(), Error> {
        match &mut self.state {
            State::Lost => {
                let state = self.shared.state().await?;
                let head = state.position.commit;
                if self.next > head.saturating_add(1) {
                    return Err(Error::beyond(&self.shared.map, head, self.next - 1));
                }
                self.state = State::Listing {
                    revision: state.revision,
                    head,
                    from: self.shared.keys.start_of(self.next).into_bytes(),
                    is_first: true,
                };
                Ok(())
            }
            State::Listing { .. } => self.list().await,
            State::Listed { revision } => {
                let revision = *revision;
                self.watch(revision).await
            }
            State::Watching { .. } => self.hear().await,
        }
    }

    /// Reads a page of the list.
    async fn list(&mut self) -> Result<(), Error> {
        let State::Listing {
            revision,
            head,
            from,
            is_first,
        } = &self.state
        else {
            return Ok(());
        };
        let (revision, head, is_first) = (*revision, *head, *is_first);
        let end = self.shared.keys.log_end();
        let limit = self.page;
        let page = self
            .get(from.clone(), &end, revision, limit, SortOrder::None)
            .await;
        let (page, more) = match page {
            Err(failure) if failure.why == Why::Compacted => {
                self.state = State::Lost;
                return Ok(());
            }
            page => page?,
        };
        let starts_here = match page.first() {
            Some(first) => frame_of(&self.shared, first)?.first() == self.next,
            None => self.next > head,
        };
        if is_first && !starts_here {
            // The next commit is inside a frame that begins with an earlier one, or nowhere.
            let from = self.frame_before(revision).await?;
            self.state = match from {
                Some(from) => State::Listing {
                    revision,
                    head,
                    from,
                    is_first: false,
                },
                None => State::Lost,
            };
            return Ok(());
        }
        let bytes: usize = page.iter().map(|one| one.value().len()).sum();
        let mut frames = Vec::with_capacity(page.len());
        for one in &page {
            frames.push(frame_of(&self.shared, one)?);
        }
        // No wait from here on.
        for frame in frames {
            self.pass(frame)?;
        }
        if bytes < PAGE_BYTES / 4 {
            self.page = (self.page * 4).min(MOST_FRAMES);
        } else if bytes > PAGE_BYTES {
            self.page = (self.page / 2).max(1);
        }
        self.state = match page.last() {
            Some(last) if more => {
                let mut from = last.key().to_vec();
                from.push(0);
                State::Listing {
                    revision,
                    head,
                    from,
                    is_first: false,
                }
            }
            _ => {
                if self.next <= head {
                    return Err(self.gap());
                }
                State::Listed { revision }
            }
        };
        Ok(())
    }

    /// The key of the frame in which the next commit lies, when that begins with an earlier one;
    /// `None` when the revision has been compacted meanwhile.
    async fn frame_before(&self, revision: i64) -> Result<Option<Vec<u8>>, Error> {
        let keys = &self.shared.keys;
        let end = keys.start_of(self.next);
        let from = keys.log().into_bytes();
        let found = match self.get(from, &end, revision, 1, SortOrder::Descend).await {
            Err(failure) if failure.why == Why::Compacted => return Ok(None),
            found => found?.0,
        };
        match found.first() {
            Some(found) if frame_of(&self.shared, found)?.last() >= self.next => {
                Ok(Some(found.key().to_vec()))
            }
            _ => Err(self.gap()),
        }
    }

    async fn get(
        &self,
        from: Vec<u8>,
        end: &str,
        revision: i64,
        limit: i64,
        order: SortOrder,
    ) -> Result<(Vec<KeyValue>, bool), Failure> {
        let mut found = self
            .shared
            .service
            .call(|client| {
                let mut options = GetOptions::new()
                    .with_range(end)
                    .with_revision(revision)
                    .with_limit(limit);
                if order != SortOrder::None {
                    options = options.with_sort(SortTarget::Key, order);
                }
                let from = from.clone();
                let mut kv = client.kv_client().max_decoding_message_size(MOST_BYTES);
                async move { kv.get(from, Some(options)).await }
            })
            .await?;
        let more = found.more();
        Ok((found.take_kvs(), more))
    }

    async fn watch(&mut self, revision: i64) -> Result<(), Error> {
        let keys = &self.shared.keys;
        let (log, end) = (keys.log(), keys.log_end());
        let endpoint = self.shared.service.number();
        let watch = self
            .shared
            .service
            .call(|client| {
                let options = WatchOptions::new()
                    .with_range(&*end)
                    .with_start_revision(revision + 1)
                    .with_filters([WatchFilterType::NoDelete])
                    .with_fragment();
                let mut watch = client.watch_client().max_decoding_message_size(MOST_BYTES);
                let log = &*log;
                async move { watch.watch(log, Some(options)).await }
            })
            .await?;
        self.state = State::Watching {
            watch: Box::new(watch),
            endpoint,
            heard: Instant::now(),
            is_asked: false,
        };
        Ok(())
    }

    /// Waits for the next answer to the watch. A member that is silent is left: it may be paused or
    /// cut off.
    async fn hear(&mut self) -> Result<(), Error> {
        let limit = self.shared.service.limit;
        let State::Watching {
            watch,
            endpoint,
            heard,
            is_asked,
        } = &mut self.state
        else {
            return Ok(());
        };
        let endpoint = *endpoint;
        match timeout(limit.saturating_sub(heard.elapsed()), watch.message()).await {
            Ok(Ok(Some(answer))) => {
                (*heard, *is_asked) = (Instant::now(), false);
                let is_over = answer.canceled() || answer.compact_revision() != 0;
                let is_behind = answer.compact_revision() != 0;
                let mut is_lost = is_over;
                for event in answer.events() {
                    let Some(one) = event.kv() else { continue };
                    let frame = frame_of(&self.shared, one)?;
                    if self.pass(frame).is_err() {
                        // The list shows whether this is a gap.
                        is_lost = true;
                        break;
                    }
                }
                if is_lost {
                    self.state = State::Lost;
                    if is_over && !is_behind {
                        self.shared.service.leave(endpoint);
                    }
                }
            }
            Err(_) if !*is_asked => {
                // The answer is a sign of life, and nothing else: etcd 3.4 may be wrong about the
                // revision in it.
                (*heard, *is_asked) = (Instant::now(), true);
                if watch.request_progress().await.is_err() {
                    self.state = State::Lost;
                }
            }
            Ok(Ok(None) | Err(_)) | Err(_) => {
                self.state = State::Lost;
                self.shared.service.leave(endpoint);
            }
        }
        Ok(())
    }

    /// Takes a frame that follows, and drops one that is known. Frames of a commit that a deposed
    /// leader left incomplete go on to the reader, who knows them by their term.
    fn pass(&mut self, frame: Frame) -> Result<(), Error> {
        if frame.first() > self.next {
            return Err(self.gap());
        }
        if frame.is_piece() {
            if frame.first() < self.next {
                return Ok(());
            }
            let (epoch, there) = self.pieces;
            let piece = u32::from(frame.piece());
            if piece > 0 && (frame.epoch(), piece) != (epoch, there) {
                return Err(self.gap());
            }
            self.pieces = (frame.epoch(), piece + 1);
        } else if frame.last() < self.next {
            return Ok(());
        }
        if frame.last() >= self.next {
            self.next = frame.last() + 1;
            self.pieces = (0, 0);
        }
        self.ready.push_back(frame);
        Ok(())
    }

    fn gap(&self) -> Error {
        Error::Gap {
            map: self.shared.map.clone(),
            wanted: self.next,
        }
    }
}

/// The frame that a key has.
fn frame_of(shared: &Shared, one: &KeyValue) -> Result<Frame, Error> {
    let key = String::from_utf8_lossy(one.key());
    let place = shared.place(&key);
    let frame = Frame::from_bytes(one.value().to_vec(), &place)?;
    if shared.keys.frame(&frame) != key {
        let what = "a frame of another key";
        return Err(Error::damaged(place, what));
    }
    Ok(frame)
}

#[async_trait]
impl Tail for EtcdTail {
    async fn next(&mut self) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(frame);
            }
            self.step().await?;
        }
    }
}
