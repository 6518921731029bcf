//! Snapshots of an engine through the C API.

use crate::pair::{everywhere, made, ok, queried, text, wr};
use braid_ffi::*;

#[test]
fn a_snapshot_has_what_the_queue_pair_says_itself() {
    everywhere(|pair| {
        let pieces = [pair.a.sge(0, 100_000)];
        let mut write = wr(1, BRAID_WR_WRITE, &pieces);
        let remote = pair.b.remote();
        (write.remote_addr, write.rkey) = (remote.addr, remote.rkey);
        pair.a.post_send(write);
        pair.complete(1, 0);
        // SAFETY: handles are open until they are closed here, and structs have the size that they
        // say.
        unsafe {
            let metrics = made(|metrics| braid_engine_query_metrics(pair.a.engine, metrics));
            let engine: braid_engine_metrics =
                queried(|engine| braid_metrics_get_engine(metrics, engine));
            assert_eq!((engine.queue_pairs, text(&engine.local_addr).is_empty()), (1, false));
            let qp: braid_qp_metrics = queried(|qp| braid_metrics_get_qp(metrics, 0, qp));
            let info: braid_qp_info = queried(|info| braid_qp_query(pair.a.qp, info));
            assert_eq!((qp.qp_num, qp.state), (info.qp_num, info.state));
            assert_eq!((text(&qp.peer), qp.cause), (text(&info.peer), BRAID_END_NONE));
            let counters: braid_qp_counters =
                queried(|counters| braid_metrics_get_qp_counters(metrics, 0, counters));
            assert!(counters.bytes_sent >= 100_000);
            let all: braid_engine_counters =
                queried(|counters| braid_metrics_get_counters(metrics, counters));
            assert!(all.datagrams_sent > 0);
            assert_eq!(qp.subflows, 1);
            let flow: braid_subflow_metrics =
                queried(|flow| braid_metrics_get_subflow(metrics, 0, 0, flow));
            assert_eq!((flow.stream, flow.rail), (BRAID_STREAM_REQUESTS, 0));
            assert!(flow.rtt_ns > 0 && flow.window > 0 && flow.rto_ns > flow.rtt_ns);
            let mut more: braid_qp_metrics = qp;
            assert_eq!(braid_metrics_get_qp(metrics, 1, &mut more), BRAID_ERR_INVALID);
            ok(braid_metrics_close(metrics));
            assert_eq!(braid_metrics_close(metrics), BRAID_ERR_HANDLE);
        }
    });
}
