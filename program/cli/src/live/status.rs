//! `live status`: what a live map's directory tells.

use sapwood_live::{LiveReaderInfo, LiveStatus};
use serde_json::{Value, json};

use crate::cli::live::StatusArgs;
use crate::errors::{Answer, Error, Outcome};
use crate::output::Output;

/// Prints the kind of a live map, its writer, its readers and its size.
pub fn status(args: &StatusArgs) -> Outcome {
    let status = LiveStatus::read(&args.path)?;
    let mut out = Output::lines(args.json);
    let holding = status.readers.iter().filter(|r| r.holds_back).count();
    let evicted = status.readers.iter().filter(|r| r.evicted).count();
    if args.json {
        let readers: Vec<Value> = status.readers.iter().map(document).collect();
        out.document(&json!({
            "path": args.path.to_string_lossy(),
            "kind": status.kind,
            "writer": status.has_writer,
            "generation": status.generation,
            "period": status.period,
            "data_bytes": status.data_bytes,
            "holding_back": holding,
            "evicted": evicted,
            "readers": readers,
        }))?;
    } else {
        let writer = if status.has_writer { "lives" } else { "dead" };
        for (name, value) in [
            ("kind", status.kind.clone()),
            ("writer", writer.to_owned()),
            ("generation", status.generation.to_string()),
            ("period", status.period.to_string()),
            ("data-bytes", status.data_bytes.to_string()),
            ("readers", status.readers.len().to_string()),
            ("holding-back", holding.to_string()),
            ("evicted", evicted.to_string()),
        ] {
            out.fields(&[name.as_bytes(), value.as_bytes()])?;
        }
        status.readers.iter().try_for_each(|r| line(&mut out, r))?;
    }
    out.flush()?;
    Ok(Answer::from_bool(status.has_writer))
}

/// The word for what a reader does.
fn state(reader: &LiveReaderInfo) -> &'static str {
    match reader {
        _ if reader.evicted => "evicted",
        _ if reader.seen == 0 => "offline",
        _ if reader.holds_back => "holds-back",
        _ => "reads",
    }
}

fn line(out: &mut Output, reader: &LiveReaderInfo) -> Result<(), Error> {
    let [pid, seen] = [u64::from(reader.pid), reader.seen].map(|number| number.to_string());
    let fields = [
        b"reader",
        pid.as_bytes(),
        state(reader).as_bytes(),
        seen.as_bytes(),
    ];
    out.fields(&fields)
}

fn document(reader: &LiveReaderInfo) -> Value {
    json!({
        "name": reader.name,
        "pid": reader.pid,
        "state": state(reader),
        "seen": reader.seen,
        "holds_back": reader.holds_back,
        "checked": reader.checked,
        "evicted": reader.evicted,
    })
}
