//! Text, colours and frames of pictures.
//!
//! A picture has its own white ground, so that it is readable on light and on dark pages. A page
//! that has the picture as a part of itself may replace the colours by those of [`THEME`]. The
//! viewer's fonts show the text; no font of this machine determines its size.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The error of a picture that cannot be drawn.
pub type Problem = Box<dyn std::error::Error>;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A colour of a picture.
pub type Colour = RGBColor;

/// Text.
pub const INK: Colour = RGBColor(0x24, 0x29, 0x2F);
/// Text that matters less.
pub const FAINT: Colour = RGBColor(0x57, 0x60, 0x6A);
/// Axes.
pub const RULE: Colour = RGBColor(0xD0, 0xD7, 0xDE);
/// Lines of a grid.
pub const GRID: Colour = RGBColor(0xEA, 0xEE, 0xF2);
/// The first of our engines.
pub const OURS: Colour = RGBColor(0x1A, 0x7F, 0x37);
/// The second of our engines.
pub const OURS_TOO: Colour = RGBColor(0x7C, 0xC2, 0x8C);
/// A peer.
pub const PEER: Colour = RGBColor(0x54, 0x7D, 0xB0);
/// Another peer.
pub const OTHER: Colour = RGBColor(0xD3, 0x8B, 0x34);

/// The colours of our engines, in order.
const OF_OURS: [Colour; 4] = [
    OURS,
    OURS_TOO,
    RGBColor(0x0F, 0x5A, 0x5E),
    RGBColor(0x4F, 0xA8, 0x9B),
];
/// The colours of peers, in order.
const OF_PEERS: [Colour; 8] = [
    PEER,
    OTHER,
    RGBColor(0x8A, 0x63, 0xB8),
    RGBColor(0xB8, 0x4A, 0x50),
    RGBColor(0x6E, 0x77, 0x81),
    RGBColor(0x3C, 0x9F, 0xC4),
    RGBColor(0xA0, 0x76, 0x4B),
    RGBColor(0xC9, 0x72, 0xA6),
];

/// Each colour of a picture, as it is written in it, and its counterpart for dark pages.
pub const THEME: [(&str, &str); 17] = [
    ("#FFFFFF", "#0D1117"),
    ("#24292F", "#E6EDF3"),
    ("#57606A", "#9DA7B3"),
    ("#D0D7DE", "#4A525C"),
    ("#EAEEF2", "#21262D"),
    ("#1A7F37", "#3FB950"),
    ("#7CC28C", "#2F7D45"),
    ("#0F5A5E", "#56D4DD"),
    ("#4FA89B", "#2E8F84"),
    ("#547DB0", "#6CA4E8"),
    ("#D38B34", "#E3A04E"),
    ("#8A63B8", "#B392F0"),
    ("#B84A50", "#F4767B"),
    ("#6E7781", "#8B949E"),
    ("#3C9FC4", "#59B9E0"),
    ("#A0764B", "#C69A6D"),
    ("#C972A6", "#E29AC6"),
];

/// The width of each picture.
pub const WIDTH: i32 = 880;
/// The distance of texts from the picture's edges.
pub const MARGIN: i32 = 12;

/// The colours of engines: greens for ours, others for peers.
pub fn colours(engines: &[&str]) -> Vec<Colour> {
    let (mut ours, mut peers) = (0, 0);
    let next = |colours: &[Colour], count: &mut usize| {
        *count += 1;
        colours[(*count - 1) % colours.len()]
    };
    let colour = |engine: &&str| match crate::records::metric::is_ours(engine) {
        true => next(&OF_OURS, &mut ours),
        false => next(&OF_PEERS, &mut peers),
    };
    engines.iter().map(colour).collect()
}

/// The width of a character in hundredths of the size: the mean in wide sans-serif fonts.
const CHARACTER: i32 = 54;

/// The approximate width of a text in any sans-serif font.
pub fn width_of(text: &str, size: i32) -> i32 {
    let characters = i32::try_from(text.chars().count()).unwrap_or(i32::MAX);
    (characters.saturating_mul(size * CHARACTER) / 100).max(size)
}

/// The text, or its beginning, if it is wider than that.
pub fn fitting(text: &str, size: i32, width: i32) -> String {
    let most = (width.max(size) * 100 / (size * CHARACTER)).max(1) as usize;
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let short: String = text.chars().take(most - 1).collect();
    format!("{}…", short.trim_end())
}

/// Draws a picture of this height, with a title and a description for readers who do not see it.
pub(crate) fn picture(
    height: i32,
    (title, description): (&str, &str),
    draw: impl FnOnce(&Area) -> Result<(), Problem>,
) -> Result<String, Problem> {
    let mut svg = String::new();
    {
        let size = (WIDTH as u32, height as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    let (first, rest) = svg.split_once(">\n").ok_or("the picture has no lines")?;
    let (title, description) = (escaped(title), escaped(description));
    Ok(format!(
        "{first} role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n\
         <desc>{description}</desc>\n{rest}"
    ))
}

/// The text with the characters replaced that XML and HTML give a meaning.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // No document may contain these.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Draws a text, centred on the height of `at`.
pub(crate) fn text(
    area: &Area,
    text: &str,
    at: (i32, i32),
    size: i32,
    colour: Colour,
    side: HPos,
) -> Result<(), Problem> {
    // Without a font's measures, the height is assumed to be 1.24 of the size.
    let height = f64::from(size) * 1.24;
    let style = TextStyle::from(("sans-serif", height).into_font())
        .pos(Pos::new(side, VPos::Center))
        .color(&colour);
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    area.draw(&Text::new(text, at, style))?;
    Ok(())
}

/// Draws a filled rectangle.
pub(crate) fn fill(
    area: &Area,
    from: (i32, i32),
    to: (i32, i32),
    colour: Colour,
) -> Result<(), Problem> {
    area.draw(&Rectangle::new([from, to], colour.filled()))?;
    Ok(())
}

/// Draws a line through points.
pub(crate) fn line(
    area: &Area,
    points: Vec<(i32, i32)>,
    colour: Colour,
    width: u32,
) -> Result<(), Problem> {
    area.draw(&PathElement::new(points, colour.stroke_width(width)))?;
    Ok(())
}

/// The places of the entries of a legend from a height on, and the height below it.
pub(crate) fn legend_places(names: &[&str], top: i32) -> (Vec<(i32, i32)>, i32) {
    let (mut x, mut y) = (MARGIN, top);
    let place = |name: &&str| {
        let width = 40 + name.chars().count() as i32 * 7;
        if x > MARGIN && x + width - 24 > WIDTH - MARGIN {
            (x, y) = (MARGIN, y + 18);
        }
        x += width;
        (x - width, y)
    };
    let places = names.iter().map(place).collect();
    (places, y + 18)
}

/// Draws a legend at its places.
pub(crate) fn legend(
    area: &Area,
    names: &[(&str, Colour)],
    places: &[(i32, i32)],
) -> Result<(), Problem> {
    for ((name, colour), (x, y)) in names.iter().zip(places) {
        fill(area, (*x, *y), (x + 11, y + 11), *colour)?;
        text(area, name, (x + 16, y + 6), 12, INK, HPos::Left)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_colour_has_a_counterpart_for_dark_pages() {
        let written = |c: &Colour| format!("#{:02X}{:02X}{:02X}", c.0, c.1, c.2);
        let plain = [WHITE, INK, FAINT, RULE, GRID];
        let colours: Vec<_> = [&plain[..], &OF_OURS, &OF_PEERS].concat();
        assert!(
            colours
                .iter()
                .map(written)
                .eq(THEME.map(|(light, _)| light.to_owned()))
        );
        let dark: std::collections::BTreeSet<_> = THEME.iter().map(|(_, dark)| dark).collect();
        assert_eq!(dark.len(), THEME.len());
    }

    #[test]
    fn our_engines_are_green() {
        let engines = ["std-btreemap", "sapwood", "papaya", "sapwood-index"];
        assert_eq!(colours(&engines), [PEER, OURS, OTHER, OURS_TOO]);
    }

    #[test]
    fn texts_have_no_markup_and_fit() {
        assert_eq!(
            escaped("<b>'&'\"\u{1}"),
            "&lt;b&gt;&#39;&amp;&#39;&quot;\u{fffd}"
        );
        assert_eq!(fitting("short", 12, 100), "short");
        let long = fitting("a long name of a case", 12, 80);
        assert!(long.ends_with('…') && width_of(&long, 12) <= 80, "{long}");
        let (places, below) = legend_places(&["a name of some length"; 8], 30);
        assert_eq!((places[0], below), ((12, 30), 66));
        assert!(places.iter().any(|(x, y)| (*x, *y) == (12, 48)));
    }
}
