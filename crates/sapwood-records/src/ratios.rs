//! Ratios as bars to both sides of a line: ours beside the best peer, on a logarithmic scale.

use plotters::style::text_anchor::HPos;

use crate::compare::Ratio;
use crate::draw::{
    self, Area, FAINT, GRID, INK, MARGIN, OTHER, OURS, Problem, RULE, WIDTH, fill, fitting, line,
    text,
};
use crate::metric::title;
use crate::record::in_order;

const ACROSS: usize = 4;
const TITLE: i32 = 34;
const NAMES: i32 = 186;
const HEAD: i32 = 30;
const ROW: i32 = 16;
const BAR: i32 = 11;
/// The room for a bar's number.
const NUMBER: i32 = 40;
/// Bars for ratios beyond these have the greatest length.
const WIDEST: f64 = 32.0;

/// A panel: the ratios of a case, each with the row of its metric.
struct Panel<'r> {
    case: &'r str,
    ratios: Vec<(usize, f64)>,
}

/// Panels side by side, with common rows.
#[derive(Default)]
struct Band<'r> {
    metrics: Vec<String>,
    panels: Vec<Panel<'r>>,
}

/// Draws the ratios of a record: a panel for each case, a row for each metric.
///
/// # Errors
///
/// The picture cannot be drawn.
pub fn draw(picture_title: &str, ratios: &[Ratio]) -> Result<String, Problem> {
    let bands = bands(ratios);
    let widest = ratios
        .iter()
        .map(|ratio| ratio.ratio.max(1.0 / ratio.ratio));
    let widest = widest.fold(2.0, f64::max).min(WIDEST);
    let names = ["ours is better", "the best peer is better"];
    let (places, top) = draw::legend_places(&names, TITLE);
    let heights = bands
        .iter()
        .map(|band| HEAD + band.metrics.len() as i32 * ROW + 8);
    let height = top + heights.sum::<i32>() + 4;
    let cases = bands.iter().flat_map(|band| &band.panels);
    let cases: Vec<_> = cases.map(|panel| panel.case).collect();
    let description = format!(
        "Bars of how many times as good as the best peer ours is, for {}.",
        cases.join(", ")
    );
    draw::picture(height, (picture_title, &description), |area| {
        text(area, picture_title, (MARGIN, 20), 15, INK, HPos::Left)?;
        draw::legend(area, &[(names[0], OURS), (names[1], OTHER)], &places)?;
        let mut top = top;
        for band in &bands {
            draw_band(area, band, top, widest)?;
            top += HEAD + band.metrics.len() as i32 * ROW + 8;
        }
        Ok(())
    })
}

/// Neighbouring cases, of which most metrics are the same, side by side.
fn bands<'r>(ratios: &[Ratio<'r>]) -> Vec<Band<'r>> {
    let mut bands: Vec<Band> = Vec::new();
    let cases = ratios.iter().map(|r| (&*r.ours.suite, &*r.ours.case));
    for key in in_order(cases) {
        let of_case = |r: &&Ratio| (&*r.ours.suite, &*r.ours.case) == key;
        let of_case: Vec<_> = ratios.iter().filter(of_case).collect();
        let metrics: Vec<_> = of_case.iter().map(|r| title(r.ours)).collect();
        let known = |band: &&mut Band| {
            let known = metrics
                .iter()
                .filter(|metric| band.metrics.contains(metric));
            let all = band.metrics.len() + metrics.len() - known.clone().count();
            band.panels.len() < ACROSS && 2 * known.count() >= all
        };
        let band = match bands.last_mut().filter(known) {
            Some(band) => band,
            None => {
                bands.push(Band::default());
                bands.last_mut().expect("a band was added")
            }
        };
        for metric in &metrics {
            if !band.metrics.contains(metric) {
                band.metrics.push(metric.clone());
            }
        }
        let row = |ratio: &&Ratio| {
            let metric = title(ratio.ours);
            band.metrics.iter().position(|known| *known == metric)
        };
        let ratios = of_case
            .iter()
            .filter_map(|ratio| Some((row(ratio)?, ratio.ratio)));
        let ratios = ratios.collect();
        band.panels.push(Panel {
            case: key.1,
            ratios,
        });
    }
    bands
}

/// The lines of a panel's grid, as factors.
fn grid(widest: f64) -> &'static [f64] {
    match widest {
        ..4.0 => &[0.5, 1.0, 2.0],
        ..10.0 => &[0.25, 0.5, 1.0, 2.0, 4.0],
        _ => &[0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0],
    }
}

fn draw_band(area: &Area, band: &Band, top: i32, widest: f64) -> Result<(), Problem> {
    let rows = top + HEAD;
    let bottom = rows + band.metrics.len() as i32 * ROW;
    for (i, metric) in band.metrics.iter().enumerate() {
        let middle = rows + i as i32 * ROW + ROW / 2;
        let name = fitting(metric, 12, NAMES - 8);
        text(area, &name, (NAMES - 8, middle), 12, INK, HPos::Right)?;
    }
    let width = (WIDTH - NAMES - 4) / ACROSS as i32;
    let half = f64::from(width / 2 - NUMBER);
    for (i, panel) in band.panels.iter().enumerate() {
        let left = NAMES + i as i32 * width;
        let middle = left + width / 2;
        let at = |ratio: f64| {
            let part = (ratio.ln() / widest.ln()).clamp(-1.0, 1.0);
            middle + (part * half).round() as i32
        };
        let case = fitting(panel.case, 12, width - 6);
        text(area, &case, (middle, top + 12), 12, FAINT, HPos::Center)?;
        for factor in grid(widest) {
            let colour = if *factor == 1.0 { RULE } else { GRID };
            let x = at(*factor);
            line(area, vec![(x, rows - 3), (x, bottom + 1)], colour, 1)?;
        }
        for (row, ratio) in &panel.ratios {
            let top = rows + *row as i32 * ROW + (ROW - BAR) / 2;
            let end = at(*ratio);
            let (colour, side, beside) = match *ratio >= 1.0 {
                true => (OURS, HPos::Left, end.max(middle + 1) + 4),
                false => (OTHER, HPos::Right, end.min(middle - 1) - 4),
            };
            let (from, to) = (end.min(middle - 1), end.max(middle + 1));
            let (from, to) = match *ratio >= 1.0 {
                true => (middle, to),
                false => (from, middle),
            };
            fill(area, (from, top), (to, top + BAR), colour)?;
            let number = (beside, top + BAR / 2);
            text(area, &factor(*ratio), number, 10, INK, side)?;
        }
    }
    Ok(())
}

/// A ratio as a factor: `2.1×`.
pub fn factor(ratio: f64) -> String {
    match ratio {
        ..0.01 => format!("{ratio:.4}×"),
        ..10.0 => format!("{ratio:.2}×"),
        ..100.0 => format!("{ratio:.1}×"),
        _ => format!("{ratio:.0}×"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare;
    use crate::record::Record;

    #[test]
    fn what_wins_is_green_and_right_what_loses_orange_and_left() {
        let text = "# date: 2026-01-31\nsuite,case,engine,metric,value,unit,rounds,min,max\n\
            n,<b>c,sapwood,hit_mops,4,Mop/s,1,5,5\nn,<b>c,scc,hit_mops,1,Mop/s,1,5,5\n\
            n,<b>c,sapwood,load_ns,90,ns,1,5,5\nn,<b>c,scc,load_ns,45,ns,1,5,5\n";
        let record = Record::parse("r", text).unwrap();
        let svg = draw("t", &compare::ratios(&record)).unwrap();
        let bars = |colour: &str| -> Vec<(i32, i32)> {
            let lines = svg.lines().filter(|l| l.contains(colour));
            let lines = lines.filter(|l| l.contains("height=\"11\"") && !l.contains("y=\"34\""));
            let number = |line: &str, name: &str| {
                let text = line.split(name).nth(1).unwrap();
                text.split('"').next().unwrap().parse().unwrap()
            };
            lines
                .map(|l| (number(l, " x=\""), number(l, " width=\"")))
                .collect()
        };
        let (wins, loses) = (bars("#1A7F37")[0], bars("#D38B34")[0]);
        // Both bars begin at the line of 1, and 4 is twice as far away as 1/2.
        assert_eq!(wins.0, loses.0 + loses.1);
        assert!((wins.1 - 2 * loses.1).abs() <= 1, "{wins:?} {loses:?}");
        assert!(svg.contains("\n4.00×\n") && svg.contains("\n0.50×\n"));
        assert!(svg.contains("&lt;b&gt;c") && !svg.contains("<b>"));
        assert_eq!(
            [0.004, 0.5, 12.34, 431.7].map(factor),
            ["0.0040×", "0.50×", "12.3×", "432×"]
        );
    }
}
