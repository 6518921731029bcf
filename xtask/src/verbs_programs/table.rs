//! The programs, and with which options they run.

/// A program at both ends.
pub(super) struct ProgramCase {
    pub(super) program: &'static str,
    /// The same, but where the two ends are two programs.
    pub(super) server: &'static str,
    pub(super) options: &'static str,
    /// Further arguments of the server and of the client. `{host}` is the server's address.
    pub(super) ends: (&'static str, &'static str),
    /// The port of a server that takes none as an argument.
    pub(super) port: Option<u16>,
    /// Variables of the environment.
    pub(super) settings: &'static [(&'static str, &'static str)],
}

/// One datagram in a hundred is lost, in both directions.
pub(super) const LOSS: &[(&str, &str)] = &[("BRAID_DROP", "0.01")];

/// Two rails as one device.
const RAILS: &[(&str, &str)] =
    &[("BRAID_RAILS", "127.0.0.1,127.0.0.2"), ("BRAID_LOSS_RECOVERY", "ooo-window")];
const RAILS_LOSS: &[(&str, &str)] = &[RAILS[0], RAILS[1], LOSS[0]];

/// Over TCP connections.
const TCP: &[(&str, &str)] = &[("BRAID_DATAPATH", "tcp")];

pub(super) const RC_UCX: &[(&str, &str)] =
    &[("UCX_NET_DEVICES", "braid0:1"), ("UCX_TLS", "rc_v,ud_v")];
const UD_UCX: &[(&str, &str)] = &[("UCX_NET_DEVICES", "braid0:1"), ("UCX_TLS", "ud_v")];
const RC_UCX_TCP: &[(&str, &str)] = &[RC_UCX[0], RC_UCX[1], TCP[0]];
const RC_UCX_LOSS: &[(&str, &str)] = &[RC_UCX[0], RC_UCX[1], LOSS[0]];
const UD_UCX_LOSS: &[(&str, &str)] = &[UD_UCX[0], UD_UCX[1], LOSS[0]];

/// The client is told where the server is; rping, ucmatose, udaddy and rdma_client in their own
/// ways.
pub(super) const HOST: (&str, &str) = ("", "{host}");
const RPING: (&str, &str) = ("-s -a {host}", "-c -a {host}");
/// The server's second address between namespaces.
const RPING_V6: (&str, &str) = ("-s -a fd00::1", "-c -a fd00::1");
const UDADDY_V6: (&str, &str) = ("-b fd00::1", "-s fd00::1");
const S_HOST: (&str, &str) = ("", "-s {host}");

macro_rules! cases {
    ($($program:literal $(with $server:literal)? $(at $port:literal)? $options:literal $ends:ident $settings:expr;)*) => {
        &[$(ProgramCase {
            program: $program,
            server: {
                const PROGRAMS: &[&str] = &[$program, $($server)?];
                PROGRAMS[PROGRAMS.len() - 1]
            },
            options: $options,
            port: {
                const PORTS: &[Option<u16>] = &[None, $(Some($port))?];
                PORTS[PORTS.len() - 1]
            },
            ends: $ends,
            settings: $settings,
        }),*]
    };
}
pub(super) use cases;

pub(super) const PROGRAMS: &[ProgramCase] = cases! {
    "ibv_rc_pingpong" "-d braid0 -g 0 -n 200 -c" HOST &[];
    "ibv_rc_pingpong" "-d braid0 -g 0 -n 200 -c -e" HOST &[];
    "ibv_rc_pingpong" "-d braid0 -g 0 -n 200 -c" HOST LOSS;
    "ibv_uc_pingpong" "-d braid0 -g 0 -n 200 -c" HOST &[];
    "ibv_ud_pingpong" "-d braid0 -g 0 -n 200 -c" HOST &[];
    "ibv_srq_pingpong" "-d braid0 -g 0 -n 200 -c" HOST &[];
    "ib_write_bw" "-d braid0 -a -n 50" HOST &[];
    "ib_write_bw" "-d braid0 -b -n 200" HOST &[];
    "ib_write_bw" "-d braid0 -q 16 -n 50" HOST &[];
    "ib_write_bw" "-d braid0 -n 200" HOST LOSS;
    "ib_write_bw" "-d braid0 -c UC -n 200" HOST &[];
    "ib_write_lat" "-d braid0 -n 100" HOST &[];
    "ib_write_lat" "-d braid0 -I 64 -n 100" HOST &[];
    "ib_read_bw" "-d braid0 -n 200" HOST &[];
    "ib_read_lat" "-d braid0 -n 100" HOST &[];
    "ib_send_bw" "-d braid0 -a -n 50" HOST &[];
    "ib_send_bw" "-d braid0 -b -e -n 200" HOST &[];
    "ib_send_bw" "-d braid0 --use-srq -q 4 -r 64 -n 100" HOST &[];
    "ib_send_bw" "-d braid0 -n 200" HOST LOSS;
    "ib_send_bw" "-d braid0 -c UD -n 200" HOST &[];
    "ib_send_bw" "-d braid0 -c UD -q 4 -n 100" HOST LOSS;
    "ib_send_lat" "-d braid0 -n 100" HOST &[];
    "ib_send_lat" "-d braid0 -c UD -n 100" HOST &[];
    "ib_atomic_bw" "-d braid0 -n 200" HOST &[];
    "ib_atomic_lat" "-d braid0 -A CMP_AND_SWAP -n 100" HOST &[];
    "ib_write_bw" "-d braid0 -R -n 200" HOST &[];
    "ib_send_lat" "-d braid0 -R -n 50" HOST &[];
    "ib_send_bw" "-d braid0 -c UD -R -n 200" HOST &[];
    "ib_send_bw" "-d braid0 -c UD -R -q 4 -n 100" HOST LOSS;
    "ib_send_lat" "-d braid0 -c UD -R -n 100" HOST &[];
    "ib_write_bw" "-d braid0 -n 200" HOST RAILS;
    "ib_read_bw" "-d braid0 -n 200" HOST RAILS_LOSS;
    "ib_send_bw" "-d braid0 -b -e -R -n 200" HOST RAILS;
    "rping" "-C 20 -V" RPING &[];
    "rping" "-C 20 -V" RPING LOSS;
    "rping" "-C 20 -V" RPING RAILS;
    "ucmatose" "-C 20 -S 4096" S_HOST &[];
    "udaddy" at 7174 "-c 4 -C 20 -S 4096" S_HOST &[];
    "udaddy" at 7174 "-c 4 -C 20 -S 1024" S_HOST LOSS;
    "rdma_client" with "rdma_server" "" S_HOST &[];
    "rdma_client" with "rdma_server" "" S_HOST LOSS;
    "fi_pingpong" at 47592 "-c -p verbs -e msg -I 50" HOST &[];
    "fi_pingpong" at 47592 "-c -p verbs -e msg -I 50" HOST LOSS;
    "fi_pingpong" at 47592 "-c -p verbs;ofi_rxm -e rdm -I 50" HOST &[];
    "fi_pingpong" at 47592 "-c -p verbs;ofi_rxm -e rdm -I 50" HOST LOSS;
    "rdma_xclient" with "rdma_xserver" "" S_HOST &[];
    "ucx_perftest" "-t tag_bw -n 300 -s 4096" HOST RC_UCX;
    "ucx_perftest" "-t tag_bw -n 100 -s 100000" HOST RC_UCX;
    "ucx_perftest" "-t ucp_put_bw -n 300 -s 4096" HOST RC_UCX;
    "ucx_perftest" "-t ucp_get -n 100 -s 4096" HOST RC_UCX;
    "ucx_perftest" "-t tag_lat -n 100" HOST UD_UCX;
    "ucx_perftest" "-t tag_bw -n 300 -s 4096" HOST RC_UCX_LOSS;
    "ucx_perftest" "-t tag_bw -n 100 -s 100000" HOST RC_UCX_LOSS;
    "ucx_perftest" "-t ucp_put_bw -n 300 -s 4096" HOST RC_UCX_LOSS;
    "ucx_perftest" "-t ucp_get -n 100 -s 4096" HOST RC_UCX_LOSS;
    "ucx_perftest" "-t tag_lat -n 100" HOST UD_UCX_LOSS;
    "ibv_rc_pingpong" "-d braid0 -g 0 -n 200 -c" HOST TCP;
    "ibv_srq_pingpong" "-d braid0 -g 0 -n 200 -c" HOST TCP;
    "ib_write_bw" "-d braid0 -a -n 50" HOST TCP;
    "ib_write_lat" "-d braid0 -n 100" HOST TCP;
    "ib_send_bw" "-d braid0 -c UD -n 200" HOST TCP;
    "rping" "-C 20 -V" RPING TCP;
    "fi_pingpong" at 47592 "-c -p verbs;ofi_rxm -e rdm -I 50" HOST TCP;
    "ucx_perftest" "-t tag_bw -n 100 -s 100000" HOST RC_UCX_TCP;
    "ucx_perftest" "-t ucp_get -n 100 -s 4096" HOST RC_UCX_TCP;
};

/// Between two network namespaces, whose first device has an IPv6 address as its GID 1.
pub(super) const BETWEEN_HOSTS: &[ProgramCase] = cases! {
    "ib_write_bw" "-d braid0 -n 200" HOST &[];
    "ib_write_bw" "-d braid0 -R -n 200" HOST &[];
    "ib_write_bw" "-d braid0 -n 200" HOST LOSS;
    "ib_write_lat" "-d braid0 -n 100" HOST &[];
    "ib_read_bw" "-d braid0 -n 200" HOST &[];
    "ib_read_bw" "-d braid0 -n 200" HOST LOSS;
    "ib_send_bw" "-d braid0 -b -e -n 200" HOST &[];
    "ib_send_bw" "-d braid0 -c UD -n 200" HOST &[];
    "ib_send_lat" "-d braid0 -R -n 50" HOST &[];
    "ib_send_bw" "-d braid0 -c UD -R -n 200" HOST &[];
    "ib_atomic_bw" "-d braid0 -n 200" HOST &[];
    "ib_write_bw" "-d braid0 -x 1 -n 200" HOST &[];
    "ib_send_bw" "-d braid0 -x 1 -c UD -n 200" HOST LOSS;
    "rping" "-C 20 -V" RPING &[];
    "rping" "-C 20 -V" RPING_V6 &[];
    "udaddy" at 7174 "-c 4 -C 20 -S 1024" S_HOST &[];
    "udaddy" at 7174 "-c 4 -C 20 -S 1024" UDADDY_V6 LOSS;
    "rdma_client" with "rdma_server" "" S_HOST &[];
    "fi_pingpong" at 47592 "-c -p verbs -e msg -I 50" HOST &[];
    "fi_pingpong" at 47592 "-c -p verbs;ofi_rxm -e rdm -I 50" HOST &[];
    "ib_write_bw" "-d braid0 -a -n 50" HOST TCP;
    "ib_read_bw" "-d braid0 -n 200" HOST TCP;
    "ib_send_bw" "-d braid0 -b -e -R -n 200" HOST TCP;
    "ib_atomic_bw" "-d braid0 -n 200" HOST TCP;
};
