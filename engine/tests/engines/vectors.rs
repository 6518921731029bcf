//! Vectors as registered memory.

use crate::pair::{PATIENCE, Pair, everywhere};
use braid::{Access, RegisterError, Status, wr};

#[test]
fn a_vector_is_read_and_written_by_a_peer_and_comes_back() {
    everywhere(|pair: &Pair| {
        let bytes: Vec<u8> = (0..100).collect();
        let mut sent = Vec::with_capacity(4096);
        sent.extend_from_slice(&bytes);
        let from = pair.a.pd.register_vec(sent, Access::NONE).unwrap();
        let to = pair.b.pd.register_vec(vec![0; 100], Access::ALL).unwrap();
        let write = wr::write(1, [from.slice(..).unwrap()], to.remote().at(0));
        pair.a.qp.post_send(write).unwrap();
        let done = loop {
            // One thread drives both engines.
            let _ = pair.b.cq.poll_one().unwrap();
            if let Some(done) = pair.a.cq.poll_one().unwrap() {
                break done;
            }
        };
        assert_eq!(done.status, Status::Success);
        let remote = to.remote();
        assert_eq!(to.into_vec().unwrap(), bytes);
        let from = from.into_vec().unwrap();
        assert_eq!((from.len(), from.capacity()), (100, 4096));
        // The peer can write there no longer.
        let memory = pair.a.memory.slice(..8).unwrap();
        pair.a.qp.post_send(wr::write(2, [memory], remote.at(0))).unwrap();
        let done = loop {
            let _ = pair.b.cq.poll_one().unwrap();
            if let Some(done) = pair.a.cq.poll_one().unwrap() {
                break done;
            }
        };
        assert_eq!(done.status, Status::RemoteAccess);
    });
}

#[test]
fn a_vector_that_is_not_registered_comes_back_with_the_reason() {
    everywhere(|pair: &Pair| {
        let error = pair.a.pd.register_vec(Vec::with_capacity(7), Access::ALL).unwrap_err();
        assert!(matches!(error.source, RegisterError::Empty) && error.bytes.capacity() == 7);
        assert_eq!(error.to_string(), RegisterError::Empty.to_string());
        let other = pair.a.pd.alloc_mr(8, Access::NONE).unwrap();
        assert_eq!(other.into_vec().unwrap_err().len(), 8);
        // Dropping the region frees the vector.
        drop(pair.a.pd.register_vec(vec![1; 1 << 20], Access::NONE).unwrap());
        assert!(pair.a.cq.wait_one(PATIENCE / 1000).unwrap().is_none());
    });
}
