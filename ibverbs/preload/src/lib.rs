//! The library that `braid-run` preloads with the drop-in libibverbs: it shows programs the files
//! of Braid's devices where they look for those of NICs, in `/dev/infiniband` and in sysfs.
//!
//! Each function replaces the one of the C library that has its name. A path that leads to such
//! files is replaced by that of their stand-in, in the directory that libibverbs makes
//! (`braid_device_files`). Everything else is passed on unchanged.
//!
//! `docs/libibverbs.md` says why the calls are replaced, what that costs, and which programs it
//! does not reach.
//!
//! # The caller's promise
//!
//! Arguments are those that the manual page of the function asks for. The SAFETY comments rely on
//! that and on nothing else.
//!
//! # Cancellation
//!
//! A thread may be cancelled while it opens a file (`pthread_cancel(3)`). The C library then
//! unwinds the frames of these functions, so they are `C-unwind` and hold nothing that has to be
//! dropped.
#![allow(clippy::missing_safety_doc, reason = "it is the caller's promise, above, for all of them")]
#![allow(missing_docs, reason = "the functions are those of the manual pages")]

mod calls;
mod next;
mod place;
mod resolve;

pub use self::calls::*;
pub use self::resolve::*;
