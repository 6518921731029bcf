//! Errors on a machine without RDMA. With a device, the error lists the devices.

use std::fs;

use braid_verbs::{Context, VerbsError, device_names};

#[test]
fn the_library_is_opened_when_it_is_asked_for_and_what_is_missing_is_named() {
    let loaded = || fs::read_to_string("/proc/self/maps").expect("Linux").contains("libibverbs");
    assert!(!loaded(), "something links to libibverbs");
    let open = Context::open("no-such-device").expect_err("no device is called so");
    let text = open.to_string();
    match (&open, device_names()) {
        (VerbsError::UnknownDevice { name, known }, Ok(names)) => {
            assert_eq!((name.as_str(), known), ("no-such-device", &names));
            assert!(!names.is_empty() && text.contains(&names.join(", ")), "{text}");
        }
        (VerbsError::Library { .. }, Err(names)) => {
            assert!(text.starts_with("no RDMA device: libibverbs.so.1 cannot be used"), "{text}");
            assert!(!loaded() && names.to_string() == text);
        }
        (VerbsError::NoDevice { .. } | VerbsError::NoProvider { .. }, Err(names)) => {
            assert!(text.starts_with("no RDMA device: the kernel "), "{text}");
            assert!(loaded() && names.to_string() == text);
        }
        (open, names) => panic!("{open} does not go with {names:?}"),
    }
}
