//! Bars in panels: a figure of each engine, side by side.

use plotters::style::text_anchor::HPos;

use crate::records::draw::{
    self, Area, Colour, FAINT, INK, MARGIN, Problem, RULE, WIDTH, fill, fitting, line, text,
    width_of,
};
use sapwood_cli::numbers::{short, thousands};

/// A picture: rows of panels, each with the same groups of bars.
pub struct Bars {
    /// The title above the picture.
    pub title: String,
    /// The names of the groups.
    pub groups: Vec<String>,
    /// The names and colours of the bars in a group.
    pub series: Vec<(String, Colour)>,
    /// Whether each group has one bar only, whose series gives the colour.
    pub one_each: bool,
    /// The panels.
    pub panels: Vec<Panel>,
    /// The most panels side by side.
    pub across: usize,
    /// The text below the picture; empty for none.
    pub source: String,
}

/// One panel.
pub struct Panel {
    /// What the bars show, and their unit.
    pub title: String,
    /// For each group, the value of each series that has one.
    pub bars: Vec<Vec<Option<f64>>>,
    /// Whether the values are counts, which are shown with all digits.
    pub whole: bool,
}

impl Panel {
    /// A value as the panel shows it.
    pub fn text(&self, value: f64) -> String {
        match self.whole {
            true => thousands(value.round() as u64),
            false => short(value),
        }
    }
}

const TITLE: i32 = 34;
const BAR: i32 = 11;
const BETWEEN: i32 = 9;
const BETWEEN_SINGLE: i32 = 5;
const FOOT: i32 = 30;
/// The height of a panel's title.
const HEAD: i32 = 28;
/// The least width of a bar's number, to its right.
const NUMBER: i32 = 38;
/// The least and the greatest width of the groups' names.
const NAMES: [i32; 2] = [130, 210];

/// Where things are.
struct Layout {
    /// The left edge of the panels; the names of the groups are left of it.
    left: i32,
    /// The top of the first row of panels.
    top: i32,
    /// The height of a group without the space below it.
    group: i32,
    between: i32,
    /// The width of a panel.
    width: i32,
    rows: usize,
    across: usize,
}

impl Layout {
    fn new(picture: &Bars, top: i32) -> Self {
        // Texts that end at the left edge need more room than the mean.
        let names = picture.groups.iter().map(|name| width_of(name, 13));
        let names = names.max().unwrap_or(0).clamp(NAMES[0], NAMES[1]);
        let left = names + 8;
        let across = picture.panels.len().clamp(1, picture.across.max(1));
        Layout {
            left,
            top,
            group: if picture.one_each {
                1
            } else {
                picture.series.len() as i32
            } * BAR,
            between: if picture.one_each {
                BETWEEN_SINGLE
            } else {
                BETWEEN
            },
            width: (WIDTH - left - 8) / across as i32,
            rows: picture.panels.len().div_ceil(across),
            across,
        }
    }

    /// The height of the bars of a row of panels.
    fn bars(&self, groups: usize) -> i32 {
        groups as i32 * (self.group + self.between)
    }

    /// The top of the bars of a row of panels.
    fn top_of(&self, row: usize, groups: usize) -> i32 {
        self.top + HEAD + row as i32 * (HEAD + self.bars(groups) + 4)
    }
}

impl Bars {
    /// Draws the picture.
    ///
    /// # Errors
    ///
    /// The picture cannot be drawn.
    pub fn draw(&self) -> Result<String, Problem> {
        let names: Vec<_> = self.series.iter().map(|(name, _)| &**name).collect();
        // Bars of one series without a name need no legend.
        let (places, below) = match names.iter().all(|name| name.is_empty()) {
            true => (Vec::new(), TITLE),
            false => draw::legend_places(&names, TITLE),
        };
        let layout = Layout::new(self, below - 2);
        let groups = self.groups.len();
        let bottom = layout.top_of(layout.rows - 1, groups) + layout.bars(groups);
        let foot = if self.source.is_empty() { 6 } else { FOOT };
        draw::picture(bottom + foot, (&self.title, &self.description()), |area| {
            text(area, &self.title, (MARGIN, 20), 15, INK, HPos::Left)?;
            let series = self.series.iter();
            let series: Vec<_> = series.map(|(name, colour)| (&**name, *colour)).collect();
            draw::legend(area, &series, &places)?;
            for row in 0..layout.rows {
                let top = layout.top_of(row, groups);
                for (i, name) in self.groups.iter().enumerate() {
                    let name = fitting(name, 12, layout.left - 8);
                    let middle =
                        top + i as i32 * (layout.group + layout.between) + layout.group / 2;
                    text(area, &name, (layout.left - 8, middle), 12, INK, HPos::Right)?;
                }
            }
            for (i, panel) in self.panels.iter().enumerate() {
                let left = layout.left + (i % layout.across) as i32 * layout.width;
                let top = layout.top_of(i / layout.across, groups);
                self.draw_panel(area, &layout, panel, (left, top))?;
            }
            let at = (MARGIN, bottom + FOOT / 2 + 2);
            if !self.source.is_empty() {
                text(area, &self.source, at, 11, FAINT, HPos::Left)?;
            }
            Ok(())
        })
    }

    fn description(&self) -> String {
        let panels: Vec<_> = self.panels.iter().map(|panel| &*panel.title).collect();
        let groups = self.groups.join(", ");
        format!("Bars of {}, for {groups}.", panels.join("; "))
    }

    fn draw_panel(
        &self,
        area: &Area,
        layout: &Layout,
        panel: &Panel,
        (left, top): (i32, i32),
    ) -> Result<(), Problem> {
        let bottom = top + layout.bars(self.groups.len()) - layout.between;
        let title = fitting(&panel.title, 12, layout.width - 4);
        text(area, &title, (left, top - 14), 12, FAINT, HPos::Left)?;
        line(area, vec![(left, top - 4), (left, bottom + 4)], RULE, 1)?;
        let most = panel.bars.iter().flatten().flatten();
        let most = most.fold(f64::MIN_POSITIVE, |most, value| value.max(most));
        let values = panel.bars.iter().flatten().flatten();
        let room = values.map(|value| width_of(&panel.text(*value), 11) + 8);
        let room = room.fold(NUMBER, i32::max);
        let length = f64::from(layout.width - room - 8);
        for (i, bars) in panel.bars.iter().enumerate() {
            for (j, value) in bars.iter().enumerate() {
                let Some(value) = value else { continue };
                let lane = if self.one_each { 0 } else { j as i32 };
                let top = top + i as i32 * (layout.group + layout.between) + lane * BAR;
                let right = left + (value.max(0.0) / most * length).round().max(1.0) as i32;
                let colour = self.series[j].1;
                if *value > 0.0 {
                    fill(area, (left, top), (right, top + BAR - 2), colour)?;
                }
                let middle = (right + 4, top + BAR / 2);
                text(area, &panel.text(*value), middle, 10, INK, HPos::Left)?;
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
    fn bars_are_as_long_as_their_values() {
        let picture = Bars {
            title: "t <b>".into(),
            groups: vec!["ours".into(), "<i>peer".into()],
            series: vec![("Sapwood".into(), OURS), ("peers".into(), PEER)],
            one_each: true,
            panels: vec![Panel {
                title: "rate".into(),
                bars: vec![vec![Some(8.0), None], vec![None, Some(2.0)]],
                whole: false,
            }],
            across: 4,
            source: String::new(),
        };
        let svg = picture.draw().unwrap();
        let width = |colour: &str| {
            let bars = svg
                .lines()
                .filter(|l| l.contains(colour) && l.contains("height=\"9\""));
            let bars: Vec<_> = bars.collect();
            assert_eq!(bars.len(), 1, "{svg}");
            let width = bars[0].split("width=\"").nth(1).unwrap();
            width.split('"').next().unwrap().parse::<i32>().unwrap()
        };
        let (ours, peer) = (width("#1A7F37"), width("#547DB0"));
        assert!((ours - 4 * peer).abs() <= 2, "{ours} {peer}");
        assert!(svg.contains("<title>t &lt;b&gt;</title>") && svg.contains("role=\"img\""));
        assert!(!svg.contains("<i>") && !svg.contains("<b>"));
        assert!(svg.contains("\n8.00\n") && svg.contains("\n2.00\n"));
    }
}
