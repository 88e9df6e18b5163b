//! Places where a model checker may let other threads run, and where a test may look at the
//! memory. Elsewhere they are nothing.

/// A place where a scheduler may let another thread run: before an access to memory that others
/// change.
#[inline(always)]
pub fn point() {
    #[cfg(shuttle)]
    shuttle::sync::atomic::AtomicBool::new(false).load(core::sync::atomic::Ordering::SeqCst);
}

/// As [`point`], before a store that others see. What lies in the memory here is what a writer
/// leaves that is killed, so a test of this crate can look at it.
#[inline(always)]
pub fn store_point() {
    point();
    #[cfg(all(feature = "watch-stores", not(any(loom, shuttle))))]
    stores::look();
}

/// A look at the memory before each store of this thread that others see.
#[cfg(all(feature = "watch-stores", not(any(loom, shuttle))))]
pub mod stores {
    use alloc::boxed::Box;
    use core::cell::RefCell;

    type Look = Box<dyn FnMut()>;

    std::thread_local!(static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) });

    /// Calls `look` before each store from now on; or nothing any more.
    pub fn set(look: Option<Look>) {
        LOOK.with_borrow_mut(|place| *place = look);
    }

    pub fn look() {
        // A look makes no stores, but what it uses may have points of its own.
        let look = LOOK.with_borrow_mut(Option::take);
        if let Some(mut look) = look {
            look();
            set(Some(look));
        }
    }
}
