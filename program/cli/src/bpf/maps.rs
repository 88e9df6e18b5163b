//! `sapwood bpf map`: makes, asks, changes and removes maps in pinned arenas.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use sapwood::qp::{Accepts, IntoValue};
use sapwood_bpf::layout::Kind;
use sapwood_bpf::{
    BpfArena, Bytes, CheckedReader, Pinned, ProgramMap, UserMap, UserPointMap, WindowInfo,
    WindowValue, Write,
};
use serde_json::json;

use super::arenas::{Shown, show_value, show_window};
use super::owner::as_owner;
use crate::cli::bpf::{CreateArgs, DropArgs, GetArgs, MapKind, SetArgs};
use crate::errors::{Answer, Error, Outcome, complain};
use crate::keys::{KeyForm, unhex};
use crate::numbers::number;
use crate::output::Output;
use crate::queries::{Batch, each};
use crate::records::{Record, too_long};

/// The most bytes of a new map's window, unless the command says.
const WINDOW: usize = 64 << 20;

/// `create`: makes an empty map, and the arena if that is asked for.
pub fn create(args: &CreateArgs) -> Outcome {
    sapwood_bpf::check()?;
    let made = match args.arena_bytes {
        Some(bytes) if !args.arena.exists() => Some(NewArena::make(&args.arena, bytes)?),
        _ => None,
    };
    let opened = match &made {
        Some(made) => Ok(made.arena.clone()),
        None => BpfArena::open(&args.arena).map_err(Error::from),
    };
    let window = opened.and_then(|arena| as_owner(|| create_in(&arena, args)));
    if let (Err(_), Some(made)) = (&window, made) {
        made.remove(&args.arena);
    }
    let window = window?;
    let mut out = Output::lines(args.json);
    if args.json {
        out.document(&json!({
            "arena": args.arena.display().to_string(),
            "number": window.number,
            "name": window.name,
            "kind": window.kind.name(),
            "bytes": window.len,
        }))?;
    } else {
        show_window(&mut out, &args.arena, &window)?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// An arena that was made and pinned.
struct NewArena {
    arena: BpfArena,
    /// Whether its directory was made, too.
    folder: bool,
}

impl NewArena {
    fn make(path: &Path, bytes: u64) -> Result<NewArena, Error> {
        let arena = BpfArena::create(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let above = path.parent().filter(|above| !above.exists());
        if let Some(above) = above {
            Pinned::create(above)?;
        }
        let made = NewArena {
            arena,
            folder: above.is_some(),
        };
        match made.arena.pin(path) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.remove(path);
                Err(error.into())
            }
        }
    }

    /// Removes what was made, when the map could not be made.
    fn remove(self, path: &Path) {
        if self.arena.is_pinned_at(path).unwrap_or(false) {
            let _ = std::fs::remove_file(path);
        }
        if let (true, Some(above)) = (self.folder, path.parent()) {
            let _ = std::fs::remove_dir(above);
        }
    }
}

/// Calls a function for values of this many bytes: one to eight words.
macro_rules! by_size {
    ($bytes:expr, $call:ident($($argument:expr),*)) => {
        match $bytes {
            8 => $call::<[u64; 1]>($($argument),*),
            16 => $call::<[u64; 2]>($($argument),*),
            24 => $call::<[u64; 3]>($($argument),*),
            32 => $call::<[u64; 4]>($($argument),*),
            40 => $call::<[u64; 5]>($($argument),*),
            48 => $call::<[u64; 6]>($($argument),*),
            56 => $call::<[u64; 7]>($($argument),*),
            64 => $call::<[u64; 8]>($($argument),*),
            other => Err(Error::Usage(format!(
                "values have 8, 16, 24 and so on to 64 bytes, not {other}"
            ))),
        }
    };
}

/// The bytes of a window for which nothing is said. Other windows must find room beside it: a map
/// that programs write needs one of 64 KiB for changes by processes.
fn usual_bytes(left: usize) -> usize {
    WINDOW.min(left - (left / 16).max(128 << 10).min(left / 2))
}

fn create_in(arena: &BpfArena, args: &CreateArgs) -> Result<WindowInfo, Error> {
    let bytes = match args.bytes {
        Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
        None => usual_bytes(arena.bytes_left()),
    };
    if args.kind != MapKind::Program {
        for (given, option) in [
            (args.longest_key.is_some(), "--longest-key"),
            (args.max_entries.is_some(), "--max-entries"),
            (args.mean_key.is_some(), "--mean-key"),
            (args.grow, "--grow"),
            (args.lru, "--lru"),
            (args.per_processor, "--per-processor"),
        ] {
            if given {
                let what = format!("{option} is for maps that programs write (--kind program)");
                return Err(Error::Usage(what));
            }
        }
    }
    match args.kind {
        MapKind::Names if args.value_bytes.is_some() => Err(Error::Usage(
            "--value-bytes is for values of one size (--kind plain or program)".to_owned(),
        )),
        MapKind::Names => create_user::<[u8]>(arena, args, bytes),
        MapKind::Plain => {
            let size = args.value_bytes.unwrap_or(8);
            by_size!(size, create_user(arena, args, bytes))
        }
        MapKind::Program => create_program(arena, args, bytes),
    }
}

/// Makes a map that processes write.
fn create_user<V: ?Sized + WindowValue>(
    arena: &BpfArena,
    args: &CreateArgs,
    bytes: usize,
) -> Result<WindowInfo, Error> {
    let name = &args.name;
    if args.index && !args.trie {
        let map = UserPointMap::<V>::builder(arena, name)
            .bytes(bytes)
            .build()?;
        let window = map.window().clone();
        map.leave();
        return Ok(window);
    }
    let builder = UserMap::<V>::builder(arena, name).bytes(bytes);
    let builder = match args.index {
        true => builder.with_index(),
        false => builder,
    };
    let map = builder.build()?;
    let window = map.window().clone();
    map.leave();
    Ok(window)
}

/// Makes a map that programs write.
fn create_program(arena: &BpfArena, args: &CreateArgs, bytes: usize) -> Result<WindowInfo, Error> {
    let mut builder = ProgramMap::<Bytes>::builder(arena, &args.name)
        .bytes(bytes)
        .value_bytes(args.value_bytes.unwrap_or(8))
        .per_processor(args.per_processor);
    if let Some(most) = args.max_entries {
        builder = builder.max_entries(most);
    }
    if let Some(longest) = args.longest_key {
        builder = builder.longest_key(longest);
    }
    if let Some(mean) = args.mean_key {
        builder = builder.mean_key(mean);
    }
    if let Some(idle) = args.max_idle {
        builder = builder.max_idle(Duration::from_millis(idle));
    }
    builder = builder.grow(args.grow).lru(args.lru);
    if args.index || args.lru {
        builder = builder.with_index();
    }
    if args.trie {
        builder = builder.with_trie();
    }
    let map = builder.build()?;
    let window = map.window().clone();
    map.leave();
    Ok(window)
}

/// A key of a question, in the form that is asked for.
fn key_of(record: &Record<'_>, form: KeyForm) -> Result<Vec<u8>, String> {
    match record {
        Record::Whole(text) => form.parse(text).map(|key| key.into_owned()),
        Record::TooLong(bytes) => Err(too_long(*bytes)),
    }
}

/// `get`: prints the values of keys.
pub fn get(args: &GetArgs) -> Outcome {
    sapwood_bpf::check()?;
    let arena = BpfArena::open(&args.map.arena)?;
    let reader = arena.reader::<Bytes>(&args.map.map)?;
    let shown = Shown::of(&reader)?;
    let mut out = Output::lines(args.map.json);
    out.form = args.map.form();
    let mut answer = Answer::Yes;
    let keys = args.keys.iter().map(|key| key.as_ref());
    each(keys, &batch(false), &mut out, |out, record, _| {
        let key = match key_of(&record, out.form) {
            Ok(key) => key,
            Err(what) => return Ok(Err(what)),
        };
        match reader.get(&key)? {
            Some(value) => show_value(out, &key, &value, shown)?,
            None => {
                answer = Answer::No;
                let shown = String::from_utf8_lossy(&out.form.show(&key).map_err(Error::Usage)?)
                    .into_owned();
                match out.json {
                    true => out.document(&json!({ "key": out.key_json(&key)?, "value": null }))?,
                    false => complain(&format!("{} is absent", shown.escape_debug())),
                }
            }
        }
        Ok(Ok(()))
    })?;
    out.flush()?;
    Ok(answer)
}

fn batch(strict: bool) -> Batch {
    Batch {
        field: "key",
        null: false,
        strict,
    }
}

/// A change of an entry: a new value, or none.
type Change = (Vec<u8>, Option<Vec<u8>>);

/// `set`: inserts entries, or replaces their values.
pub fn set(args: &SetArgs) -> Outcome {
    let form = args.map.form();
    let given = match &args.value {
        Some(value) => {
            let mut pair = args.key.clone();
            pair.push("\t");
            pair.push(value);
            pair
        }
        None if args.key == "-" => args.key.clone(),
        None => {
            return Err(Error::Usage(
                "a key needs a value, or - for stdin".to_owned(),
            ));
        }
    };
    change(&args.map, &[given], args.strict, |text, size, shown| {
        let Some(tab) = text.iter().rposition(|byte| *byte == b'\t') else {
            return Err("a line has a key, a tab and a value".to_owned());
        };
        let key = form.parse(&text[..tab])?.into_owned();
        Ok((key, Some(value_of(&text[tab + 1..], size, shown)?)))
    })
}

/// `delete`: removes entries.
pub fn delete(args: &GetArgs) -> Outcome {
    let form = args.map.form();
    change(&args.map, &args.keys, args.strict, |text, _, _| {
        Ok((form.parse(text)?.into_owned(), None))
    })
}

/// The bytes of a value in text, of this many bytes; `None` for byte strings. Where values are
/// sums, one number is the count of the first processor.
fn value_of(text: &[u8], size: Option<usize>, show: Shown) -> Result<Vec<u8>, String> {
    let Some(size) = size else {
        return Ok(text.to_vec());
    };
    let shown = text.escape_ascii();
    if size != 8 && text.len() == 2 * size && !text.contains(&b',') {
        return unhex(text).map_err(|_| format!("\"{shown}\" has other than hexadecimal digits"));
    }
    let text = std::str::from_utf8(text).map_err(|_| format!("\"{shown}\" is no number"))?;
    let mut words: Vec<u64> = text.split(',').map(number).collect::<Result<_, _>>()?;
    if show == Shown::Sum && words.len() == 1 {
        words.resize(size / 8, 0);
    }
    if words.len() * 8 != size {
        let wanted = size / 8;
        let given = words.len();
        return Err(match wanted {
            1 => format!("values are one number, not {given}"),
            _ => format!(
                "values are {wanted} numbers with commas between, or {} hexadecimal digits; \
                 \"{shown}\" is {given} numbers",
                2 * size
            ),
        });
    }
    Ok(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
}

/// Reads changes, makes them, and prints what became of each.
fn change(
    map: &crate::cli::bpf::MapArgs,
    given: &[impl AsRef<OsStr>],
    strict: bool,
    parse: impl Fn(&[u8], Option<usize>, Shown) -> Result<Change, String>,
) -> Outcome {
    sapwood_bpf::check()?;
    let arena = BpfArena::open(&map.arena)?;
    let reader = arena.reader::<Bytes>(&map.map)?;
    let (size, shown) = (reader.value_bytes()?, Shown::of(&reader)?);
    let mut out = Output::lines(map.json);
    out.form = map.form();
    let mut changes = Vec::new();
    let given = given.iter().map(AsRef::as_ref);
    let read = each(given, &batch(strict), &mut out, |_, record, _| {
        Ok(match record {
            Record::Whole(text) => parse(text, size, shown).map(|change| changes.push(change)),
            Record::TooLong(bytes) => Err(too_long(bytes)),
        })
    });
    let read = match read {
        Ok(()) | Err(Error::Queries { .. }) => read,
        Err(error) => return Err(error),
    };
    let done = match changes.is_empty() {
        true => Ok(Vec::new()),
        false => as_owner(|| make(&arena, &reader, &changes)),
    };
    let mut answer = Answer::Yes;
    let mut refused = 0;
    for ((key, value), done) in changes.iter().zip(done?) {
        let word = match (done, value) {
            (Done::Yes, Some(_)) => "set",
            (Done::Yes, None) => "deleted",
            (Done::Absent, _) => {
                answer = Answer::No;
                "absent"
            }
            (Done::Refused(why), _) => {
                refused += 1;
                let key = String::from_utf8_lossy(&out.form.show(key).map_err(Error::Usage)?)
                    .into_owned();
                complain(&format!("{}: {why}", key.escape_debug()));
                "refused"
            }
        };
        if out.json {
            let key = out.key_json(key)?;
            out.document(&json!({ "key": key, "done": word }))?;
        } else {
            let key = out.form.show(key).map_err(Error::Usage)?.into_owned();
            out.fields(&[word.as_bytes(), &key])?;
        }
    }
    out.flush()?;
    if refused > 0 {
        return Err(Error::Usage(format!("the map refused {refused} changes")));
    }
    read.map(|()| answer)
}

/// What became of a change.
enum Done {
    Yes,
    Absent,
    Refused(String),
}

/// Makes changes to the map of this reader, whose owner has ended.
fn make(
    arena: &BpfArena,
    reader: &CheckedReader<Bytes>,
    changes: &[Change],
) -> Result<Vec<Done>, Error> {
    let window = reader.source().window();
    let (order, index) = (reader.has_order()?, reader.has_index()?);
    match (window.kind, reader.value_bytes()?) {
        (Kind::KernelQp, _) => make_program(arena, &window.name, changes),
        (_, None) => {
            let of = Vec::as_slice;
            make_user::<[u8], _>(arena, window, (order, index), changes, of)
        }
        (_, Some(size)) => {
            by_size!(size, make_plain(arena, window, (order, index), changes))
        }
    }
}

/// Makes changes to a map that programs write.
fn make_program(arena: &BpfArena, name: &str, changes: &[Change]) -> Result<Vec<Done>, Error> {
    let map = ProgramMap::<Bytes>::adopt(arena, name)?;
    let writes: Vec<_> = changes
        .iter()
        .map(|(key, value)| match value {
            Some(value) => Write::Insert(key, Bytes(value.clone())),
            None => Write::Remove(key),
        })
        .collect();
    let done = map.write_many(&writes);
    map.leave();
    let done = done?.into_iter().map(|done| match done {
        Ok(()) => Done::Yes,
        Err(sapwood_bpf::WriteError::Absent) => Done::Absent,
        Err(refused) => Done::Refused(refused.to_string()),
    });
    Ok(done.collect())
}

/// Takes a map over that processes write, makes changes, and leaves it. Values are made by `of`.
macro_rules! taken_over {
    ($builder:expr, $changes:expr, $of:expr) => {{
        let map = $builder.take_over()?;
        let made = $changes.iter().map(|(key, value)| match value {
            Some(value) => match map.insert(key, $of(value)) {
                Ok(_) => Done::Yes,
                Err(refused) => Done::Refused(refused.to_string()),
            },
            None => match map.remove(key) {
                Ok(true) => Done::Yes,
                Ok(false) => Done::Absent,
                Err(refused) => Done::Refused(refused.to_string()),
            },
        });
        let made = made.collect();
        map.leave();
        Ok(made)
    }};
}

/// Makes changes to a map with values of one size that processes write.
fn make_plain<V: WindowValue>(
    arena: &BpfArena,
    window: &WindowInfo,
    parts: (bool, bool),
    changes: &[Change],
) -> Result<Vec<Done>, Error> {
    // The values were read with this size.
    let of = |value: &Vec<u8>| V::read_from_bytes(value).unwrap_or_else(|_| V::new_zeroed());
    make_user::<V, V>(arena, window, parts, changes, of)
}

/// Makes changes to a map that processes write: with a trie, with an index.
fn make_user<'c, V, N>(
    arena: &BpfArena,
    window: &WindowInfo,
    (order, index): (bool, bool),
    changes: &'c [Change],
    of: impl Fn(&'c Vec<u8>) -> N,
) -> Result<Vec<Done>, Error>
where
    V: ?Sized + WindowValue + Accepts<N>,
    N: IntoValue<V>,
{
    // The copy may grow as large as the map that it is of.
    let (name, bytes) = (&window.name, window.len);
    if !order {
        let builder = UserPointMap::<V>::builder(arena, name).bytes(bytes);
        return taken_over!(builder, changes, of);
    }
    let builder = UserMap::<V>::builder(arena, name).bytes(bytes);
    let builder = if index { builder.with_index() } else { builder };
    taken_over!(builder, changes, of)
}

/// `drop`: removes a map whose owner has ended.
pub fn drop_map(args: &DropArgs) -> Outcome {
    sapwood_bpf::check()?;
    let arena = BpfArena::open(&args.arena)?;
    let windows = arena.windows()?;
    let remove = |name: &str| as_owner(|| Ok(arena.remove_window(name)?));
    remove(&args.map)?;
    // The room for changes by processes goes with the map.
    let room = format!("{}.w", args.map);
    if windows
        .iter()
        .any(|window| window.name == room && window.kind == Kind::Words)
    {
        remove(&room)?;
    }
    Ok(Answer::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::hex;

    #[test]
    fn values() {
        let of = |text: &str, size| value_of(text.as_bytes(), size, Shown::Plain);
        assert_eq!(of("7,x", None), Ok(b"7,x".to_vec()));
        assert_eq!(of("7", Some(8)), Ok(7u64.to_ne_bytes().to_vec()));
        let pair = [7u64, 255].map(u64::to_ne_bytes).concat();
        assert_eq!(of("7,0xff", Some(16)), Ok(pair.clone()));
        assert_eq!(of(&hex(&pair), Some(16)), Ok(pair));
        for (text, size, why) in [
            ("x", 8, "is not a number"),
            ("1,2", 8, "values are one number, not 2"),
            (
                "1",
                16,
                "values are 2 numbers with commas between, or 32 hexadecimal digits",
            ),
            ("", 16, "is not a number"),
        ] {
            let error = of(text, Some(size)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let counts = |text: &str| value_of(text.as_bytes(), Some(16), Shown::Sum);
        let first = [7u64, 0].map(u64::to_ne_bytes).concat();
        assert_eq!(counts("7"), Ok(first.clone()));
        assert_eq!(counts("7,0"), Ok(first));
        assert!(counts("1,2,3").unwrap_err().contains("2 numbers"));
    }
}
