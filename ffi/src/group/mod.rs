//! Groups of processes that exchange data, each with each.

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

/// A rank's membership of a group: an all-to-all with counts by peer, as MPI_Alltoallv.
pub struct braid_group {
    pub(crate) group: Group,
    children: Children,
    /// Where the engine receives.
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

/// Finds the other ranks and connects with each. The engine must not listen while it joins; it may afterwards. It can be in
/// several groups.
///
/// Every rank has an error within `timeout_us` and a few seconds if any is missing or says something else than the others:
/// BRAID_ERR_REJECTED with the same text at all, BRAID_ERR_UNREACHABLE where rank 0, or another, was not reached.
///
/// Threads: any. It waits.
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

/// Leaves the group. The other ranks are told; a round that is not over ends there with an error that names this rank. When
/// this returns 0, nobody touches the memory of its rounds any more.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it, or a round of it has not been closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_close(group: *mut braid_group) -> c_int {
    enter(|| take(group).map(|_| 0))
}

/// This process's number in the group, from 0.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_rank(group: *const braid_group) -> c_int {
    enter(|| Ok(find(group)?.group.rank() as c_int))
}

/// How many ranks there are.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_size(group: *const braid_group) -> c_int {
    enter(|| Ok(find(group)?.group.size() as c_int))
}

/// Makes a handle of the protection domain that the memory of the group's rounds is registered with. It is closed as any other,
/// after its regions, and may outlast the group.
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
