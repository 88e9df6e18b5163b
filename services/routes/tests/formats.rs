//! Routes as `ip`, `route`, FRR, BIRD and others write them. The samples are what these programs
//! print (iproute2 6.1, net-tools 2.10, FRR 8.4, BIRD 2.0.12), with addresses of documentation.

use std::io::Write;

use ipnet::IpNet;
use sapwood::lpm::{FibFile, FibFileBuilder};
use sapwood_routes::{Error, Format, PLAIN_TEXT, Reading, show_route};

/// What a file is read as, its routes and bad lines, and the remarks.
fn read(reading: Reading, text: &[u8]) -> (Format, Vec<String>, Vec<String>) {
    let (format, mut routes) = reading.open(text).unwrap();
    let mut all = Vec::new();
    loop {
        match routes.next_route() {
            Ok(Some(route)) => all.push(format!("{} = {}", route.net, route.hop)),
            Ok(None) => break,
            Err(Error::Bad(place)) => all.push(place.to_string()),
            Err(error) => {
                all.push(format!("end: {error}"));
                break;
            }
        }
    }
    let remarks = routes.remarks().into_iter().filter(|(count, _)| *count > 0);
    let remarks = remarks
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (format, all, remarks)
}

#[track_caller]
fn is(text: &str, format: Format, right: &[&str]) -> Vec<String> {
    let (told, routes, remarks) = read(Reading::default(), text.as_bytes());
    assert_eq!(
        (told, &routes[..]),
        (
            format,
            &right.iter().map(|r| r.to_string()).collect::<Vec<_>>()[..]
        )
    );
    remarks
}

const IP_ROUTE: &str = "default via 198.51.100.9 dev r1 metric 50 
default via 192.0.2.9 dev r0 metric 100 
10.1.2.3 via 192.0.2.3 dev r0 
10.5.0.0/16 dev r1 scope link 
10.6.0.0/16 nhid 5 via 192.0.2.5 dev r0 
blackhole 10.7.0.0/16 nhid 6 dev lo 
10.9.0.0/16 
\tnexthop via 192.0.2.2 dev r0 weight 3 
\tnexthop via 198.51.100.2 dev r1 weight 1 
throw 10.9.6.0/24 
prohibit 10.9.7.0/24 
unreachable 10.9.8.0/24 
blackhole 10.9.9.0/24 
192.0.2.0/24 dev r0 proto kernel scope link src 192.0.2.1 
203.0.113.0/24 via inet6 fe80::1 dev r0 
";

const IP_6_ROUTE: &str = "2001:db8:1::/64 dev r0 proto kernel metric 256 pref medium
throw 2001:db8:7::/48 dev lo metric 1024 pref medium
blackhole 2001:db8:8::/48 dev lo metric 1024 pref medium
2001:db8:9::/48 metric 1024 pref medium
\tnexthop via fe80::2 dev r0 weight 2 
\tnexthop via 2001:db8:2::2 dev r1 weight 1 
fe80::/64 dev r0 proto kernel metric 256 pref medium
fe80::/64 dev r1 proto kernel metric 256 pref medium
default via fe80::1 dev r0 metric 1024 expires 1790sec hoplimit 64 pref medium
";

const FOUR: [&str; 14] = [
    "0.0.0.0/0 = 198.51.100.9",
    "10.1.2.3/32 = 192.0.2.3",
    "10.5.0.0/16 = dev r1",
    "10.6.0.0/16 = 192.0.2.5",
    "10.7.0.0/16 = blackhole",
    "10.9.0.0/16 = 192.0.2.2 weight 3, 198.51.100.2 weight 1",
    "10.9.6.0/24 = throw",
    "10.9.7.0/24 = prohibit",
    "10.9.8.0/24 = unreachable",
    "10.9.9.0/24 = blackhole",
    "192.0.2.0/24 = dev r0",
    "203.0.113.0/24 = fe80::1%r0",
    "",
    "",
];

const SIX: [&str; 6] = [
    "::/0 = fe80::1%r0",
    "2001:db8:1::/64 = dev r0",
    "2001:db8:7::/48 = throw",
    "2001:db8:8::/48 = blackhole",
    "2001:db8:9::/48 = 2001:db8:2::2 weight 1, fe80::2%r0 weight 2",
    "fe80::/64 = dev r0",
];

const LATER: &str = "routes beside another of their prefix, which had a lower metric or came first";

#[test]
fn ip_route() {
    let four = &FOUR[..12];
    let remarks = is(IP_ROUTE, Format::IpRoute, four);
    assert_eq!(remarks, [format!("1 {LATER}")]);
    is(IP_6_ROUTE, Format::IpRoute, &SIX);
    // Both, and each route in one line, as `ip -o` writes them.
    let both = [four, &SIX].concat();
    is(&format!("{IP_ROUTE}{IP_6_ROUTE}"), Format::IpRoute, &both);
    let one = format!("{IP_ROUTE}{IP_6_ROUTE}").replace("\n\t", "\\\t");
    is(&one, Format::IpRoute, &both);
    // A greater metric in front.
    let text = "10.0.0.0/8 via 192.0.2.1 dev a metric 9\n10.0.0.0/8 via 192.0.2.2 dev a metric 8\n";
    is(text, Format::IpRoute, &["10.0.0.0/8 = 192.0.2.2"]);
    let text = "default dev ppp0 scope link \ndefault via inet6 fe80::1 dev e0 metric 7\n\
                unreachable default dev lo metric 4294967295 error -101 pref medium\n";
    is(
        text,
        Format::IpRoute,
        &["0.0.0.0/0 = dev ppp0", "::/0 = unreachable"],
    );
    let text = "local 192.0.2.1 dev r0 table local proto kernel scope host src 192.0.2.1 \n\
                10.2.0.0/16 via 192.0.2.9 dev r0 table 100 \n\
                10.3.0.0/16 nhid 9 proto static \n\
                10.4.0.0/16 \n\tnexthop via 192.0.2.2 dev r0 weight 1 dead linkdown \n\
                \tnexthop via 192.0.2.3 dev r1 weight 1 \n\
                10.5.0.0/16 via 192.0.2.2 dev r0 dead linkdown \n";
    let remarks = is(
        text,
        Format::IpRoute,
        &["10.3.0.0/16 = nhid 9", "10.4.0.0/16 = 192.0.2.3"],
    );
    assert_eq!(
        remarks,
        [
            "1 routes that are not unicast, or for some packets only",
            "1 routes of other tables than main",
            "1 routes whose next hops are all dead",
        ]
    );
}

#[test]
fn lines_of_ip_route_that_are_not_understood() {
    let text = "10.0.0.0/8 via 192.0.2.1 dev r0 colour red\n10.0.0.0/33 dev r0\n\
                10.1.0.0/16  encap mpls  100 via 192.0.2.1 dev r0\n\
                \tnexthop via 192.0.2.2 dev r0\n10.2.0.0/16 via gateway dev r0\n\
                10.3.0.0/16 dev r0 metric many\n  10.4.0.0/16 dev r0\n10.5.0.0/16 dev\n\
                10.6.0.1/16 dev r0 scope link\nblackhole\n10.8.0.0/16 dev r0 scope link\n";
    let right = [
        "line 1: \"colour\" is no word of \"ip route\"",
        "line 2: \"10.0.0.0/33\" is not a prefix: its length is more than 32",
        "line 3: encap: a next hop in a tunnel, which no text can name",
        "line 5: \"gateway\" is not the address of a gateway",
        "line 6: \"many\" after \"metric\" is not a number",
        "line 7: \"10.4.0.0/16\" is no word of a next hop",
        "line 8: nothing after \"dev\"",
        "line 9: 10.6.0.1/16 has bits set after its length; 10.6.0.0/16 may be meant",
        "line 10: nothing after the type of the route",
        "10.8.0.0/16 = dev r0",
    ];
    let reading = Reading {
        format: Some(Format::IpRoute),
        ..Reading::default()
    };
    assert_eq!(read(reading, text.as_bytes()).1, right);
}

#[test]
fn json_of_ip_route() {
    let four = r#"[{"dst":"default","gateway":"198.51.100.9","dev":"r1","metric":50,"flags":[]},
        {"dst":"default","gateway":"192.0.2.9","dev":"r0","metric":100,"flags":[]},
        {"dst":"10.1.2.3","gateway":"192.0.2.3","dev":"r0","flags":[]},
        {"dst":"10.5.0.0/16","dev":"r1","scope":"link","flags":[]},
        {"dst":"10.6.0.0/16","nhid":5,"gateway":"192.0.2.5","dev":"r0","flags":[]},
        {"type":"blackhole","dst":"10.7.0.0/16","nhid":6,"dev":"lo","flags":[]},
        {"dst":"10.9.0.0/16","flags":[],"nexthops":[
            {"gateway":"192.0.2.2","dev":"r0","weight":3,"flags":[]},
            {"gateway":"198.51.100.2","dev":"r1","weight":1,"flags":[]}]},
        {"type":"throw","dst":"10.9.6.0/24","flags":[]},
        {"type":"prohibit","dst":"10.9.7.0/24","flags":[]},
        {"type":"unreachable","dst":"10.9.8.0/24","flags":[]},
        {"type":"blackhole","dst":"10.9.9.0/24","flags":[]},
        {"dst":"192.0.2.0/24","dev":"r0","protocol":"kernel","scope":"link","flags":[]},
        {"dst":"203.0.113.0/24","via":{"family":"inet6","host":"fe80::1"},"dev":"r0","flags":[]}]"#;
    let six = r#"[{"dst":"2001:db8:1::/64","dev":"r0","metric":256,"flags":[],"pref":"medium"},
        {"type":"throw","dst":"2001:db8:7::/48","dev":"lo","metric":1024,"pref":"medium"},
        {"type":"blackhole","dst":"2001:db8:8::/48","dev":"lo","metric":1024,"pref":"medium"},
        {"dst":"2001:db8:9::/48","metric":1024,"flags":[],"pref":"medium","nexthops":[
            {"gateway":"fe80::2","dev":"r0","weight":2,"flags":[]},
            {"gateway":"2001:db8:2::2","dev":"r1","weight":1,"flags":[]}]},
        {"dst":"fe80::/64","dev":"r0","metric":256,"flags":[],"pref":"medium"},
        {"dst":"default","gateway":"fe80::1","dev":"r0","metric":1024,"pref":"medium"}]"#;
    is(four, Format::Json, &FOUR[..12]);
    // One document after the other.
    let both = [&FOUR[..12], &SIX].concat();
    is(&format!("{four}\n{six} \n"), Format::Json, &both);
    is("[]", Format::Json, &[]);
    let text = r#"[{"dst":"10.0.0.0/8","gateway":"x","dev":"r0"},{"dst":"10.0.0.0/8","dev":"r0"},
        {"dst":"10.1.0.0/16","dev":"r0","flags":["dead","linkdown"]},
        {"type":"local","dst":"192.0.2.1","dev":"r0"},{"dst":"10.2.0.0/16","table":"100"}]"#;
    let bad = "element 1: \"x\" as \"gateway\" is not an address";
    is(text, Format::Json, &[bad, "10.0.0.0/8 = dev r0"]);
    // A document that is cut, and one that is none.
    let cut = &four[..four.len() - 1];
    let (_, routes, _) = read(Reading::default(), cut.as_bytes());
    assert!(routes[0].starts_with("end: line 15: EOF"), "{routes:?}");
    let partial = Reading {
        partial: true,
        ..Reading::default()
    };
    let (_, routes, remarks) = read(partial, cut.as_bytes());
    assert_eq!(routes, &FOUR[..12]);
    assert!(
        remarks[1].starts_with("1 input that ends too early"),
        "{remarks:?}"
    );
    let (_, routes, _) = read(Reading::default(), b"[{\"dst\" \"::/0\"}]");
    assert!(
        routes[0].starts_with("end: line 1: expected `:`"),
        "{routes:?}"
    );
}

#[test]
fn route_n() {
    let text = "Kernel IP routing table
Destination     Gateway         Genmask         Flags Metric Ref    Use Iface
0.0.0.0         198.51.100.9    0.0.0.0         UG    50     0        0 r1
0.0.0.0         192.0.2.9       0.0.0.0         UG    100    0        0 r0
10.1.2.3        192.0.2.3       255.255.255.255 UGH   0      0        0 r0
10.5.0.0        0.0.0.0         255.255.0.0     U     0      0        0 r1
10.9.6.0        0.0.0.0         255.255.255.0   U     0      0        0 *
10.9.7.0        -               255.255.255.0   !     0      -        0 -
203.0.113.0     0.0.0.0         255.255.255.0   UG    0      0        0 r0
";
    let six = "Kernel IPv6 routing table
Destination                    Next Hop                   Flag Met Ref  Use If
2001:db8:1::/64                ::                         U    256 4      0 r0
2001:db8:8::/48                ::                         !n   1024 1      0 lo
::/0                           fe80::1                    UG   1024 1      0 r0
::1/128                        ::                         Un   0   3      0 lo
ff00::/8                       ::                         U    256 2      0 p0
::/0                           ::                         !n   -1  1      0 lo
";
    let bad = "line 9: its gateway is not shown; \"ip route\" shows IPv6 gateways of IPv4";
    let four = [
        "0.0.0.0/0 = 198.51.100.9",
        "10.1.2.3/32 = 192.0.2.3",
        "10.5.0.0/16 = dev r1",
        "10.9.6.0/24 = blackhole",
        "10.9.7.0/24 = unreachable",
    ];
    let remarks = is(text, Format::Netstat, &[&[bad][..], &four].concat());
    assert_eq!(remarks.len(), 3, "{remarks:?}");
    is(
        six,
        Format::Netstat,
        &[
            "::/0 = fe80::1%r0",
            "2001:db8:1::/64 = dev r0",
            "2001:db8:8::/48 = unreachable",
        ],
    );
    // `netstat -rn` has no metrics, and the first route of a prefix is the kernel's.
    let netstat = "Destination     Gateway         Genmask         Flags   MSS Window  irtt Iface\n\
                   default         198.51.100.9    0.0.0.0         UG        0 0          0 r1\n\
                   0.0.0.0         192.0.2.9       0.0.0.0         UG        0 0          0 r0\n\
                   10.5.0.0        *               255.255.0.0     U         0 0          0 r1\n\
                   10.6.0.0        _gateway        255.255.0.0     UG        0 0          0 r1\n\
                   10.7.0.0        192.0.2.1       255.0.255.0     UG        0 0          0 r1\n";
    let right = [
        "line 5: \"_gateway\" is not the address of a gateway",
        "line 6: \"255.0.255.0\" is not a netmask",
        "0.0.0.0/0 = 198.51.100.9",
        "10.5.0.0/16 = dev r1",
    ];
    is(netstat, Format::Netstat, &right);
}

#[test]
fn pfx2as() {
    let caida = "1.0.0.0\t24\t13335\n1.0.4.0\t22\t38803_56203\n2001:db8::\t32\t64500,64501\n";
    let right = [
        "1.0.0.0/24 = 13335",
        "1.0.4.0/22 = 38803_56203",
        "2001:db8::/32 = 64500,64501",
    ];
    is(caida, Format::Pfx2as, &right);
    let pyasn =
        "; IP-ASN32-DAT file\n; Original file : rib.bz2\n1.0.0.0/24\t13335\n1.0.4.0/22\tx\n";
    let bad = "line 4: \"x\" is not the number of an autonomous system";
    is(pyasn, Format::Pfx2as, &["1.0.0.0/24 = 13335", bad]);
}

#[test]
fn show_ip_bgp() {
    let head = "BGP table version is 4, local router ID is 192.0.2.1, vrf id 0
Default local pref 100, local AS 65001
Status codes:  s suppressed, d damped, h history, * valid, > best, = multipath,
               i internal, r RIB-failure, S Stale, R Removed
Nexthop codes: @NNN nexthop's vrf id, < announce-nh-self
Origin codes:  i - IGP, e - EGP, ? - incomplete
RPKI validation codes: V valid, I invalid, N Not found

";
    let four = "   Network          Next Hop            Metric LocPrf Weight Path
*> 10.0.0.0/8       0.0.0.0                  0         32768 i
*  10.1.0.0/16      192.0.2.9                0             0 65009 i
*>                  192.0.2.2                0             0 65002 i
*=                  192.0.2.3                0             0 65003 i
*>i198.51.100.128/25
                    192.0.2.4                0    100      0 i
*  203.0.113.0/24   192.0.2.9                0             0 65009 i
*> 192.0.3.0        192.0.2.5                0             0 65005 i
*> 0.0.0.0          192.0.2.6                              0 65006 i

Displayed  6 routes and 8 total paths
";
    let six = "BGP table version is 2, local router ID is 192.0.2.1, vrf id 0
    Network          Next Hop            Metric LocPrf Weight Path
 *> 2001:db8:9::/48  2001:db8:1:2:3:4:5:6
                                             0             0 65002 i
V*> 2001:db8:aaaa:bbbb:cccc::/80
                     fe80::1                  0             0 65002 i
 *>i2001:db8:8::/48  ::                       0         32768 i
";
    let right = [
        "0.0.0.0/0 = 192.0.2.6",
        "10.0.0.0/8 = ",
        "10.1.0.0/16 = 192.0.2.2 weight 1, 192.0.2.3 weight 1",
        "192.0.3.0/24 = 192.0.2.5",
        "198.51.100.128/25 = 192.0.2.4",
    ];
    let remarks = is(&format!("{head}{four}"), Format::ShowBgp, &right);
    assert_eq!(remarks, ["1 prefixes without a best path"]);
    let right_six = [
        "2001:db8:8::/48 = ",
        "2001:db8:9::/48 = 2001:db8:1:2:3:4:5:6",
        "2001:db8:aaaa:bbbb:cccc::/80 = fe80::1",
    ];
    is(
        &format!("{head}{four}{six}"),
        Format::ShowBgp,
        &[&right[..], &right_six].concat(),
    );
    let odd = "   Network          Next Hop            Metric LocPrf Weight Path
*> host             192.0.2.1 0 i
*> 10.0.0.0/8       router1                  0         32768 i
*>
*> 10.1.0.0/16      192.0.2.1                0         32768 i
";
    let right = [
        "line 2: \"host\" is not a prefix: it has no address",
        "line 3: \"router1\" is not the address of a next hop",
        "line 4: it ends before the column of networks",
        "10.1.0.0/16 = 192.0.2.1",
    ];
    is(odd, Format::ShowBgp, &right);
}

#[test]
fn json_of_frr() {
    let bgp = r#"{ "vrfId": 0, "vrfName": "default", "tableVersion": 4, "localAS": 65001,
        "routes": { "10.0.0.0/8": [{"valid":true,"bestpath":true,"network":"10.0.0.0/8","metric":0,
            "nexthops":[{"ip":"0.0.0.0","hostname":"vm","afi":"ipv4","used":true}]}]
        ,"10.1.0.0/16": [
            {"valid":true,"nexthops":[{"ip":"192.0.2.9","used":true}]},
            {"valid":true,"multipath":true,"nexthops":[{"ip":"192.0.2.3","used":true}]},
            {"valid":true,"bestpath":true,"nexthops":[{"ip":"192.0.2.2","used":true}]}]
        ,"10.2.0.0/16": [{"valid":true,"nexthops":[{"ip":"192.0.2.9","used":true}]}]
        ,"2001:db8:9::/48": [{"bestpath":{"overall":true},"nexthops":[
            {"ip":"2001:db8::1","afi":"ipv6","scope":"global"},
            {"ip":"fe80::1","afi":"ipv6","scope":"link-local","used":true}]}]
        ,"10.0.0.0/40": [] } }"#;
    let right = [
        "element 5: \"10.0.0.0/40\" is not a prefix: its length is more than 32",
        "10.0.0.0/8 = ",
        "10.1.0.0/16 = 192.0.2.2 weight 1, 192.0.2.3 weight 1",
        "2001:db8:9::/48 = fe80::1",
    ];
    let remarks = is(bgp, Format::Json, &right);
    assert_eq!(remarks, ["1 prefixes without a best path"]);
    let zebra = r#"{"10.0.0.0/8":[
            {"protocol":"static","nexthops":[{"ip":"192.0.2.9","active":true}]},
            {"protocol":"bgp","selected":true,"installed":true,"nexthops":[
                {"fib":true,"ip":"192.0.2.1","interfaceName":"r0","active":true,"weight":2},
                {"ip":"192.0.2.4","interfaceName":"r0"},
                {"fib":true,"ip":"fe80::1","interfaceName":"r1","active":true,"weight":1}]}],
        "10.1.0.0/16":[{"selected":true,"nexthops":[{"unreachable":true,"blackhole":true}]}],
        "10.2.0.0/16":[{"selected":true,"nexthops":[{"unreachable":true,"reject":true}]}],
        "10.3.0.0/16":[{"selected":true,"nexthops":[{"interfaceName":"r1","active":true}]}]}"#;
    let right = [
        "10.0.0.0/8 = 192.0.2.1 weight 2, fe80::1%r1 weight 1",
        "10.1.0.0/16 = blackhole",
        "10.2.0.0/16 = unreachable",
        "10.3.0.0/16 = dev r1",
    ];
    is(zebra, Format::Json, &right);
}

#[test]
fn bird() {
    let two = "BIRD 2.0.12 ready.
Table master4:
10.9.7.0/24          prohibited [s4 05:10:52.696] * (200)
10.9.8.0/24          unreachable [s4 05:10:52.696] * (200)
10.9.9.0/24          blackhole [s4 05:10:52.696] * (200)
10.3.0.0/16          unicast [s4 05:10:52.696] * (200)
\tdev r1
10.2.0.0/16          unicast [s4 05:10:52.696] * (200)
\tvia 192.0.2.2 on r0 weight 3
\tvia 198.51.100.2 on r1 weight 1
10.0.0.0/8           unicast [s5 05:10:52.696] (100)
\tvia 198.51.100.7 on r1
                     unicast [s4 05:10:52.696] * (200)
\tvia 192.0.2.7 on r0

Table master6:
::/0                 blackhole [s6 05:10:52.696] * (200)
2001:db8:9::/48      unicast [s6 05:10:53.564] * (200)
\tvia fe80::2 on r0
";
    let right = [
        "10.0.0.0/8 = 192.0.2.7",
        "10.2.0.0/16 = 192.0.2.2 weight 3, 198.51.100.2 weight 1",
        "10.3.0.0/16 = dev r1",
        "10.9.7.0/24 = prohibit",
        "10.9.8.0/24 = unreachable",
        "10.9.9.0/24 = blackhole",
        "::/0 = blackhole",
        "2001:db8:9::/48 = fe80::2%r0",
    ];
    is(two, Format::Bird, &right);
    // With `all`, each route has lines of details.
    let all = two.replace("(200)\n", "(200)\n\tType: static univ\n");
    let all = all.replace("on r0\n", "on r0\n\tBGP.as_path: 65001 65002\n");
    is(&all, Format::Bird, &right);
    let one = "10.0.0.0/8         via 192.0.2.7 on r0 [s4 12:00:00] * (200)
                   via 192.0.2.8 on r0 [b1 12:00:00] (100) [AS65001i]
10.2.0.0/16        multipath [s4 12:00:00] * (200)
\tvia 192.0.2.2 on r0 weight 3
\tvia 198.51.100.2 on r1 weight 1
10.3.0.0/16        dev r1 [direct1 12:00:00] * (240)
10.9.9.0/24        blackhole [s4 12:00:00] * (200)
10.9.6.0/24        strange [s4 12:00:00] * (200)
\tvia 192.0.2.2 on r0
10.9.5.0/24        via 192.0.2.2 or more [s4 12:00:00] * (200)
";
    let bad = [
        "line 8: \"strange\" is no kind of a route",
        "line 10: \"or\" is no word of a next hop",
    ];
    is(
        one,
        Format::Bird,
        &[&bad[..], &right[..3], &right[5..6]].concat(),
    );
    // A raw session has codes in front. What only begins like one may have any characters.
    let raw = "1007-10.9.9.0/24        blackhole [s4 12:00:00] * (200)\n10\u{feff}.0\n10\u{e9}1-\n";
    let reading = Reading {
        format: Some(Format::Bird),
        ..Reading::default()
    };
    let (_, all, _) = read(reading, raw.as_bytes());
    assert!(all.contains(&right[5].to_owned()), "{all:?}");
}

#[test]
fn files_of_other_kinds_are_refused_by_name() {
    let gz = |bytes: &[u8]| {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(bytes).unwrap();
        gz.finish().unwrap()
    };
    let elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0";
    for (bytes, kind) in [
        (
            b"<!doctype html><title>404</title>".to_vec(),
            "an HTML page",
        ),
        (elf.to_vec(), "an ELF program or library"),
        (gz(elf), "an ELF program or library"),
        (
            gz(&gz(b"10.0.0.0/8 a")),
            "a gzip file inside of a compressed file",
        ),
        (
            b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0".to_vec(),
            "a capture of packets (pcap)",
        ),
        (
            b"{\"metadata\": {\"buildtime\": 1}, \"roas\": []}".to_vec(),
            "JSON of another kind: an object with \"metadata\", \"roas\"",
        ),
        (
            b"[1, 2]".to_vec(),
            "JSON of another kind: an array of numbers without \"dst\"",
        ),
        (
            b"[{\"ifname\": \"lo\"}, 7]".to_vec(),
            "JSON of another kind: an array of objects without \"dst\"",
        ),
    ] {
        let error = match Reading::default().open(&bytes[..]) {
            Err(error) => error,
            Ok((_, mut routes)) => routes.next_route().unwrap_err(),
        };
        assert_eq!(error.to_string(), format!("{kind}, and no file of routes"));
    }
}

#[test]
fn a_compressed_file_that_is_cut() {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    let text = "10.0.0.0/8 a\n".repeat(20_000);
    gz.write_all(text.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    let cut = &gz[..gz.len() - 1000];
    let (_, routes, _) = read(Reading::default(), cut);
    assert!(
        routes.last().unwrap().starts_with("end: "),
        "{:?}",
        routes.last()
    );
    let partial = Reading {
        partial: true,
        ..Reading::default()
    };
    let (format, routes, remarks) = read(partial, cut);
    assert_eq!(format, Format::Text);
    // The line that is cut is none.
    assert!(routes.len() > 10_000 && routes.iter().all(|route| route == "10.0.0.0/8 = a"));
    assert_eq!(
        remarks,
        ["1 input that ends too early: what was read before is taken"]
    );
}

/// A random next hop, group or null route, as a text.
fn random_hop(rng: &mut fastrand::Rng) -> String {
    let name = |rng: &mut fastrand::Rng| {
        let words = [
            "192.0.2.1",
            "dev eth0",
            "fe80::1%eth0",
            "via 192.0.2.1 dev r0",
            "24",
            "a, b",
        ];
        words[rng.usize(..words.len())].to_owned()
    };
    match rng.u8(..8) {
        0 => ["blackhole", "unreachable", "prohibit", "throw"][rng.usize(..4)].into(),
        1 | 2 => {
            let members = (0..rng.usize(1..5)).map(|_| {
                let name = name(rng).replace(", ", ",");
                format!(
                    "{name} weight {}",
                    rng.u32(..).checked_shr(rng.u32(..32)).unwrap_or(0)
                )
            });
            members.collect::<Vec<_>>().join(", ")
        }
        3 => String::new(),
        _ => name(rng),
    }
}

fn random_net(rng: &mut fastrand::Rng) -> IpNet {
    let net = match rng.bool() {
        true => IpNet::new(std::net::Ipv4Addr::from(rng.u32(..)).into(), rng.u8(..=32)),
        false => IpNet::new(
            std::net::Ipv6Addr::from(rng.u128(..)).into(),
            rng.u8(..=128),
        ),
    };
    net.unwrap().trunc()
}

/// The table of a text, saved in a file.
fn table(text: &str, path: &std::path::Path) -> FibFile {
    let mut builder = FibFileBuilder::new();
    let (format, mut routes) = Reading::default().open(text.as_bytes()).unwrap();
    assert_eq!(format, Format::Text, "{text}");
    while let Some(route) = routes.next_route().unwrap() {
        let hop = builder.hop(&route.hop).unwrap();
        builder.insert(route.net, hop).unwrap();
    }
    builder.save(path).unwrap();
    FibFile::open(path).unwrap()
}

/// A table that is read from a text, written as a text and read again is the same table.
#[test]
fn what_is_written_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let seed = std::env::var("SAPWOOD_SEED").map_or(1, |text| text.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..40 {
        let mut text = format!("{PLAIN_TEXT}\n");
        for _ in 0..rng.usize(..60) {
            let net = random_net(&mut rng);
            text += &format!("{net} {}\n", random_hop(&mut rng));
        }
        let first = table(&text, &one);
        let mut written = format!("{PLAIN_TEXT}\n");
        for (net, hop) in first.iter() {
            let hop = first.hop(hop).unwrap();
            let line = show_route(&sapwood_routes::Route { net, hop });
            written += &format!("{}\n", line.expect("a text had this route"));
        }
        let second = table(&written, &two);
        assert_eq!(format!("{first:?}"), format!("{second:?}"), "seed {seed}");
    }
}
