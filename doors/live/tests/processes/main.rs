//! Live maps in several processes, which are killed at random points.
#![cfg(target_os = "linux")]

mod beside;
mod checked;
mod disk;
mod full;
mod kinds;
mod making;
mod others;
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
        "open-without-room" => full::open_without_room(&folder),
        "read-as-another" => others::read_as_another(&folder),
        "count-readers" => others::count_readers(&folder),
        "come-early" => making::come_early(&folder),
        "remove-and-make" => making::remove_and_make(&folder),
        task => kinds::child(task, &folder),
    }
}
