//! Benchmarks and tests that others wrote for verbs: fio's RDMA engine, qperf, and UCX's lower
//! layer (UCT).

use super::pair::{End, ProgramPair};
use super::table::{HOST, LOSS, ProgramCase, cases};
use crate::Failure;

/// fio says so of a work request that has failed, and may exit with 0 all the same.
const FAILED: &str = "cq completion status";

/// fio's server takes what the client decides on. `verb=send` is not run, because it fails with any
/// device on a busy machine: fio's server posts the first receives half a second after it has
/// accepted. Its client sends after as long, with `rnr_retry_count` 0.
const FIO_WRITE: (&str, &str) =
    ("--name=server --rw=read", "--name=client --rw=write --verb=write --hostname={host}");
const FIO_READ: (&str, &str) =
    ("--name=server --rw=read", "--name=client --rw=write --verb=read --hostname={host}");

const QPERF: (&str, &str) = (
    "",
    "-t 1 -cm 1 {host} rc_lat rc_bw rc_bi_bw rc_rdma_write_lat rc_rdma_write_poll_lat rc_rdma_write_bw rc_rdma_read_lat \
     rc_rdma_read_bw rc_compare_swap_mr rc_fetch_add_mr quit",
);

/// UCT has no `get` of short data and no `swap` over any verbs device, and its active messages of
/// short data have 63 bytes at most.
pub(super) const BENCHMARKS: &[ProgramCase] = cases! {
    "fio" at 18615 "--ioengine=rdma --port=18615 --bs=64k --size=32m --iodepth=16" FIO_WRITE &[];
    "fio" at 18615 "--ioengine=rdma --port=18615 --bs=64k --size=32m --iodepth=16" FIO_WRITE LOSS;
    "fio" at 18615 "--ioengine=rdma --port=18615 --bs=64k --size=32m --iodepth=16" FIO_READ &[];
    "fio" at 18615 "--ioengine=rdma --port=18615 --bs=64k --size=32m --iodepth=16" FIO_READ LOSS;
    "qperf" at 18615 "-lp 18615" QPERF &[];
    "ucx_perftest" "-x rc_verbs -d braid0:1 -t am_lat -n 200" HOST &[];
    "ucx_perftest" "-x rc_verbs -d braid0:1 -t am_bw -D bcopy -s 4096 -n 200" HOST &[];
    "ucx_perftest" "-x rc_verbs -d braid0:1 -t am_bw -D zcopy -s 4096 -n 200" HOST LOSS;
    "ucx_perftest" "-x rc_verbs -d braid0:1 -t put_lat -n 200" HOST &[];
    "ucx_perftest" "-x rc_verbs -d braid0:1 -t put_bw -D zcopy -s 4096 -n 200" HOST LOSS;
    "ucx_perftest" "-x rc_verbs -d braid0:1 -t get -D bcopy -n 200" HOST &[];
    "ucx_perftest" "-x rc_verbs -d braid0:1 -t get -D zcopy -s 4096 -n 200" HOST LOSS;
    "ucx_perftest" "-x rc_verbs -d braid0:1 -t add_mr -n 200" HOST &[];
    "ucx_perftest" "-x rc_verbs -d braid0:1 -t fadd -n 200" HOST &[];
    "ucx_perftest" "-x rc_verbs -d braid0:1 -t cswap -n 200" HOST &[];
    "ucx_perftest" "-x ud_verbs -d braid0:1 -t am_lat -n 200" HOST LOSS;
};

/// Fails where a program has exited with 0 and has said that something went wrong.
pub(super) fn check(pair: &ProgramPair<'_>) -> Result<(), Failure> {
    for end in [End::Server, End::Client] {
        let said = pair.said(end);
        if said.contains(FAILED) {
            return Err(Failure::new(format!("a work request has failed:\n{said}")));
        }
    }
    Ok(())
}
