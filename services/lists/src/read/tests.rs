//! What lines of each format say.

use super::*;

fn manner(format: Format) -> Manner {
    Manner {
        list: 0,
        format,
        exceptions: false,
        below: false,
        marks: false,
        block: Action::Nxdomain,
    }
}

/// A rule as text: its name, its action, and what is special.
fn shown_rule(read: &ReadRule) -> String {
    let Rule { terms, .. } = &read.rule;
    let scope = match terms.scope {
        Scope::WithBelow => "+",
        _ => "",
    };
    let mut text = String::new();
    if terms.class != Class::Ordinary {
        text += &format!(" ({})", terms.class.word());
    }
    if let Some(types) = &terms.types {
        text += &format!(" {}{:?}", if types.others { "~" } else { "" }, types.types);
    }
    for except in &terms.except {
        text += &format!(" -{}", crate::names::shown_name(except).unwrap());
    }
    if read.is_bad_filter {
        text += " bad";
    }
    format!("{}{scope} {}{text}", read.rule.name(), terms.action)
}

/// The rules of a text, its faults with their lines, and its counts.
fn read_with(text: &[u8], manner: &Manner) -> (Vec<String>, Vec<(u64, String)>, Counts) {
    let (mut rules, mut faults) = (Vec::new(), Vec::new());
    // Good lines, so that the faults are not most of the lines.
    let counts = read(text, manner, "list", |told| {
        match told {
            Told::Rule(rule) => rules.push(shown_rule(&rule)),
            Told::Refused(line, what) => faults.push((line, what.to_owned())),
            Told::Lines => {}
        }
        Ok(())
    });
    let counts = match counts {
        Ok(counts) => counts,
        Err(ListError::NotAList { refused, .. }) => Counts {
            refused,
            ..Counts::default()
        },
        Err(error) => panic!("{error}"),
    };
    (rules, faults, counts)
}

fn rules(format: Format, text: &str) -> Vec<String> {
    let (rules, faults, _) = read_with(text.as_bytes(), &manner(format));
    assert_eq!(faults, [], "{text}");
    rules
}

/// The fault of a line.
fn fault(format: Format, line: &str) -> String {
    let (rules, faults, _) = read_with(line.as_bytes(), &manner(format));
    assert!(
        rules.is_empty() && faults.len() == 1,
        "{line}: {rules:?} {faults:?}"
    );
    faults[0].1.clone()
}

/// What a line is about that has no rule.
fn left(format: Format, line: &str) -> LeftOut {
    let (rules, faults, counts) = read_with(line.as_bytes(), &manner(format));
    assert!(
        rules.is_empty() && faults.is_empty(),
        "{line}: {rules:?} {faults:?}"
    );
    let found = LeftOut::ALL
        .into_iter()
        .find(|what| counts.left_out[*what as usize] > 0);
    found.unwrap_or_else(|| panic!("{line} is nothing"))
}

#[test]
fn plain_lists() {
    let text = "\u{feff}# ads\r\na.Example\r\n*.b.example # why\n.c.example\n\n  ; x\n*\n*.\n\
                b\u{fc}cher.example\n*.\u{e4}.example\n.\n";
    assert_eq!(
        rules(Format::Plain, text),
        [
            "a.example nxdomain",
            "*.b.example nxdomain",
            "c.example+ nxdomain",
            "* nxdomain",
            "* nxdomain",
            "xn--bcher-kva.example nxdomain",
            "*.xn--4ca.example nxdomain",
            ". nxdomain",
        ]
    );
    for (line, why) in [
        ("||x.example^", "no host name has the |"),
        ("a b", "more than one name"),
        ("192.0.2.1", "it is an address"),
        ("*x.example", "a * is a wildcard only as the first label"),
        ("..", "empty label"),
        (".*.x.example", "is a wildcard, which has no meaning here"),
        ("a..b", "empty label"),
    ] {
        let what = fault(Format::Plain, line);
        assert!(what.contains(why), "{line}: {what}");
    }
}

#[test]
fn hosts_files() {
    let text = "# x\n0.0.0.0 a.example b.example # c.example\n::1\tc.example\n127.0.0.1 d.example#x\n\
                192.0.2.7 e.example\nf.example\n0.0.0.0 ip6-i.example\nfe80::1%lo0 localhost\n0.0.0.0 0.0.0.0 g.example\n\
                :: *.h.example\n";
    assert_eq!(
        rules(Format::Hosts, text),
        [
            "a.example nxdomain",
            "b.example nxdomain",
            "c.example nxdomain",
            "d.example nxdomain",
            "e.example addresses 192.0.2.7",
            "f.example nxdomain",
            "ip6-i.example nxdomain",
            "g.example nxdomain",
            "*.h.example nxdomain",
        ]
    );
    for local in [
        "127.0.0.1 localhost",
        "255.255.255.255 broadcasthost",
        "ff02::3 ip6-allhosts",
    ] {
        assert_eq!(left(Format::Hosts, local), LeftOut::Local);
    }
    assert!(fault(Format::Hosts, "0.0.0.0").contains("no name behind the address"));
    assert!(fault(Format::Hosts, "0.0.0.0 a|b").contains("no host name has the |"));
    let below = Manner {
        below: true,
        block: Action::Null,
        ..manner(Format::Hosts)
    };
    let (rules, faults, _) = read_with(
        b"0.0.0.0 a.example x|y b.example\n0.0.0.0 c.example",
        &below,
    );
    assert_eq!(
        rules,
        ["a.example+ null", "b.example+ null", "c.example+ null"]
    );
    assert!(faults.len() == 1 && faults[0].0 == 1 && faults[0].1.contains("x|y"));
}

#[test]
fn options_of_dnsmasq() {
    let text = "# x\naddress=/a.example/\naddress=/b.example/c.example/0.0.0.0 # why\n\
                address=/d.example/192.0.2.1\naddress=/#/::\nserver=/e.example/\n\
                server=/f.example/#\nserver=/g.example/192.0.2.53#5353\nlocal=/.h.example/\n\
                address=/i.example/#\n";
    assert_eq!(
        rules(Format::Dnsmasq, text),
        [
            "a.example+ nxdomain",
            "b.example+ nxdomain",
            "c.example+ nxdomain",
            "d.example+ addresses 192.0.2.1",
            ".+ nxdomain",
            "e.example+ nxdomain",
            "f.example+ pass",
            "g.example+ pass",
            "h.example+ nxdomain",
            "i.example+ nxdomain",
        ]
    );
    for option in [
        "no-resolv",
        "server=192.0.2.1",
        "cache-size=100",
        "address=//192.0.2.1",
    ] {
        assert_eq!(left(Format::Dnsmasq, option), LeftOut::Options, "{option}");
    }
    for (line, why) in [
        ("a.example", "it is no option of dnsmasq"),
        ("<p a=b>", "is no option of dnsmasq"),
        ("address=/a.example", "there is no / behind the name"),
        ("address=/a.example/x", "\"x\" is no address"),
        ("address=/*a.example/", "is a pattern"),
        ("address=/a|b/", "no host name has the |"),
    ] {
        let what = fault(Format::Dnsmasq, line);
        assert!(what.contains(why), "{line}: {what}");
    }
}

#[test]
fn options_of_unbound() {
    let text = "server: # x\n local-zone: \"a.example.\" always_nxdomain\n\
                local-zone: b.example refuse\nlocal-zone: \"c.example\" deny\n\
                local-zone: \"d.example\" transparent\nlocal-zone: e.example always_null\n";
    assert_eq!(
        rules(Format::Unbound, text),
        [
            "a.example+ nxdomain",
            "b.example+ refused",
            "c.example+ drop",
            "d.example+ pass",
            "e.example+ null",
        ]
    );
    let text = "local-zone: \"a.example\" redirect\nlocal-data: \"a.example A 192.0.2.1\"\n\
                local-data: \"a.example. 60 IN AAAA 2001:db8::1\"\n\
                local-data: 'b.example TXT \"x # y\"'\n\
                local-zone: \"c.example\" redirect\nlocal-data: \"c.example A 0.0.0.0\"\n\
                local-zone: \"d.example\" redirect\nlocal-data: \"e.example CNAME f.example.\"\n";
    assert_eq!(
        rules(Format::Unbound, text),
        [
            "a.example+ addresses 192.0.2.1",
            "a.example+ addresses 2001:db8::1",
            "b.example records TXT \\# 6 057820232079",
            "c.example+ nxdomain",
            "e.example name f.example",
            "d.example+ nodata",
        ]
    );
    for option in [
        "server:",
        "verbosity: 1",
        "local-zone: x nodefault",
        "local-data-ptr: \"x\"",
    ] {
        assert_eq!(left(Format::Unbound, option), LeftOut::Options, "{option}");
    }
    for (line, why) in [
        ("a.example", "it is no option of Unbound"),
        ("<p>:", "is no option of Unbound"),
        ("local-zone: a.example", "there is no type"),
        (
            "local-zone: *.a.example refuse",
            "is a wildcard, which has no meaning",
        ),
        (
            "local-zone: a.example never",
            "\"never\" is no type of a zone",
        ),
        (
            "local-zone: \"a.example refuse",
            "there is no \" behind the name",
        ),
        ("local-data: \"a.example A x\"", "IPv4"),
    ] {
        let what = fault(Format::Unbound, line);
        assert!(what.contains(why), "{line}: {what}");
    }
}

#[test]
fn response_policy_zones() {
    let text = "$TTL 60\n@ IN SOA ns.rpz. root.rpz. (\n 1 2\n 3 4 5 ) ; end\n  NS ns.rpz.\n\
                a.example CNAME .\n*.A.example 30 IN CNAME .\nb.example CNAME *.\n\
                c.example CNAME rpz-passthru.\nd.example CNAME rpz-drop.\n\
                e.example CNAME rpz-tcp-only.\nf.example CNAME garden.example.\n\
                g.example A 192.0.2.1\n  AAAA 2001:db8::1\n  TXT ( \"x\"\n \"y\" )\n\
                *.h.example CNAME *.garden.example.\n* CNAME .\ni.example CNAME i.example.\n";
    assert_eq!(
        rules(Format::Rpz, text),
        [
            "a.example nxdomain",
            "*.a.example nxdomain",
            "b.example nodata",
            "c.example pass",
            "d.example drop",
            "e.example truncate",
            "f.example name garden.example",
            "g.example addresses 192.0.2.1",
            "g.example addresses 2001:db8::1",
            "g.example records TXT \\# 4 01780179",
            "*.h.example name *.garden.example",
            "* nxdomain",
            "i.example pass",
        ]
    );
    let zone = "$ORIGIN rpz.local.\n@ SOA ns root 1 2 3 4 5\nA.example CNAME .\n\
                b.example.RPZ.local. CNAME .\n$ORIGIN sub.rpz.local.\nc CNAME .\n";
    assert_eq!(
        rules(Format::Rpz, zone),
        ["a.example nxdomain", "b.example nxdomain", "c.sub nxdomain"]
    );
    for trigger in [
        "32.1.2.0.192.rpz-ip",
        "ns.x.rpz-nsdname",
        "8.0.0.0.10.RPZ-CLIENT-IP",
    ] {
        let line = format!("{trigger} CNAME .");
        assert_eq!(left(Format::Rpz, &line), LeftOut::Triggers, "{trigger}");
    }
    assert_eq!(
        left(
            Format::Rpz,
            "a.example RRSIG A 8 2 60 20300101000000 20200101000000 1 x. AA=="
        ),
        LeftOut::Zone
    );
    for (text, line, why) in [
        ("a.example CNAME rpz-other.\n", 1, "rpz-other is no policy"),
        (
            "$ORIGIN z.\n@ SOA a b 1 2 3 4 5\n@ NS a\na.example. CNAME .\n",
            4,
            "a.example is not below the zone z",
        ),
        ("a.example NOTYPE x\n", 1, ""),
        ("$INCLUDE x\n", 1, "other files are not read"),
        ("  CNAME .\n", 1, "no record before it"),
        ("\n\n@ SOA a. b. ( 1\n2\n", 3, "a parenthesis is not closed"),
        ("a.example CNAME . )\n", 1, "a parenthesis is closed"),
    ] {
        let (_, faults, _) = read_with(text.as_bytes(), &manner(Format::Rpz));
        assert_eq!(faults.len(), 1, "{text}: {faults:?}");
        assert_eq!(faults[0].0, line, "{text}");
        assert!(faults[0].1.contains(why), "{text}: {faults:?}");
    }
}

#[test]
fn rules_of_ad_blockers() {
    let text = "[Adblock Plus 2.0]\n! Title: x\n# x\n||a.example^\n||B.example^|\n|c.example^\n\
                |d.example|\ne.example\n@@||f.example^\n||*.g.example^\n*.h.example\n\
                ||i.example^$important\n@@||j.example^$important\n||k.example^$dnstype=AAAA|A\n\
                ||l.example^$dnstype=~A\n||m^$denyallow=b.m|a.m\n||n.example^$badfilter\n\
                0.0.0.0 o.example\n||p.example^$important,dnstype=A\n||b\u{fc}.example^\n*\n";
    assert_eq!(
        rules(Format::AdBlock, text),
        [
            "a.example+ nxdomain",
            "b.example+ nxdomain",
            "c.example nxdomain",
            "d.example nxdomain",
            "e.example nxdomain",
            "f.example+ pass (exception)",
            "*.g.example nxdomain",
            "*.h.example nxdomain",
            "i.example+ nxdomain (important)",
            "j.example+ pass (important exception)",
            "k.example+ nxdomain [1, 28]",
            "l.example+ nxdomain ~[1]",
            "m+ nxdomain -a.m -b.m",
            "n.example+ nxdomain bad",
            "o.example nxdomain",
            "p.example+ nxdomain (important) [1]",
            "xn--b-eha.example+ nxdomain",
            ".+ nxdomain",
        ]
    );
    for (value, action) in [
        ("192.0.2.1", "addresses 192.0.2.1"),
        ("::1", "addresses ::1"),
        ("x.example", "name x.example"),
        ("REFUSED", "refused"),
        ("NXDOMAIN;;", "nxdomain"),
        ("NOERROR;;", "nodata"),
        ("NOERROR;A;192.0.2.1", "addresses 192.0.2.1"),
        ("NOERROR;CNAME;x.example", "name x.example"),
        ("NOERROR;TXT;hi", "records TXT \\# 3 026869"),
        ("NOERROR;MX;5 m", "records MX \\# 5 0005016d00"),
    ] {
        let found = rules(Format::AdBlock, &format!("||x.example^$dnsrewrite={value}"));
        assert_eq!(found, [format!("x.example+ {action} (rewriting)")]);
    }
    assert_eq!(
        rules(Format::AdBlock, "@@||x.example^$dnsrewrite"),
        ["x.example+ pass (rewriting)"]
    );
    for line in [
        "x.example##.banner",
        "##.banner",
        "#@#.banner",
        "/ads[0-9]+/",
        "||x.example/path^",
        "||x.example",
        "||192.0.2.1^",
        "||x.*^",
        "||ad*.example^",
        "http://x.example/",
        ".x.example^",
        "@@||x.example^$dnsrewrite=192.0.2.1",
    ] {
        assert_eq!(left(Format::AdBlock, line), LeftOut::Urls, "{line}");
    }
    for line in [
        "||x.example^$client=192.0.2.1",
        "||x.example^$ctag=device_tv",
        "||x.example^$third-party",
        "||x.example^$script,~image,domain=a.example|b.example",
    ] {
        assert_eq!(left(Format::AdBlock, line), LeftOut::Clients, "{line}");
    }
    for (line, why) in [
        ("||^", "there is no name"),
        ("||a..b^", "empty label"),
        ("||x.example^$", "\"\" is no option"),
        ("||x.example^$dnstype=NO", "\"NO\" is no type"),
        ("||x.example^$dnstype=A|~AAAA", "with and without ~"),
        ("||x.example^$dnsrewrite", "no value behind dnsrewrite"),
        (
            "||x.example^$dnsrewrite=SERVFAIL",
            "no rewriting to \"SERVFAIL\"",
        ),
        ("||x.example^$dnsrewrite=NOERROR;A", "three parts"),
        ("||x.example^$denyallow=a|b..c", "empty label"),
    ] {
        let what = fault(Format::AdBlock, line);
        assert!(what.contains(why), "{line}: {what}");
    }
}

#[test]
fn lists_of_exceptions_only_pass() {
    let manner = Manner {
        exceptions: true,
        ..manner(Format::AdBlock)
    };
    let text = b"||a.example^\nb.example\n||c.example^$important\n@@||d.example^$important\n";
    assert_eq!(
        read_with(text, &manner).0,
        [
            "a.example+ pass (exception)",
            "b.example pass (exception)",
            "c.example+ pass (important exception)",
            "d.example+ pass (important exception)",
        ]
    );
}

#[test]
fn counts_are_those_of_lines() {
    let text = b"# x\n\n0.0.0.0 a.example b.example\n0.0.0.0 localhost\n0.0.0.0 x|y\n";
    let (_, faults, counts) = read_with(text, &manner(Format::Hosts));
    let mut expected = Counts {
        lines: 5,
        rules: 2,
        refused: 1,
        ..Counts::default()
    };
    expected.left_out[LeftOut::Local as usize] = 1;
    assert_eq!(counts, expected);
    assert_eq!(faults[0].0, 5);
    let long = [
        b"a.example\n".to_vec(),
        vec![b'x'; MAX_LINE + 1],
        b"\nb.example".to_vec(),
    ]
    .concat();
    let (rules, faults, counts) = read_with(&long, &manner(Format::Plain));
    assert_eq!((rules.len(), counts.lines), (2, 3));
    assert_eq!(faults[0].0, 2);
    assert!(
        faults[0]
            .1
            .contains("it has 65538 bytes; a line has 65536 at most"),
        "{faults:?}"
    );
}

#[test]
fn texts_that_are_no_lists_are_errors() {
    let error = |text: &[u8], format: Format| {
        read(text, &manner(format), "list", |_| Ok(()))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(b"<html>\n<p>\n<p>404\nx.example\n", Format::Plain),
        "list: 3 of 4 lines are not those of a plain list of names; it looks like a page of the web \
         (HTML)"
    );
    assert_eq!(
        error(b"||a.example^\nb.example\n||c.example^\n", Format::Hosts),
        "list: 2 of 3 lines are not those of a hosts file; it looks like a list for AdGuard or \
         another ad blocker"
    );
    for (text, looks) in [
        (
            &b"<!DOCTYPE html>\n<html>\n<body>x\n"[..],
            "a page of the web (HTML)",
        ),
        (b"\x1f\x8b\x08\0\0\0", "a binary or compressed file"),
        (b"\xff\xfea\0\n\0", "a text in UTF-16, not in UTF-8"),
    ] {
        let error = recognised(text, &Source::text("list", ""), "list")
            .err()
            .unwrap()
            .to_string();
        assert_eq!(
            error,
            format!("list: this is no list: it looks like {looks}")
        );
        let plain = Source::text("list", "").format(Format::Plain);
        let (format, mut input) = recognised(text, &plain, "list").unwrap();
        let mut again = Vec::new();
        input.read_to_end(&mut again).unwrap();
        assert_eq!((format, &again[..]), (Format::Plain, text));
    }
}

/// Lines of random pieces, as all formats have them: each is read, or is a fault; nothing panics.
#[test]
fn any_lines_are_rules_nothing_or_faults() {
    const PIECES: [&str; 40] = [
        "a",
        "x.example",
        ".",
        "*",
        "*.",
        "||",
        "^",
        "|",
        "@@",
        "$",
        "important",
        "dnstype=",
        "A",
        ",",
        "dnsrewrite=",
        ";",
        "NOERROR;A;",
        "192.0.2.1",
        "::",
        " ",
        "\t",
        "#",
        "!",
        "\"",
        "(",
        ")",
        "CNAME",
        "local-zone:",
        "local-data:",
        "redirect",
        "address=",
        "/",
        "rpz-passthru.",
        "$ORIGIN",
        "\n",
        "\n",
        "\u{fc}",
        "\\",
        "\u{feff}",
        "SOA . . 1 2 3 4 5",
    ];
    let mut random = fastrand::Rng::with_seed(5);
    let mut all = 0;
    for round in 0..4000 {
        let format = Format::ALL[round % Format::ALL.len()];
        let pieces: Vec<&str> = (0..random.usize(1..30))
            .map(|_| PIECES[random.usize(..PIECES.len())])
            .collect();
        let mut text = pieces.concat().into_bytes();
        if random.u8(..4) == 0 {
            let at = random.usize(..text.len());
            text[at] = random.u8(..);
        }
        let (rules, _, _) = read_with(&text, &manner(format));
        all += rules.len();
    }
    assert!(all > 100, "{all}");
}
