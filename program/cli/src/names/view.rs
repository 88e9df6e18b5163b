//! What the queries read: a saved map, one version of a live map, or its newest one in each
//! question.

use sapwood::qp::{OrderedRead, QpFile, Value};

use super::SavedValue;
use crate::errors::Error;

/// A map that is open for reading.
pub trait Source<V: ?Sized + Value> {
    /// Calls `work` with the map; of a live map, with its newest version if the writer knows of the
    /// reader.
    fn read(
        &mut self,
        work: &mut dyn FnMut(&dyn OrderedRead<V>) -> Result<(), Error>,
    ) -> Result<(), Error>;
}

impl<V: ?Sized + SavedValue> Source<V> for QpFile<V> {
    fn read(
        &mut self,
        work: &mut dyn FnMut(&dyn OrderedRead<V>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        work(self)
    }
}
