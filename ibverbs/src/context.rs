//! Contexts, as programs hold them.

use std::mem::offset_of;
use std::sync::Arc;

use braid_verbs::abi::{ibv_context, verbs_context};

use crate::errno::Errno;
use crate::open_device::OpenDevice;

/// A context. Programs hold a pointer to `verbs.context`.
#[repr(C)]
pub(crate) struct Context {
    verbs: verbs_context,
    pub(crate) open: Arc<OpenDevice>,
}

impl Context {
    /// Makes a context for a program.
    pub(crate) fn make(verbs: verbs_context, open: Arc<OpenDevice>) -> *mut ibv_context {
        let context = Box::into_raw(Box::new(Context { verbs, open }));
        // SAFETY: the context has just been made.
        unsafe { &raw mut (*context).verbs.context }
    }

    /// The context that a program names.
    pub(crate) unsafe fn of<'a>(context: *mut ibv_context) -> Result<&'a Context, Errno> {
        if context.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise it is the last field of one that `Context::make` has
        // made.
        Ok(unsafe { &*whole(context) })
    }

    /// Frees a context.
    pub(crate) unsafe fn free(context: *mut ibv_context) -> Result<(), Errno> {
        if context.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise `Context::make` has made it and it is not used any more.
        drop(unsafe { Box::from_raw(whole(context)) });
        Ok(())
    }
}

fn whole(context: *mut ibv_context) -> *mut Context {
    context.cast::<u8>().wrapping_sub(offset_of!(Context, verbs.context)).cast()
}
