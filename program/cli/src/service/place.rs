//! Where metrics go: an address that serves them, or a file.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The place that `--metrics` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Served at this address by HTTP, under `/metrics`.
    Address(SocketAddr),
    /// Written into this file.
    File(PathBuf),
}

/// Parses the argument of `--metrics`. What ends in a colon and a number, without a slash, is meant
/// as an address.
pub fn place(text: &str) -> Result<Place, String> {
    if let Ok(address) = text.parse() {
        return Ok(Place::Address(address));
    }
    match text.rsplit_once(':') {
        Some((host, port))
            if !text.contains('/')
                && !port.is_empty()
                && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            if port.parse::<u16>().is_err() {
                return Err(format!("{port} is no port: ports are 0 to 65535"));
            }
            Err(format!(
                "{} no IP address before :{port}; 127.0.0.1:{port} and [::1]:{port} serve this \
                 machine alone, 0.0.0.0:{port} and [::]:{port} every network (for a file of this \
                 name, give ./{text})",
                match host {
                    "" => "there is".to_owned(),
                    host => format!("\"{}\" is", host.escape_debug()),
                }
            ))
        }
        _ if text.is_empty() => Err("an address or a file is missing".into()),
        _ => Ok(Place::File(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_files_are_told_apart() {
        for text in ["127.0.0.1:9464", "[::1]:9464", "0.0.0.0:0", "[::]:65535"] {
            let address = Place::Address(text.parse().unwrap());
            assert_eq!(place(text), Ok(address));
        }
        for text in [
            "map.prom",
            "/run/x:9464",
            "./:9464",
            "a:b",
            "a:",
            "C:x",
            "9464",
        ] {
            assert_eq!(place(text), Ok(Place::File(text.into())));
        }
        for (text, why) in [
            (
                ":9464",
                "there is no IP address before :9464; 127.0.0.1:9464 and",
            ),
            (
                "localhost:9464",
                "\"localhost\" is no IP address before :9464",
            ),
            ("::1:9464x", ""),
            ("127.0.0.1:65536", "65536 is no port"),
            ("127.0.0.256:80", "\"127.0.0.256\" is no IP address"),
            ("", "missing"),
        ] {
            match place(text) {
                Err(said) => assert!(!why.is_empty() && said.contains(why), "{said}"),
                Ok(_) => assert!(why.is_empty(), "{text}"),
            }
        }
    }
}
