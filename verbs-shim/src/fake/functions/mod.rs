//! The functions of the fake library.
//!
//! SAFETY of all unsafe code in here: only this crate calls these functions, with pointers that
//! they returned, or to memory of the types in their prototypes.

mod call;
mod completion;
mod device;
mod memory;
mod post;
mod queue_pair;

use self::completion::*;
use self::device::*;
use self::memory::*;
use self::queue_pair::*;
use crate::abi::*;

/// The functions of the fake library.
pub(super) static SYMBOLS: Symbols = Symbols {
    ibv_get_device_list,
    ibv_free_device_list,
    ibv_get_device_name,
    ibv_open_device,
    ibv_close_device,
    ibv_get_async_event,
    ibv_ack_async_event,
    ibv_query_device,
    ibv_query_port,
    ibv_query_gid,
    ibv_alloc_pd,
    ibv_dealloc_pd,
    ibv_reg_mr,
    ibv_dereg_mr,
    ibv_create_comp_channel,
    ibv_destroy_comp_channel,
    ibv_create_cq,
    ibv_destroy_cq,
    ibv_get_cq_event,
    ibv_ack_cq_events,
    ibv_create_srq,
    ibv_destroy_srq,
    ibv_create_qp,
    ibv_modify_qp,
    ibv_query_qp,
    ibv_destroy_qp,
    ibv_create_ah,
    ibv_destroy_ah,
};
