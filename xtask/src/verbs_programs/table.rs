//! The programs, and with which options they run.

/// A program at both ends.
pub struct Case {
    pub program: &'static str,
    pub options: &'static str,
    /// Variables of the environment.
    pub settings: &'static [(&'static str, &'static str)],
}

/// One datagram in a hundred is lost, in both directions.
const LOSS: &[(&str, &str)] = &[("BRAID_DROP", "0.01")];

const RC_UCX: &[(&str, &str)] = &[("UCX_NET_DEVICES", "braid0:1"), ("UCX_TLS", "rc_v,ud_v")];
const UD_UCX: &[(&str, &str)] = &[("UCX_NET_DEVICES", "braid0:1"), ("UCX_TLS", "ud_v")];

macro_rules! cases {
    ($($program:literal $options:literal $settings:expr;)*) => {
        &[$(Case { program: $program, options: $options, settings: $settings }),*]
    };
}

pub const PROGRAMS: &[Case] = cases! {
    "ibv_rc_pingpong" "-d braid0 -g 0 -n 200 -c" &[];
    "ibv_rc_pingpong" "-d braid0 -g 0 -n 200 -c -e" &[];
    "ibv_rc_pingpong" "-d braid0 -g 0 -n 200 -c" LOSS;
    "ibv_uc_pingpong" "-d braid0 -g 0 -n 200 -c" &[];
    "ibv_ud_pingpong" "-d braid0 -g 0 -n 200 -c" &[];
    "ibv_srq_pingpong" "-d braid0 -g 0 -n 200 -c" &[];
    "ib_write_bw" "-d braid0 -a -n 50" &[];
    "ib_write_bw" "-d braid0 -b -n 200" &[];
    "ib_write_bw" "-d braid0 -q 16 -n 50" &[];
    "ib_write_bw" "-d braid0 -n 200" LOSS;
    "ib_write_bw" "-d braid0 -c UC -n 200" &[];
    "ib_write_lat" "-d braid0 -n 100" &[];
    "ib_write_lat" "-d braid0 -I 64 -n 100" &[];
    "ib_read_bw" "-d braid0 -n 200" &[];
    "ib_read_lat" "-d braid0 -n 100" &[];
    "ib_send_bw" "-d braid0 -a -n 50" &[];
    "ib_send_bw" "-d braid0 -b -e -n 200" &[];
    "ib_send_bw" "-d braid0 --use-srq -q 4 -r 64 -n 100" &[];
    "ib_send_bw" "-d braid0 -n 200" LOSS;
    "ib_send_bw" "-d braid0 -c UD -n 200" &[];
    "ib_send_bw" "-d braid0 -c UD -q 4 -n 100" LOSS;
    "ib_send_lat" "-d braid0 -n 100" &[];
    "ib_send_lat" "-d braid0 -e -n 100" &[];
    "ib_send_lat" "-d braid0 -c UD -n 100" &[];
    "ib_atomic_bw" "-d braid0 -n 200" &[];
    "ib_atomic_lat" "-d braid0 -A CMP_AND_SWAP -n 100" &[];
    "ucx_perftest" "-t tag_bw -n 300 -s 4096" RC_UCX;
    "ucx_perftest" "-t tag_bw -n 100 -s 100000" RC_UCX;
    "ucx_perftest" "-t ucp_put_bw -n 300 -s 4096" RC_UCX;
    "ucx_perftest" "-t ucp_get -n 100 -s 4096" RC_UCX;
    "ucx_perftest" "-t tag_lat -n 100" UD_UCX;
};
