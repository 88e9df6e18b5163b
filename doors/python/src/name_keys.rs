//! Keys of maps of names: texts, bytes, or domain names.

use std::borrow::Cow;
use std::ops::Bound as Edge;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyType};
use sapwood::key::{dns_name, dns_name_to_text};
use sapwood::qp::MAX_KEY;

use crate::address::{kind, shown};

/// What the keys of a map are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// `str`, in UTF-8, whose order of bytes is that of code points.
    Text,
    /// `bytes`.
    Bytes,
    /// Domain names as `str`, ordered as DNSSEC orders them.
    Dns,
}

/// The keys between two edges, as bytes.
#[derive(Clone, Debug)]
pub struct Edges {
    pub start: Edge<Vec<u8>>,
    pub end: Edge<Vec<u8>>,
}

impl Edges {
    /// All keys.
    pub fn all() -> Self {
        Edges {
            start: Edge::Unbounded,
            end: Edge::Unbounded,
        }
    }

    /// The keys that start with a prefix.
    pub fn below(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        // The least key behind them all: the prefix without its last bytes of 255, plus one.
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        Edges {
            start: Edge::Included(prefix.to_vec()),
            end: match end.last_mut() {
                Some(last) => {
                    *last += 1;
                    Edge::Excluded(end)
                }
                None => Edge::Unbounded,
            },
        }
    }

    /// The edges as a map takes them.
    pub fn as_bounds(&self) -> (Edge<&[u8]>, Edge<&[u8]>) {
        (
            self.start.as_ref().map(Vec::as_slice),
            self.end.as_ref().map(Vec::as_slice),
        )
    }
}

impl Keys {
    /// The choice of the arguments `key` and `dns`.
    pub fn of(key: Option<&Bound<'_, PyAny>>, dns: bool) -> PyResult<Self> {
        let Some(key) = key else {
            return Ok(if dns { Keys::Dns } else { Keys::Text });
        };
        let py = key.py();
        let keys = match key {
            key if key.is(PyType::new::<PyString>(py)) && dns => Keys::Dns,
            key if key.is(PyType::new::<PyString>(py)) => Keys::Text,
            key if key.is(PyType::new::<PyBytes>(py)) && !dns => Keys::Bytes,
            key if key.is(PyType::new::<PyBytes>(py)) => {
                let text = "dns=True is for keys that are str";
                return Err(PyValueError::new_err(text));
            }
            other => {
                let text = format!("key is str or bytes, not {}", shown(other));
                return Err(PyTypeError::new_err(text));
            }
        };
        Ok(keys)
    }

    /// The choice as a word, for pickles.
    pub fn word(self) -> &'static str {
        match self {
            Keys::Text => "str",
            Keys::Bytes => "bytes",
            Keys::Dns => "dns",
        }
    }

    /// The choice of a word.
    pub fn of_word(word: &str) -> PyResult<Self> {
        let all = [Keys::Text, Keys::Bytes, Keys::Dns];
        let found = all.into_iter().find(|keys| keys.word() == word);
        found.ok_or_else(|| PyValueError::new_err(format!("no such keys: {word:?}")))
    }

    /// The bytes of a key.
    pub fn bytes<'a>(self, key: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
        let bytes = match self {
            Keys::Text => Cow::Borrowed(text(key)?.as_bytes()),
            Keys::Bytes => match key.cast::<PyBytes>() {
                Ok(bytes) => Cow::Borrowed(bytes.as_bytes()),
                Err(_) => {
                    let text = format!("a key of this map is bytes, not {}", kind(key));
                    return Err(PyTypeError::new_err(text));
                }
            },
            Keys::Dns => Cow::Owned(dns_name(text(key)?).map_err(|error| {
                PyValueError::new_err(format!("{} is not a domain name: {error}", shown(key)))
            })?),
        };
        match bytes.len() <= MAX_KEY {
            true => Ok(bytes),
            false => Err(PyValueError::new_err(
                sapwood::qp::Error::KeyTooLong { len: bytes.len() }.to_string(),
            )),
        }
    }

    /// The key of bytes.
    pub fn object<'py>(self, py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyAny> {
        match self {
            Keys::Text => PyString::new(py, &String::from_utf8_lossy(bytes)).into_any(),
            Keys::Bytes => PyBytes::new(py, bytes).into_any(),
            // A file may have keys that are no names.
            Keys::Dns => match dns_name_to_text(bytes) {
                Ok(name) => PyString::new(py, &name).into_any(),
                Err(_) => PyBytes::new(py, bytes).into_any(),
            },
        }
    }

    /// The keys from `start` to before `stop`.
    pub fn range(
        self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Edges> {
        let bytes = |key| Ok::<_, PyErr>(self.bytes(key)?.into_owned());
        Ok(Edges {
            start: start
                .map(bytes)
                .transpose()?
                .map_or(Edge::Unbounded, Edge::Included),
            end: stop
                .map(bytes)
                .transpose()?
                .map_or(Edge::Unbounded, Edge::Excluded),
        })
    }
}

fn text<'a>(key: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    match key.cast::<PyString>() {
        Ok(text) => text.to_str(),
        Err(_) => Err(PyTypeError::new_err(format!(
            "a key of this map is a str, not {}",
            kind(key)
        ))),
    }
}
