//! The results of a run: rows, tables, JSON and CSV.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::machine;

/// The results of one run of a suite.
#[derive(Serialize)]
pub struct Report {
    /// The suite's name.
    pub suite: &'static str,
    /// The machine that the suite ran on.
    pub machine: String,
    /// The measurements, by case, engine and metric.
    pub rows: Vec<Row>,
    /// Why nothing was measured, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Remarks about the data and the engines, for the CSV.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// One metric of one engine in one case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case.
    pub case: String,
    /// The engine.
    pub engine: &'static str,
    /// What was measured.
    pub metric: &'static str,
    /// The median of the rounds.
    pub value: f64,
    /// The unit of the values.
    pub unit: &'static str,
    /// The number of rounds.
    pub rounds: usize,
    /// The least value of the rounds.
    pub min: f64,
    /// The greatest value of the rounds.
    pub max: f64,
}

/// One value of one round.
pub struct Measure {
    /// What was measured.
    pub metric: &'static str,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
}

impl Measure {
    /// A value with its unit.
    pub fn new(metric: &'static str, value: f64, unit: &'static str) -> Self {
        Self {
            metric,
            value,
            unit,
        }
    }
}

/// The values of one case, as rounds deliver them.
pub struct Samples {
    case: String,
    engines: Vec<&'static str>,
    rows: Vec<(&'static str, &'static str, &'static str, Vec<f64>)>,
}

impl Samples {
    /// An empty set of values, whose rows will be in the order of `engines`.
    pub fn new(case: &str, engines: &[&'static str]) -> Self {
        Self {
            case: case.to_owned(),
            engines: engines.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a value.
    pub fn add(&mut self, engine: &'static str, measure: &Measure) {
        let row = self
            .rows
            .iter_mut()
            .find(|row| row.0 == engine && row.1 == measure.metric);
        match row {
            Some(row) => row.3.push(measure.value),
            None => self
                .rows
                .push((engine, measure.metric, measure.unit, vec![measure.value])),
        }
    }

    /// The medians.
    pub fn rows(mut self) -> Vec<Row> {
        let place = |engine| self.engines.iter().position(|known| *known == engine);
        self.rows.sort_by_key(|row| place(row.0));
        let rows = self
            .rows
            .into_iter()
            .map(|(engine, metric, unit, mut values)| {
                values.sort_by(f64::total_cmp);
                let rounds = values.len();
                let value = (values[(rounds - 1) / 2] + values[rounds / 2]) / 2.0;
                let (min, max) = (values[0], values[rounds - 1]);
                Row {
                    case: self.case.clone(),
                    engine,
                    metric,
                    value,
                    unit,
                    rounds,
                    min,
                    max,
                }
            });
        rows.collect()
    }
}

impl Report {
    /// An empty report of this machine.
    pub fn new(suite: &'static str) -> Self {
        Self {
            suite,
            machine: machine::description(),
            rows: Vec::new(),
            skipped: None,
            notes: Vec::new(),
        }
    }

    /// Adds a remark about the data or the engines, to stderr and to the CSV.
    pub fn note(&mut self, note: String) {
        println!("{note}");
        self.notes.push(note);
    }

    /// Begins a case, or says why it is omitted.
    pub fn begin(&mut self, what: String) {
        println!("\n## {what}");
        self.notes.push(what);
    }

    /// Ends a case: shows its medians, also as multiples of those of each base, and adds them to
    /// the report.
    pub fn end(&mut self, samples: Samples, bases: &[&str]) {
        let rows = samples.rows();
        println!("{}", table(&rows));
        for base in bases {
            if let Some(ratios) = ratios(&rows, base) {
                println!("\nas multiples of {base}:\n{ratios}");
            }
        }
        self.rows.extend(rows);
    }

    /// The report as JSON: suite, machine and rows.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and text have a JSON form") + "\n"
    }

    /// The rows as CSV, after comments that say how to repeat the run.
    pub fn to_csv(&self, command: &str) -> String {
        let mut csv = format!(
            "# date: {}\n# commit: {}\n# command: {command}\n# machine: {}\n",
            machine::date(),
            machine::commit(),
            self.machine
        );
        let skipped = self.skipped.iter().map(|why| format!("skipped: {why}"));
        for note in skipped.chain(self.notes.iter().cloned()) {
            csv += &format!("# {note}\n");
        }
        csv += "suite,case,engine,metric,value,unit,rounds,min,max\n";
        for row in &self.rows {
            csv += &format!(
                "{},{},{},{},{:.4},{},{},{:.4},{:.4}\n",
                self.suite,
                row.case,
                row.engine,
                row.metric,
                row.value,
                row.unit,
                row.rounds,
                row.min,
                row.max
            );
        }
        csv
    }
}

/// The rows of one case: engines down, metrics across, each value with its least and greatest.
pub fn table(rows: &[Row]) -> String {
    grid(rows, |row| {
        let [value, min, max] = [row.value, row.min, row.max].map(short);
        if row.rounds == 1 {
            value
        } else {
            format!("{value} ({min}–{max})")
        }
    })
}

/// The rows of one case as multiples of one engine's; `None` if that engine is not among them.
pub fn ratios(rows: &[Row], base: &str) -> Option<String> {
    let of_base = |metric| {
        rows.iter()
            .find(|row| row.engine == base && row.metric == metric)
    };
    // A metric that only other engines have gets no ratio.
    let rows = rows.iter().filter(|row| of_base(row.metric).is_some());
    let rows: Vec<_> = rows.cloned().collect();
    if rows.is_empty() {
        return None;
    }
    Some(grid(&rows, |row| match of_base(row.metric) {
        Some(base) if base.value > 0.0 => match row.value / base.value {
            ratio @ ..0.01 => format!("{}x", short(ratio)),
            ratio => format!("{ratio:.2}x"),
        },
        _ => "-".to_owned(),
    }))
}

fn grid(rows: &[Row], cell: impl Fn(&Row) -> String) -> String {
    let mut metrics = Vec::new();
    let mut engines = Vec::new();
    for row in rows {
        if !metrics.contains(&(row.metric, row.unit)) {
            metrics.push((row.metric, row.unit));
        }
        if !engines.contains(&row.engine) {
            engines.push(row.engine);
        }
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(
        std::iter::once("engine".to_owned()).chain(
            metrics
                .iter()
                .map(|(metric, unit)| format!("{metric}, {unit}")),
        ),
    );
    for engine in engines {
        let cells = metrics.iter().map(|(metric, _)| {
            let row = rows
                .iter()
                .find(|row| row.engine == engine && row.metric == *metric);
            row.map_or_else(|| "-".to_owned(), &cell)
        });
        table.add_row(std::iter::once(engine.to_owned()).chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// About three significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..0.01 => format!("{value:.5}"),
        ..1.0 => format!("{value:.3}"),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Row> {
        let mut samples = Samples::new("c", &["ours", "peer"]);
        for (peer, ours) in [(4.0, 9.0), (2.0, 7.0), (3.0, 8.0), (1.0, 6.0)] {
            samples.add("peer", &Measure::new("hit_mops", peer, "Mop/s"));
            samples.add("ours", &Measure::new("hit_mops", ours, "Mop/s"));
        }
        samples.rows()
    }

    #[test]
    fn medians_in_the_order_of_the_engines() {
        let rows = sample();
        assert_eq!((rows[0].engine, rows[1].engine), ("ours", "peer"));
        let peer = &rows[1];
        assert_eq!(
            (peer.value, peer.min, peer.max, peer.rounds),
            (2.5, 1.0, 4.0, 4)
        );
        assert!(table(&rows).contains("7.50 (6.00–9.00)"));
        assert!(ratios(&rows, "peer").unwrap().contains("3.00x"));
        assert_eq!(ratios(&rows, "other"), None);
        let more = ["quick", "other"].map(|metric| Row {
            metric,
            value: 0.004,
            ..rows[0].clone()
        });
        let mut rows = rows;
        rows.extend(more);
        rows.push(Row {
            metric: "quick",
            value: 2.0,
            ..rows[1].clone()
        });
        let ratios = ratios(&rows, "peer").unwrap();
        assert!(ratios.contains("0.002") && !ratios.contains("other"));
    }

    #[test]
    fn json_has_the_promised_shape() {
        let report = Report {
            suite: "s",
            machine: "m".into(),
            rows: sample(),
            skipped: None,
            notes: vec!["n".into()],
        };
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let expected = serde_json::json!({
            "case": "c", "engine": "ours", "metric": "hit_mops", "value": 7.5, "unit": "Mop/s",
            "rounds": 4, "min": 6.0, "max": 9.0,
        });
        assert_eq!(json["rows"][0], expected);
        assert_eq!(json.as_object().unwrap().len(), 3);
        let csv = report.to_csv("command");
        assert!(
            csv.contains("# n\n")
                && csv.ends_with("s,c,peer,hit_mops,2.5000,Mop/s,4,1.0000,4.0000\n")
        );
    }
}
