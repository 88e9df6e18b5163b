//! Tables whose figures are not filled in, and how a figure is found in records.

use sapwood_cli::numbers::short;

use crate::records::Record;

/// A table whose figures are not filled in.
#[derive(Default)]
pub struct Table {
    /// The headings.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// The contents of a cell of a table.
pub enum Cell {
    /// A text, such as a figure that others have published.
    Text(String),
    /// A figure for both processors: `EPYC / Xeon`.
    Both(Ask),
    /// A name and a figure. All figures of a row are of one processor: the first one that has the
    /// row's first figure.
    Named(String, Ask),
}

/// A figure that a record may contain.
pub struct Ask {
    /// The suite.
    suite: String,
    /// The case; with `*` at its end, the first case that begins with the rest.
    case: String,
    /// The engine of the figure.
    engine: String,
    /// The metric.
    metric: String,
    /// How the figure is shown.
    how: How,
}

/// How a figure is shown.
enum How {
    /// The recorded value.
    Plain,
    /// Nanoseconds per operation, shown as millions per second.
    Rate,
    /// A multiple of another engine's value.
    Of(String),
    /// How many times as fast as another engine, for times.
    Faster(String),
    /// A multiple of another metric of the same engine.
    OfMetric(String),
}

impl Cell {
    /// Reads a cell, as `tables.txt` says.
    ///
    /// # Errors
    ///
    /// What stands between braces is not a figure.
    pub fn parse(text: &str) -> Result<Self, String> {
        let figure = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'));
        Ok(
            match figure.map(|figure| (figure.split_once(": "), figure)) {
                None => Cell::Text(text.to_owned()),
                Some((Some((name, ask)), _)) => Cell::Named(name.to_owned(), Ask::parse(ask)?),
                Some((None, ask)) => Cell::Both(Ask::parse(ask)?),
            },
        )
    }
}

impl Ask {
    fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(' ').collect();
        let (of, how) = words.split_at(words.len().min(4));
        let &[suite, case, engine, metric] = of else {
            return Err(format!(
                "{text:?} does not name suite, case, engine and metric"
            ));
        };
        let how = match *how {
            [] => How::Plain,
            ["rate"] => How::Rate,
            ["of", base] => How::Of(base.to_owned()),
            ["faster", base] => How::Faster(base.to_owned()),
            ["of-metric", base] => How::OfMetric(base.to_owned()),
            _ => return Err(format!("{text:?} has another end than a figure")),
        };
        let [suite, case, engine, metric] = [suite, case, engine, metric].map(str::to_owned);
        Ok(Ask {
            suite,
            case,
            engine,
            metric,
            how,
        })
    }

    /// The engine that decides the record: the newest record with a row of this engine is taken.
    fn ours(&self) -> &'static str {
        match &*self.suite {
            "names" if self.case.starts_with("threads") => "sapwood-shared",
            "bpf" => "sapwood-bpf",
            _ => "sapwood",
        }
    }

    /// The newest record of a processor that has this figure, and its value.
    pub fn answer<'a>(&self, records: &'a [Record], processor: &str) -> Option<(f64, &'a Record)> {
        let of_processor = records.iter().filter(|r| r.machine.contains(processor));
        for record in of_processor {
            let value = |engine: &str, metric: &str| match self.case.strip_suffix('*') {
                Some(start) => record.value_of_cases(&self.suite, start, engine, metric),
                None => record.value(&self.suite, &self.case, engine, metric),
            };
            if value(self.ours(), &self.metric).is_none() {
                continue;
            }
            // Use only this record: figures of two runs are not compared.
            let own = value(&self.engine, &self.metric)?;
            let shown = match &self.how {
                How::Plain => own,
                How::Rate => 1000.0 / own,
                How::Of(base) => own / value(base, &self.metric)?,
                How::Faster(base) => value(base, &self.metric)? / own,
                How::OfMetric(metric) => own / value(&self.engine, metric)?,
            };
            return Some((shown, record));
        }
        None
    }

    /// The figure as it is shown.
    pub fn text(&self, value: f64) -> String {
        match &self.how {
            How::Plain | How::Rate => short(value),
            How::OfMetric(_) => format!("{value:.3}"),
            How::Of(_) | How::Faster(_) if value < 0.01 => format!("{value:.4}"),
            How::Of(_) | How::Faster(_) => format!("{value:.2}"),
        }
    }
}
