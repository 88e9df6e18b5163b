//! Lines in panels: how figures grow with threads, sizes or percentiles.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::records::draw::{
    self, Area, Colour, FAINT, GRID, INK, MARGIN, Problem, RULE, WIDTH, fitting, line, text,
};
use sapwood_cli::numbers::short;

/// A picture: panels of lines, with the same engines.
pub struct Lines {
    /// The title above the picture.
    pub title: String,
    /// What the points along each panel are, such as `threads-kallsyms-N: N`.
    pub points: String,
    /// The names and colours of the lines.
    pub engines: Vec<(String, Colour)>,
    /// The panels.
    pub panels: Vec<LinePanel>,
}

/// One panel.
pub struct LinePanel {
    /// What the lines show, and their unit.
    pub title: String,
    /// The names of the points from left to right.
    pub points: Vec<String>,
    /// For each engine, its value at each point, if it has one.
    pub values: Vec<Vec<Option<f64>>>,
    /// Whether the axis shows percentiles, whose values differ by orders of magnitude.
    pub logarithmic: bool,
}

const ACROSS: usize = 3;
const TITLE: i32 = 34;
/// The height of a panel with its title and the names of its points.
const PANEL: i32 = 206;
const HEAD: i32 = 28;
const PLOT: i32 = 142;
/// The width of the figures at an axis.
const AXIS: i32 = 46;
/// The factor between the greatest and the least value from which an axis is logarithmic.
const WIDE: f64 = 40.0;

/// The vertical axis of a panel.
struct Axis {
    logarithmic: bool,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis for positive values; those of zero lie at its foot.
    fn new(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let (mut least, mut most) = (f64::MAX, f64::MIN_POSITIVE);
        for value in values {
            most = most.max(value);
            if value > 0.0 {
                least = least.min(value);
            }
        }
        if most == f64::MIN_POSITIVE {
            // No value is above zero.
            most = 1.0;
        }
        least = least.min(most);
        if logarithmic || most / least > WIDE {
            let low = 10f64.powf(least.log10().floor());
            let mut high = 10f64.powf(most.log10().ceil());
            if high <= low {
                high = low * 10.0;
            }
            let decades = (high.log10() - low.log10()).round() as i32;
            let step = (decades / 6 + 1) as usize;
            let ticks = (0..=decades).step_by(step);
            let ticks = ticks.map(|i| low * 10f64.powi(i)).collect();
            return Axis {
                logarithmic: true,
                low,
                high,
                ticks,
            };
        }
        let step = nice(most / 4.0);
        let count = (most / step).ceil().max(1.0) as i32;
        Axis {
            logarithmic: false,
            low: 0.0,
            high: step * f64::from(count),
            ticks: (0..=count).map(|i| step * f64::from(i)).collect(),
        }
    }

    /// The place of a value: 0 at the foot, 1 at the top.
    fn place(&self, value: f64) -> f64 {
        let place = match self.logarithmic {
            true => {
                let [value, low, high] = [value.max(self.low), self.low, self.high].map(f64::ln);
                (value - low) / (high - low)
            }
            false => (value - self.low) / (self.high - self.low),
        };
        place.clamp(0.0, 1.0)
    }
}

/// The least of 1, 2, 2.5 and 5 times a power of ten that is not less than a value.
fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let step = steps.iter().find(|step| *step * power >= value * 0.9999);
    step.unwrap_or(&10.0) * power
}

/// A tick of an axis, without zeros that say nothing.
fn tick(value: f64) -> String {
    if value >= 1000.0 {
        return short(value);
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Lines {
    /// Draws the picture.
    ///
    /// # Errors
    ///
    /// The picture cannot be drawn.
    pub fn draw(&self) -> Result<String, Problem> {
        let names: Vec<_> = self.engines.iter().map(|(name, _)| &**name).collect();
        let (places, top) = draw::legend_places(&names, TITLE);
        let rows = self.panels.len().div_ceil(ACROSS) as i32;
        let height = top + rows * PANEL + 6;
        draw::picture(height, (&self.title, &self.description()), |area| {
            text(area, &self.title, (MARGIN, 20), 15, INK, HPos::Left)?;
            let engines = self.engines.iter();
            let engines: Vec<_> = engines.map(|(name, colour)| (&**name, *colour)).collect();
            draw::legend(area, &engines, &places)?;
            let width = (WIDTH - 2 * MARGIN) / ACROSS as i32;
            for (i, panel) in self.panels.iter().enumerate() {
                let left = MARGIN + (i % ACROSS) as i32 * width;
                let top = top + (i / ACROSS) as i32 * PANEL;
                self.draw_panel(area, panel, (left, top), width)?;
            }
            Ok(())
        })
    }

    fn description(&self) -> String {
        let panels: Vec<_> = self.panels.iter().map(|panel| &*panel.title).collect();
        let names: Vec<_> = self.engines.iter().map(|(name, _)| &**name).collect();
        let (panels, names) = (panels.join("; "), names.join(", "));
        format!("Lines of {panels}, by {}, for {names}.", self.points)
    }

    fn draw_panel(
        &self,
        area: &Area,
        panel: &LinePanel,
        (left, top): (i32, i32),
        width: i32,
    ) -> Result<(), Problem> {
        let values = panel.values.iter().flatten().flatten().copied();
        let axis = Axis::new(values, panel.logarithmic);
        let scale = if axis.logarithmic { " (log scale)" } else { "" };
        let title = fitting(&format!("{}{scale}", panel.title), 12, width - 8);
        text(area, &title, (left, top + 12), 12, FAINT, HPos::Left)?;
        let (from, to) = (left + AXIS, left + width - 16);
        let foot = top + HEAD + PLOT;
        let y = |value| foot - (axis.place(value) * f64::from(PLOT)).round() as i32;
        for value in &axis.ticks {
            let at = y(*value);
            let colour = if *value == axis.ticks[0] { RULE } else { GRID };
            line(area, vec![(from, at), (to, at)], colour, 1)?;
            text(area, &tick(*value), (from - 6, at), 10, FAINT, HPos::Right)?;
        }
        let points = panel.points.len();
        // A margin at both sides, so that the first and the last name have room.
        let (first, last) = (from + 14, to - 14);
        let x = |i: usize| match points {
            0 | 1 => (first + last) / 2,
            _ => first + (last - first) * i as i32 / (points as i32 - 1),
        };
        // Names that would touch are left out.
        let widest = panel.points.iter().map(|name| draw::width_of(name, 10));
        let room = widest.max().unwrap_or(1) + 6;
        let each = ((points as i32 * room) / (last - first + room) + 1) as usize;
        for (i, name) in panel.points.iter().enumerate() {
            line(area, vec![(x(i), foot), (x(i), foot + 3)], RULE, 1)?;
            if (points - 1 - i).is_multiple_of(each) {
                text(area, name, (x(i), foot + 13), 10, FAINT, HPos::Center)?;
            }
        }
        // Ours last, so that no peer's line covers it.
        let ours = |i: &usize| crate::records::metric::is_ours(&self.engines[*i].0);
        let mut order: Vec<usize> = (0..panel.values.len()).collect();
        order.sort_by_key(ours);
        for engine in order {
            let colour = self.engines[engine].1;
            let width = if ours(&engine) { 3 } else { 2 };
            let values = panel.values[engine].iter().enumerate();
            let places: Vec<_> = values
                .filter_map(|(i, value)| Some((x(i), y((*value)?))))
                .collect();
            if places.len() > 1 {
                line(area, places.clone(), colour, width)?;
            }
            for place in places {
                area.draw(&Circle::new(place, 3, colour.filled()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::draw::{OURS, PEER};

    #[test]
    fn axes_have_round_numbers_and_room_for_all_values() {
        let axis = Axis::new([3.0, 7.2].into_iter(), false);
        assert_eq!(axis.ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(
            (axis.place(0.0), axis.place(4.0), axis.place(8.0)),
            (0.0, 0.5, 1.0)
        );
        let axis = Axis::new([0.0, 2.0, 900.0].into_iter(), false);
        assert!(axis.logarithmic);
        assert_eq!(axis.ticks, [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(axis.place(0.0), 0.0);
        assert!((axis.place(10.0) - 1.0 / 3.0).abs() < 1e-9);
        let axis = Axis::new([10.0].into_iter(), true);
        assert_eq!(axis.ticks, [10.0, 100.0]);
        for values in [&[0.0][..], &[-3.0], &[], &[1e308, 1e-308], &[1.7e308]] {
            let axis = Axis::new(values.iter().copied(), false);
            assert!(
                (2..=12).contains(&axis.ticks.len()),
                "{values:?}: {:?}",
                axis.ticks
            );
            assert!(
                values
                    .iter()
                    .all(|value| (0.0..=1.0).contains(&axis.place(*value)))
            );
        }
        assert_eq!(Axis::new([0.0].into_iter(), false).ticks.last(), Some(&1.0));
        assert_eq!([0.3, 2.4, 26.0, 7.0].map(nice), [0.5, 2.5, 50.0, 10.0]);
        assert_eq!([0.25, 5.0, 1000.0].map(tick), ["0.25", "5", "1000"]);
    }

    #[test]
    fn a_line_goes_through_its_points_and_ours_is_on_top() {
        let panel = LinePanel {
            title: "lookups".into(),
            points: vec!["1".into(), "2".into()],
            values: vec![vec![Some(1.0), Some(2.0)], vec![Some(2.0), None]],
            logarithmic: false,
        };
        let picture = Lines {
            title: "<t>".into(),
            points: "threads".into(),
            engines: vec![("sapwood".into(), OURS), ("a&b".into(), PEER)],
            panels: vec![panel],
        };
        let svg = picture.draw().unwrap();
        let lines: Vec<_> = svg.lines().filter(|l| l.contains("<polyline")).collect();
        let ours: Vec<_> = lines.iter().filter(|l| l.contains("#1A7F37")).collect();
        // The axis ends at 2: half the height, and all of it.
        let (x, foot) = (MARGIN + AXIS + 14, 52 + HEAD + PLOT);
        let start = format!("points=\"{x},{} ", foot - PLOT / 2);
        assert!(
            ours.len() == 1 && ours[0].contains(&start),
            "{ours:?} {start}"
        );
        // A peer with one value has a point and no line.
        assert!(!lines.iter().any(|l| l.contains("#547DB0")));
        let last = svg.lines().rfind(|l| l.contains("<circle")).unwrap();
        assert!(last.contains("#1A7F37"));
        assert!(svg.contains("a&amp;b") && !svg.contains("<t>"));
    }
}
