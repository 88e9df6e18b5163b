//! Ours beside the best peer.

use std::collections::HashMap;

use crate::metric::{Better, better, is_ours};
use crate::record::{Record, Row};

/// The best of our engines beside the best peer, in one metric of one case.
#[derive(Clone, Debug)]
pub struct Ratio<'r> {
    /// The best of our engines.
    pub ours: &'r Row,
    /// The best of the others.
    pub peer: &'r Row,
    /// How many times as good ours is: above 1 it is better, below 1 worse, also for times and
    /// bytes.
    pub ratio: f64,
}

/// The ratios of a record, in the order of its rows. Metrics whose unit does not say what is better
/// have none, and neither have values of zero.
pub fn ratios(record: &Record) -> Vec<Ratio<'_>> {
    let mut order = Vec::new();
    let mut best: HashMap<_, [Option<&Row>; 2]> = HashMap::new();
    for row in &record.rows {
        let Some(better) = better(&row.unit) else {
            continue;
        };
        let key = (&*row.suite, &*row.case, &*row.metric, &*row.unit);
        let entry = best.entry(key).or_insert_with(|| {
            order.push(key);
            [None; 2]
        });
        let place = &mut entry[usize::from(!is_ours(&row.engine))];
        let is_better = |old: &Row| match better {
            Better::More => row.value > old.value,
            Better::Less => row.value < old.value,
        };
        if place.is_none_or(is_better) {
            *place = Some(row);
        }
    }
    let ratio = |key| {
        let [Some(ours), Some(peer)] = best[&key] else {
            return None;
        };
        if ours.value <= 0.0 || peer.value <= 0.0 {
            return None;
        }
        let ratio = match better(&ours.unit)? {
            Better::More => ours.value / peer.value,
            Better::Less => peer.value / ours.value,
        };
        Some(Ratio { ours, peer, ratio })
    };
    order.into_iter().filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_each_side_are_compared() {
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
            ("hit_mops", ("sapwood-index", "scc"), 0.5),
            ("load_ns", ("sapwood", "scc"), 2.0),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
