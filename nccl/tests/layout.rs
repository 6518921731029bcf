//! The layouts of NCCL's structures, against sizes and offsets that a C compiler gives for NCCL's
//! headers on 64-bit Linux.

use std::mem::{offset_of, size_of};

use nccl_net_braid::abi::{v6, v7, v8, v9, v10, v11, v12};

#[test]
fn tables_have_as_many_pointers_as_their_headers_say() {
    let pointers = [
        size_of::<v6::Net>(),
        size_of::<v7::Net>(),
        size_of::<v8::Net>(),
        size_of::<v9::Net>(),
        size_of::<v10::Net>(),
        size_of::<v11::Net>(),
        size_of::<v12::Net>(),
    ];
    assert_eq!(pointers.map(|bytes| bytes / 8), [17, 19, 19, 20, 20, 22, 22]);
}

#[test]
fn properties_have_the_sizes_of_their_headers() {
    let sizes = [
        size_of::<v6::Properties>(),
        size_of::<v7::Properties>(),
        size_of::<v8::Properties>(),
        size_of::<v9::Properties>(),
        size_of::<v10::Properties>(),
        size_of::<v11::Properties>(),
        size_of::<v12::Properties>(),
    ];
    assert_eq!(sizes, [48, 56, 64, 104, 104, 112, 128]);
}

#[test]
fn fields_are_where_their_headers_have_them() {
    assert_eq!(offset_of!(v6::Properties, max_recvs), 44);
    assert_eq!(offset_of!(v7::Properties, net_device_version), 52);
    assert_eq!(offset_of!(v8::Properties, speed), 32);
    assert_eq!(offset_of!(v9::Properties, speed), 36);
    assert_eq!(offset_of!(v9::Properties, v_props), 64);
    assert_eq!(offset_of!(v9::Properties, max_p2p_bytes), 88);
    assert_eq!(offset_of!(v10::Properties, max_coll_bytes), 96);
    assert_eq!(offset_of!(v11::Properties, max_multi_request_size), 104);
    assert_eq!(offset_of!(v12::Properties, max_p2p_bytes), 104);
    assert_eq!(offset_of!(v12::Properties, rail_id), 124);
    assert_eq!(offset_of!(v12::Properties, plane_id), 126);
}
