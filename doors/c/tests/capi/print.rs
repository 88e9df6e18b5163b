//! The header, printed of what the library declares: comments, types, structures and functions in
//! C's words.

use std::collections::BTreeSet;

use sapwood_capi::HEADER;
use sapwood_capi::c_api::{Constant, Field, Item, What};

/// Columns of a line.
const WIDTH: usize = 100;

/// A header: its file, what stands before its first part, and what it declares.
pub struct Header {
    /// The name of its file.
    pub file: &'static str,
    guard: &'static str,
    prologue: &'static str,
    /// What it declares, by modules.
    pub modules: &'static [&'static [Item]],
}

/// The headers of the library as it was built.
pub const HEADERS: &[Header] = &[
    Header {
        file: "sapwood.h",
        guard: "SAPWOOD_H",
        prologue: include_str!("../../src/prologue.h"),
        modules: HEADER,
    },
    #[cfg(feature = "bpf")]
    Header {
        file: "sapwood_bpf.h",
        guard: "SAPWOOD_BPF_H",
        prologue: include_str!("../../src/bpf_prologue.h"),
        modules: sapwood_capi::BPF_HEADER,
    },
];

/// What all headers declare.
pub fn items() -> impl Iterator<Item = &'static Item> {
    let modules = HEADERS.iter().flat_map(|header| header.modules);
    modules.copied().flatten()
}

/// The whole header.
pub fn header(of: &Header) -> String {
    let mut text = of.prologue.to_owned();
    // Structures that are declared before their fields are.
    let mut forward = BTreeSet::new();
    let mut before: Option<&Item> = None;
    for item in of.modules.iter().copied().flatten() {
        if stands_apart(item, before) {
            text.push('\n');
        }
        text.push_str(&declaration(item, &mut forward));
        before = Some(item);
    }
    let guard = of.guard;
    text + &format!("\n#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n")
}

/// Whether an empty line stands before an item.
fn stands_apart(item: &Item, before: Option<&Item>) -> bool {
    let Some(before) = before else { return true };
    let long = |what: &What| {
        matches!(
            what,
            What::Section | What::Enum(_) | What::Struct(_) | What::Union(_)
        )
    };
    let flag = |what: &What| matches!(what, What::Flag(_));
    match (flag(&before.what), flag(&item.what)) {
        (true, true) => false,
        (true, false) | (false, true) => true,
        (false, false) => !item.docs.is_empty() || long(&item.what) || long(&before.what),
    }
}

fn declaration(item: &Item, forward: &mut BTreeSet<&'static str>) -> String {
    let name = item.name;
    let docs = comment(item.docs);
    match &item.what {
        What::Section => {
            let title = format!("/* ---- {name} ");
            let docs = if docs.is_empty() {
                docs
            } else {
                format!("\n{docs}")
            };
            format!("{title:-<0$} */\n{docs}", WIDTH - 3)
        }
        What::Forward => {
            forward.insert(name);
            format!("typedef struct {name} {name};\n")
        }
        What::Flag(value) => {
            let line = format!("#define {name} {value}u");
            beside(&[(line, item.docs)], "")
        }
        What::Type(rust) if rust.starts_with("Handle") => {
            format!("{docs}typedef struct {name} {name};\n")
        }
        What::Type(rust) => format!("{docs}typedef {};\n", variable(rust, name)),
        What::Enum(constants) => {
            let last = constants.len() - 1;
            let line = |(i, constant): (usize, &Constant)| {
                let end = if i < last { "," } else { "" };
                let line = format!("{} = {}{end}", constant.name, constant.value);
                (line, constant.docs)
            };
            let lines: Vec<_> = constants.iter().enumerate().map(line).collect();
            format!("{docs}enum {name} {{\n{}}};\n", beside(&lines, "\t"))
        }
        What::Struct(layout) | What::Union(layout) => {
            let line = |field: &Field| {
                (
                    format!("{};", variable(field.r#type, field.name)),
                    field.docs,
                )
            };
            let lines: Vec<_> = layout.fields.iter().map(line).collect();
            let fields = beside(&lines, "\t");
            let kind = if matches!(item.what, What::Union(_)) {
                "union"
            } else {
                "struct"
            };
            if forward.contains(name) {
                format!("{docs}{kind} {name} {{\n{fields}}};\n")
            } else {
                format!("{docs}typedef {kind} {name} {{\n{fields}}} {name};\n")
            }
        }
        What::Function(arguments, result) => {
            let arguments: Vec<_> = arguments
                .iter()
                .map(|(name, rust)| variable(rust, name))
                .collect();
            let begin = format!("{}(", variable(result.unwrap_or("()"), name));
            format!("{docs}{}", call(&begin, &arguments))
        }
    }
}

/// A comment before a declaration.
fn comment(lines: &[&str]) -> String {
    match lines {
        [] => String::new(),
        [line] if line.len() + 5 <= WIDTH => format!("/*{line} */\n"),
        lines => {
            let lines: String = lines.iter().map(|line| format!(" *{line}\n")).collect();
            format!("/*\n{lines} */\n")
        }
    }
}

/// Lines with their comments beside them, or above them where there is no room.
fn beside(lines: &[(String, &[&str])], indent: &str) -> String {
    let columns = 8 * indent.len();
    let commented = lines.iter().filter(|(_, docs)| !docs.is_empty());
    let widest = commented.map(|(line, _)| line.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (line, docs) in lines {
        let docs = docs.concat();
        if docs.is_empty() {
            text += &format!("{indent}{line}\n");
        } else if columns + line.len() + docs.len() + 4 <= WIDTH {
            // In one column, unless only this one would be too wide for it.
            let fits = columns + widest + docs.len() + 4 <= WIDTH;
            let column = if fits { widest } else { line.len() };
            text += &format!("{indent}{line:column$} /*{docs} */\n");
        } else {
            text += &format!("{indent}/*{docs} */\n{indent}{line}\n");
        }
    }
    text
}

/// A function, whose arguments stand one below the other where the line ends.
fn call(begin: &str, arguments: &[String]) -> String {
    if arguments.is_empty() {
        return format!("{begin}void);\n");
    }
    let indent = "\t".repeat(begin.len() / 8) + &" ".repeat(begin.len() % 8);
    let mut text = String::new();
    let mut line = begin.to_owned();
    // Columns of the line; a tab has up to eight.
    let mut columns = begin.len();
    for (i, argument) in arguments.iter().enumerate() {
        let end = if i + 1 < arguments.len() { "," } else { ");" };
        let space = if i == 0 || columns == begin.len() {
            ""
        } else {
            " "
        };
        if i > 0 && columns + space.len() + argument.len() + end.len() > WIDTH - 1 {
            text += &format!("{}\n", line.trim_end());
            line = format!("{indent}{argument}{end}");
            columns = begin.len() + argument.len() + end.len();
        } else {
            line += &format!("{space}{argument}{end}");
            columns += space.len() + argument.len() + end.len();
        }
    }
    format!("{text}{line}\n")
}

/// A type of Rust with only the spaces and commas that it needs: compilers print them differently.
pub fn squeezed(rust: &str) -> String {
    let mut text = String::new();
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    for word in rust.split_whitespace() {
        if text.ends_with(of_word) && word.starts_with(of_word) {
            text.push(' ');
        }
        text.push_str(word);
    }
    text.replace(",>", ">").replace(",)", ")")
}

/// C's declaration of a variable, an argument, a field or a function of a type of Rust.
fn variable(rust: &str, name: &str) -> String {
    let rust = &squeezed(rust);
    if let Some(pointer) = between(rust, "Option<", ">") {
        let (arguments, result) = function(pointer);
        let arguments: Vec<_> = arguments
            .iter()
            .map(|(name, rust)| variable(rust, name))
            .collect();
        let pointer = variable(result, &format!("(*{name})"));
        return format!("{pointer}({})", arguments.join(", "));
    }
    if let Some(array) = between(rust, "[", "]") {
        let (of, count) = array.split_once(';').expect("a type and a number");
        return variable(of, &format!("{name}[{count}]"));
    }
    if let Some(inner) = between(rust, "MaybeUninit<", ">") {
        return variable(inner, name);
    }
    if let Some(to) = rust.strip_prefix("*const") {
        return format!("const {}", variable(to, &format!("*{name}")));
    }
    if let Some(to) = rust.strip_prefix("*mut") {
        return variable(to, &format!("*{name}"));
    }
    format!("{} {name}", plain(rust))
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(begin)?.strip_suffix(end)
}

/// The arguments of a pointer to a function, and its result.
fn function(rust: &str) -> (Vec<(&str, &str)>, &str) {
    let rust = rust
        .strip_prefix("unsafe extern\"C\"fn(")
        .expect("a function of C");
    let (arguments, result) = rust.rsplit_once(')').expect("its arguments end");
    let arguments = arguments
        .split(',')
        .filter(|argument| !argument.trim().is_empty());
    let arguments = arguments.map(|argument| argument.split_once(':').expect("a name and a type"));
    (
        arguments.collect(),
        result.strip_prefix("->").unwrap_or("()"),
    )
}

/// C's name of a type that is no pointer.
fn plain(rust: &str) -> &str {
    match rust {
        "()" | "c_void" => "void",
        "c_char" => "char",
        "c_uchar" => "unsigned char",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "usize" => "size_t",
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        name if name.starts_with("sapwood_") => name,
        other => panic!("C has no name for {other}"),
    }
}
