//! Keyed connections through the C API: each end learns the name of its peer.

use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::thread;

use crate::pair::{PATIENCE_US, Side, config, last_error, made, ok, text};
use braid_ffi::*;

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Self {
        let path = std::env::temp_dir().join(format!("braid-ffi-keyed-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> CString {
        CString::new(self.0.join(name).into_os_string().into_encoded_bytes()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Returns the text that a function writes.
fn name(write: impl FnOnce(*mut c_char, usize) -> c_int) -> String {
    let mut room = [1; BRAID_PEER_NAME_LEN];
    ok(write(room.as_mut_ptr(), room.len()));
    text(&room)
}

fn peer_of(side: &Side) -> String {
    // SAFETY: a handle, and room of that size.
    name(|text, size| unsafe { braid_qp_peer_name(side.qp, text, size) })
}

#[test]
fn both_ends_are_told_the_names_of_the_keys_that_the_other_has() {
    let folder = Folder::make();
    let keys = ["a", "b"].map(|name| braid::make_private_key(folder.0.join(name)).unwrap());
    let lines = format!("{} # node 1\n{} # node 2\n", keys[0], keys[1]);
    fs::write(folder.0.join("list"), lines).unwrap();
    let allowed = folder.file("list");
    let [a, b] = ["a", "b"].map(|own| {
        let key = folder.file(own);
        let (key_file, allowed_keys) = (key.as_ptr(), allowed.as_ptr());
        Side::new(&braid_engine_config { key_file, allowed_keys, ..config(1, null_mut()) })
    });
    assert_eq!(peer_of(&a), "", "it is not connected");
    // SAFETY: handles, and values that live as long as the calls.
    unsafe {
        let listener = made(|listener| braid_listener_create(b.engine, 1, listener));
        thread::scope(|scope| {
            scope.spawn(|| a.connect(&b.local_addr()));
            let request = made(|request| braid_listener_accept(listener, PATIENCE_US, request));
            let asks = name(|text, size| braid_request_peer_name(request, text, size));
            assert_eq!(asks, "node 1");
            let mut short = [1; 6];
            let refused = braid_request_peer_name(request, short.as_mut_ptr(), short.len());
            assert!(refused < 0 && last_error().contains('7'), "{refused}: {}", last_error());
            ok(braid_request_accept(request, b.qp, null(), 0));
        });
        ok(braid_listener_close(listener));
    }
    assert_eq!([peer_of(&a), peer_of(&b)], ["node 2", "node 1"]);
    a.close();
    b.close();
}
