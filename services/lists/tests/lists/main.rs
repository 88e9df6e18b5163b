//! Lists in all formats, compared with a naive oracle; maps that are made, changed and saved.

mod closest;
mod differential;
mod limits;
mod loading;
mod oracle;
mod systems;
mod transfer;
mod vectors;
