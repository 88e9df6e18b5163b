//! Prints the data sets that this machine has.
use sapwood_model::data;
use std::path::Path;

fn main() {
    let domains = std::env::args()
        .nth(1)
        .map(|folder| Path::new(&folder).join("domains-opendns.txt.gz"));
    let sets = [
        data::kallsyms(),
        data::btf_strings(),
        Ok(data::symbols(121_000, 1)),
        Ok(data::type_names(124_000, 1)),
        data::paths(Path::new("/usr"), 100_000),
        data::domains_gz(&domains.unwrap_or_default()),
        Ok(data::domains(1_000_000, 1)),
        Ok(data::random_u64(1_000_000, 1)),
        Ok(data::random_binary(16_384, 1)),
    ];
    for set in sets {
        match set {
            Ok(set) => {
                println!("{set:?}");
                for key in set.keys.iter().step_by(set.keys.len() / 4) {
                    println!("    {}", key.escape_ascii());
                }
            }
            Err(missing) => println!("{missing}"),
        }
    }
}
