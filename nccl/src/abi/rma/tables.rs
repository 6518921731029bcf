//! The tables, from one list of members.

use std::ptr;

use super::super::calls::{devices, finalize};
use super::super::properties::get_rma_properties;
use super::super::tables::{NAME, Table};
use super::{contexts, groups, operations};

const MEMBERS: usize = 21;

/// The table of a version, with its members in the order of `gin_v13.h` and `rma_v14.h`.
const fn table<const VERSION: u8>() -> Table<MEMBERS> {
    let (create_context, reg_mr_sym, reg_mr_sym_dma_buf, iput_signal, query) = match VERSION {
        13 => (
            contexts::create_context_v13 as *const (),
            groups::reg_mr_sym_v13 as *const (),
            groups::reg_mr_sym_dma_buf_v13 as *const (),
            operations::iput_signal_v13 as *const (),
            // NCCL 2.30.4 passes a structure of its own where the context belongs
            // (`ncclGinProxyQueryLastError`), unless the member is NULL.
            ptr::null(),
        ),
        _ => (
            contexts::create_context as *const (),
            groups::reg_mr_sym as *const (),
            groups::reg_mr_sym_dma_buf as *const (),
            operations::iput_signal as *const (),
            contexts::query_last_error as *const (),
        ),
    };
    Table::new([
        NAME.cast(),
        groups::init as *const (),
        devices as *const (),
        get_rma_properties as *const (),
        groups::listen::<VERSION> as *const (),
        groups::connect as *const (),
        create_context,
        reg_mr_sym,
        reg_mr_sym_dma_buf,
        groups::dereg_mr_sym as *const (),
        contexts::destroy_context as *const (),
        groups::close_coll as *const (),
        groups::close_listen as *const (),
        operations::iput as *const (),
        iput_signal,
        operations::iget as *const (),
        operations::iflush as *const (),
        operations::test as *const (),
        contexts::progress as *const (),
        query,
        finalize as *const (),
    ])
}

macro_rules! export {
    ($($(#[$doc:meta])* $name:ident = $version:literal;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals, reason = "the name is NCCL's")]
        pub static $name: Table<MEMBERS> = table::<$version>();
    )*};
}

export! {
    /// NCCL 2.30.4, for kernels. NCCL 2.30.7 prefers its proxy over an RMA table.
    ncclGinPlugin_v13 = 13;
    /// NCCL 2.30.4, for puts and signals of the host.
    ncclRmaPlugin_v13 = 13;
    /// NCCL 2.30.7, for both.
    ncclRmaPlugin_v14 = 14;
}
