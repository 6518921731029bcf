//! The library that `braid-run` preloads with the drop-in libibverbs. Programs look for the files
//! of RDMA devices in `/dev/infiniband` and in sysfs, and the library shows them those of Braid's
//! devices.
//!
//! Each function replaces the function of the C library that has the same name. If a path leads to
//! such a file, the function uses the path of the stand-in, in the directory that libibverbs makes
//! (`braid_device_files`). All other calls are passed on unchanged.
//!
//! `docs/libibverbs.md` gives the reasons, the cost, and the programs that this does not reach.
//!
//! # The caller's promise
//!
//! Arguments are as the manual page of the function requires. The SAFETY comments rely on nothing
//! else.
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
