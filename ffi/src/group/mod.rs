//! Groups of processes that exchange data all-to-all.

mod config;
mod end;
mod round;

pub use config::*;
pub use end::*;
pub use round::*;

use std::ffi::c_int;
use std::net::IpAddr;

use braid::Group;

use crate::arguments::Out;
use crate::boundary::enter;
use crate::failure::Failure;
use crate::handle::{Child, Children, find, hand_out, object, take};
use crate::{braid_engine, braid_pd};

/// A rank's membership of a group: an all-to-all with counts per peer, like MPI_Alltoallv.
pub struct braid_group {
    pub(crate) group: Group,
    children: Children,
    /// The receiving address of the engine.
    ours: IpAddr,
    engine: Child,
}

object!(
    braid_group,
    12,
    "group",
    fn may_close(&self) -> Result<(), Failure> {
        self.children.none("group")
    }
);

/// Connects to all other ranks. The engine must not listen during the call. It can belong to
/// several groups.
///
/// If a rank is missing or provides a different configuration, every rank gets an error within
/// `timeout_us` and a few seconds. The error is BRAID_ERR_REJECTED with the same text at all ranks,
/// or BRAID_ERR_UNREACHABLE if rank 0 or another rank was not reached.
///
/// Threads: any. The call waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_join(
    engine: *mut braid_engine,
    config: *const braid_group_config,
    group: *mut *mut braid_group,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (out, config) =
            unsafe { (Out::new(group, "group")?, braid_group_config::read(config)?) };
        let engine = find(engine)?;
        let group = Group::join(&engine.engine, &config)?;
        out.set(hand_out(braid_group {
            group,
            children: Children::default(),
            ours: engine.engine.local_addr().ip(),
            engine: engine.children.add(),
        })?);
        Ok(0)
    })
}

/// Leaves the group and notifies the other ranks. An unfinished round ends there with an error that
/// names this rank. When this returns 0, no rank accesses the memory of its rounds any more.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it, or a round of it has
/// not been closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_close(group: *mut braid_group) -> c_int {
    enter(|| take(group).map(|_| 0))
}

/// Returns the rank of this process, from 0.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_rank(group: *const braid_group) -> c_int {
    enter(|| Ok(find(group)?.group.rank() as c_int))
}

/// Returns the number of ranks.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_size(group: *const braid_group) -> c_int {
    enter(|| Ok(find(group)?.group.size() as c_int))
}

/// Creates a handle of the protection domain in which the memory of the group's rounds must be
/// registered. The handle is closed like any other, after its regions, and may outlive the group.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_pd(
    group: *const braid_group,
    pd: *mut *mut braid_pd,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(pd, "pd") }?;
        let group = find(group)?;
        let pd = braid_pd::of_group(group.group.pd(), group.ours, group.engine.clone());
        out.set(hand_out(pd)?);
        Ok(0)
    })
}
