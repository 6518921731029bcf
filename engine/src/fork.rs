//! Distinguishes the process that created an object from a forked child that has a copy.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks from the first process to this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process that created an object, for libraries above the engine. A forked child must not use
/// objects of its parent, because the threads are missing in the child and the sockets are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin(u32);

impl Origin {
    /// This process.
    pub fn here() -> Self {
        static COUNTING: Once = Once::new();
        // SAFETY: the function may be called in a child: it adds to a number. Without memory for it
        // children are not noticed.
        COUNTING.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(count_fork));
        });
        Origin(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is the process that called [`Origin::here`], and not a forked child of it. The
    /// call reads one number, so it is cheap enough for every call.
    #[inline]
    pub fn is_here(self) -> bool {
        self == Origin(FORKS.load(Ordering::Relaxed))
    }
}

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_knows_that_it_is_one() {
        let origin = Origin::here();
        assert!(origin.is_here());
        // SAFETY: the child reads two numbers and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(origin.is_here()) + 2 * i32::from(!Origin::here().is_here());
            // SAFETY: it ends here.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: it points to a number.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status));
        assert_eq!(libc::WEXITSTATUS(status), 0);
        assert!(origin.is_here());
    }
}
