//! Every invariant of a map that somebody else wrote, walked.

use std::collections::HashMap;

use sapwood::qp::Published;

use super::index::Index;
use super::nodes::{Nodes, Trouble};
use super::way::Way;

/// Which units of 8 bytes have been met, by pages.
#[derive(Default)]
pub(super) struct Met(HashMap<usize, [u64; 8]>);

impl Met {
    /// Marks a block; whether none of it was met before.
    pub(super) fn mark(&mut self, (from, to): (usize, usize)) -> bool {
        let mut new = true;
        for unit in from / 8..to / 8 {
            let page = self.0.entry(unit / 512).or_default();
            let (word, bit) = (unit % 512 / 64, 1 << (unit % 64));
            new &= page[word] & bit == 0;
            page[word] |= bit;
        }
        new
    }
}

/// How many entries there are, if everything is as it must be.
pub(super) fn verify(nodes: &Nodes) -> Result<usize, Trouble> {
    let mut met = Met::default();
    match nodes.has_index() {
        Published::ONLY_INDEX if nodes.root() != 0 => {
            Err(Trouble::Damaged("a trie, where there is none", 0))
        }
        Published::ONLY_INDEX => Index::new(nodes).verify(&mut met, None),
        0 => verify_trie(nodes, &mut met, |_| {}),
        1 => {
            let mut leaves = Vec::new();
            let count = verify_trie(nodes, &mut met, |leaf| leaves.push(leaf))?;
            Index::new(nodes).verify(&mut met, Some(&leaves))?;
            Ok(count)
        }
        _ => Err(Trouble::Damaged("no map has such a header", 0)),
    }
}

/// Checks the trie; calls `each` with its leaves.
fn verify_trie(nodes: &Nodes, met: &mut Met, mut each: impl FnMut(u32)) -> Result<usize, Trouble> {
    let mut way = Way::default();
    let mut before: Option<Vec<u8>> = None;
    let mut count = 0;
    way.first(nodes)?;
    let mut checked = 0;
    while way.leaf != 0 {
        // Each branch comes into the way once, as each is met once only. It ends for that.
        for frame in &way.frames[checked..] {
            let block = frame.branch.block();
            nodes.check_spare(&frame.branch)?;
            if !met.mark(block) {
                return Err(Trouble::Damaged("a branch over another node", block.0));
            }
        }
        let leaf = nodes.leaf(way.leaf)?;
        let (at, _) = leaf.block();
        if !met.mark(leaf.block()) {
            return Err(Trouble::Damaged("a leaf over another node", at));
        }
        let key = nodes.key(&leaf);
        let ascends = before.as_ref().is_none_or(|before| *before < key);
        if !ascends || !way.leads_to(&key, before.as_deref()) {
            return Err(Trouble::Damaged("a key that does not fit its place", at));
        }
        count += 1;
        each(way.leaf);
        before = Some(key);
        way.step(nodes)?;
        checked = way.turned.map_or(0, |turned| turned + 1);
    }
    Ok(count)
}
