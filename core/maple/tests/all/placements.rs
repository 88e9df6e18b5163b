//! Where a search finds a place: every kind of window, against a search that tries all places.

use std::ops::RangeInclusive;

use sapwood::maple::{Error, MapleMap, RangeMap, Split, Window};
use sapwood_model::oracle;

use crate::support::maple::{loud, loud_heap, tiny_nodes};
use crate::support::steps::steps;

type Range = RangeInclusive<u64>;

/// The indices of the oracle's map. The last of them stand for the highest ones of all.
const LAST: u64 = 299;

/// What a window asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) size: u64,
    within: Range,
    modulus: u64,
    rest: u64,
    guard: u64,
    highest: bool,
    tightest: bool,
    near: Option<u64>,
    around: Option<u64>,
}

impl Wish {
    pub(crate) fn random(rng: &mut fastrand::Rng) -> Wish {
        let (a, b) = (rng.u64(..=LAST), rng.u64(..=LAST));
        let modulus = [1, 1, 2, 3, 7, 8, 16, 30][rng.usize(..8)];
        let around = (rng.u8(..4) == 0).then(|| rng.u64(..=LAST));
        Wish {
            size: rng.u64(1..12),
            within: a.min(b)..=a.max(b),
            modulus,
            rest: rng.u64(..2 * modulus),
            guard: [0, 0, 1, 3][rng.usize(..4)],
            highest: rng.bool(),
            tightest: rng.u8(..3) == 0,
            near: (around.is_none() && rng.u8(..4) == 0).then(|| rng.u64(..=LAST)),
            around,
        }
    }

    pub(crate) fn window(&self) -> Window {
        let mut window = Window::new(self.within.clone());
        match (self.rest, self.modulus.is_power_of_two()) {
            (0, true) => window = window.aligned(self.modulus),
            _ => window = window.congruent_to(self.rest, self.modulus),
        }
        if self.guard > 0 {
            window = window.guarded(self.guard);
        }
        if self.highest {
            window = window.from_end();
        }
        if self.tightest {
            window = window.tightest();
        }
        if let Some(index) = self.near {
            window = window.starting_at(index);
        }
        if let Some(index) = self.around {
            window = window.nearest_to(index);
        }
        window
    }

    /// The place, found by trying all of them.
    pub(crate) fn place(&self, map: &oracle::RangeMap<u64>) -> Option<u64> {
        let last = self.size - 1;
        let fits = |start: &u64| {
            let (start, end) = (*start, *start + last);
            let around = start.saturating_sub(self.guard)..=end + self.guard;
            *self.within.start() <= start
                && end <= *self.within.end()
                && start % self.modulus == self.rest % self.modulus
                && map.range(around).next().is_none()
        };
        let places: Vec<u64> = (0..=LAST - last).filter(fits).collect();
        if let Some(index) = self.around {
            let above = places.iter().copied().filter(|start| *start >= index);
            let below = places.iter().copied().filter(|start| *start <= index);
            let above = self.best(map, above.collect(), false);
            let below = self.best(map, below.collect(), true);
            return match (above, below) {
                (Some(above), Some(below)) if above - index > index - below => Some(below),
                (above, below) => above.or(below),
            };
        }
        if let Some(index) = self.near {
            let first = places.iter().copied().filter(|start| match self.highest {
                false => *start >= index,
                true => *start + last <= index,
            });
            let found = self.best(map, first.collect(), self.highest);
            if found.is_some() {
                return found;
            }
        }
        self.best(map, places, self.highest)
    }

    fn best(
        &self,
        map: &oracle::RangeMap<u64>,
        mut places: Vec<u64>,
        highest: bool,
    ) -> Option<u64> {
        if highest {
            places.reverse();
        }
        match self.tightest {
            false => places.first().copied(),
            true => places.into_iter().min_by_key(|start| {
                let (gap, _) = map.locate(*start);
                gap.end() - gap.start()
            }),
        }
    }
}

#[test]
fn places_are_where_the_window_wants_them() {
    let mut rng = fastrand::Rng::with_seed(6);
    for round in 0..steps(150) {
        let mut model = oracle::RangeMap::new();
        let shared = tiny_nodes::<u64>(loud());
        let mut owned = RangeMap::with_nodes(loud_heap(), Split::by_clone(), (192, 4));
        for value in 0..rng.u64(..60) {
            let start = rng.u64(..=LAST);
            let range = start..=(start + rng.u64(..6)).min(LAST);
            model.store(range.clone(), value);
            shared.store(range.clone(), value).unwrap();
            owned.store(range, value).unwrap();
        }
        let frozen = shared.snapshot();
        for _ in 0..100 {
            let wish = Wish::random(&mut rng);
            let wanted = wish
                .place(&model)
                .map(|start| start..=start + wish.size - 1);
            let what = format!("round {round}: {wish:?} in {model:?}");
            assert_eq!(shared.find_gap(wish.size, wish.window()), wanted, "{what}");
            assert_eq!(owned.find_gap(wish.size, wish.window()), wanted, "{what}");
            let seen = frozen.view().find_gap(wish.size, wish.window());
            assert_eq!(seen, wanted, "{what}");
        }
        // An allocation takes that place.
        let wish = Wish::random(&mut rng);
        let wanted = wish.place(&model);
        let taken = owned.alloc_range(wish.size, wish.window(), 7);
        assert_eq!(taken.map(|range| *range.start()).ok(), wanted);
        let plan = shared.plan_alloc(wish.size, wish.window(), &7);
        assert_eq!(plan.map(|plan| *plan.range().start()).ok(), wanted);
        owned.verify().unwrap();
    }
}

/// The highest index and the lowest one, in an empty map and beside entries.
#[test]
fn places_at_both_ends() {
    const MAX: u64 = u64::MAX;
    let map = MapleMap::new();
    let all = || Window::new(0..=MAX);
    assert_eq!(map.find_gap(MAX, all().guarded(9)), Some(0..=MAX - 1));
    assert_eq!(
        map.find_gap(1, all().from_end().congruent_to(3, 10)),
        Some(MAX - 2..=MAX - 2)
    );
    assert_eq!(map.find_gap(4, all().nearest_to(MAX)), Some(MAX - 3..=MAX));
    assert_eq!(
        map.find_gap(2, Window::new(MAX - 1..=MAX).congruent_to(0, MAX)),
        None
    );
    map.store(10..=MAX - 10, 'a').unwrap();
    assert_eq!(map.find_gap(8, all().guarded(2)), Some(0..=7));
    assert_eq!(
        map.find_gap(8, all().guarded(2).from_end()),
        Some(MAX - 7..=MAX)
    );
    assert_eq!(map.find_gap(9, all().guarded(2)), None);
    assert_eq!(map.find_gap(1, all().guarded(MAX)), None);
    assert_eq!(map.find_gap(3, all().nearest_to(0)), Some(0..=2));
    let refused = map
        .alloc_range(1, all().congruent_to(0, 0), 'b')
        .unwrap_err();
    assert_eq!(refused.error, Error::Alignment { align: 0 });
}
