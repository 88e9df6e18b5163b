//! Zones of a name server: which zone answers for a name, changed while queries go on, and what a
//! secondary server has to be told.
//!
//! `cargo run --release --example zones`

use sapwood::key::{dns_name, dns_name_to_text};
use sapwood::qp::{Change, QpStore};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    // Keys in canonical order: labels from right to left, so that a zone and all below it lie side
    // by side.
    let zones = QpStore::new()?;
    let mut txn = zones.begin();
    for (serial, zone) in ["org", "example.org", "dept.example.org", "net"]
        .iter()
        .enumerate()
    {
        txn.insert(dns_name(zone)?, serial as u32)?;
    }
    println!(
        "version {} has {} zones",
        txn.commit(),
        zones.read(|view| view.len())
    );

    // A query goes to the closest enclosing zone: the longest stored key that is a prefix of the
    // name's.
    let mut reader = zones.reader("queries")?;
    for name in ["www.dept.Example.org", "mail.example.org", "example.com"] {
        let view = reader.view();
        match view.longest_prefix(dns_name(name)?) {
            Some((zone, serial)) => {
                println!(
                    "{name}: zone {} with serial {serial}",
                    dns_name_to_text(zone)?
                );
            }
            None => println!("{name}: refused"),
        }
    }
    assert_eq!(
        reader
            .view()
            .longest_prefix(dns_name("mail.example.org")?)
            .map(|(_, s)| *s),
        Some(1)
    );
    // Once in a while: nothing of the old versions is held here.
    reader.quiescent();

    // A secondary server has this version ...
    let sent = zones.snapshot();
    // ... and all of these changes become visible to queries at once.
    let mut txn = zones.begin();
    txn.insert(dns_name("example.org")?, 100)?;
    txn.insert(dns_name("lab.example.org")?, 1)?;
    txn.remove(dns_name("net")?)?;
    txn.commit();

    // What it has to be told, found without looking at what did not change.
    let newest = zones.snapshot();
    println!("from version {} to {}:", sent.version(), newest.version());
    let mut changes = 0;
    for change in QpStore::diff(&sent, &newest) {
        changes += 1;
        let name = dns_name_to_text(change.key())?;
        match change {
            Change::Added(_, serial) => println!("  + {name} {serial}"),
            Change::Removed(_, serial) => println!("  - {name} {serial}"),
            Change::Changed(_, old, new) => println!("  * {name} {old} -> {new}"),
        }
    }
    assert_eq!(changes, 3);

    // All that is at and below a name.
    let below = newest.prefix(dns_name("example.org")?);
    let names: Result<Vec<_>, _> = below.map(|(key, _)| dns_name_to_text(key)).collect();
    println!("example.org and below: {}", names?.join(", "));
    Ok(())
}
