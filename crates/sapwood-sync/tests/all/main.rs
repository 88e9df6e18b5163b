//! Tests of logs, publishers and followers.

mod broken;
mod following;
mod kinds;
mod support;
