//! Makes a live map of a kind, writes a few entries, and serves them until its input ends. Programs
//! in other languages test their readers with it.
//!
//! ```sh
//! cargo run -p sapwood-live --example live_writer -- shared-numbers /dev/shm/map
//! ```

use std::error::Error;
use std::path::Path;

use sapwood::lpm::{IpFib, Ipv4Fib};
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood::route::{Group, NullRoute};
use sapwood_live::{Live, Routes};

const NAMES: [(&str, u64); 4] = [("ash", 1), ("elder", 2), ("elm", 3), ("oak", u64::MAX)];

const PREFIXES: [(&str, u64); 4] = [
    ("0.0.0.0/0", 1),
    ("10.0.0.0/8", u64::MAX),
    ("::/0", 2),
    ("2001:db8::1/128", 3),
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, folder] = &arguments[..] else {
        return Err("usage: live_writer KIND FOLDER".into());
    };
    let folder = Path::new(folder);
    match kind.as_str() {
        "shared-numbers" => {
            let map = Live::<QpShared<u64>>::create(folder)?;
            for (name, number) in NAMES {
                map.insert(name, number)?;
            }
            serve();
            map.remove_map()?;
        }
        "shared-bytes" => {
            let map = Live::<QpShared<[u8]>>::create(folder)?;
            for (name, number) in NAMES {
                map.insert(name, number.to_string().as_bytes())?;
            }
            serve();
            map.remove_map()?;
        }
        // As the program `sapwood` keeps ranges: the values are the numbers of texts, which lie in
        // a store inside the directory.
        "ranges-of-texts" => {
            let map = Live::<MapleMap<u32>>::create(folder)?;
            let texts = Live::<QpStore<[u8]>>::create(folder.join("texts"))?;
            let mut txn = texts.begin();
            for (number, text) in [(7u32, "free"), (8, "used")] {
                txn.insert(number.to_be_bytes(), text.as_bytes())?;
            }
            txn.commit();
            map.store(10..=19, 7)?;
            map.store(30..=u64::MAX, 8)?;
            serve();
            texts.remove_map()?;
            map.remove_map()?;
        }
        "points" => {
            let map = Live::<PointMap<u64>>::create(folder)?;
            for (name, number) in NAMES {
                map.insert(name, number)?;
            }
            serve();
            map.remove_map()?;
        }
        "routes-of-numbers" => {
            let map = Live::<IpFib<u64>>::create(folder)?;
            for (prefix, number) in PREFIXES {
                map.insert(prefix.parse()?, number)?;
            }
            serve();
            map.remove_map()?;
        }
        "routes-of-ipv4" => {
            let map = Live::<Ipv4Fib<[u32; 3]>>::create(folder)?;
            map.insert("10.0.0.0/8".parse()?, [1, 2, 3])?;
            serve();
            map.remove_map()?;
        }
        "routes-of-groups" => {
            let map = Live::<Routes<u32>>::create(folder)?;
            map.insert("10.0.0.0/8".parse()?, &Group::new([(7, 1), (8, 3)]))?;
            map.insert("10.1.0.0/16".parse()?, &Group::single(9))?;
            map.insert("10.9.0.0/16".parse()?, &Group::null(NullRoute::Prohibit))?;
            map.insert("2001:db8::/32".parse()?, &Group::new([(7, 1), (8, 3)]))?;
            serve();
            map.remove_map()?;
        }
        // Values of more than eight bytes lie apart from their ranges.
        "ranges-of-words" => {
            let map = Live::<MapleMap<[u64; 3]>>::create(folder)?;
            for i in 0..1000 {
                map.store(10 * i..=10 * i + 4, [i, 2 * i, 3 * i])?;
            }
            serve();
            map.remove_map()?;
        }
        other => return Err(format!("there is no kind {other:?}").into()),
    }
    Ok(())
}

/// Says that the map is there, and waits for the end of the input.
fn serve() {
    println!("ready");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}
