//! Links that go down and up: a thread of its own sets their bits, so that no dump of routes and no
//! grace period delays it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use netlink_sys::Socket;
use rustix::event::{PollFd, PollFlags, poll};

use super::netlink::{Heard, all_links, hear};
use super::table::Event;
use super::tables::MirrorTables;
use super::{AGAIN, LINKS, Shared};
use crate::MAIN_TABLE;

/// The group of notifications about links.
pub(super) const GROUPS: [u32; 1] = [1];

/// The state of the thread.
pub(super) struct LinkFollower<T> {
    pub(super) shared: Arc<Shared<T>>,
    pub(super) listen: Socket,
    pub(super) ask: Socket,
    pub(super) wake: OwnedFd,
}

impl<T: MirrorTables> LinkFollower<T> {
    /// Sets the bits of all links as they are now.
    pub(super) fn refresh(&self) -> io::Result<()> {
        for event in all_links(&self.ask)? {
            self.note(&event);
        }
        Ok(())
    }

    fn note(&self, event: &Event) {
        let (link, usable) = match event {
            Event::Link(ifindex, link) => (*ifindex, link.is_usable()),
            Event::NoLink(ifindex) => (*ifindex, false),
            _ => return,
        };
        let Some(groups) = self.shared.tables.groups() else {
            return;
        };
        if link as usize >= groups.links() || groups.is_up(link) == usable {
            return;
        }
        groups.set_up(link, usable);
        self.shared.count(LINKS, 1);
    }

    pub(super) fn run(self) {
        let mut stale = false;
        loop {
            let mut both = [self.listen.as_fd(), self.wake.as_fd()]
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            if !stale && poll(&mut both, None).is_err() {
                std::thread::sleep(AGAIN);
            }
            if self.shared.ends.load(Ordering::Acquire) {
                return;
            }
            if let Err(error) = self.step(&mut stale) {
                self.shared.failed(Some(error.to_string()));
                stale = true;
                std::thread::sleep(AGAIN);
            }
        }
    }

    /// Receives all that has come.
    fn step(&self, stale: &mut bool) -> io::Result<()> {
        loop {
            match hear(&self.listen, MAIN_TABLE)? {
                Heard::Nothing => break,
                Heard::Lost => *stale = true,
                Heard::Events(events) => events.iter().for_each(|event| self.note(event)),
            }
        }
        if std::mem::take(stale) {
            self.refresh()?;
        }
        Ok(())
    }
}
