//! Arguments without a meaning: each function that the header declares is called with NULL for all
//! pointers, and with a handle of another type, by a program that is made of the header.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use sapwood_capi::c_api::{Item, What};

use crate::print::{HEADERS, items, squeezed};
use crate::support::{Language, Link, compile, folder, run};

/// A function of the header: its name, the types of its parameters in Rust, and what it returns.
struct Function {
    name: &'static str,
    types: Vec<String>,
    returns: Option<&'static str>,
}

fn functions() -> Vec<Function> {
    let function = |item: &Item| match item.what {
        What::Function(parameters, returns) => Some(Function {
            name: item.name,
            types: parameters.iter().map(|(_, kind)| squeezed(kind)).collect(),
            returns,
        }),
        _ => None,
    };
    items().filter_map(function).collect()
}

/// The type of a handle that a parameter has.
fn handle_of(kind: &str) -> Option<&str> {
    let name = kind
        .strip_prefix("*const ")
        .or(kind.strip_prefix("*mut "))?;
    let handle = |item: &Item| {
        let What::Type(kind) = item.what else {
            return false;
        };
        item.name == name && kind.starts_with("Handle")
    };
    items().any(handle).then_some(name)
}

fn is_pointer(kind: &str) -> bool {
    kind.starts_with('*') || kind.starts_with("Option") || kind.ends_with("_fn")
}

/// Runs calls, each of which prints its result; returns the results by names.
fn results(name: &str, calls: &str) -> Vec<(String, i32)> {
    let headers = HEADERS
        .iter()
        .map(|header| format!("#include \"{}\"\n", header.file));
    let text = format!(
        "#include <stdio.h>\n{}\
         int main(void)\n{{\n\tsapwood_domain *domain = NULL;\n\tsapwood_fib *fib = NULL;\n\
         \tif (sapwood_domain_new(NULL, &domain) || sapwood_fib_new(NULL, NULL, &fib))\n\
         \t\treturn 1;\n{calls}\treturn 0;\n}}\n",
        headers.collect::<String>()
    );
    let file = folder().join(format!("{name}.c"));
    fs::write(&file, text).unwrap();
    let program = compile(&file, Language::C, Link::Shared, &["-Wno-nonnull"]);
    let output = run(&mut Command::new(program));
    assert!(output.status.success(), "{name}: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (name, result) = line.split_once(' ').unwrap();
        (name.to_owned(), result.parse().unwrap())
    };
    text.lines().map(line).collect()
}

fn call(function: &Function, first: &str) -> String {
    let rest = |kind: &String| if is_pointer(kind) { "NULL" } else { "0" };
    let mut arguments: Vec<&str> = function.types.iter().map(rest).collect();
    if !first.is_empty() {
        arguments[0] = first;
    }
    let (name, arguments) = (function.name, arguments.join(", "));
    match function.returns {
        Some("c_int") => format!("\tprintf(\"{name} %d\\n\", {name}({arguments}));\n"),
        _ => format!("\t{name}({arguments});\n"),
    }
}

#[test]
fn every_function_takes_null_for_all_pointers_without_a_crash() {
    let all = functions();
    assert!(all.len() > 200, "{}", all.len());
    let calls: String = all.iter().map(|function| call(function, "")).collect();
    let results = results("nulls", &calls);
    assert!(results.len() > 180);
    for (name, result) in results {
        // What may be NULL: a message that is not wanted, the defaults, nothing to roll back.
        let fine = match name.as_str() {
            "sapwood_last_error" => result >= 0,
            "sapwood_bpf_check" => [0, -libc::ENOSYS, -libc::EACCES].contains(&result),
            "sapwood_fib_txn_rollback"
            | "sapwood_routes_txn_rollback"
            | "sapwood_ranges_txn_rollback" => result == 0,
            _ => result == -libc::EINVAL,
        };
        assert!(fine, "{name} of NULL: {result}");
    }
}

#[test]
fn every_function_refuses_a_handle_of_another_type() {
    let (mut calls, mut count) = (String::new(), 0);
    for function in functions() {
        let Some(first) = function.types.first() else {
            continue;
        };
        let Some(handle) = handle_of(first) else {
            continue;
        };
        let other = match handle {
            "sapwood_domain" => "fib",
            _ => "domain",
        };
        // Those that return nothing must leave the handle of the other type as it is.
        write!(
            calls,
            "{}",
            call(&function, &format!("({handle} *)(void *){other}"))
        )
        .unwrap();
        count += 1;
    }
    assert!(count > 150, "{count}");
    calls += "\tprintf(\"alive %d\\n\", sapwood_domain_poll(domain, 1));\n";
    calls += "\tprintf(\"alive %d\\n\", sapwood_fib_verify(fib));\n";
    for (name, result) in results("others", &calls) {
        let wanted = if name == "alive" { 0 } else { -libc::EINVAL };
        assert_eq!(result, wanted, "{name} of a handle of another type");
    }
}
