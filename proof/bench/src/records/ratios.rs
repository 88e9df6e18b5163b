//! Ratios as bars to both sides of a line: ours beside the best peer, on a logarithmic scale.

use plotters::style::text_anchor::HPos;

use crate::records::compare::Ratio;
use crate::records::draw::{
    self, Area, Colour, FAINT, GRID, INK, MARGIN, Problem, RULE, WIDTH, fill, fitting, line, text,
};
use crate::records::metric::title;
use crate::records::record::in_order;

/// The most of our engines in a picture.
pub const ENGINES: usize = 4;

const ACROSS: usize = 4;
const TITLE: i32 = 34;
const NAMES: i32 = 150;
const HEAD: i32 = 30;
const BAR: i32 = 10;
const BETWEEN: i32 = 8;
/// The room for a bar's number.
const NUMBER: i32 = 40;
/// Bars for ratios beyond these have the greatest length.
const WIDEST: f64 = 32.0;

/// A panel: the bars of a case, each with the row of its metric, its engine and its ratio.
struct Panel<'r> {
    case: &'r str,
    bars: Vec<(usize, usize, f64)>,
}

/// Panels side by side, with common rows.
#[derive(Default)]
struct Band<'r> {
    metrics: Vec<String>,
    panels: Vec<Panel<'r>>,
}

/// Our engines with bars in a picture of ratios.
pub fn engines<'r>(ratios: &[Ratio<'r>]) -> Vec<&'r str> {
    let mut engines = in_order(ratios.iter().map(|ratio| &*ratio.ours.engine));
    engines.truncate(ENGINES);
    engines
}

/// Draws the ratios of a record: a panel for each case, a row for each metric, in it a bar for each
/// of our first engines.
///
/// # Errors
///
/// The picture cannot be drawn.
pub fn draw(picture_title: &str, ratios: &[Ratio]) -> Result<String, Problem> {
    let engines = engines(ratios);
    let named: Vec<(&str, Colour)> = engines
        .iter()
        .copied()
        .zip(draw::colours(&engines))
        .collect();
    let bands = bands(ratios, &engines);
    let shown = bands.iter().flat_map(|band| &band.panels);
    let shown = shown.flat_map(|panel| &panel.bars);
    let widest = shown.map(|(.., ratio)| ratio.max(1.0 / ratio));
    let widest = widest.fold(2.0, f64::max).min(WIDEST);
    let (places, top) = draw::legend_places(&engines, TITLE);
    let row = engines.len() as i32 * BAR + BETWEEN;
    let height_of = |band: &Band| HEAD + band.metrics.len() as i32 * row + 8;
    let height = top + bands.iter().map(height_of).sum::<i32>() + 4;
    let cases = bands.iter().flat_map(|band| &band.panels);
    let cases: Vec<_> = cases.map(|panel| panel.case).collect();
    let description = format!(
        "Bars of how many times as good as the best peer ours are: {}; for {}.",
        engines.join(", "),
        cases.join(", ")
    );
    draw::picture(height, (picture_title, &description), |area| {
        text(area, picture_title, (MARGIN, 20), 15, INK, HPos::Left)?;
        draw::legend(area, &named, &places)?;
        let mut top = top;
        for band in &bands {
            draw_band(area, band, (top, row), &named, widest)?;
            top += height_of(band);
        }
        Ok(())
    })
}

/// Neighbouring cases, of which most metrics are the same, side by side.
fn bands<'r>(ratios: &[Ratio<'r>], engines: &[&str]) -> Vec<Band<'r>> {
    let mut bands: Vec<Band> = Vec::new();
    let shown = |ratio: &&Ratio| engines.contains(&&*ratio.ours.engine);
    let shown: Vec<_> = ratios.iter().filter(shown).collect();
    let cases = shown.iter().map(|r| (&*r.ours.suite, &*r.ours.case));
    for key in in_order(cases) {
        let of_case = |r: &&&Ratio| (&*r.ours.suite, &*r.ours.case) == key;
        let of_case: Vec<_> = shown.iter().filter(of_case).collect();
        let metrics = in_order(of_case.iter().map(|r| title(r.ours)));
        let fits = |band: &&mut Band| {
            let known = |metric: &&String| band.metrics.contains(metric);
            let known = metrics.iter().filter(known).count();
            let all = band.metrics.len() + metrics.len() - known;
            band.panels.len() < ACROSS && 2 * known >= all
        };
        if bands.last_mut().filter(fits).is_none() {
            bands.push(Band::default());
        }
        let Some(band) = bands.last_mut() else {
            continue;
        };
        for metric in metrics {
            if !band.metrics.contains(&metric) {
                band.metrics.push(metric);
            }
        }
        let bar = |ratio: &&&Ratio| {
            let metric = title(ratio.ours);
            let row = band.metrics.iter().position(|known| *known == metric)?;
            let engine = engines.iter().position(|name| *name == ratio.ours.engine)?;
            Some((row, engine, ratio.ratio))
        };
        let bars = of_case.iter().filter_map(bar).collect();
        band.panels.push(Panel { case: key.1, bars });
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

fn draw_band(
    area: &Area,
    band: &Band,
    (top, row): (i32, i32),
    engines: &[(&str, Colour)],
    widest: f64,
) -> Result<(), Problem> {
    let rows = top + HEAD;
    let bottom = rows + band.metrics.len() as i32 * row - BETWEEN;
    for (i, metric) in band.metrics.iter().enumerate() {
        let middle = rows + i as i32 * row + (row - BETWEEN) / 2;
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
            line(area, vec![(x, rows - 3), (x, bottom + 2)], colour, 1)?;
        }
        for (metric, engine, ratio) in &panel.bars {
            let top = rows + *metric as i32 * row + *engine as i32 * BAR;
            let end = at(*ratio);
            let (from, to, side, beside) = match *ratio >= 1.0 {
                true => (middle, end.max(middle + 1), HPos::Left, end + 5),
                false => (end.min(middle - 1), middle, HPos::Right, end - 5),
            };
            fill(area, (from, top), (to, top + BAR - 1), engines[*engine].1)?;
            let number = (beside, top + BAR / 2);
            text(area, &factor(*ratio), number, 9, INK, side)?;
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
    use crate::records::compare;
    use crate::records::record::Record;

    #[test]
    fn what_is_better_is_right_what_is_worse_left() {
        let text = "# date: 2026-01-31\nsuite,case,engine,metric,value,unit,rounds,min,max\n\
            n,<b>c,sapwood,hit_mops,4,Mop/s,1,5,5\nn,<b>c,scc,hit_mops,1,Mop/s,1,5,5\n\
            n,<b>c,sapwood-a,hit_mops,0.5,Mop/s,1,5,5\n";
        let record = Record::parse("r", text).unwrap();
        let svg = draw("t", &compare::ratios(&record)).unwrap();
        let bar = |colour: &str| -> (i32, i32) {
            let bars = svg.lines().filter(|l| l.contains(colour));
            let bars: Vec<_> = bars.filter(|l| l.contains("height=\"9\"")).collect();
            assert_eq!(bars.len(), 1, "{svg}");
            let number = |name: &str| {
                let text = bars[0].split(name).nth(1).unwrap();
                text.split('"').next().unwrap().parse().unwrap()
            };
            (number(" x=\""), number(" width=\""))
        };
        let (better, worse) = (bar("#1A7F37"), bar("#7CC28C"));
        // Both bars begin at the line of 1, and 4 is twice as far away as 1/2.
        assert_eq!(better.0, worse.0 + worse.1);
        assert!((better.1 - 2 * worse.1).abs() <= 1, "{better:?} {worse:?}");
        assert!(svg.contains("\n4.00×\n") && svg.contains("\n0.50×\n"));
        assert!(svg.contains("&lt;b&gt;c") && !svg.contains("<b>"));
        assert_eq!(
            [0.004, 0.5, 12.34, 431.7].map(factor),
            ["0.0040×", "0.50×", "12.3×", "432×"]
        );
    }

    #[test]
    fn cases_with_other_metrics_begin_a_row_of_panels() {
        let mut text =
            "# date: 2026-01-31\nsuite,case,engine,metric,value,unit,rounds,min,max\n".to_owned();
        for (case, metric) in [("a", "x_ns"), ("a", "y_ns"), ("b", "x_ns"), ("c", "z_ns")] {
            for engine in ["sapwood", "scc"] {
                text += &format!("n,{case},{engine},{metric},4,ns,1,5,5\n");
            }
        }
        let record = Record::parse("r", &text).unwrap();
        let ratios = compare::ratios(&record);
        let bands = bands(&ratios, &engines(&ratios));
        let found: Vec<_> = bands
            .iter()
            .map(|band| {
                let cases: Vec<_> = band.panels.iter().map(|panel| panel.case).collect();
                (cases.join(" "), band.metrics.join(" "))
            })
            .collect();
        let expected = [("a b", "x, ns y, ns"), ("c", "z, ns")];
        assert!(
            found
                .iter()
                .map(|(cases, metrics)| (&**cases, &**metrics))
                .eq(expected),
            "{found:?}"
        );
    }
}
