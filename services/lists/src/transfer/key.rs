//! Keys of TSIG, as files have them.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use domain::tsig::{Algorithm, Key, KeyName};
use domain::utils::base64;

use super::TransferError;

/// The most bytes of a file with a key.
const MOST: u64 = 1 << 16;

/// A key that messages are signed with (TSIG, RFC 8945).
///
/// ```
/// use sapwood_lists::transfer::TransferKey;
///
/// let key = TransferKey::parse("hmac-sha256:rpz-key:c2VjcmV0IHNlY3JldCBzZWNyZXQ=")?;
/// assert_eq!(key.to_string(), "rpz-key");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct TransferKey(pub(super) Arc<Key>);

impl fmt::Debug for TransferKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the secret.
        write!(f, "TransferKey({})", self.0.name())
    }
}

impl fmt::Display for TransferKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.name().fmt(f)
    }
}

impl TransferKey {
    /// Reads a key in one of two forms: a statement `key` of BIND, or `algorithm:name:secret`. The
    /// algorithms are `hmac-sha1`, `hmac-sha256`, `hmac-sha384` and `hmac-sha512`; the secret is
    /// in base64.
    ///
    /// O(length of the text).
    ///
    /// # Errors
    /// What is wrong. The secret is no part of it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = words(text)?;
        let [algorithm, name, secret] = match words.first().map(String::as_str) {
            Some("key") => statement(&words[1..])?,
            Some(word) if words.len() == 1 => {
                let parts: Vec<&str> = word.split(':').collect();
                let [algorithm, name, secret] = parts[..] else {
                    return Err("a key is algorithm:name:secret, or a statement of BIND".into());
                };
                [algorithm, name, secret].map(String::from)
            }
            _ => return Err("it is neither algorithm:name:secret nor key \"name\" { … };".into()),
        };
        let algorithm: Algorithm = algorithm.to_ascii_lowercase().parse().map_err(|_| {
            let all = "hmac-sha1, hmac-sha256, hmac-sha384 and hmac-sha512";
            format!("\"{}\" is no algorithm of {all}", algorithm.escape_debug())
        })?;
        let name: KeyName = name
            .to_ascii_lowercase()
            .parse()
            .map_err(|error| format!("\"{}\" is no name: {error}", name.escape_debug()))?;
        let secret: Vec<u8> =
            base64::decode(&secret).map_err(|error| format!("the secret is no base64: {error}"))?;
        if secret.is_empty() {
            return Err("the secret is empty".into());
        }
        let key = Key::new(algorithm, &secret, name, None, None);
        Ok(TransferKey(Arc::new(
            key.map_err(|error| error.to_string())?,
        )))
    }

    /// Reads a key from a file.
    ///
    /// # Errors
    /// [`TransferError::Key`]: the file cannot be read, or has no key.
    pub fn read(path: &Path) -> Result<Self, TransferError> {
        let wrong = |what: String| TransferError::Key {
            path: path.into(),
            what,
        };
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(MOST).read_to_string(&mut text))
            .map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text).map_err(wrong)
    }
}

/// The words of a text without its comments. Braces and semicolons are words.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with('#') || rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").ok_or("a comment is not closed")? + 2
        } else if first == '"' {
            let end = rest[1..].find('"').ok_or("a quotation is not closed")?;
            all.push(rest[1..=end].into());
            end + 2
        } else if matches!(first, '{' | '}' | ';') {
            all.push(first.into());
            1
        } else {
            let is_end = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';' | '"');
            let end = rest.find(is_end).unwrap_or(rest.len());
            all.push(rest[..end].into());
            end
        };
        rest = rest[len..].trim_start();
    }
    Ok(all)
}

/// The parts of `NAME { algorithm A; secret S; };`.
fn statement(words: &[String]) -> Result<[String; 3], String> {
    let (name, mut rest) = match words {
        [name, open, rest @ ..] if open == "{" => (name, rest),
        _ => return Err("behind \"key\" a name and { are needed".into()),
    };
    let (mut algorithm, mut secret) = (None, None);
    loop {
        rest = match rest {
            [word, value, end, rest @ ..] if end == ";" => {
                match word.as_str() {
                    "algorithm" => algorithm = Some(value.clone()),
                    "secret" => secret = Some(value.clone()),
                    _ => return Err("a key has an algorithm and a secret, and nothing else".into()),
                }
                rest
            }
            [close] if close == "}" => break,
            [close, end] if close == "}" && end == ";" => break,
            [close, ..] if close == "}" => return Err("there is more than one key".into()),
            _ => return Err("the statement is not closed".into()),
        };
    }
    let algorithm = algorithm.ok_or("the key has no algorithm")?;
    let secret = secret.ok_or("the key has no secret")?;
    Ok([algorithm, name.clone(), secret])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_both_forms() {
        let statement = "# of the zone\nkey \"RPZ-Key\" {\n  algorithm hmac-sha512; // long\n  \
                         /* x */ secret \"c2VjcmV0\";\n};\n";
        for (text, algorithm) in [
            (statement, Algorithm::Sha512),
            ("hmac-sha256:rpz-key:c2VjcmV0\n", Algorithm::Sha256),
            (
                "key rpz-key { secret c2VjcmV0; algorithm HMAC-SHA1; }",
                Algorithm::Sha1,
            ),
        ] {
            let key = TransferKey::parse(text).unwrap();
            assert_eq!(key.to_string(), "rpz-key", "{text}");
            assert_eq!(key.0.algorithm(), algorithm, "{text}");
            assert_eq!(format!("{key:?}"), "TransferKey(rpz-key)");
        }
    }

    #[test]
    fn what_is_no_key_is_told_without_its_secret() {
        for (text, what) in [
            ("", "neither"),
            ("name:c2VjcmV0", "algorithm:name:secret"),
            ("hmac-md5:a:c2VjcmV0", "\"hmac-md5\" is no algorithm"),
            ("hmac-sha256:a..b:c2VjcmV0", "is no name"),
            ("hmac-sha256:a:c2Vj_cmV0", "is no base64"),
            ("hmac-sha256:a:", "the secret is empty"),
            ("key a { secret c2VjcmV0; };", "has no algorithm"),
            ("key a { algorithm hmac-sha256; };", "has no secret"),
            (
                "key a { algorithm hmac-sha256; secret c2VjcmV0; ",
                "is not closed",
            ),
            ("key a { server c2VjcmV0; };", "nothing else"),
            ("key a {}; key b {};", "more than one"),
            ("key", "a name and {"),
            ("key \"a", "a quotation"),
            ("/* key", "a comment"),
        ] {
            let error = TransferKey::parse(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
            assert!(!error.contains("c2V"), "{text}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let error = TransferKey::read(&path).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        std::fs::write(&path, "hmac-sha256:a:c2VjcmV0").unwrap();
        assert_eq!(TransferKey::read(&path).unwrap().to_string(), "a");
    }
}
