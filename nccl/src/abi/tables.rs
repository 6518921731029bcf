//! The tables `ncclNetPlugin_v6` to `ncclNetPlugin_v12`, all from one list of members.
//!
//! A table of NCCL's is a structure of pointers: a name, and a function or NULL for each call.

use std::ffi::c_char;
use std::ops::RangeInclusive;
use std::ptr;

use super::calls::{self, int_sizes, profiled, unprofiled};
use super::properties::get_properties;
use super::virtual_device::make_v_device;

/// The plugin's name in every table.
pub(super) const NAME: *const c_char = c"Braid".as_ptr();

/// A table with `N` members.
#[repr(C)]
#[derive(Debug)]
pub struct Table<const N: usize>([*const (); N]);

impl<const N: usize> Table<N> {
    /// Makes a table of its members, in the order of NCCL's header.
    pub(super) const fn new(members: [*const (); N]) -> Self {
        Table(members)
    }
}

// SAFETY: nobody writes to a table; it holds addresses of functions and of a constant string.
unsafe impl<const N: usize> Sync for Table<N> {}

/// A member of the tables of some versions.
type Member = (RangeInclusive<u32>, *const ());

const LAST: u32 = 12;
const NULL: *const () = ptr::null();

/// The members of the tables, in their order in NCCL's headers `net_vN.h`.
#[rustfmt::skip]
const fn members<const VERSION: u32>() -> [Member; 35] {
    [
        (6..=LAST, NAME.cast()),
        (6..=9, calls::init_v6 as *const ()),
        (10..=10, calls::init_v10 as *const ()),
        (11..=LAST, calls::init as *const ()),
        (6..=LAST, calls::devices as *const ()),
        (6..=LAST, get_properties::<VERSION> as *const ()),
        (6..=10, calls::listen_v6 as *const ()),
        (11..=LAST, calls::listen as *const ()),
        (6..=6, calls::connect_v6 as *const ()),
        (7..=9, calls::connect_v7 as *const ()),
        (10..=10, calls::connect_v10 as *const ()),
        (11..=LAST, calls::connect as *const ()),
        (6..=6, calls::accept_v6 as *const ()),
        (7..=LAST, calls::accept as *const ()),
        (6..=7, int_sizes::reg_mr as *const ()),
        (8..=LAST, calls::reg_mr as *const ()),
        (6..=LAST, NULL), // regMrDmaBuf
        (6..=LAST, calls::dereg_mr as *const ()),
        (6..=8, int_sizes::isend as *const ()),
        (9..=9, unprofiled::isend as *const ()),
        (10..=LAST, profiled::isend as *const ()),
        (6..=8, int_sizes::irecv as *const ()),
        (9..=9, unprofiled::irecv as *const ()),
        (10..=LAST, profiled::irecv as *const ()),
        (6..=LAST, calls::iflush as *const ()),
        (6..=LAST, calls::test as *const ()),
        (6..=LAST, calls::close as *const ()), // closeSend
        (6..=LAST, calls::close as *const ()), // closeRecv
        (6..=LAST, calls::close_listen as *const ()),
        (7..=LAST, NULL), // getDeviceMr
        (7..=LAST, NULL), // irecvConsumed
        (9..=11, make_v_device::<4> as *const ()),
        (12..=LAST, make_v_device::<8> as *const ()),
        (11..=LAST, calls::finalize as *const ()),
        (11..=LAST, NULL), // setNetAttr
    ]
}

/// The table of a version, which has to have `N` members.
const fn table<const VERSION: u32, const N: usize>() -> Table<N> {
    let members = members::<VERSION>();
    let mut pointers = [NULL; N];
    let (mut from, mut to) = (0, 0);
    while from < members.len() {
        let (versions, pointer) = &members[from];
        if *versions.start() <= VERSION && VERSION <= *versions.end() {
            pointers[to] = *pointer;
            to += 1;
        }
        from += 1;
    }
    assert!(to == N, "a version has another number of members");
    Table(pointers)
}

macro_rules! export {
    ($($(#[$doc:meta])* $name:ident = $version:literal with $members:literal;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals, reason = "the name is NCCL's")]
        pub static $name: Table<$members> = table::<$version, $members>();
    )*};
}

export! {
    /// NCCL 2.13 to 2.18: sizes are an `int`.
    ncclNetPlugin_v6 = 6 with 17;
    /// NCCL 2.19: `connect` and `accept` have a place for a part of the network on the GPU.
    ncclNetPlugin_v7 = 7 with 19;
    /// NCCL 2.20 to 2.23: `regMr` takes a `size_t`.
    ncclNetPlugin_v8 = 8 with 19;
    /// NCCL 2.24 and 2.25: sizes of messages are a `size_t`, and there are virtual devices.
    ncclNetPlugin_v9 = 9 with 20;
    /// NCCL 2.26 and 2.27: `init` and messages have handles of the profiler.
    ncclNetPlugin_v10 = 10 with 20;
    /// NCCL 2.28 and 2.29: each communicator has a context, from `init` to `finalize`.
    ncclNetPlugin_v11 = 11 with 22;
    /// NCCL 2.30: rails and planes, and virtual devices of up to eight.
    ncclNetPlugin_v12 = 12 with 22;
}
