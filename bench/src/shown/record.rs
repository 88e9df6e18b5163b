//! Records: reads the CSV files that `--csv` writes.

use std::fs;
use std::path::Path;

/// A recorded run.
#[derive(Clone, Debug)]
pub struct Record {
    /// The file's name.
    pub name: String,
    /// The day of the run, as `2026-01-31`.
    pub date: String,
    /// The machine of the run.
    pub machine: String,
    rows: Vec<Row>,
}

/// One metric of one engine in one case.
#[derive(Clone, Debug)]
pub struct Row {
    /// The suite.
    pub suite: String,
    /// The case.
    pub case: String,
    /// The engine.
    pub engine: String,
    /// The metric.
    pub metric: String,
    /// The median of the rounds.
    pub value: f64,
}

impl Record {
    /// Reads a record.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text =
            fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text)
    }

    /// Reads a record from its text.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let comment = |key: &str| {
            let value = text
                .lines()
                .filter_map(|line| line.strip_prefix("# "))
                .find_map(|line| line.strip_prefix(key));
            value.map(|value| value.trim().to_owned())
        };
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.starts_with('#') || line.starts_with("suite,") || line.is_empty() {
                continue;
            }
            let fields: Vec<&str> = line.split(',').collect();
            let row = match fields[..] {
                [
                    suite,
                    case,
                    engine,
                    metric,
                    value,
                    _unit,
                    _rounds,
                    _min,
                    _max,
                ] => value.parse().ok().map(|value| Row {
                    suite: suite.to_owned(),
                    case: case.to_owned(),
                    engine: engine.to_owned(),
                    metric: metric.to_owned(),
                    value,
                }),
                _ => None,
            };
            rows.push(row.ok_or_else(|| format!("{name}, line {}: no row", number + 1))?);
        }
        Ok(Self {
            name: name.to_owned(),
            date: comment("date:").ok_or_else(|| format!("{name}: no date"))?,
            machine: comment("machine:").unwrap_or_default(),
            rows,
        })
    }

    /// The value of a row, if the run contains it.
    pub fn value(&self, suite: &str, case: &str, engine: &str, metric: &str) -> Option<f64> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| {
            row.suite == suite && row.case == case && row.engine == engine && row.metric == metric
        });
        row.map(|row| row.value)
    }

    /// The value of the first row whose case begins with a prefix.
    pub fn value_of_cases(
        &self,
        suite: &str,
        start: &str,
        engine: &str,
        metric: &str,
    ) -> Option<f64> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| {
            row.suite == suite
                && row.case.starts_with(start)
                && row.engine == engine
                && row.metric == metric
        });
        row.map(|row| row.value)
    }

    /// Whether the run has any row of a case.
    pub fn has_case(&self, suite: &str, case: &str) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| row.suite == suite && row.case == case)
    }

    /// The suite of the run.
    pub fn suite(&self) -> &str {
        self.rows.first().map_or("", |row| &row.suite)
    }
}

/// All records of a folder that show a release build, newest first. Records that were made only to
/// compare two builds, or two versions of the code, are left out.
pub fn read_records(folder: &Path) -> Result<Vec<Record>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut records = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| error.to_string())?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let compares = ["before", "-build-", "house-"];
        if name.ends_with(".csv") && !compares.iter().any(|part| name.contains(part)) {
            records.push(Record::read(&file)?);
        }
    }
    // Of one day the larger run comes first; then the names decide, so that the order is always the
    // same.
    records.sort_by(|a, b| (&b.date, b.rows.len(), &a.name).cmp(&(&a.date, a.rows.len(), &b.name)));
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = "# date: 2026-01-31\n# machine: M, 2 cores\n\
            suite,case,engine,metric,value,unit,rounds,min,max\n\
            names,btf,sapwood,hit_mops,5.5,Mop/s,3,5.0,6.0\n";
        let record = Record::parse("r.csv", text).unwrap();
        assert_eq!(
            (&*record.name, &*record.date, &*record.machine),
            ("r.csv", "2026-01-31", "M, 2 cores")
        );
        assert_eq!(
            record.value("names", "btf", "sapwood", "hit_mops"),
            Some(5.5)
        );
        assert_eq!(record.value("names", "btf", "sapwood", "miss_mops"), None);
        assert!(record.has_case("names", "btf") && !record.has_case("names", "paths"));
        assert_eq!(record.suite(), "names");
        let torn = text.replace(",5.0,6.0", "");
        assert_eq!(
            Record::parse("r.csv", &torn).unwrap_err(),
            "r.csv, line 4: no row"
        );
    }

    #[test]
    fn every_record_of_the_repository_can_be_read_and_the_newest_is_first() {
        let records = read_records(&super::super::records()).unwrap();
        assert!(records.len() > 10);
        assert!(records.windows(2).all(|pair| pair[0].date >= pair[1].date));
        assert!(records.iter().all(|record| !record.suite().is_empty()));
    }
}
