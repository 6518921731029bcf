//! The end of the process: what it has received is acknowledged before, and its connections of
//! rdma_cm are closed, as the kernel does.
//!
//! A NIC acknowledges a message by itself, also for a process that is gone. The engine acknowledges
//! before the program gets the completion, unless the program has replied to the message before:
//! then the acknowledgement waits for the next reply. A program that ends instead of replying does
//! so by `exit` or `_exit`, and both come here.

use std::ffi::c_int;
use std::process;
use std::sync::{Arc, Mutex, Once, PoisonError, TryLockError, Weak};
use std::time::Duration;

use crate::messages;
use crate::running::Running;

/// How long the end of the process waits for a thread that runs the engine.
const LIMIT: Duration = Duration::from_millis(10);

/// The engines of this process.
static ENGINES: Mutex<Engines> = Mutex::new(Engines { process: 0, running: Vec::new() });

struct Engines {
    /// A child that `vfork` has made shares this memory, and ends before it runs another program.
    process: u32,
    running: Vec<Weak<Running>>,
}

/// An engine has started.
pub(crate) fn enter(running: &Arc<Running>) {
    static HOOK: Once = Once::new();
    // SAFETY: the function stays, as the library is never unloaded. Without memory for it nothing
    // is acknowledged at `exit`.
    HOOK.call_once(|| unsafe {
        libc::atexit(acknowledge_at_exit);
    });
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    engines.process = process::id();
    engines.running.retain(|running| running.strong_count() > 0);
    engines.running.push(Arc::downgrade(running));
}

extern "C" fn acknowledge_at_exit() {
    acknowledge();
}

/// A signal handler may end the process while the lock is held, so that nobody waits for it.
fn acknowledge() {
    messages::close_at_exit();
    let engines = match ENGINES.try_lock() {
        Ok(engines) => engines,
        Err(TryLockError::Poisoned(engines)) => engines.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    if engines.process != process::id() {
        return;
    }
    for running in &engines.running {
        if let Some(running) = running.upgrade() {
            running.engine.acknowledge(LIMIT);
            // Who lets go of the last one ends the engine, which takes time that nobody has here.
            std::mem::forget(running);
        }
    }
}

fn end(status: c_int) -> ! {
    acknowledge();
    loop {
        // SAFETY: it takes a number, and does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// Ends the process as `_exit` does. Programs reach it by the names below.
pub extern "C" fn _exit(status: c_int) -> ! {
    end(status)
}

/// `_exit` and `_Exit` in glibc's versions of them, which programs are linked with: 2.2.5 on
/// x86-64, 2.17 on aarch64. A name has to have its version in it, as in `providers.rs`. Nothing is
/// linked with these: they are not the default.
macro_rules! exits {
    ($($name:ident $symbol:literal)*) => {
        $(#[unsafe(export_name = $symbol)]
        extern "C" fn $name(status: c_int) -> ! {
            end(status)
        })*
    };
}

exits! {
    exit_2_2_5 "_exit@GLIBC_2.2.5"
    exit_2_17 "_exit@GLIBC_2.17"
    c_exit_2_2_5 "_Exit@GLIBC_2.2.5"
    c_exit_2_17 "_Exit@GLIBC_2.17"
}
