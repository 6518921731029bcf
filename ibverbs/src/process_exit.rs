//! The end of the process. Before it, received messages are acknowledged and connections of rdma_cm
//! are closed, as the kernel does.
//!
//! A NIC acknowledges messages by itself, even for a process that has ended. The engine
//! acknowledges a message before the program gets the completion, unless the program has replied to
//! the message before: then the acknowledgement waits for the next reply. A program that ends
//! instead of replying calls `exit` or `_exit`, and both come here.

use std::ffi::c_int;
use std::process;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::messages;
use crate::running::Running;
use crate::threads::lock_until;

/// The longest wait for threads that hold a lock, together. A thread that another one has displaced
/// holds its lock for some time slices of the scheduler. A thread that a signal handler has
/// interrupted, which then ends the process, holds its lock for ever.
const LIMIT: Duration = Duration::from_millis(100);

/// The engines of this process.
static ENGINES: Mutex<Engines> = Mutex::new(Engines { process: 0, running: Vec::new() });

struct Engines {
    /// The process of the engines. A child of `vfork` shares this memory until it runs another
    /// program.
    process: u32,
    running: Vec<Weak<Running>>,
}

/// The last step.
static LAST: OnceLock<fn(Instant)> = OnceLock::new();

/// Has `step` called after all others. It gets the time until which it may wait for locks. Further
/// calls have no effect.
pub(crate) fn call_last(step: fn(Instant)) {
    // A second step is the same one.
    let _ = LAST.set(step);
}

/// Registers an engine that has started.
pub(crate) fn register(running: &Arc<Running>) {
    static HOOK: Once = Once::new();
    // SAFETY: the function stays valid, because the library is never unloaded. If the system has no
    // memory for the hook, `exit` acknowledges nothing.
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

/// Acknowledges messages and closes connections.
fn acknowledge() {
    let until = Instant::now() + LIMIT;
    messages::close_at_exit(until);
    close_engines(until);
    // A peer ends its queue pair with the connection, so its messages are acknowledged before.
    if let Some(hook) = LAST.get() {
        hook(until);
    }
}

/// Acknowledges messages.
fn close_engines(until: Instant) {
    let Some(engines) = lock_until(&ENGINES, until) else { return };
    if engines.process != process::id() {
        return;
    }
    for running in &engines.running {
        if let Some(running) = running.upgrade() {
            running.engine.acknowledge(until.saturating_duration_since(Instant::now()));
            // The last reference would end the engine, which takes too long here.
            std::mem::forget(running);
        }
    }
}

fn end(status: c_int) -> ! {
    acknowledge();
    loop {
        // SAFETY: the call takes a number and does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// Ends the process as `_exit` does. Programs call it by the names below.
pub extern "C" fn _exit(status: c_int) -> ! {
    end(status)
}

/// `_exit` and `_Exit` in the versions of glibc that programs link: 2.2.5 on x86-64, 2.17 on
/// aarch64. As in `providers.rs`, a name contains its version. New programs do not link these
/// names, because the versions are not the default.
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
