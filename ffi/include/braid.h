// Braid: a userspace RDMA transport. MIT or Apache-2.0.
//
// Generated from ffi/src; `BRAID_WRITE_HEADER=1 cargo test -p braid-ffi --test header` writes it anew.
//
// Handles. Pointers to the opaque types (braid_engine, braid_qp, ...) are names, not addresses. One
// that was closed, or that names something else, is refused with BRAID_ERR_HANDLE.
//
// Errors. Functions return an int: 0 or a count where all went well, or one of the negative
// BRAID_ERR_*. braid_strerror says what a code means, braid_last_error what was wrong this time and
// what to do. NULL is BRAID_ERR_NULL unless a parameter says what NULL means. On an error nothing is
// written to what the pointers of the call name, unless said otherwise.
//
// Pointers. One that is not NULL points to as many elements as its description says, for as long as
// the call lasts. Strings end with NUL and are UTF-8; those passed in have at most 255 bytes.
//
// Growing structs. Those whose first field is `size` grow in later versions. Configurations are
// filled by their braid_*_init with sizeof, and then changed; for those that are filled by a query,
// the program sets `size` to sizeof. Other structs stay as they are as long as BRAID_ABI_VERSION.
//
// Closing. Every handle is closed once. What was made with another object is closed before that
// object, or closing the latter fails with BRAID_ERR_BUSY and changes nothing. When the last engine
// is closed, no thread and no socket is left.
//
// Threads. Every function says who may call it. None of them may be called in a child process that
// was forked after the engine was made, or by a signal handler.


#ifndef BRAID_H
#define BRAID_H

#include <stddef.h>
#include <stdint.h>

// Maximum length of an address as text, with its NUL.
#define BRAID_ADDR_LEN 64

// The version of the binary interface that this header describes. A program works with every
// library of the same version, newer or older, if it uses only features of that library.
#define BRAID_ABI_VERSION 0

// Success.
#define BRAID_OK 0

// A required pointer is NULL.
#define BRAID_ERR_NULL -1

// The handle is closed or of another kind.
#define BRAID_ERR_HANDLE -2

// A value is invalid: out of range, an unknown constant or name, or a malformed address.
#define BRAID_ERR_INVALID -3

// The state of the queue pair does not allow the call.
#define BRAID_ERR_STATE -4

// The queue is full.
#define BRAID_ERR_FULL -5

// The memory is not registered for this use.
#define BRAID_ERR_ACCESS -6

// The time-out expired.
#define BRAID_ERR_TIMED_OUT -7

// The peer rejected the request.
#define BRAID_ERR_REJECTED -8

// The address is unreachable.
#define BRAID_ERR_UNREACHABLE -9

// The completion queue has overrun, and completions are lost.
#define BRAID_ERR_OVERRUN -10

// The object is in use by other objects or by another thread's call.
#define BRAID_ERR_BUSY -11

// The maximum number of objects exists.
#define BRAID_ERR_EXHAUSTED -12

// The system refused memory, a socket, a thread or a descriptor.
#define BRAID_ERR_SYSTEM -13

// The attempt was cancelled, because the queue pair was reset, disconnected or closed.
#define BRAID_ERR_CANCELLED -14

// The program uses a feature of a newer library.
#define BRAID_ERR_UNSUPPORTED -15

// A bug of Braid. Close the affected engine.
#define BRAID_ERR_INTERNAL -16

// The group has ended because of a rank; see braid_group_query_end.
#define BRAID_ERR_GROUP -17

// A failure that needs attention.
#define BRAID_LOG_ERROR 1

// A degradation or an unexpected situation that does not stop operation.
#define BRAID_LOG_WARN 2

// Events of engines, connections and paths.
#define BRAID_LOG_INFO 3

// Details of these events.
#define BRAID_LOG_DEBUG 4

// All events.
#define BRAID_LOG_TRACE 5

// The default UDP port of Braid.
#define BRAID_DEFAULT_PORT 4791

// Maximum number of paths to a peer.
#define BRAID_MAX_PATHS 4096

// The NIC's unreliable connections carry the paths. Braid retransmits lost packets on any good
// path.
#define BRAID_SERVICE_UC 0

// The NIC's reliable connections carry the paths, for NICs without unreliable ones.
#define BRAID_SERVICE_RC 1

// Local reads only: the source of SENDs and WRITEs.
#define BRAID_ACCESS_NONE 0

// Local writes: the destination of receives, READs and atomic results.
#define BRAID_ACCESS_LOCAL_WRITE 1

// WRITEs of the peer.
#define BRAID_ACCESS_REMOTE_WRITE 2

// READs of the peer.
#define BRAID_ACCESS_REMOTE_READ 4

// Atomics of the peer.
#define BRAID_ACCESS_REMOTE_ATOMIC 8

// All access rights.
#define BRAID_ACCESS_ALL 15

// Number of bytes that braid_remote_pack writes.
#define BRAID_REMOTE_LEN 20

// The queue pair accepts nothing.
#define BRAID_QP_RESET 0

// The queue pair accepts receives.
#define BRAID_QP_INIT 1

// The queue pair receives. It passes through this state while it connects.
#define BRAID_QP_RTR 2

// The queue pair sends and receives.
#define BRAID_QP_RTS 3

// The queue pair receives, completes the sends that it has started and holds back the others.
#define BRAID_QP_SQD 4

// The queue pair flushes all outstanding and new work requests.
#define BRAID_QP_ERR 5

// Maximum length of the private data that each side sends when it connects, in bytes.
#define BRAID_MAX_PRIVATE_DATA 512

// Maximum length of a peer's name with its NUL: 64 characters in UTF-8.
#define BRAID_PEER_NAME_LEN ((64 * 4) + 1)

// Maximum length of a protocol's name, with its NUL.
#define BRAID_PROTOCOL_LEN 32

// Bytes in front of the payload in a receive: the IPv6 header of the datagram, or its IPv4 header
// in the last 20 bytes.
#define BRAID_ROCE_HEADER_LEN 40

// Consumes a receive of the peer.
#define BRAID_WR_SEND 0

// Like BRAID_WR_SEND, and delivers `imm` with the peer's completion.
#define BRAID_WR_SEND_WITH_IMM 1

// Writes to the peer's memory without involving its application.
#define BRAID_WR_WRITE 2

// Like BRAID_WR_WRITE, and completes a receive of the peer with `imm`.
#define BRAID_WR_WRITE_WITH_IMM 3

// Reads the peer's memory into the elements.
#define BRAID_WR_READ 4

// Replaces 8 aligned bytes of the peer by `swap` if they equal `compare_add`. Writes their
// previous value into the only element of 8 bytes, in this machine's byte order.
#define BRAID_WR_COMPARE_SWAP 5

// Adds `compare_add` to 8 aligned bytes of the peer. Writes their previous value into the only
// element.
#define BRAID_WR_FETCH_ADD 6

// Requests a completion on success. A failure always has one.
#define BRAID_SEND_SIGNALED 1

// Requests a solicited completion at the peer.
#define BRAID_SEND_SOLICITED 2

// Waits for all earlier READs and atomics to end.
#define BRAID_SEND_FENCE 4

// Copies the bytes at posting, so that they may change at once. They need not be registered, and
// `lkey` is ignored. For SEND and WRITE of up to `max_inline` bytes.
#define BRAID_SEND_INLINE 8

// Maximum number of elements of a work request, for any queue pair.
#define BRAID_MAX_SGE 256

// Maximum length of a message in bytes: 1 GiB.
#define BRAID_MAX_MESSAGE (1 << 30)

// The work request succeeded.
#define BRAID_WC_SUCCESS 0

// A message did not fit its receive buffer.
#define BRAID_WC_LOC_LEN_ERR 1

// A memory region was deregistered while a work request used it.
#define BRAID_WC_LOC_PROT_ERR 2

// The queue pair entered ERR before the work request had ended.
#define BRAID_WC_WR_FLUSH_ERR 3

// The peer found the request malformed or too long for its receive buffer.
#define BRAID_WC_REM_INV_REQ_ERR 4

// The peer does not permit the access.
#define BRAID_WC_REM_ACCESS_ERR 5

// The peer failed for a reason of its own.
#define BRAID_WC_REM_OP_ERR 6

// The peer did not respond in time.
#define BRAID_WC_RETRY_EXC_ERR 7

// The peer posted no receive in time.
#define BRAID_WC_RNR_RETRY_EXC_ERR 8

// A SEND, with or without immediate data.
#define BRAID_WC_SEND 0

// A WRITE, with or without immediate data.
#define BRAID_WC_WRITE 1

// A READ.
#define BRAID_WC_READ 2

// A compare-and-swap.
#define BRAID_WC_COMPARE_SWAP 3

// A fetch-and-add.
#define BRAID_WC_FETCH_ADD 4

// A receive that a SEND filled.
#define BRAID_WC_RECV 5

// A receive that a WRITE with immediate data consumed.
#define BRAID_WC_RECV_WRITE_IMM 6

// The completion carries immediate data.
#define BRAID_WC_WITH_IMM 1

// The sender requested a solicited event.
#define BRAID_WC_SOLICITED 2

// The queue pair is not in ERR.
#define BRAID_END_NONE 0

// The application moved the queue pair to ERR or disconnected it.
#define BRAID_END_APPLICATION 1

// A completion queue of this end was full.
#define BRAID_END_CQ_OVERRUN 2

// The datapath failed: an RDMA device was removed or has failed.
#define BRAID_END_DEVICE_GONE 3

// A memory region of this end was closed, or does not permit the access of a work request.
#define BRAID_END_LOCAL_MEMORY 4

// The peer closed the connection and did not refuse a request.
#define BRAID_END_PEER 5

// No packet from the peer arrived in time.
#define BRAID_END_PEER_SILENT 6

// The peer no longer has the queue pair: it was restarted, or its notification was lost.
#define BRAID_END_PEER_UNKNOWN 7

// The peer posted no receive in time.
#define BRAID_END_PEER_NOT_READY 8

// The peer refused a work request of this end; `status` gives the reason.
#define BRAID_END_REFUSED_BY_PEER 9

// This end refused a request of the peer. `status` is BRAID_WC_REM_ACCESS_ERR if the peer lacks
// the permission, or BRAID_WC_LOC_LEN_ERR if its message was longer than the receive.
#define BRAID_END_REFUSED_HERE 10

// The peer violated the protocol, for example by acknowledging packets that were never sent.
#define BRAID_END_PEER_UNTRUE 11

// A cause without a number in this version of the C API; see the log.
#define BRAID_END_OTHER 12

// The peer's process has ended: its host reports that the port is closed.
#define BRAID_END_PEER_GONE 13

// A copy to or from GPU memory failed; the log names the CUDA error.
#define BRAID_END_DEVICE_MEMORY 14

// No event.
#define BRAID_EVENT_NONE 0

// A queue pair has entered BRAID_QP_ERR, and not at the application's request. `cause` and
// `status` give the reason, and braid_qp_query_error the work request.
#define BRAID_EVENT_QP_ENDED 1

// All work requests started before BRAID_QP_SQD have ended.
#define BRAID_EVENT_SQ_DRAINED 2

// The path MTU of the peer has changed to datagrams of `value` bytes, for all queue pairs to that
// peer.
#define BRAID_EVENT_PATH_MTU 3

// A NAT or firewall blocks the ports of the paths to the peer. All packets use the receiving port
// as the only path, for all queue pairs to that peer.
#define BRAID_EVENT_PATHS_BLOCKED 4

// The ports of the paths are no longer blocked.
#define BRAID_EVENT_PATHS_OPEN 5

// More than 4096 events were pending, and `value` events were lost.
#define BRAID_EVENT_MISSED 6

// An event without a number in this version of the C API.
#define BRAID_EVENT_OTHER 7

// Maximum number of ranks of a group.
#define BRAID_MAX_RANKS 4096

// Maximum length of a job's name with its NUL.
#define BRAID_JOB_LEN 256

// The group has not ended.
#define BRAID_BLAME_NONE 0

// A rank has died or cannot be reached any more.
#define BRAID_BLAME_DEAD 1

// Two ranks disagree on the number of bytes that one sends to the other.
#define BRAID_BLAME_COUNTS 2

// A rank sent an invalid message.
#define BRAID_BLAME_MALFORMED 3

// A rank has cancelled a round, or closed its group during a round.
#define BRAID_BLAME_CANCELLED 4

// A rank has left the group while others had more rounds.
#define BRAID_BLAME_LEFT 5

// The memory of a rank does not belong to the group's protection domain, or does not permit the
// access.
#define BRAID_BLAME_MEMORY 6

// A cause without a number in this version of the C API; see the text.
#define BRAID_BLAME_OTHER 7

// The path policy may use the path.
#define BRAID_PATH_UP 1

// The path loses everything. Probes find out when it works again.
#define BRAID_PATH_DOWN 2

// A NAT or firewall drops packets from the source ports of the paths. All packets to the
// destination leave from the receiving port, on one path.
#define BRAID_PATH_BLOCKED 3

// Maximum length of a degradation's name, with its NUL.
#define BRAID_DEGRADATION_NAME_LEN 32

// Maximum length of a degradation's text, with its NUL. A longer text is truncated.
#define BRAID_DEGRADATION_TEXT_LEN 512

// The stream of requests: SENDs, WRITEs, READs and atomics.
#define BRAID_STREAM_REQUESTS 0

// The stream of responses to the peer's READs and atomics.
#define BRAID_STREAM_RESPONSES 1

// A connection attempt.
typedef struct braid_connecting braid_connecting;

// A completion queue, which receives the completions of work requests. Its queue pairs must not
// have more outstanding work requests than its capacity.
typedef struct braid_cq braid_cq;

// An engine: owns protection domains, completion queues and listeners.
typedef struct braid_engine braid_engine;

// A network inside this process, for tests. Its engines reach each other at freely chosen
// addresses.
typedef struct braid_fabric braid_fabric;

// A rank's membership of a group: an all-to-all with counts per peer, like MPI_Alltoallv.
typedef struct braid_group braid_group;

// A listener at the address of its engine.
typedef struct braid_listener braid_listener;

// A snapshot of an engine. To compute a rate, divide the difference of a counter in two snapshots
// by that of `uptime_ns`.
typedef struct braid_metrics braid_metrics;

// A memory region, to which work requests and peers refer.
typedef struct braid_mr braid_mr;

// A histogram of the reordering extent: by how many packets, 1 or more, early packets were ahead
// of the last one in order. From 16 on, the resolution is an eighth.
typedef struct braid_ooo braid_ooo;

// The routes that the paths to a destination take.
typedef struct braid_path_map braid_path_map;

// A report of all paths of an engine at its creation.
typedef struct braid_paths braid_paths;

// A protection domain. Queue pairs can only use memory regions of their own domain.
typedef struct braid_pd braid_pd;

// A reliable connected queue pair. Work requests of each queue end in posting order. Each has one
// completion if it is signalled or fails.
typedef struct braid_qp braid_qp;

// A connection request of a peer.
typedef struct braid_request braid_request;

// The address of a peer that takes datagrams, which corresponds to an address handle of verbs.
typedef struct braid_roce_address braid_roce_address;

// A queue pair of the unreliable datagram (UD) service of RoCEv2. Datagrams get lost and arrive
// twice, and anybody who knows its number and Q_Key can send them.
typedef struct braid_roce_ud braid_roce_ud;

// A round in flight. It proceeds without calls, also after its handle is closed.
typedef struct braid_round braid_round;

// Processes a log event: its level (BRAID_LOG_ERROR and so on), the part of Braid that logs it,
// and its message with its fields as ` name=value`.
//
// The texts are valid during the call. Any thread may call the function, several at the same time,
// inside any function of this library and with locks of the engine held. So it must not call the
// library and must not block.
typedef void (*braid_log_callback)(void *user, int level, const char *target, const char *text);

// The configuration of an engine, initialised by braid_engine_config_init.
typedef struct braid_engine_config {
    // Set by braid_engine_config_init.
    size_t size;
    // The receiving address, such as `10.0.0.1:4791` or `[::]:0`. Port 0 selects a free port;
    // servers need a fixed one. NULL: `[::]:0`.
    const char *bind;
    // The network inside this process that carries the packets. NULL: UDP, or `device`.
    struct braid_fabric *fabric;
    // Number of engine threads, 1 to 64, each with its own receiving port. 0: the application
    // makes progress in braid_engine_progress and whenever it polls or waits. If it does not for 4
    // ms, a thread of the engine does.
    uint32_t threads;
    // Number of paths to a peer, 1 to BRAID_MAX_PATHS. Over UDP, each is a source port.
    uint32_t paths;
    // Name of the path policy, such as "pro" or "ecmp". NULL: the default.
    const char *lb;
    // 1: the engine discovers the routes of the paths and uses equally many paths per route, for
    // networks that hash flows. 0: all paths are treated alike.
    int discover;
    // 1: payloads carry a CRC. It is on if either side requests it. 0: this side does not request
    // it. -1, the default: as the datapath chooses, which is 0 over TCP and 1 otherwise.
    int crc;
    // Maximum payload of a packet in bytes, up to 65535. 0: adapted to the path, at most 16384.
    uint32_t mtu;
    // Size of the receive buffer of each socket in bytes. The system may grant less.
    size_t receive_buffer;
    // Seed of the path policy's random choices. Senders with the same seed choose the same paths
    // at once. Default: a random number.
    uint64_t seed;
    // Time for which an idle thread polls before it sleeps, in microseconds. This and the
    // following timers are at most one day.
    uint64_t spin_us;
    // Interval of the liveness checks of a peer, in which its queue pairs take turns, in
    // microseconds. At least 1000.
    uint64_t ping_interval_us;
    // Time without packets after which a peer is considered dead, in microseconds.
    uint64_t peer_timeout_us;
    // Maximum time for which a closed engine waits for its peers to confirm the end of its queue
    // pairs, in microseconds.
    uint64_t linger_us;
    // Injected fault for tests: probability, from 0 to 1, that a datagram is dropped.
    double fault_drop;
    // Injected fault: probability that a datagram is reordered.
    double fault_reorder;
    // Injected fault: probability that a datagram is duplicated.
    double fault_duplicate;
    // Injected fault: probability that bits of a datagram are flipped.
    double fault_corrupt;
    // Injected fault: delay of every datagram in microseconds, at most ten seconds.
    uint64_t fault_delay_us;
    // Seed of the injected faults.
    uint64_t fault_seed;
    // The RDMA device that carries the packets, Soft-RoCE included, by its name in `rdma link`.
    // NULL: none. Connections are still set up over UDP. The NIC checks payloads, regardless of
    // `crc`, and no faults can be injected.
    const char *device;
    // Port of the device, from 1.
    uint32_t device_port;
    // Transport service of the paths: BRAID_SERVICE_UC or BRAID_SERVICE_RC.
    int service;
    // Index into the port's GID table. -1: the entry of `bind`, otherwise the first RoCE v2 entry
    // with an IPv4 address, otherwise the first RoCE v2 entry.
    int64_t gid_index;
    // Addresses of this host's further rails, separated by commas, such as `10.1.0.1,10.2.0.1`; at
    // most seven. `bind` is the address of the first rail and must then be specific. A connection
    // uses as many rails as both ends have, paired in order. NULL: one rail. With `device`, which
    // is the first rail's, each address must belong to an RDMA device as well.
    const char *rails;
    // Name of the rail policy: "least-loaded", "round-robin", "hash", "lpt" or "min-rtt". NULL:
    // the default.
    const char *rail_policy;
    // Access to the engine's metrics from outside the process. `off`: none. `local`: by
    // `braid-perf top PID` of the same user. An address such as `127.0.0.1:9464`: also by HTTP for
    // Prometheus. NULL: the value of the environment variable BRAID_METRICS, otherwise `off`.
    const char *metrics;
    // A key file of `braid-perf keygen` that only its owner can read. Connections are then keyed,
    // over UDP. A private key requires `allowed_keys`. NULL: no keys.
    const char *key_file;
    // Use of the key. "off": none. "auth": packets are authenticated. "encrypt": packets are
    // encrypted as well. "required": a listener also rejects peers without a key. An optional list
    // restricts the ciphers: "required:aes-128-gcm,chacha20-poly1305". NULL: "required" with
    // `key_file`, otherwise "off".
    const char *security;
    // The file of the public keys of allowed peers, which only its owner can change. Its lines are
    // those of `braid-perf keygen --static`: `braid-public DIGITS [until YYYY-MM-DD] [# NAME]`.
    // Requires a `key_file` with a private key. NULL: none.
    const char *allowed_keys;
    // 1: datagrams of up to 1200 bytes use AF_XDP, which bypasses the network stack and is faster;
    // others use UDP sockets. `bind` must then be the IPv4 address of an Ethernet interface, and
    // `threads` 1 or 0. Requires root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF. One engine per
    // interface can use it. Not with `fabric` or `device`. 0: UDP sockets only.
    int xdp;
    // The datapath by name: "udp", "tcp", "auto" (TCP where UDP does not pass), "xdp", "verbs"
    // (needs `device`) or "mem" (needs `fabric`).
    // NULL: the one that `fabric`, `device` or `xdp` selects, otherwise "udp". New programs name
    // "xdp" here instead of setting `xdp`.
    const char *datapath;
    // Path quantum: maximum number of packets that a queue pair sends on one path before it picks
    // the next path, 1 to 4096. 0: one call, at most 48 full packets; one packet with `dr`.
    uint32_t quantum;
    // A file of the peers that share paths, such as the hosts behind one ToR switch. It has a line
    // for each group: `NAME PREFIX ...`, such as `tor1 10.0.1.0/24 10.0.9.17`. Not with
    // `discover`. NULL: no groups.
    const char *destination_groups;
} braid_engine_config;

// Counters since the creation of the engine.
typedef struct braid_engine_counters {
    // Set it to sizeof(braid_engine_counters).
    size_t size;
    // Datagrams passed to the link.
    uint64_t datagrams_sent;
    // Batches passed to the link; over UDP, one system call each.
    uint64_t batches_sent;
    // Number of times that a batch waited because the link was full.
    uint64_t link_full;
    // Batches that the link failed to send.
    uint64_t send_errors;
    // Datagrams received.
    uint64_t datagrams_received;
    // Received datagrams dropped because they are not Braid's or inconsistent.
    uint64_t malformed;
    // Received datagrams dropped because of another format version.
    uint64_t version;
    // Received datagrams dropped because of a wrong header CRC.
    uint64_t header_check;
    // Data packets dropped because of a wrong payload CRC.
    uint64_t payload_check;
    // Packets dropped because the queue pair does not exist.
    uint64_t unknown_qp;
    // Duplicate data packets.
    uint64_t duplicates;
    // Data packets refused: outside the window, no receive posted, no access, or wrong state.
    uint64_t refused;
    // Set-up packets dropped or rejected.
    uint64_t setup_refused;
    // Datagrams lost because the receive buffer was full.
    uint64_t overflowed;
    // Datagrams that the system refused to send, for example because of a missing route or a
    // firewall.
    uint64_t unreachable;
    // Datagrams dropped or damaged by injected faults.
    uint64_t injected;
    // Number of route discoveries, if `discover` is set.
    uint64_t ways_learnt;
    // Packets dropped because of a wrong token: packets of an earlier connection, or guesses.
    uint64_t wrong_token;
    // Packets dropped because they carry the number and token of a connection but do not come from
    // its peer's host.
    uint64_t wrong_source;
    // Connection requests postponed because the backlog, or the share of one host in it, was full.
    uint64_t setup_busy;
    // Number of times that the ports of paths were found to be blocked, while the receiving port
    // was not: by a NAT or a stateful firewall.
    uint64_t paths_blocked;
    // Packets dropped because they could not be authenticated: forged, or changed in transit.
    uint64_t forged;
    // Packets of keyed connections dropped because they were replayed or too old.
    uint64_t replayed;
    // Packets dropped because they were unprotected on a keyed connection, or protected with the
    // keys of another connection.
    uint64_t unprotected;
    // Intact RoCEv2 packets received with a congestion mark (ECN CE).
    uint64_t marks_received;
    // RoCEv2 datagrams dropped because they had another Q_Key than the queue pair of that number.
    uint64_t wrong_q_key;
} braid_engine_counters;

// The properties of a memory region.
typedef struct braid_mr_info {
    // Set it to sizeof(braid_mr_info).
    size_t size;
    // Address of the first byte; of GPU memory, its device pointer.
    void *addr;
    // Length in bytes.
    size_t len;
    // The local key, for work requests of this engine.
    uint32_t lkey;
    // The remote key, for work requests of peers.
    uint32_t rkey;
} braid_mr_info;

// A range of local memory.
typedef struct braid_sge {
    // Address of the first byte.
    uint64_t addr;
    // Length in bytes.
    uint32_t len;
    // The local key of its memory region.
    uint32_t lkey;
} braid_sge;

// A memory region of a peer, as its owner describes it.
typedef struct braid_remote {
    // Address of the first byte in the owner's process.
    uint64_t addr;
    // Length in bytes.
    uint64_t len;
    // The remote key.
    uint32_t rkey;
} braid_remote;

// The result of a work request. Completions of one queue have posting order.
typedef struct braid_wc {
    // The id of the work request.
    uint64_t wr_id;
    // The number of the queue pair.
    uint32_t qp_num;
    // BRAID_WC_SUCCESS or the error. On an error, only `opcode` of the fields below is valid.
    int status;
    // The kind of work request: BRAID_WC_SEND and so on.
    uint32_t opcode;
    // Length of the message in bytes.
    uint32_t byte_len;
    // Immediate data, if `flags` has BRAID_WC_WITH_IMM: a number, equal on both sides.
    uint32_t imm;
    // BRAID_WC_WITH_IMM and BRAID_WC_SOLICITED.
    uint32_t flags;
} braid_wc;

// The options of a queue pair, initialised by braid_qp_options_init. The caller must set both
// completion queues.
typedef struct braid_qp_options {
    // Set by braid_qp_options_init.
    size_t size;
    // The completion queue of sends.
    struct braid_cq *send_cq;
    // The completion queue of receives, which may be the same.
    struct braid_cq *recv_cq;
    // Capacity of the send queue in work requests, up to 1048576.
    uint32_t max_send_wr;
    // Capacity of the receive queue in work requests, up to 1048576.
    uint32_t max_recv_wr;
    // Maximum number of elements of a work request, up to BRAID_MAX_SGE.
    uint32_t max_sge;
    // Maximum length of inline data, up to 8192.
    uint32_t max_inline;
    // Access rights of the peer through this queue pair, in addition to those of the memory
    // region: BRAID_ACCESS_*.
    uint32_t access;
    // Number of packets beyond the first missing one that the receiver tracks, up to 4096.
    uint32_t window;
    // Number of concurrent READs and atomics that it serves, 1 to 255.
    uint32_t max_rd_atomic;
    // Number of RNR NAKs accepted for one message, 0 to 255; -1: no limit.
    int rnr_retry;
    // Number of later packets that must arrive before a packet counts as lost, with "sack".
    uint32_t reorder_threshold;
    // Number of segments per requested acknowledgement; 1: every segment requests one.
    uint32_t ask_every;
    // Delay that a peer must wait if no receive is posted, in microseconds. This and the following
    // timers are at most one day.
    uint64_t rnr_delay_us;
    // Minimum retransmission time-out in microseconds.
    uint64_t min_rto_us;
    // Maximum retransmission time-out in microseconds.
    uint64_t max_rto_us;
    // Time without progress after which the queue pair fails, in microseconds. 0: the
    // `peer_timeout_us` of its engine.
    uint64_t retry_timeout_us;
    // Maximum delay of the acknowledgement of a request that the application has replied to, in
    // microseconds.
    uint64_t reply_hold_us;
    // Name of the loss recovery, such as "fifo-path". NULL: the default.
    const char *recovery;
    // Name and parameters of the congestion control, such as "cubic", "fixed:2M" or "rate:10G".
    // NULL: the default.
    const char *cc;
} braid_qp_options;

// The state of a queue pair.
typedef struct braid_qp_info {
    // Set it to sizeof(braid_qp_info).
    size_t size;
    // The queue pair number, 24 bits, which completions carry.
    uint32_t qp_num;
    // The state: BRAID_QP_RESET and so on.
    int state;
    // Number of posted sends that have not ended.
    uint32_t outstanding_sends;
    // Number of posted receives that have not ended.
    uint32_t outstanding_recvs;
    // Payload of a full packet in bytes, as agreed with the peer, or 0 if the queue pair is not
    // connected.
    uint32_t packet_payload;
    // Whether payloads carry a CRC, as agreed with the peer: 0 or 1, or -1 if the queue pair is
    // not connected.
    int payload_crc;
    // The receiving address of the peer, or empty if the queue pair is not connected.
    char peer[BRAID_ADDR_LEN];
    // 1: packets leave from the source port of each path. 0: a NAT or firewall drops these, so all
    // packets leave from the receiving port, on one path. -1: the queue pair is not connected.
    int path_ports;
    // 0.
    uint32_t reserved;
    // The protocol that carries the packets, such as "UDP" or "TCP". Empty if the queue pair is
    // not connected. If the datapath "auto" has chosen TCP, the degradation "datapath-unavailable"
    // gives the reason, see braid_qp_get_degradation.
    char protocol[BRAID_PROTOCOL_LEN];
} braid_qp_info;

// Counters of a queue pair since its creation or reset.
typedef struct braid_qp_counters {
    // Set it to sizeof(braid_qp_counters).
    size_t size;
    // Data segments sent, including retransmissions.
    uint64_t segments_sent;
    // Retransmissions among them.
    uint64_t retransmitted;
    // Segments declared lost.
    uint64_t lost;
    // Retransmissions of segments that were only late.
    uint64_t spurious;
    // Congestion marks (ECN CE) that the peer reported.
    uint64_t ecn_marks;
    // Payload bytes in segments sent.
    uint64_t bytes_sent;
    // Data segments accepted.
    uint64_t segments_received;
    // Payload bytes in segments accepted.
    uint64_t bytes_received;
    // Duplicate segments.
    uint64_t duplicates;
    // Segments accepted ahead of the first missing one.
    uint64_t out_of_order;
    // Segments refused: beyond the window, without permission, or malformed.
    uint64_t refused;
    // Acknowledgements sent.
    uint64_t acks_sent;
    // Acknowledgements received.
    uint64_t acks_received;
    // RNR NAKs received.
    uint64_t rnr_naks;
    // Retransmission time-outs.
    uint64_t timeouts;
    // Acknowledgements of packets that were never sent. Each ended the queue pair.
    uint64_t untrue_acks;
    // RoCEv2 packets received with a congestion mark (ECN CE).
    uint64_t marks_received;
    // Congestion notification packets (CNPs) of RoCEv2 sent.
    uint64_t cnps_sent;
    // Congestion notification packets (CNPs) of RoCEv2 received.
    uint64_t cnps_received;
} braid_qp_counters;

// The peer's end of a RoCEv2 connection, initialised by braid_roce_remote_init. The caller must
// set `gid` and `qp`. The applications of the two ends exchange these values by other means.
typedef struct braid_roce_remote {
    // Set by braid_roce_remote_init.
    size_t size;
    // The peer's GID as an address, such as "192.0.2.7" or "::ffff:192.0.2.7".
    const char *gid;
    // The peer's queue pair number, 24 bits.
    uint32_t qp;
    // The number by which the peer knows the queue pair of this end. 0: `qp_num` of
    // braid_qp_query.
    uint32_t own_qp;
    // The first PSN that the peer sends, 24 bits.
    uint32_t recv_psn;
    // The first PSN that this end sends, 24 bits.
    uint32_t send_psn;
    // The path MTU in bytes: 256, 512, 1024, 2048 or 4096, the same at both ends. 0: the largest
    // that the route carries, see braid_engine_roce_port.
    uint32_t mtu;
    // Number of READs and atomics that this end may have outstanding at the peer, 1 to 255.
    uint32_t max_rd_atomic;
    // Number of retries without progress after which the queue pair fails, 0 to 255.
    uint32_t retry_count;
    // Number of packets that may be in flight, 1 to 65535.
    uint32_t window;
    // Time without an acknowledgement after which packets are sent again, in microseconds.
    uint64_t ack_timeout_us;
    // The UDP port at which the peer receives. RNICs and Soft-RoCE know only 4791.
    uint32_t port;
    // DCQCN: the rate of the link, and parameters, such as "25G" or "25G,min=10M". Congestion
    // notification packets of the peer then reduce the rate, and packets leave ECN-capable. NULL:
    // off.
    const char *dcqcn;
} braid_roce_remote;

// The end of an engine of its RoCEv2 connections to a peer, which the peer has to be told.
typedef struct braid_roce_port {
    // Set it to sizeof(braid_roce_port).
    size_t size;
    // The GID from which packets leave, as an address.
    char gid[BRAID_ADDR_LEN];
    // The UDP port at which the engine receives.
    uint32_t port;
    // The largest path MTU in bytes that the route to the peer carries.
    uint32_t mtu;
} braid_roce_port;

// A send of a datagram.
typedef struct braid_roce_datagram {
    // The id, which the completion returns.
    uint64_t id;
    // BRAID_WR_SEND or BRAID_WR_SEND_WITH_IMM.
    uint32_t opcode;
    // BRAID_SEND_SIGNALED and BRAID_SEND_SOLICITED.
    uint32_t flags;
    // The peer's address, of the same datagram queue pair.
    const struct braid_roce_address *to;
    // The number of the peer's queue pair, 24 bits.
    uint32_t qp;
    // The key of the peer's queue pair.
    uint32_t q_key;
    // The payload, which is copied: `len` bytes. NULL if there are none.
    const void *data;
    // Length of the payload in bytes, up to the MTU of the address.
    uint32_t len;
    // Immediate data: a number, equal on both sides for any byte order.
    uint32_t imm;
} braid_roce_datagram;

// A work request for a receive queue.
typedef struct braid_recv_wr {
    // The id, which the completion returns.
    uint64_t id;
    // The destination of a SEND: `sge_count` elements. NULL if there are none; a WRITE with
    // immediate data needs none.
    const struct braid_sge *sges;
    // Number of elements.
    uint32_t sge_count;
} braid_recv_wr;

// The result of a work request, with the sender of a datagram.
typedef struct braid_roce_wc {
    // The completion. For a receive, `byte_len` includes the BRAID_ROCE_HEADER_LEN bytes in front
    // of the payload.
    struct braid_wc wc;
    // The number of the queue pair that sent the datagram. 0: no datagram was received.
    uint32_t source;
    // 0.
    uint32_t reserved;
} braid_roce_wc;

// The options of a datagram queue pair, initialised by braid_roce_ud_options_init. The caller must
// set `number`, `q_key` and both completion queues.
typedef struct braid_roce_ud_options {
    // Set by braid_roce_ud_options_init.
    size_t size;
    // The completion queue of sends.
    struct braid_cq *send_cq;
    // The completion queue of receives, which may be the same.
    struct braid_cq *recv_cq;
    // The number by which peers know the queue pair, 2 to 16777215. Completions carry it.
    uint32_t number;
    // The key that datagrams for the queue pair must have.
    uint32_t q_key;
    // The first PSN, 24 bits.
    uint32_t psn;
    // Maximum number of sends that have not completed.
    uint32_t max_send_wr;
    // Capacity of the receive queue in work requests, up to 1048576.
    uint32_t max_recv_wr;
    // Maximum number of elements of a receive, up to BRAID_MAX_SGE.
    uint32_t max_sge;
    // 4791: the queue pair receives at UDP port 4791, see braid_engine_roce_port. Otherwise it
    // receives at the address of its engine, to which only other engines can send.
    uint32_t port;
} braid_roce_ud_options;

// A work request for a send queue.
typedef struct braid_send_wr {
    // The id, which the completion returns.
    uint64_t id;
    // The operation: BRAID_WR_SEND and so on.
    uint32_t opcode;
    // BRAID_SEND_SIGNALED and so on.
    uint32_t flags;
    // Local memory: `sge_count` elements. NULL if there are none.
    const struct braid_sge *sges;
    // Number of elements.
    uint32_t sge_count;
    // Immediate data: a number, equal on both sides for any byte order.
    uint32_t imm;
    // Address in the peer's memory, for all operations but SEND.
    uint64_t remote_addr;
    // The remote key of the peer's memory region.
    uint32_t rkey;
    // The value to compare with or to add.
    uint64_t compare_add;
    // The value to swap in.
    uint64_t swap;
} braid_send_wr;

// The reason why a queue pair is in BRAID_QP_ERR.
typedef struct braid_qp_error {
    // Set it to sizeof(braid_qp_error).
    size_t size;
    // The cause: BRAID_END_NONE and so on.
    int cause;
    // The reason of a refusal, or the status of the failed work request, otherwise
    // BRAID_WC_SUCCESS.
    int status;
    // 1 if a work request of this end failed, so that the fields below are valid, otherwise 0.
    int has_work;
    // Its opcode: BRAID_WC_SEND and so on.
    uint32_t opcode;
    // Its id.
    uint64_t wr_id;
} braid_qp_error;

// An asynchronous event (compare `ibv_get_async_event`).
typedef struct braid_event {
    // Set it to sizeof(braid_event).
    size_t size;
    // The kind: BRAID_EVENT_QP_ENDED and so on.
    int kind;
    // The queue pair number; 0 with BRAID_EVENT_MISSED.
    uint32_t qp_num;
    // The value that `kind` defines, otherwise 0.
    uint64_t value;
    // The cause: BRAID_END_PEER and so on, or BRAID_END_NONE if no queue pair has ended.
    int cause;
    // The status, as in braid_qp_error.
    int status;
} braid_event;

// The rank of this process and the addresses of the others: `root` or `addresses`. Initialised by
// braid_group_config_init, or by braid_group_config_from_env from the environment of a launcher.
typedef struct braid_group_config {
    // Set by braid_group_config_init.
    size_t size;
    // The rank of this process, 0 to `ranks` - 1.
    uint32_t rank;
    // Number of ranks, at most BRAID_MAX_RANKS.
    uint32_t ranks;
    // The address of rank 0, which sends each rank the addresses of the others: `10.0.0.1:4791`,
    // or a name and a port. Empty: see `addresses`.
    char root[BRAID_ADDR_LEN];
    // The addresses of all `ranks` ranks, equal at all of them. NULL: see `root`.
    const char *const *addresses;
    // Maximum time to wait for all ranks in microseconds; at most one day.
    uint64_t timeout_us;
    // Name of the congestion control for the data to each other rank on each rail. NULL: the
    // default.
    const char *cc;
    // The job of the ranks, equal at all of them. Rank 0 rejects ranks of another job, for example
    // of an earlier run. Empty: accepts only ranks without a job.
    char job[BRAID_JOB_LEN];
} braid_group_config;

// The reason why a group has ended.
typedef struct braid_group_end {
    // Set it to sizeof(braid_group_end).
    size_t size;
    // The cause: BRAID_BLAME_NONE and so on.
    int blame;
    // The responsible rank, or -1. With BRAID_BLAME_COUNTS, the sending rank.
    int32_t rank;
    // The receiving rank with BRAID_BLAME_COUNTS, otherwise -1.
    int32_t receiver;
    // The rank that detected the cause, or -1 for this one.
    int32_t told_by;
    // The round, with BRAID_BLAME_COUNTS and BRAID_BLAME_CANCELLED.
    uint64_t round;
    // Number of bytes by the sending rank, with BRAID_BLAME_COUNTS.
    uint64_t sent;
    // Number of bytes by the receiving rank, with BRAID_BLAME_COUNTS.
    uint64_t expected;
} braid_group_end;

// A part of a memory region.
typedef struct braid_range {
    // Offset in bytes.
    size_t offset;
    // Length in bytes, or 0 for no data.
    size_t len;
} braid_range;

// One path to one destination, as one thread of the engine sees it.
typedef struct braid_path_report {
    // Set it to sizeof(braid_path_report).
    size_t size;
    // The IP address of the destination. It appears once for each engine thread that sends there.
    char to[BRAID_ADDR_LEN];
    // The number of the path.
    uint32_t path;
    // 1: the path policy may use the path. 0: the path is down, because it loses everything.
    int live;
    // Segments and probes sent.
    uint64_t sent;
    // Retransmissions among them.
    uint64_t retransmitted;
    // Packets declared lost.
    uint64_t lost;
    // Packets acknowledged.
    uint64_t arrived;
    // Acknowledged packets whose feedback carried a congestion mark.
    uint64_t congested;
    // Smoothed round-trip time in nanoseconds, or 0 before the first sample since the path came
    // up.
    uint64_t rtt_ns;
    // Number of times that the path went down.
    uint64_t downs;
    // Probes sent.
    uint64_t probes;
    // The state: BRAID_PATH_UP and so on. 0: the library is older than this field.
    int state;
    // Source port of the packets of the path over UDP and AF_XDP. Other datapaths have their own
    // way to select a route.
    uint32_t source_port;
} braid_path_report;

// One destination on one rail, as one thread of the engine sees it.
typedef struct braid_path_destination {
    // Set it to sizeof(braid_path_destination).
    size_t size;
    // The IP address of the destination.
    char to[BRAID_ADDR_LEN];
    // The rail, from 0.
    uint32_t rail;
    // Number of paths in use: 1 if a NAT or firewall blocks the source ports of the paths.
    uint32_t in_use;
    // Index of its first path in the report. Its other paths follow.
    size_t first;
    // Number of its paths.
    size_t paths;
} braid_path_destination;

// A fallback of a connection, which works but slower or less safely than it could. All connections
// to a peer share their degradations. Each end has its own.
typedef struct braid_degradation {
    // Set it to sizeof(braid_degradation).
    size_t size;
    // The rail of the connection, from 0.
    uint32_t rail;
    // 0.
    uint32_t reserved;
    // Its short name, which never changes: "path-ports-blocked", "segmentation-refused",
    // "rail-unused", "rail-misrouted", "ecn-always-marked", "ecn-dropped", "path-mtu",
    // "paths-unconnected", "datapath-unavailable", "datapath-silent", "socket-option-refused".
    // Later versions may add names.
    char name[BRAID_DEGRADATION_NAME_LEN];
    // One line with the fallback, its cause and the remedy.
    char text[BRAID_DEGRADATION_TEXT_LEN];
} braid_degradation;

// The state of an engine.
typedef struct braid_engine_metrics {
    // Set it to sizeof(braid_engine_metrics).
    size_t size;
    // The receiving address.
    char local_addr[BRAID_ADDR_LEN];
    // Time since the creation of the engine in nanoseconds.
    uint64_t uptime_ns;
    // Number of queue pairs.
    uint64_t queue_pairs;
} braid_engine_metrics;

// The state of a queue pair.
typedef struct braid_qp_metrics {
    // Set it to sizeof(braid_qp_metrics).
    size_t size;
    // The queue pair number, 24 bits.
    uint32_t qp_num;
    // The state: BRAID_QP_RESET and so on.
    int state;
    // The cause of BRAID_QP_ERR: BRAID_END_PEER and so on, otherwise BRAID_END_NONE.
    int cause;
    // The status, as in braid_qp_error.
    int status;
    // Number of posted sends that have not ended.
    uint32_t outstanding_sends;
    // Number of posted receives that have not ended.
    uint32_t outstanding_recvs;
    // Payload of a full packet in bytes, or 0 if the queue pair is not connected.
    uint32_t packet_payload;
    // Number of subflows, see braid_metrics_get_subflow.
    uint32_t subflows;
    // The receiving address of the peer, or empty if the queue pair is not connected.
    char peer[BRAID_ADDR_LEN];
    // Number of degradations of the connection, see braid_metrics_get_degradation.
    uint32_t degradations;
} braid_qp_metrics;

// The state of a subflow: the part of one stream of a queue pair that uses one rail.
typedef struct braid_subflow_metrics {
    // Set it to sizeof(braid_subflow_metrics).
    size_t size;
    // BRAID_STREAM_REQUESTS or BRAID_STREAM_RESPONSES.
    int stream;
    // The rail, from 0.
    uint32_t rail;
    // Smoothed round-trip time in nanoseconds, or 0 before the first sample.
    uint64_t rtt_ns;
    // Congestion window in bytes, including headers.
    uint64_t window;
    // Pacing rate in bits per second, or 0 without pacing.
    uint64_t bits_per_second;
    // Bytes in flight, including headers.
    uint64_t in_flight;
    // Retransmission time-out in nanoseconds, without backoff.
    uint64_t rto_ns;
} braid_subflow_metrics;

// The parameters of discovery, initialised by braid_discovery_config_init.
typedef struct braid_discovery_config {
    // Set by braid_discovery_config_init.
    size_t size;
    // Maximum number of hops, up to 255.
    uint32_t max_ttl;
    // Number of probes to a hop that does not answer.
    uint32_t tries;
    // Time to wait for an answer in microseconds.
    uint64_t timeout_us;
    // Minimum interval between two probes in microseconds.
    uint64_t spacing_us;
    // Total time for repeated probes to hops that distinguish routes, in microseconds.
    uint64_t patience_us;
} braid_discovery_config;

// The contents of a map.
typedef struct braid_path_map_info {
    // Set it to sizeof(braid_path_map_info).
    size_t size;
    // The destination.
    char to[BRAID_ADDR_LEN];
    // Number of routes, sorted by their hops.
    size_t ways;
    // Number of paths without a route: no hop answered, too few answered to distinguish routes, or
    // a router refused to forward the probes.
    size_t unanswered;
    // Duration of the discovery in microseconds.
    uint64_t took_us;
    // 1 if every path has a route and every hop of the routes is known, otherwise 0.
    int complete;
} braid_path_map_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the BRAID_ABI_VERSION of the loaded library.
//
// Threads: any.
uint32_t braid_abi_version(void);

// Returns the release of the loaded library, such as "0.1.0".
//
// Threads: any. The text is constant.
const char *braid_version(void);

// Returns the text of an error code; never NULL.
//
// Threads: any. The text is constant.
const char *braid_strerror(int code);

// Returns the text of the last error in this thread: the argument, the value and the remedy. Never
// NULL; empty before the first error. A successful call does not change it.
//
// Threads: each has its own. The text is valid until the thread ends or calls this again.
const char *braid_last_error(void);

// Passes the log of all engines of this process to `callback` with `user`, and nowhere else. NULL:
// the log is dropped. A call of the previous callback may still be running in another thread.
// Without this function, the environment variable BRAID_LOG decides when the first engine is
// created: the log goes to standard error if the variable is set, otherwise nowhere.
//
// `filter` selects events by levels (off, error, warn, info, debug, trace) and TARGET=LEVEL,
// separated by commas, such as `info,braid::verbs=debug`. NULL: the value of BRAID_LOG, otherwise
// `info`. docs/logs.md lists the events.
//
// Threads: any.
int braid_set_log_callback(const char *filter, braid_log_callback callback, void *user);

// Creates an empty network.
//
// Threads: any.
int braid_fabric_create(struct braid_fabric **fabric);

// Closes a network. Its engines must be closed before.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_fabric_close(struct braid_fabric *fabric);

// Fills `config` with the defaults, which suit most programs; `size` is
// sizeof(braid_engine_config).
//
// Threads: any.
int braid_engine_config_init(struct braid_engine_config *config, size_t size);

// Creates an engine, opens its ports and starts its threads.
//
// Threads: any.
int braid_engine_create(const struct braid_engine_config *config, struct braid_engine **engine);

// Closes an engine. When this returns 0, its threads have ended and its sockets are closed. All
// objects of the engine must be closed before.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_engine_close(struct braid_engine *engine);

// Writes the receiving address of the engine, to which peers connect, into `text` of `size` bytes;
// BRAID_ADDR_LEN suffice.
//
// Threads: any.
int braid_engine_local_addr(const struct braid_engine *engine, char *text, size_t size);

// Runs an engine without threads once: sends posted work and processes arrivals. Does not wait.
// Returns 1 if there was work, otherwise 0.
//
// Threads: any, one at a time; others return 0 at once.
int braid_engine_progress(struct braid_engine *engine);

// Reads the counters of the engine.
//
// Threads: any.
int braid_engine_query_counters(const struct braid_engine *engine,
                                struct braid_engine_counters *counters);

// Creates a protection domain.
//
// Threads: any.
int braid_pd_create(struct braid_engine *engine, struct braid_pd **pd);

// Closes a protection domain. Its memory regions and queue pairs must be closed before.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_pd_close(struct braid_pd *pd);

// Allocates and registers `len` bytes, which are zeroed, resident and page-aligned. `access`
// combines BRAID_ACCESS_*. If `huge` is 1, the memory uses pages of 2 MiB, which `sysctl
// vm.nr_hugepages` must have reserved; otherwise it is 0. Closing the region frees the memory.
//
// Threads: any.
int braid_mr_alloc(struct braid_pd *pd,
                   size_t len,
                   uint32_t access,
                   int huge,
                   struct braid_mr **mr);

// Registers `len` bytes of the application at `start`. `access` combines BRAID_ACCESS_*. The
// memory must stay mapped until the region is closed, and writable if `access` is not
// BRAID_ACCESS_NONE.
//
// Threads: any.
int braid_mr_register(struct braid_pd *pd,
                      void *start,
                      size_t len,
                      uint32_t access,
                      struct braid_mr **mr);

// Registers `len` bytes of a GPU at the device pointer `start`, as cuMemAlloc or cudaMalloc
// returns it. Work requests and peers name the memory by that pointer. `access` combines
// BRAID_ACCESS_*. The memory must stay allocated until the region is closed.
//
// BRAID_ERR_SYSTEM: there is no CUDA driver, or it fails. BRAID_ERR_INVALID: CUDA does not know
// the pointer.
//
// Threads: any.
int braid_mr_register_cuda(struct braid_pd *pd,
                           uint64_t start,
                           size_t len,
                           uint32_t access,
                           struct braid_mr **mr);

// Allocates and registers `len` zeroed bytes of the GPU with the number `gpu`, in its primary
// context. Closing the region frees the memory. See braid_mr_register_cuda.
//
// Threads: any.
int braid_mr_alloc_cuda(struct braid_pd *pd,
                        uint32_t gpu,
                        size_t len,
                        uint32_t access,
                        struct braid_mr **mr);

// Deregisters a region. When this returns 0, neither the engine nor a peer accesses the memory,
// and memory of braid_mr_alloc is freed. Work requests that still use the region fail.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it, or an unfinished
// round of a group uses it.
int braid_mr_close(struct braid_mr *mr);

// Reads the address and the keys of a region.
//
// Threads: any.
int braid_mr_query(const struct braid_mr *mr, struct braid_mr_info *info);

// Sets `sge` to `len` bytes at `offset` of the region, for a work request.
//
// Threads: any.
int braid_mr_slice(const struct braid_mr *mr, size_t offset, size_t len, struct braid_sge *sge);

// Reads the information with which a peer can access the region; see braid_remote_pack.
//
// Threads: any.
int braid_mr_remote(const struct braid_mr *mr, struct braid_remote *remote);

// Reads the 8 bytes at `offset` atomically, also while peers use atomics on them. Not of GPU
// memory.
//
// Threads: any.
int braid_mr_load_u64(const struct braid_mr *mr, size_t offset, uint64_t *value);

// Writes the 8 bytes at `offset` atomically. Not of GPU memory.
//
// Threads: any.
int braid_mr_store_u64(struct braid_mr *mr, size_t offset, uint64_t value);

// Writes `remote` into `packed`, BRAID_REMOTE_LEN bytes, in a machine-independent form, for
// example as private data of a connection.
//
// Threads: any.
int braid_remote_pack(const struct braid_remote *remote, void *packed);

// Reads the result of braid_remote_pack from the start of the `len` bytes at `packed`.
//
// Threads: any.
int braid_remote_unpack(const void *packed, size_t len, struct braid_remote *remote);

// Creates a completion queue for `capacity` completions.
//
// Threads: any.
int braid_cq_create(struct braid_engine *engine, size_t capacity, struct braid_cq **cq);

// Closes a completion queue. Its queue pairs must be closed before.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_cq_close(struct braid_cq *cq);

// Takes up to `max` completions into the array `wcs` and returns their number. Does not wait. If
// the application makes progress, a call with an empty queue runs the engine once.
//
// BRAID_ERR_OVERRUN, after the completions that fit the queue: other completions are lost, and the
// queue pairs are in ERR.
//
// Threads: any; each completion goes to one of them.
int braid_cq_poll(struct braid_cq *cq, struct braid_wc *wcs, size_t max);

// Takes completions like braid_cq_poll, but waits up to `timeout_us` microseconds for the first
// one. Returns 0 after the time-out. If the application makes progress, waiting runs the engine.
//
// Threads: any; each completion goes to one of them.
int braid_cq_wait(struct braid_cq *cq, struct braid_wc *wcs, size_t max, uint64_t timeout_us);

// Returns the descriptor, an eventfd, that becomes readable when a completion arrives on an armed
// queue; for poll, epoll and the like. The queue owns it: do not read or close it.
//
// Threads: any.
int braid_cq_fd(const struct braid_cq *cq);

// Arms the queue. Its descriptor is cleared and becomes readable once, with the next completion.
// If `solicited_only` is 1, it becomes readable with the next failed or solicited completion;
// otherwise it is 0. Poll the queue after this call, because earlier completions do not make the
// descriptor readable.
//
// Threads: any; the last call counts.
int braid_cq_arm(struct braid_cq *cq, int solicited_only);

// Writes the capacity of the queue into `capacity`.
//
// Threads: any.
int braid_cq_capacity(const struct braid_cq *cq, size_t *capacity);

// Fills `options` with the defaults, and the queues with NULL; `size` is sizeof(braid_qp_options).
//
// Threads: any.
int braid_qp_options_init(struct braid_qp_options *options, size_t size);

// Creates a queue pair in RESET.
//
// Threads: any.
int braid_qp_create(struct braid_pd *pd,
                    const struct braid_qp_options *options,
                    struct braid_qp **qp);

// Closes a queue pair, notifies the peer and drops outstanding work requests without completions.
// Call braid_qp_disconnect before if they matter.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_qp_close(struct braid_qp *qp);

// Changes the state. BRAID_QP_INIT: to post receives before connecting. SQD: to drain the send
// queue. RTS: to resume. ERR: to flush. RESET: to start again; outstanding work requests are
// dropped without completions, and the peer is notified. Connecting leads to RTR and RTS.
//
// Threads: any.
int braid_qp_modify(struct braid_qp *qp, int state);

// Sets the traffic class of the packets of connections made from now on, 0 to 255, as IP_TOS and
// IPV6_TCLASS. The upper six bits are the DSCP (RFC 2474). The lower two are ignored, because the
// engine sets the ECN bits. Set-up packets have class 0. Default: 0.
//
// Connections of another class to the same peer have their own paths and share no datagram
// batches.
//
// Threads: any.
int braid_qp_set_traffic_class(struct braid_qp *qp, int traffic_class);

// Connects to the listener at `addr`, such as "10.0.0.2:4791" or "name:4791", and waits up to
// `timeout_us` microseconds. A name is resolved first, which may block. Its addresses are tried in
// turn, 250 ms each, until one responds.
//
// Sends `len` bytes at `data` (up to BRAID_MAX_PRIVATE_DATA; NULL for none) to the peer's
// application. Writes its reply to `reply`, up to `*reply_len` bytes; `*reply_len` becomes the
// full length. `reply` may be NULL if the length suffices, and both may be NULL.
//
// After an error, the queue pair is in INIT and can try again.
//
// Threads: any, one at a time for a queue pair; another gets BRAID_ERR_STATE.
int braid_qp_connect(struct braid_qp *qp,
                     const char *addr,
                     const void *data,
                     size_t len,
                     uint64_t timeout_us,
                     void *reply,
                     size_t *reply_len);

// Closes the connection: both sides enter ERR and flush outstanding work requests. Work requests
// that have not completed may or may not take effect at the peer.
//
// Threads: any.
int braid_qp_disconnect(struct braid_qp *qp);

// Reads the state of the queue pair.
//
// Threads: any.
int braid_qp_query(const struct braid_qp *qp, struct braid_qp_info *info);

// Writes the authenticated name of the peer, from the list `allowed_keys` of the engine, into
// `text` of `size` bytes; BRAID_PEER_NAME_LEN suffice. Empty without static keys or without a
// connection.
//
// Threads: any.
int braid_qp_peer_name(const struct braid_qp *qp, char *text, size_t size);

// Reads the counters of the queue pair.
//
// Threads: any.
int braid_qp_query_counters(const struct braid_qp *qp, struct braid_qp_counters *counters);

// Starts to connect like braid_qp_connect, but does not wait for the peer. The result is available
// from `connecting`, which the caller must close. A name is resolved before the function returns,
// which may block.
//
// Threads: any, one at a time for a queue pair; another gets BRAID_ERR_STATE.
int braid_qp_connect_begin(struct braid_qp *qp,
                           const char *addr,
                           const void *data,
                           size_t len,
                           uint64_t timeout_us,
                           struct braid_connecting **connecting);

// Returns a descriptor that becomes and stays readable when the attempt ends, for poll, epoll and
// the like. The attempt owns it: do not read or close it.
//
// Threads: any.
int braid_connecting_fd(const struct braid_connecting *connecting);

// Returns the result of the attempt. 1: the queue pair is connected, and `reply` is written as by
// braid_qp_connect. 0: the attempt continues. An error as of braid_qp_connect: the queue pair is
// in INIT. Each result but 0 is returned once. Does not wait. If the application makes progress,
// this runs the engine once.
//
// Threads: any.
int braid_connecting_result(struct braid_connecting *connecting, void *reply, size_t *reply_len);

// Closes an attempt and cancels it if it has not ended.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_connecting_close(struct braid_connecting *connecting);

// Fills `remote` with the defaults, and the GID with NULL; `size` is sizeof(braid_roce_remote).
//
// Threads: any.
int braid_roce_remote_init(struct braid_roce_remote *remote, size_t size);

// Reads the end of the engine of RoCEv2 connections to the peer at `gid`, which receives at UDP
// port `peer_port`. If that is 4791 and the engine receives elsewhere, it opens port 4791 too.
// Other processes of this user may share that port.
//
// Threads: any.
int braid_engine_roce_port(const struct braid_engine *engine,
                           const char *gid,
                           uint32_t peer_port,
                           struct braid_roce_port *port);

// Connects to a peer that speaks plain RoCEv2: an RNIC, Soft-RoCE, or another engine. No packet is
// exchanged. Receives have to be posted before the peer sends, see braid_qp_modify.
//
// RoCEv2 protects nothing: whoever sends packets with the peer's address and guesses the PSN and
// the rkey writes to memory that the peer may write to.
//
// Threads: any, one at a time for a queue pair.
int braid_qp_connect_roce(struct braid_qp *qp, const struct braid_roce_remote *remote);

// Posts `count` datagrams of the array `datagrams` in order, up to the first one that is refused.
// Writes the number of posted ones to `posted` unless it is NULL, also on an error.
//
// A send completes when its datagram leaves, whether the datagram arrives or not. The peer drops
// it without a receive, and with another Q_Key (`wrong_q_key` of its braid_engine_counters).
//
// Threads: any; datagrams that several threads post at the same time have an undefined order.
int braid_roce_ud_post_send(struct braid_roce_ud *ud,
                            const struct braid_roce_datagram *datagrams,
                            size_t count,
                            size_t *posted);

// Posts `count` receives of the array `wrs`, like braid_qp_post_recv. Each takes a datagram with
// BRAID_ROCE_HEADER_LEN bytes in front of it. If it is shorter than that, the datagram is lost and
// the receive ends with BRAID_WC_LOC_LEN_ERR. The queue pair goes on.
//
// Threads: any, as for braid_roce_ud_post_send.
int braid_roce_ud_post_recv(struct braid_roce_ud *ud,
                            const struct braid_recv_wr *wrs,
                            size_t count,
                            size_t *posted);

// Takes completions like braid_cq_poll, with the senders of datagrams.
//
// Threads: any; each completion goes to one of them.
int braid_cq_poll_datagrams(struct braid_cq *cq, struct braid_roce_wc *wcs, size_t max);

// Takes completions like braid_cq_wait, with the senders of datagrams.
//
// Threads: any; each completion goes to one of them.
int braid_cq_wait_datagrams(struct braid_cq *cq,
                            struct braid_roce_wc *wcs,
                            size_t max,
                            uint64_t timeout_us);

// Fills `options` with the defaults, and the queues with NULL; `size` is
// sizeof(braid_roce_ud_options).
//
// Threads: any.
int braid_roce_ud_options_init(struct braid_roce_ud_options *options, size_t size);

// Creates a datagram queue pair, which receives at once. Its receives use memory of `pd`. The
// engine has to be bound to one address, which the checksums of datagrams cover.
//
// RoCEv2 protects nothing: whoever knows the number and the Q_Key can send to the queue pair.
//
// Threads: any.
int braid_roce_ud_create(struct braid_engine *engine,
                         struct braid_pd *pd,
                         const struct braid_roce_ud_options *options,
                         struct braid_roce_ud **ud);

// Closes a datagram queue pair. Its outstanding work requests are dropped without completions. Its
// addresses must be closed before.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_roce_ud_close(struct braid_roce_ud *ud);

// Replaces the key that datagrams for the queue pair must have.
//
// Threads: any.
int braid_roce_ud_set_q_key(struct braid_roce_ud *ud, uint32_t q_key);

// Creates the address of the peer with the GID `gid`, such as "192.0.2.7", which receives at UDP
// port `port`: 4791, unless it is another engine. Datagrams that `ud` sends there have this
// traffic class, 0 to 255; the lower two bits are ignored.
//
// Threads: any.
int braid_roce_address_create(struct braid_roce_ud *ud,
                              const char *gid,
                              uint32_t port,
                              uint32_t traffic_class,
                              struct braid_roce_address **address);

// Closes an address. Posted datagrams still leave.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_roce_address_close(struct braid_roce_address *address);

// Writes the path MTU of the route to the peer, which is the length of the longest datagram in
// bytes, into `mtu`.
//
// Threads: any.
int braid_roce_address_mtu(const struct braid_roce_address *address, uint32_t *mtu);

// Creates a listener at the engine's address. Up to `backlog` requests wait to be accepted. Other
// initiators retry until their time-out. An engine has one listener at a time.
//
// Threads: any.
int braid_listener_create(struct braid_engine *engine,
                          size_t backlog,
                          struct braid_listener **listener);

// Closes a listener and rejects waiting requests. Accepted connections and open requests remain.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_listener_close(struct braid_listener *listener);

// Waits up to `timeout_us` microseconds for a request; BRAID_ERR_TIMED_OUT if none arrived. The
// caller must accept or reject the request.
//
// Threads: any; each request goes to one of them.
int braid_listener_accept(struct braid_listener *listener,
                          uint64_t timeout_us,
                          struct braid_request **request);

// Returns a descriptor that is readable while requests wait, until a braid_listener_accept with a
// time-out of 0 finds none; for poll, epoll and the like. The listener owns it: do not read or
// close it.
//
// Threads: any.
int braid_listener_fd(const struct braid_listener *listener);

// Writes the address of the peer into `text` of `size` bytes; BRAID_ADDR_LEN suffice.
//
// Threads: any.
int braid_request_peer(const struct braid_request *request, char *text, size_t size);

// Writes the peer's name in the list of allowed keys, as braid_qp_peer_name does for a connection.
// Empty with a pre-shared key or without keys.
//
// Threads: any.
int braid_request_peer_name(const struct braid_request *request, char *text, size_t size);

// Writes the private data of the peer's request to `data`, up to `*len` bytes. `*len` becomes the
// full length, at most BRAID_MAX_PRIVATE_DATA.
//
// Threads: any.
int braid_request_private_data(const struct braid_request *request, void *data, size_t *len);

// Connects `qp`, which must belong to the same engine and be in RESET or INIT, to the peer. Sends
// `len` bytes at `data` (up to BRAID_MAX_PRIVATE_DATA; NULL for none) to its application. Post
// receives before, because the peer may send at once.
//
// Closes the request, and rejects it on an error other than BRAID_ERR_NULL, BRAID_ERR_HANDLE and
// BRAID_ERR_BUSY, which leave it open.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_request_accept(struct braid_request *request,
                         struct braid_qp *qp,
                         const void *data,
                         size_t len);

// Rejects and closes a request: the peer's connection attempt fails.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_request_reject(struct braid_request *request);

// Posts `count` work requests of the array `wrs` to the send queue in order, up to the first one
// that is refused. Writes the number of posted ones to `posted` unless it is NULL, also on an
// error.
//
// The memory of a work request must not change before the request has ended. For READs and
// atomics, the application must not use it at all. An unsignalled work request has no completion
// unless it fails. It has ended when a later one of the queue has completed. In the state ERR,
// work requests are flushed at once.
//
// Threads: any; work requests that several threads post at the same time have an undefined order.
int braid_qp_post_send(struct braid_qp *qp,
                       const struct braid_send_wr *wrs,
                       size_t count,
                       size_t *posted);

// Posts `count` work requests of the array `wrs` to the receive queue, like braid_qp_post_send.
// The application must not use their memory before they have completed.
//
// Threads: any, as for braid_qp_post_send.
int braid_qp_post_recv(struct braid_qp *qp,
                       const struct braid_recv_wr *wrs,
                       size_t count,
                       size_t *posted);

// Reads the reason why the queue pair is in BRAID_QP_ERR and the work request that failed.
//
// Threads: any.
int braid_qp_query_error(const struct braid_qp *qp, struct braid_qp_error *error);

// Returns the text of a `cause`; never NULL.
//
// Threads: any. The text is constant.
const char *braid_end_cause_str(int cause);

// Returns a descriptor that is readable while events are pending, for poll, epoll and the like.
// The engine owns it: do not read or close it.
//
// Threads: any.
int braid_engine_event_fd(const struct braid_engine *engine);

// Takes the oldest pending event and waits up to `timeout_us` microseconds for one; 0 does not
// wait. Returns 1, or 0 with BRAID_EVENT_NONE in `event`. If the application makes progress,
// waiting runs the engine.
//
// Threads: any; each event goes to one of them.
int braid_engine_wait_event(struct braid_engine *engine,
                            struct braid_event *event,
                            uint64_t timeout_us);

// Connects to all other ranks. The engine must not listen during the call. It can belong to
// several groups.
//
// If a rank is missing or provides a different configuration, every rank gets an error within
// `timeout_us` and a few seconds. The error is BRAID_ERR_REJECTED with the same text at all ranks,
// or BRAID_ERR_UNREACHABLE if rank 0 or another rank was not reached.
//
// Threads: any. The call waits.
int braid_group_join(struct braid_engine *engine,
                     const struct braid_group_config *config,
                     struct braid_group **group);

// Leaves the group and notifies the other ranks. An unfinished round ends there with an error that
// names this rank. When this returns 0, no rank accesses the memory of its rounds any more.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it, or a round of it has
// not been closed.
int braid_group_close(struct braid_group *group);

// Returns the rank of this process, from 0.
//
// Threads: any.
int braid_group_rank(const struct braid_group *group);

// Returns the number of ranks.
//
// Threads: any.
int braid_group_size(const struct braid_group *group);

// Creates a handle of the protection domain in which the memory of the group's rounds must be
// registered. The handle is closed like any other, after its regions, and may outlive the group.
//
// Threads: any.
int braid_group_pd(const struct braid_group *group, struct braid_pd **pd);

// Fills `config` with the defaults; `size` is sizeof(braid_group_config). The caller must set
// `rank`, `ranks`, and `root` or `addresses`.
//
// Threads: any.
int braid_group_config_init(struct braid_group_config *config, size_t size);

// Initialises `config` like braid_group_config_init, with `rank`, `ranks`, `root` and `job` from
// the environment.
//
// Rank and number of ranks: RANK and WORLD_SIZE (PyTorch), OMPI_COMM_WORLD_RANK and _SIZE or
// PMI_RANK and PMI_SIZE (mpirun), or SLURM_PROCID and SLURM_NTASKS (srun). Root: MASTER_ADDR and
// MASTER_PORT (default 4791). Job: BRAID_JOB, or the name that the launcher sets
// (TORCHELASTIC_RUN_ID, PMIX_NAMESPACE, SLURM_JOB_ID and SLURM_STEP_ID and so on).
//
// BRAID_ERR_INVALID names the variable that is missing or invalid.
//
// Threads: any, while none changes the environment.
int braid_group_config_from_env(struct braid_group_config *config, size_t size);

// Writes the `bind` address of this rank's engine into `text` of `size` bytes; BRAID_ADDR_LEN
// suffice. This is its own address if the others know it in advance, otherwise any port.
//
// Threads: any.
int braid_group_config_bind(const struct braid_group_config *config, char *text, size_t size);

// Reads the reason why the group has ended, and the responsible rank.
//
// Threads: any.
int braid_group_query_end(const struct braid_group *group, struct braid_group_end *end);

// Returns the text of a `blame`; never NULL.
//
// Threads: any. The text is constant.
const char *braid_blame_str(int blame);

// Starts a round. Returns after copying this rank's data for itself. `sends` holds the part of
// `send` for each of the `ranks` ranks. `receives` holds the part of `recv` for the data of each
// rank, of the same length as that data. The parts of `recv` must not overlap. All ranks start the
// same rounds in the same order. At most 8 rounds are in flight; another one fails with
// BRAID_ERR_FULL.
//
// The regions must belong to the group's protection domain (braid_group_pd), and `recv` must
// permit BRAID_ACCESS_LOCAL_WRITE and BRAID_ACCESS_REMOTE_WRITE. During the round, the application
// must not change the data to send nor use the memory to receive into. It must not close the
// regions before the end of the round.
//
// Threads: any; threads that start rounds of one group take turns.
int braid_group_start(struct braid_group *group,
                      const struct braid_mr *send,
                      const struct braid_range *sends,
                      const struct braid_mr *recv,
                      const struct braid_range *receives,
                      size_t ranks,
                      struct braid_round **round);

// Returns 1 if the round is complete, otherwise 0. A round is complete when this rank has received
// all data and its data has arrived at all peers. BRAID_ERR_GROUP: the group has ended before, no
// rank accesses the memory any more, and braid_group_query_end gives the reason.
//
// Threads: any.
int braid_round_test(const struct braid_round *round);

// Waits for the end of the round. Errors are those of braid_round_test, and BRAID_ERR_TIMED_OUT
// after `timeout_us`, with the missing ranks in the text. The round continues after the time-out,
// and the caller can wait again.
//
// Threads: any.
int braid_round_wait(const struct braid_round *round, uint64_t timeout_us);

// Cancels and closes the round. If it is not complete, the group ends at all ranks with an error
// that names this one.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_round_cancel(struct braid_round *round);

// Closes the handle. The round continues.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_round_close(struct braid_round *round);

// Returns the text of a completion's `status`; never NULL.
//
// Threads: any. The text is constant.
const char *braid_wc_status_str(int status);

// Returns the name of a completion's `opcode`, such as "SEND"; never NULL.
//
// Threads: any. The text is constant.
const char *braid_wc_opcode_str(uint32_t opcode);

// Returns the name of a queue pair state, such as "RTS"; never NULL.
//
// Threads: any. The text is constant.
const char *braid_qp_state_str(int state);

// Creates a histogram of the peer's packets so far. It is empty if no packet was reordered or if
// the queue pair is not connected. The caller must close it.
//
// Threads: any.
int braid_qp_query_ooo(const struct braid_qp *qp, struct braid_ooo **ooo);

// Closes a histogram.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_ooo_close(struct braid_ooo *ooo);

// Writes the number of reordered packets into `count`.
//
// Threads: any.
int braid_ooo_count(const struct braid_ooo *ooo, uint64_t *count);

// Writes the extent that the share `share`, 0 to 1, of all packets does not exceed into `degree`.
// `in_order` further packets count with an extent of 0.
//
// Threads: any.
int braid_ooo_quantile(const struct braid_ooo *ooo,
                       double share,
                       uint64_t in_order,
                       uint64_t *degree);

// Adds the packets of `from` to those of `ooo`.
//
// Threads: any.
int braid_ooo_merge(struct braid_ooo *ooo, const struct braid_ooo *from);

// Creates a report of the paths to all destinations with queue pairs. The caller must close it.
//
// Threads: any.
int braid_engine_query_paths(const struct braid_engine *engine, struct braid_paths **paths);

// Closes a report.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_paths_close(struct braid_paths *paths);

// Writes the number of paths in the report into `count`.
//
// Threads: any.
int braid_paths_count(const struct braid_paths *paths, size_t *count);

// Reads the path at `index`, from 0, of the report.
//
// Threads: any.
int braid_paths_get(const struct braid_paths *paths,
                    size_t index,
                    struct braid_path_report *report);

// Writes the number of destinations in the report into `count`. A destination counts once for each
// rail and for each engine thread that sends to it.
//
// Threads: any.
int braid_paths_count_destinations(const struct braid_paths *paths, size_t *count);

// Reads the destination at `index`, from 0, of the report.
//
// Threads: any.
int braid_paths_get_destination(const struct braid_paths *paths,
                                size_t index,
                                struct braid_path_destination *destination);

// Reads the degradation at `index`, from 0, of the queue pair's connection. Returns 1, or 0
// without changing `degradation` if there are fewer. The list may change at any time;
// braid_engine_query_metrics returns a consistent one.
//
// Threads: any.
int braid_qp_get_degradation(const struct braid_qp *qp,
                             size_t index,
                             struct braid_degradation *degradation);

// Takes a snapshot of an engine, of each thread between two iterations. The caller must close it.
//
// Threads: any.
int braid_engine_query_metrics(const struct braid_engine *engine, struct braid_metrics **metrics);

// Closes a snapshot.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_metrics_close(struct braid_metrics *metrics);

// Reads the state of the engine, including its number of queue pairs.
//
// Threads: any.
int braid_metrics_get_engine(const struct braid_metrics *metrics,
                             struct braid_engine_metrics *engine);

// Reads the counters of the engine.
//
// Threads: any.
int braid_metrics_get_counters(const struct braid_metrics *metrics,
                               struct braid_engine_counters *counters);

// Reads the queue pair at `index`, from 0, of the snapshot.
//
// Threads: any.
int braid_metrics_get_qp(const struct braid_metrics *metrics,
                         size_t index,
                         struct braid_qp_metrics *qp);

// Reads the counters of the queue pair at `index` of the snapshot.
//
// Threads: any.
int braid_metrics_get_qp_counters(const struct braid_metrics *metrics,
                                  size_t index,
                                  struct braid_qp_counters *counters);

// Reads the subflow at `subflow_index`, from 0, of the queue pair at `index` of the snapshot.
//
// Threads: any.
int braid_metrics_get_subflow(const struct braid_metrics *metrics,
                              size_t index,
                              size_t subflow_index,
                              struct braid_subflow_metrics *subflow);

// Reads the degradation at `degradation_index`, from 0, of the queue pair at `index` of the
// snapshot.
//
// Threads: any.
int braid_metrics_get_degradation(const struct braid_metrics *metrics,
                                  size_t index,
                                  size_t degradation_index,
                                  struct braid_degradation *degradation);

// Fills `config` with the defaults; `size` is sizeof(braid_discovery_config).
//
// Threads: any.
int braid_discovery_config_init(struct braid_discovery_config *config, size_t size);

// Discovers the routes of the `count` paths (numbers below 4096) in the array `paths`. `from` is
// the local address, such as "10.0.0.1" or "::" for any. `to` is the receiving address of a peer's
// engine, such as "10.0.0.2:4791". If no hop answers, the map is empty, which is not an error. The
// caller must close the map.
//
// The call takes about a second, and up to `patience_us` more if routers limit their answers.
//
// Threads: any, but one at a time for a destination.
int braid_discover(const struct braid_discovery_config *config,
                   const char *from,
                   const char *to,
                   const uint16_t *paths,
                   size_t count,
                   struct braid_path_map **map);

// Closes a map.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_path_map_close(struct braid_path_map *map);

// Reads the contents of the map.
//
// Threads: any.
int braid_path_map_query(const struct braid_path_map *map, struct braid_path_map_info *info);

// Writes the number of hops of the route at index `way`, from 0, into `hops`, and the number of
// its paths into `paths`.
//
// Threads: any.
int braid_path_map_way(const struct braid_path_map *map, size_t way, size_t *hops, size_t *paths);

// Writes the address of the router at index `hop`, from 0, of a route into `text` of `size` bytes;
// BRAID_ADDR_LEN suffice. Returns 1, or 0 and an empty text if the router never answered. The last
// hop is the destination, if it answered.
//
// Threads: any.
int braid_path_map_hop(const struct braid_path_map *map,
                       size_t way,
                       size_t hop,
                       char *text,
                       size_t size);

// Writes the paths of a route in ascending order into the array `paths` with space for `max`.
// Returns their number.
//
// Threads: any.
int braid_path_map_paths(const struct braid_path_map *map, size_t way, uint16_t *paths, size_t max);

// Writes up to `max` paths that load all routes equally into the array `paths`: the same number
// per route, alternating between routes. Returns their number. 0: a balanced list has no
// advantage, because at most one route is known, or `max` is less than the number of routes.
//
// Threads: any.
int braid_path_map_balanced(const struct braid_path_map *map, uint16_t *paths, size_t max);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BRAID_H */
