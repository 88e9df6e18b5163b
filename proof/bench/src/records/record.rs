//! Records: reads the CSV and JSON files that `sapwood-bench` writes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The columns of a record.
pub const COLUMNS: [&str; 9] = [
    "suite", "case", "engine", "metric", "value", "unit", "rounds", "min", "max",
];

/// A recorded run.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The file's name.
    pub name: String,
    /// The day of the run, as `2026-01-31`; empty in a record as JSON.
    pub date: String,
    /// The commit that ran; empty in a record as JSON.
    pub commit: String,
    /// The command of the run; empty in a record as JSON.
    pub command: String,
    /// The machine of the run.
    pub machine: String,
    /// Remarks about the data and the engines.
    pub notes: Vec<String>,
    /// The measurements, in the order of the file.
    pub rows: Vec<Row>,
}

/// One metric of one engine in one case.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Row {
    /// The suite; in a record as JSON all rows have that of the record.
    #[serde(skip)]
    pub suite: String,
    /// The case.
    pub case: String,
    /// The engine.
    pub engine: String,
    /// The metric.
    pub metric: String,
    /// The median of the rounds.
    pub value: f64,
    /// The unit of the values.
    pub unit: String,
    /// The number of rounds.
    pub rounds: u64,
    /// The least value of the rounds.
    pub min: f64,
    /// The greatest value of the rounds.
    pub max: f64,
}

/// The error of a record that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not a record.
    #[error("{name}: {what}")]
    NotARecord {
        /// The file.
        name: String,
        /// The fault.
        what: String,
    },
    /// A line of the file is not a row.
    #[error("{name}: line {line}: {what}")]
    Line {
        /// The file.
        name: String,
        /// The number of the line, from 1.
        line: u64,
        /// The fault.
        what: String,
    },
}

/// A record as JSON, as `sapwood-bench --json` writes it.
#[derive(Deserialize)]
struct Document {
    suite: String,
    machine: String,
    rows: Vec<Row>,
    skipped: Option<String>,
}

impl Record {
    /// Reads a record, as CSV or as JSON.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a record.
    pub fn read(file: &Path) -> Result<Self, RecordError> {
        let read = |source| RecordError::Read {
            path: file.into(),
            source,
        };
        let shown = file.display().to_string();
        let text = String::from_utf8(fs::read(file).map_err(read)?)
            .map_err(|_| not(&shown, "it is not a text in UTF-8, so it is no record"))?;
        let mut record = Self::parse(&shown, &text)?;
        let name = file.file_name().unwrap_or_default();
        record.name = name.to_string_lossy().into_owned();
        Ok(record)
    }

    /// Reads a record from its text.
    ///
    /// # Errors
    ///
    /// The text is not a record.
    pub fn parse(name: &str, text: &str) -> Result<Self, RecordError> {
        match text.trim_start().starts_with('{') {
            true => Self::parse_json(name, text),
            false => Self::parse_csv(name, text),
        }
    }

    fn parse_json(name: &str, text: &str) -> Result<Self, RecordError> {
        let document: Document = serde_json::from_str(text)
            .map_err(|error| not(name, format!("not a record as JSON: {error}")))?;
        let suite = document.suite;
        let rows = document.rows.into_iter().map(|row| Row {
            suite: suite.clone(),
            ..row
        });
        let skipped = document.skipped.iter().map(|why| format!("skipped: {why}"));
        Ok(Self {
            name: name.to_owned(),
            date: String::new(),
            commit: String::new(),
            command: String::new(),
            machine: document.machine,
            notes: skipped.collect(),
            rows: rows.collect(),
        })
    }

    fn parse_csv(name: &str, text: &str) -> Result<Self, RecordError> {
        let rows = rows_of_csv(name, text)?;
        let mut fields = Fields::default();
        let comments = text.lines().filter_map(|line| line.strip_prefix('#'));
        comments.for_each(|line| fields.add(line.trim()));
        let date = fields.date.filter(|date| !date.is_empty());
        let date = date.ok_or_else(|| not(name, "no record: there is no line \"# date: …\""))?;
        Ok(Self {
            name: name.to_owned(),
            date,
            commit: fields.commit.unwrap_or_default(),
            command: fields.command.unwrap_or_default(),
            machine: fields.machine.unwrap_or_default(),
            notes: fields.notes,
            rows,
        })
    }

    /// The value of a row, if the run contains it.
    pub fn value(&self, suite: &str, case: &str, engine: &str, metric: &str) -> Option<f64> {
        self.value_where(suite, |of| of == case, engine, metric)
    }

    /// The value of the first row whose case begins with a prefix.
    pub fn value_of_cases(
        &self,
        suite: &str,
        start: &str,
        engine: &str,
        metric: &str,
    ) -> Option<f64> {
        self.value_where(suite, |of| of.starts_with(start), engine, metric)
    }

    fn value_where(
        &self,
        suite: &str,
        case: impl Fn(&str) -> bool,
        engine: &str,
        metric: &str,
    ) -> Option<f64> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| {
            row.suite == suite && case(&row.case) && row.engine == engine && row.metric == metric
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

    /// The suites and cases of the run, in the order of the file.
    pub fn cases(&self) -> Vec<(&str, &str)> {
        in_order(self.rows.iter().map(|row| (&*row.suite, &*row.case)))
    }

    /// The rows of a case.
    pub fn rows_of<'r>(&'r self, (suite, case): (&str, &str)) -> Vec<&'r Row> {
        let rows = self.rows.iter();
        rows.filter(|row| row.suite == suite && row.case == case)
            .collect()
    }
}

/// The rows below the names of the columns.
fn rows_of_csv(name: &str, text: &str) -> Result<Vec<Row>, RecordError> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut rows = None;
    let mut fields = csv::StringRecord::new();
    while reader
        .read_record(&mut fields)
        .map_err(|error| not(name, error.to_string()))?
    {
        let result = match &mut rows {
            None => columns(&fields).map(|()| rows = Some(Vec::new())),
            Some(rows) => Row::parse(&fields).map(|row| rows.push(row)),
        };
        result.map_err(|what| {
            // The line on which the row ends: before it there may be comments.
            let end = reader.position();
            let ended = text.as_bytes()[..end.byte() as usize].ends_with(b"\n");
            RecordError::Line {
                name: name.to_owned(),
                line: end.line() - u64::from(ended),
                what,
            }
        })?;
    }
    let what = || format!("no record: there is no line \"{}\"", COLUMNS.join(","));
    rows.ok_or_else(|| not(name, what()))
}

/// Checks that fields are the names of the columns.
fn columns(fields: &csv::StringRecord) -> Result<(), String> {
    if fields.iter().eq(COLUMNS) {
        return Ok(());
    }
    let found: Vec<_> = fields.iter().collect();
    Err(format!(
        "not a record: its columns are \"{}\", not \"{}\"",
        clipped(&found.join(",")),
        COLUMNS.join(",")
    ))
}

impl Row {
    fn parse(fields: &csv::StringRecord) -> Result<Self, String> {
        let found = fields.len();
        if found != COLUMNS.len() {
            let wanted = COLUMNS.len();
            return Err(format!("no row: it has {found} fields, not {wanted}"));
        }
        let number = |at: usize| {
            let number: Result<f64, _> = fields[at].parse();
            number
                .ok()
                .filter(|number| number.is_finite())
                .ok_or_else(|| {
                    let text = clipped(&fields[at]);
                    format!("no row: its {} is \"{text}\", not a number", COLUMNS[at])
                })
        };
        let rounds = fields[6].parse().map_err(|_| {
            let text = clipped(&fields[6]);
            format!("no row: its rounds are \"{text}\", not a whole number")
        })?;
        Ok(Row {
            suite: fields[0].to_owned(),
            case: fields[1].to_owned(),
            engine: fields[2].to_owned(),
            metric: fields[3].to_owned(),
            value: number(4)?,
            unit: fields[5].to_owned(),
            rounds,
            min: number(7)?,
            max: number(8)?,
        })
    }
}

/// The comments before the rows.
#[derive(Default)]
struct Fields {
    date: Option<String>,
    commit: Option<String>,
    command: Option<String>,
    machine: Option<String>,
    notes: Vec<String>,
}

impl Fields {
    fn add(&mut self, line: &str) {
        for (key, field) in [
            ("date:", &mut self.date),
            ("commit:", &mut self.commit),
            ("command:", &mut self.command),
            ("machine:", &mut self.machine),
        ] {
            if let Some(value) = line.strip_prefix(key)
                && field.is_none()
            {
                *field = Some(value.trim().to_owned());
                return;
            }
        }
        self.notes.push(line.to_owned());
    }
}

fn not(name: &str, what: impl Into<String>) -> RecordError {
    RecordError::NotARecord {
        name: name.to_owned(),
        what: what.into(),
    }
}

/// The beginning of a text, for messages.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Things in the order of their first occurrence, each once.
pub fn in_order<T: PartialEq>(things: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for thing in things {
        if !seen.contains(&thing) {
            seen.push(thing);
        }
    }
    seen
}

/// Whether a record was made only to compare two builds, or two versions of the code.
pub fn is_comparison(name: &str) -> bool {
    let parts = ["before", "-build-", "house-"];
    parts.iter().any(|part| name.contains(part))
}

/// All records of a folder that show a release build, newest first. Records that were made only to
/// compare builds are left out.
///
/// # Errors
///
/// The folder or a file of it cannot be read, or such a file is not a record.
pub fn read_records(folder: &Path) -> Result<Vec<Record>, RecordError> {
    let read = |source| RecordError::Read {
        path: folder.into(),
        source,
    };
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        let file = entry.map_err(read)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".csv") && !is_comparison(&name) {
            records.push(Record::read(&file)?);
        }
    }
    sort(&mut records);
    Ok(records)
}

/// Sorts records, newest first.
pub fn sort(records: &mut [Record]) {
    // Of one day the larger run comes first; then the names decide, so that the order is always the
    // same.
    records.sort_by(|a, b| (&b.date, b.rows.len(), &a.name).cmp(&(&a.date, a.rows.len(), &b.name)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# date: 2026-01-31\n# machine: M, 2 cores\n# btf: 3 keys, seed 1\n\
        suite,case,engine,metric,value,unit,rounds,min,max\n\
        names,btf,sapwood,hit_mops,5.5,Mop/s,3,5.0,6.0\n";

    fn refused(text: &str) -> String {
        Record::parse("r.csv", text).unwrap_err().to_string()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record::parse("r.csv", TEXT).unwrap();
        assert_eq!(
            (&*record.name, &*record.date, &*record.machine),
            ("r.csv", "2026-01-31", "M, 2 cores")
        );
        assert_eq!((&*record.commit, &*record.command), ("", ""));
        assert_eq!(record.notes, ["btf: 3 keys, seed 1"]);
        assert_eq!(
            record.value("names", "btf", "sapwood", "hit_mops"),
            Some(5.5)
        );
        assert_eq!(record.value("names", "btf", "sapwood", "miss_mops"), None);
        assert!(record.has_case("names", "btf") && !record.has_case("names", "paths"));
        assert_eq!(record.suite(), "names");
        assert_eq!(record.cases(), [("names", "btf")]);
        let row = record.rows_of(("names", "btf"))[0];
        assert_eq!(
            (&*row.unit, row.rounds, row.min, row.max),
            ("Mop/s", 3, 5.0, 6.0)
        );
        // As programs for tables write it: quotes, and lines that end in two characters.
        let quoted = TEXT.replace("btf,", "\"b,f\",").replace('\n', "\r\n");
        assert!(
            Record::parse("r", &quoted)
                .unwrap()
                .has_case("names", "b,f")
        );
    }

    #[test]
    fn json_is_read_as_it_was_written() {
        let json = r#"{"suite": "bpf", "machine": "M", "skipped": "no root", "rows": [{"case": "c",
            "engine": "e", "metric": "m_ns", "value": 2, "unit": "ns", "rounds": 1, "min": 1.5,
            "max": 2.5}]}"#;
        let record = Record::parse("r.json", json).unwrap();
        assert_eq!(record.value("bpf", "c", "e", "m_ns"), Some(2.0));
        assert_eq!((&*record.machine, &*record.date), ("M", ""));
        assert_eq!(record.notes, ["skipped: no root"]);
        let torn = refused(&json[..60]);
        assert!(
            torn.starts_with("r.csv: not a record as JSON: EOF"),
            "{torn}"
        );
        let other = refused("{\"rows\": []}");
        assert!(other.contains("missing field `suite`"), "{other}");
    }

    #[test]
    fn what_is_no_record_says_why_and_where() {
        assert_eq!(
            refused(&TEXT.replace(",5.0,6.0", "")),
            "r.csv: line 5: no row: it has 7 fields, not 9"
        );
        assert_eq!(
            refused(&TEXT.replace("5.5", "quick")),
            "r.csv: line 5: no row: its value is \"quick\", not a number"
        );
        for odd in ["NaN", "inf", ""] {
            let why = refused(&TEXT.replace("6.0", odd));
            assert_eq!(
                why,
                format!("r.csv: line 5: no row: its max is \"{odd}\", not a number")
            );
        }
        let why = refused(&TEXT.replace("rounds", "repetition"));
        assert!(why.starts_with("r.csv: line 4: not a record: its columns are \"suite,"));
        assert!(refused("").contains("there is no line \"suite,case,"));
        assert!(refused(&TEXT.replace("date", "day")).contains("no line \"# date: …\""));
    }
}
