//! Each of our engines beside the best peer.

use std::collections::HashMap;

use crate::records::metric::{Better, better, is_ours};
use crate::records::record::{Record, Row};

/// One of our engines beside the best peer, in one metric of one case.
#[derive(Clone, Debug)]
pub struct Ratio<'r> {
    /// The figure of our engine.
    pub ours: &'r Row,
    /// The best figure of the others.
    pub peer: &'r Row,
    /// How many times as good ours is: above 1 it is better, below 1 worse, also for times and
    /// bytes.
    pub ratio: f64,
}

type Key<'r> = (&'r str, &'r str, &'r str, &'r str);

fn key(row: &Row) -> Key<'_> {
    (&row.suite, &row.case, &row.metric, &row.unit)
}

/// The ratios of a record, in the order of its rows. Metrics whose unit does not say what is better
/// have none, and neither have values of zero.
pub fn ratios(record: &Record) -> Vec<Ratio<'_>> {
    let mut peers: HashMap<Key, &Row> = HashMap::new();
    for row in record.rows.iter().filter(|row| !is_ours(&row.engine)) {
        let best = peers.entry(key(row)).or_insert(row);
        let is_better = match better(&row.unit) {
            Some(Better::More) => row.value > best.value,
            Some(Better::Less) => row.value < best.value,
            None => false,
        };
        if is_better {
            *best = row;
        }
    }
    let ratio = |ours| {
        let peer: &Row = peers.get(&key(ours))?;
        if ours.value <= 0.0 || peer.value <= 0.0 {
            return None;
        }
        let ratio = match better(&ours.unit)? {
            Better::More => ours.value / peer.value,
            Better::Less => peer.value / ours.value,
        };
        Some(Ratio { ours, peer, ratio })
    };
    let ours = record.rows.iter().filter(|row| is_ours(&row.engine));
    ours.filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_ours_is_compared_with_the_best_peer() {
        let text = "# date: 2026-01-31\nsuite,case,engine,metric,value,unit,rounds,min,max\n\
            n,c,sapwood,hit_mops,5,Mop/s,1,5,5\nn,c,sapwood,load_ns,50,ns,1,5,5\n\
            n,c,sapwood-index,hit_mops,8,Mop/s,1,5,5\n\
            n,c,papaya,hit_mops,10,Mop/s,1,5,5\nn,c,papaya,load_ns,200,ns,1,5,5\n\
            n,c,scc,hit_mops,16,Mop/s,1,5,5\nn,c,scc,load_ns,100,ns,1,5,5\n\
            n,d,scc,load_ns,100,ns,1,5,5\nn,c,scc,wrong,0,answers,1,0,0\n\
            n,c,sapwood,wrong,0,answers,1,0,0\nn,c,scc,nodes,7,nodes,1,7,7\n\
            n,c,sapwood,nodes,5,nodes,1,5,5\n";
        let record = Record::parse("r", text).unwrap();
        let ratios = ratios(&record);
        let found = ratios.iter().map(|r| {
            let names = (&*r.ours.engine, &*r.peer.engine);
            (&*r.ours.metric, names, r.ratio)
        });
        let expected = [
            ("hit_mops", ("sapwood", "scc"), 0.3125),
            ("load_ns", ("sapwood", "scc"), 2.0),
            ("hit_mops", ("sapwood-index", "scc"), 0.5),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
