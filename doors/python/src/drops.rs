//! Maps whose values are maps, and so on: they are dropped without a call inside a call for each.

use std::any::Any;
use std::cell::{Cell, RefCell};

/// The calls that may be inside each other.
const DEEP: usize = 50;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// What is dropped when no call is inside another any more.
    static LATER: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Drops what holds objects of users: at once, or, if very many such drops are inside each other,
/// before the first of them returns.
pub fn let_go<T: 'static>(held: T) {
    let Ok(depth) = DEPTH.try_with(Cell::get) else {
        return drop(held); // the thread ends
    };
    if depth >= DEEP {
        let held: Box<dyn Any> = Box::new(held);
        return LATER.with(|later| later.borrow_mut().push(held));
    }
    let _level = Level::down(depth);
    drop(held);
    if depth == 0 {
        while let Some(next) = LATER.with(|later| later.borrow_mut().pop()) {
            drop(next);
        }
    }
}

/// A call inside others.
struct Level(usize);

impl Level {
    fn down(depth: usize) -> Self {
        DEPTH.set(depth + 1);
        Level(depth)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}
