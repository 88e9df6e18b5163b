//! `sapwood report`: pages of saved maps, and inputs that are none.

use crate::common::Scratch;
use crate::page::{rows, stands_alone};

fn page(s: &Scratch, args: &[&str]) -> String {
    let args = [&["report"], args, &["-o", "page.html"]].concat();
    s.run(&args).code(0).out("").quiet();
    std::fs::read_to_string(s.path("page.html")).unwrap()
}

#[test]
fn the_shapes_of_small_maps() {
    let s = Scratch::new();
    s.build("words.qp", "ash\nbeech\nelm\n");
    s.run_with(
        &["routes", "build", "-", "-o", "r.lpm"],
        b"10.0.0.0/8 by <b>hop\n10.1.0.0/16 by <b>hop\n2001:db8::/32 by fe80::1\n",
    )
    .code(0);
    s.run_with(
        &["ranges", "build", "-", "-o", "p.ranges"],
        b"1 4 a\n10 10 b\n14 17 a\n",
    )
    .code(0);
    let args = [
        "report", "--map", "words.qp", "r.lpm", "--map", "p.ranges", "--json",
    ];
    let document = s.run(&args).code(0).quiet().documents().remove(0);
    let maps = document["maps"].as_array().unwrap();
    let words = &maps[0];
    assert_eq!(words["kind"], "a map of names to numbers");
    assert_eq!(
        (&words["entries"], &words["trie"]["key_bytes"]),
        (&3.into(), &11.into())
    );
    // Three entries in one cluster, below no branch, which holds them.
    assert_eq!(words["trie"]["depths"], serde_json::json!([3]));
    assert_eq!(words["trie"]["fills"], serde_json::json!([0, 0, 0, 1]));
    assert_eq!(words["trie"]["branches"]["count"], 0);
    assert_eq!(words["trie"]["leaf_bytes"], 0);
    let stats = s
        .run(&["names", "stats", "words.qp", "--json"])
        .documents()
        .remove(0);
    assert_eq!(words["file_bytes"], stats["file_bytes"]);
    assert_eq!(
        words["trie"]["clusters"]["bytes"],
        stats["clusters"]["bytes"]
    );
    let routes = &maps[1];
    assert_eq!(
        (&routes["kind"], &routes["entries"]),
        (&"a table of routes".into(), &3.into())
    );
    let lengths = serde_json::json!([{"of": "/8", "count": 1}, {"of": "/16", "count": 1}]);
    assert_eq!(routes["counts"]["ipv4_lengths"], lengths);
    let hops = routes["counts"]["next_hops"].as_array().unwrap();
    assert_eq!(
        (&hops[0]["of"], &hops[0]["count"]),
        (&"by <b>hop".into(), &2.into())
    );
    // Three routes, and the names of two next hops.
    assert_eq!(routes["trie"]["entries"], 5);
    let ranges = &maps[2];
    assert_eq!(
        (&ranges["kind"], &ranges["entries"]),
        (&"a map of ranges".into(), &3.into())
    );
    let sizes = serde_json::json!([{"of": "1", "count": 1}, {"of": "4 to 7", "count": 2}]);
    assert_eq!(ranges["counts"]["sizes"], sizes);
    let gaps = serde_json::json!([{"of": "2 to 3", "count": 1}, {"of": "4 to 7", "count": 1}]);
    assert_eq!(ranges["counts"]["gaps"], gaps);
    assert_eq!(ranges["memory"]["leaves"]["count"], 1);
    // A file of ranges is no trie.
    assert!(ranges["trie"].is_null());

    let text = page(&s, &["--map", "words.qp", "r.lpm", "p.ranges"]);
    stands_alone(&text);
    assert!(!text.contains("<b>hop") && text.contains("&lt;b&gt;hop"));
    let all = rows(&text);
    for cells in [
        &["no branch", "3", "100"][..],
        &["3 leaves", "1", "100"],
        &["/16", "1", "50.0"],
        &["by <b>hop", "2", "66.7"],
        &["4 to 7", "2", "66.7"],
    ] {
        let row = all
            .iter()
            .any(|row| row.iter().zip(cells).all(|(found, cell)| found == cell));
        assert!(row, "no {cells:?} in {all:?}");
    }
    // The kinds of bytes of the first map add up to its file.
    let first = text.split("<section id=\"map-1\">").nth(1).unwrap();
    let kinds = rows(first.split("</table>").next().unwrap());
    let bytes = kinds
        .iter()
        .skip(1)
        .map(|row| row[1].replace(',', "").parse::<u64>().unwrap());
    assert_eq!(bytes.sum::<u64>(), words["file_bytes"].as_u64().unwrap());
}

#[test]
fn deep_maps_have_as_many_leaves_at_all_depths_as_entries() {
    let s = Scratch::new();
    let keys: String = (0..3000)
        .map(|i| format!("{}{i}\n", "a".repeat(i % 90)))
        .collect();
    s.build("deep.qp", keys);
    let document = s
        .run(&["report", "--map", "deep.qp", "--json"])
        .code(0)
        .documents()
        .remove(0);
    let trie = &document["maps"][0]["trie"];
    let list = |name: &str| -> Vec<u64> {
        let list = trie[name].as_array().unwrap().iter();
        list.map(|count| count.as_u64().unwrap()).collect()
    };
    let (depths, fills) = (list("depths"), list("fills"));
    assert_eq!(depths.iter().sum::<u64>(), 3000);
    assert_eq!(depths.len() as u64 - 1, trie["depth_max"].as_u64().unwrap());
    let sum: u64 = depths
        .iter()
        .enumerate()
        .map(|(depth, leaves)| depth as u64 * leaves)
        .sum();
    let mean = trie["depth_mean"].as_f64().unwrap();
    assert!((sum as f64 / 3000.0 - mean).abs() < 1e-9 && mean > 1.0);
    assert_eq!(
        fills.iter().sum::<u64>(),
        trie["clusters"]["count"].as_u64().unwrap()
    );
}

#[test]
fn what_is_no_input_is_named_and_leaves_no_page() {
    let s = Scratch::new();
    s.build("good.qp", "ash\nbeech\n");
    let map = std::fs::read(s.path("good.qp")).unwrap();
    s.file("torn.qp", &map[..map.len() - 100]);
    let mut flipped = map.clone();
    let at = flipped.len() - 1;
    flipped[at] ^= 1;
    s.file("flipped.qp", flipped);
    s.file("text", "some text\n");
    std::fs::create_dir(s.path("empty")).unwrap();
    let before = s.names();
    for (map, why) in [
        ("torn.qp", "torn.qp: not a sound map: "),
        ("flipped.qp", "flipped.qp: not a sound map: "),
        ("text", "text: not a sound map: "),
        ("absent.qp", "cannot read absent.qp: No such file"),
    ] {
        s.run(&["report", "--map", map, "-o", "page.html"])
            .code(2)
            .out("")
            .complains(&format!("sapwood: {why}"));
        assert_eq!(s.names(), before, "{map}");
    }
    for (args, why) in [
        (&["-o", "page.html"][..], "--map <FILE>"),
        (&["--map", "good.qp"], "--output <PAGE>"),
        (
            &["--map", "good.qp", "-o", "good.qp"],
            "cannot write good.qp: it is the input",
        ),
        (
            &["--map", "good.qp", "-o", "empty"],
            "cannot write empty: is a directory",
        ),
        (
            &["--map", "good.qp", "-o", "none/page.html"],
            "cannot write none/page.html: No such file",
        ),
        (&["--map", "good.qp", "-o", "-"], "-o must name a file"),
    ] {
        s.run(&[&["report"], args].concat())
            .code(2)
            .out("")
            .complains(why);
        assert_eq!(s.names(), before, "{args:?}");
    }
    // A page that is there stays as it is.
    s.file("page.html", "old");
    s.run(&["report", "--map", "torn.qp", "-o", "page.html"])
        .code(2);
    assert_eq!(std::fs::read(s.path("page.html")).unwrap(), b"old");
    s.run(&["report", "--map", "good.qp", "-o", "page.html"])
        .code(0);
    assert!(std::fs::metadata(s.path("page.html")).unwrap().len() > 4000);
}
