//! What the plugin and the engine say goes to NCCL's log.

use std::ffi::{CString, c_char, c_int, c_ulong, c_void};
use std::fmt::{self, Write};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// `ncclDebugLogger_t`.
pub type Logger =
    unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...) -> ();

/// `ncclDebugLogLevel` and `ncclDebugLogSubSys`.
const WARN: c_int = 2;
const INFO: c_int = 3;
const INIT_AND_NET: c_ulong = 1 | 16;

/// As `init` was told; null: nobody listens.
static LOGGER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Writes there from now on. `None` changes nothing.
pub(crate) fn use_logger(logger: Option<Logger>) {
    if let Some(logger) = logger {
        LOGGER.store(logger as *mut c_void, Ordering::Release);
    }
    // Refused where a program that has the plugin built in has a subscriber of its own.
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(ToNccl).unwrap_or(()));
}

struct ToNccl;

impl Subscriber for ToNccl {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::INFO)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        say(event.metadata(), &line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message, and after it the fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

fn say(metadata: &Metadata<'_>, line: &Line) {
    let logger = LOGGER.load(Ordering::Acquire);
    let text = format!("NET/Braid : {}{}", line.message, line.fields).replace('\0', "");
    let (Ok(text), Ok(file)) = (CString::new(text), CString::new(metadata.file().unwrap_or("")))
    else {
        return;
    };
    if logger.is_null() {
        return;
    }
    let level = if *metadata.level() <= Level::WARN { WARN } else { INFO };
    let at = metadata.line().unwrap_or(0) as c_int;
    // SAFETY: `use_logger` stored a function of this type; NCCL's lives as long as NCCL uses the plugin.
    let logger = unsafe { std::mem::transmute::<*mut c_void, Logger>(logger) };
    // SAFETY: C strings that outlive the call; the format takes exactly one.
    unsafe { logger(level, INIT_AND_NET, file.as_ptr(), at, c"%s".as_ptr(), text.as_ptr()) };
}
