//! Live maps in several processes, which are killed at random points.
#![cfg(target_os = "linux")]

mod beside;
mod checked;
mod kinds;
mod store;

use std::path::PathBuf;

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let (Ok(task), Some(folder)) = (
        std::env::var("SAPWOOD_TASK"),
        std::env::var_os("SAPWOOD_FOLDER"),
    ) else {
        return;
    };
    let folder = PathBuf::from(folder);
    match task.as_str() {
        "create" => store::write(&folder, true),
        "open" => store::write(&folder, false),
        "read" => store::read(&folder),
        task => kinds::child(task, &folder),
    }
}
