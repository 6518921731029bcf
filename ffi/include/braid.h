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

// Room for the longest address with its NUL.
#define BRAID_ADDR_LEN 64

// The version of the binary interface that this header describes. A program that was built with it
// works with every library of the same number, newer or older, as long as it uses what that has.
#define BRAID_ABI_VERSION 0

// All went well.
#define BRAID_OK 0

// A pointer that is needed is NULL.
#define BRAID_ERR_NULL -1

// A handle that is closed, or never was one of this kind.
#define BRAID_ERR_HANDLE -2

// A value that cannot be: out of its range, an unknown constant or name, a malformed address.
#define BRAID_ERR_INVALID -3

// The queue pair is in a state that does not allow this.
#define BRAID_ERR_STATE -4

// The queue holds as many work requests as it can.
#define BRAID_ERR_FULL -5

// Memory that is not registered for this use.
#define BRAID_ERR_ACCESS -6

// Nothing happened in time.
#define BRAID_ERR_TIMED_OUT -7

// The peer said no.
#define BRAID_ERR_REJECTED -8

// There is no way to that address.
#define BRAID_ERR_UNREACHABLE -9

// The completion queue has overrun and completions are lost.
#define BRAID_ERR_OVERRUN -10

// It is in use: other objects were made with it, or another thread is inside a call with it.
#define BRAID_ERR_BUSY -11

// There are as many of them as there can be.
#define BRAID_ERR_EXHAUSTED -12

// The system refused memory, a socket, a thread or a descriptor.
#define BRAID_ERR_SYSTEM -13

// The attempt was given up, because the queue pair was reset, disconnected or closed.
#define BRAID_ERR_CANCELLED -14

// The program asks for something that only a newer library has.
#define BRAID_ERR_UNSUPPORTED -15

// A bug of Braid. The engine it concerns should be closed.
#define BRAID_ERR_INTERNAL -16

// The group has ended because of what a rank did: braid_group_query_end says of which.
#define BRAID_ERR_GROUP -17

// Something has failed that somebody has to look after.
#define BRAID_LOG_ERROR 1

// Something is not as it should be, and goes on.
#define BRAID_LOG_WARN 2

// What happens to engines, connections and paths.
#define BRAID_LOG_INFO 3

// Details of that.
#define BRAID_LOG_DEBUG 4

// Everything.
#define BRAID_LOG_TRACE 5

// The UDP port of Braid, unless a program is told another.
#define BRAID_DEFAULT_PORT 4791

// Paths to a peer are fewer than this, or as many.
#define BRAID_MAX_PATHS 4096

// The NIC's unreliable connections carry the paths: what is lost is resent by Braid, on whatever path
// is good.
#define BRAID_SERVICE_UC 0

// Its reliable connections, for NICs that have no others.
#define BRAID_SERVICE_RC 1

// Only local reads: what is sent or written from here.
#define BRAID_ACCESS_NONE 0

// Receives, READs and the results of atomics may land here.
#define BRAID_ACCESS_LOCAL_WRITE 1

// The peer may WRITE.
#define BRAID_ACCESS_REMOTE_WRITE 2

// The peer may READ.
#define BRAID_ACCESS_REMOTE_READ 4

// The peer may use atomics.
#define BRAID_ACCESS_REMOTE_ATOMIC 8

// Everything.
#define BRAID_ACCESS_ALL 15

// Bytes that braid_remote_pack writes.
#define BRAID_REMOTE_LEN 20

// Takes nothing.
#define BRAID_QP_RESET 0

// Takes receives.
#define BRAID_QP_INIT 1

// Receives. A queue pair passes through it while it connects.
#define BRAID_QP_RTR 2

// Sends and receives.
#define BRAID_QP_RTS 3

// Receives; finishes the sends it has begun and holds back the others.
#define BRAID_QP_SQD 4

// Every outstanding and every new work request is flushed.
#define BRAID_QP_ERR 5

// Most bytes of private data that a side hands over when connecting.
#define BRAID_MAX_PRIVATE_DATA 512

// Bytes that the name of a peer takes at most, with its NUL: 64 characters in UTF-8.
#define BRAID_PEER_NAME_LEN ((64 * 4) + 1)

// Fills a receive of the peer.
#define BRAID_WR_SEND 0

// As BRAID_WR_SEND, and hands `imm` to the peer with the completion.
#define BRAID_WR_SEND_WITH_IMM 1

// Writes the peer's memory, without the peer's taking part.
#define BRAID_WR_WRITE 2

// As BRAID_WR_WRITE, and completes a receive of the peer with `imm`.
#define BRAID_WR_WRITE_WITH_IMM 3

// Reads the peer's memory into the elements.
#define BRAID_WR_READ 4

// Makes 8 aligned bytes of the peer `swap` if they hold `compare_add`; what they held lands in the one
// element of 8 bytes, in this machine's byte order.
#define BRAID_WR_COMPARE_SWAP 5

// Adds `compare_add` to 8 aligned bytes of the peer; what they held lands in the one element.
#define BRAID_WR_FETCH_ADD 6

// Success is worth a completion. Failure always is.
#define BRAID_SEND_SIGNALED 1

// The peer's completion is a solicited one.
#define BRAID_SEND_SOLICITED 2

// Begins only after all READs and atomics before it have ended.
#define BRAID_SEND_FENCE 4

// The bytes are copied when it is posted: they may change at once, and need not be registered (their
// `lkey` is not looked at). For SEND and WRITE of up to `max_inline` bytes.
#define BRAID_SEND_INLINE 8

// Most elements of a work request, whatever the queue pair is configured for.
#define BRAID_MAX_SGE 256

// The longest message, in bytes: 1 GiB.
#define BRAID_MAX_MESSAGE (1 << 30)

// As asked.
#define BRAID_WC_SUCCESS 0

// A message did not fit its receive buffer.
#define BRAID_WC_LOC_LEN_ERR 1

// Local memory was deregistered under a work request.
#define BRAID_WC_LOC_PROT_ERR 2

// The queue pair went into ERR before this work request had ended.
#define BRAID_WC_WR_FLUSH_ERR 3

// The peer found the request malformed, or too long for its receive buffer.
#define BRAID_WC_REM_INV_REQ_ERR 4

// The peer does not allow this access.
#define BRAID_WC_REM_ACCESS_ERR 5

// The peer failed on its own account.
#define BRAID_WC_REM_OP_ERR 6

// The peer did not answer in time.
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

// The sender has asked for a solicited event.
#define BRAID_WC_SOLICITED 2

// The queue pair is not in ERR.
#define BRAID_END_NONE 0

// The application moved it to ERR, or disconnected.
#define BRAID_END_APPLICATION 1

// A completion queue of its own was full.
#define BRAID_END_CQ_OVERRUN 2

// What moves its packets is gone: an RDMA device was removed, or has failed.
#define BRAID_END_DEVICE_GONE 3

// A memory region of its own was closed, or does not allow what a work request needs.
#define BRAID_END_LOCAL_MEMORY 4

// The peer ended the connection, and refused nothing.
#define BRAID_END_PEER 5

// Nothing came from the peer in time.
#define BRAID_END_PEER_SILENT 6

// The peer has no such queue pair any more: it was restarted, or has let go of it unheard.
#define BRAID_END_PEER_UNKNOWN 7

// The peer posted no receive in time.
#define BRAID_END_PEER_NOT_READY 8

// The peer refused a work request of this end; `status` says how.
#define BRAID_END_REFUSED_BY_PEER 9

// This end refused what the peer asked for: `status` is BRAID_WC_REM_ACCESS_ERR where the peer may not,
// BRAID_WC_LOC_LEN_ERR where its message was longer than the receive.
#define BRAID_END_REFUSED_HERE 10

// The peer acknowledged what it never received, or does not keep to the protocol otherwise.
#define BRAID_END_PEER_UNTRUE 11

// A cause that this version of the C API has no number for: see the text of the log.
#define BRAID_END_OTHER 12

// The peer's process has ended: its host says that nobody receives at its port.
#define BRAID_END_PEER_GONE 13

// Nothing has happened.
#define BRAID_EVENT_NONE 0

// A queue pair is in BRAID_QP_ERR, and not because the application moved it there; `cause` and `status` say why, and
// braid_qp_query_error which work request.
#define BRAID_EVENT_QP_ENDED 1

// In BRAID_QP_SQD: everything that was begun has ended.
#define BRAID_EVENT_SQ_DRAINED 2

// The largest datagram that reaches the peer, `value` bytes, for all queue pairs that go there.
#define BRAID_EVENT_PATH_MTU 3

// What leaves from the ports of paths does not reach the peer (a NAT or firewall): all leaves from the receiving
// port, on one path, for all queue pairs that go there.
#define BRAID_EVENT_PATHS_BLOCKED 4

// It does reach the peer again.
#define BRAID_EVENT_PATHS_OPEN 5

// More happened than the 4096 events that wait: `value` are missing here.
#define BRAID_EVENT_MISSED 6

// Something that this version of the C API has no number for.
#define BRAID_EVENT_OTHER 7

// Most ranks of a group.
#define BRAID_MAX_RANKS 4096

// Room for the longest name of a job with its NUL.
#define BRAID_JOB_LEN 256

// The group has not ended.
#define BRAID_BLAME_NONE 0

// A rank has died, or cannot be reached any more.
#define BRAID_BLAME_DEAD 1

// Two ranks do not agree on how many bytes one sends to the other.
#define BRAID_BLAME_COUNTS 2

// A rank sent what no rank sends.
#define BRAID_BLAME_MALFORMED 3

// A rank has cancelled a round, or closed its group before it was over.
#define BRAID_BLAME_CANCELLED 4

// A rank has left the group while others had more rounds.
#define BRAID_BLAME_LEFT 5

// The memory of a rank is not of the group's protection domain, or does not allow this.
#define BRAID_BLAME_MEMORY 6

// What this version of the C API has no number for: see the text.
#define BRAID_BLAME_OTHER 7

// Bytes that the name of a degradation takes at most, with its NUL.
#define BRAID_DEGRADATION_NAME_LEN 32

// Bytes that the text of a degradation takes at most, with its NUL; a longer one is cut.
#define BRAID_DEGRADATION_TEXT_LEN 512

// What the queue pair has sent as requests: SENDs, WRITEs, READs and atomics.
#define BRAID_STREAM_REQUESTS 0

// What it has sent as responses to its peer's READs and atomics.
#define BRAID_STREAM_RESPONSES 1

// An attempt to connect.
typedef struct braid_connecting braid_connecting;

// A completion queue: where work requests end. Its queue pairs must not have more work requests
// outstanding than it has room for.
typedef struct braid_cq braid_cq;

// One user of the network: protection domains, completion queues and listeners are made with it.
typedef struct braid_engine braid_engine;

// A network inside this process, for tests: the engines made with it reach each other, at addresses
// that are free to choose.
typedef struct braid_fabric braid_fabric;

// A rank's membership of a group: an all-to-all with counts by peer, as MPI_Alltoallv.
typedef struct braid_group braid_group;

// Takes connections at the address of its engine.
typedef struct braid_listener braid_listener;

// A snapshot of an engine. Rates are for the program to compute: of two snapshots, the difference of a counter by that of
// `uptime_ns`.
typedef struct braid_metrics braid_metrics;

// A memory region: memory that work requests and peers may name.
typedef struct braid_mr braid_mr;

// A histogram of out-of-order degrees: by how many packets those that came early were ahead of the last
// one in order, 1 and more. From 16 on with a resolution of an eighth.
typedef struct braid_ooo braid_ooo;

// Which paths to a destination take which way.
typedef struct braid_path_map braid_path_map;

// A report of all paths of an engine, as they were when it was made.
typedef struct braid_paths braid_paths;

// A protection domain: queue pairs and memory regions of different ones do not meet.
typedef struct braid_pd braid_pd;

// A reliable connected queue pair. Work requests of each of its two queues end in posting order, each in
// one completion (signalled, or failed).
typedef struct braid_qp braid_qp;

// Somebody who wants to connect.
typedef struct braid_request braid_request;

// A round in flight. It goes on without being asked, and after it is closed.
typedef struct braid_round braid_round;

// Is told of an event: how bad it is (BRAID_LOG_ERROR and so on), the part of Braid that says it, and what it says with its
// fields behind it, ` name=value` each. The texts last as long as the call. Any thread may call it, several at the same
// time, inside any function of this library, with locks of the engine held: it must call none of them, and not wait.
typedef void (*braid_log_callback)(void *user, int level, const char *target, const char *text);

// How an engine behaves. Filled by braid_engine_config_init.
typedef struct braid_engine_config {
    // Set by braid_engine_config_init.
    size_t size;
    // The receiving address, such as `10.0.0.1:4791` or `[::]:0`. Port 0: any free one; an engine
    // that others connect to wants one that they know. NULL: `[::]:0`.
    const char *bind;
    // The network inside this process that carries the packets. NULL: UDP, or `device`.
    struct braid_fabric *fabric;
    // Threads of the engine, 1 to 64, each with a receiving port of its own. 0: the application
    // makes progress, in braid_engine_progress and wherever it polls or waits; while it does something
    // else, a thread of the engine does, within 4 ms.
    uint32_t threads;
    // How many paths there are to a peer, 1 to BRAID_MAX_PATHS; over UDP each is a source port.
    uint32_t paths;
    // The path policy by name, such as "pro" or "ecmp". NULL: the default.
    const char *lb;
    // 1: the engine finds out which paths take different ways, and uses equally many of each, for
    // networks whose switches hash. 0: all paths alike.
    int discover;
    // 1: payloads carry a check. It is on if either side wants it.
    int crc;
    // Most payload bytes of a packet, up to 65535. 0: what suits the path, 16384 at most.
    uint32_t mtu;
    // Bytes of arrived datagrams that each receiving socket shall hold. The system may grant less.
    size_t receive_buffer;
    // Where the random choices of the path policy start.
    uint64_t seed;
    // How long a thread looks for work before it sleeps, in microseconds. This and the timers below:
    // a day at most.
    uint64_t spin_us;
    // How often a peer is asked for a sign of life, by its queue pairs in turn, in microseconds; 1000 at least.
    uint64_t ping_interval_us;
    // Silence after which it is taken for dead, in microseconds.
    uint64_t peer_timeout_us;
    // How long an engine that is closed waits at most for its peers to confirm that its queue pairs have ended, in
    // microseconds.
    uint64_t linger_us;
    // Faults that are injected below the protocol, for tests: the probability, from 0 to 1, that a
    // datagram is lost,
    double fault_drop;
    // that it is overtaken by later ones,
    double fault_reorder;
    // that it is sent twice,
    double fault_duplicate;
    // that some of its bits are flipped.
    double fault_corrupt;
    // Added to the way of every datagram, in microseconds, at most ten seconds.
    uint64_t fault_delay_us;
    // Where the random numbers of the faults start.
    uint64_t fault_seed;
    // The RDMA device that carries the packets, Soft-RoCE included, as `rdma link` names it. NULL: none.
    // Connections are set up over UDP all the same. Its NIC checks payloads, whatever `crc` says, and
    // no faults can be injected.
    const char *device;
    // Its port, from 1.
    uint32_t device_port;
    // What carries the paths: BRAID_SERVICE_UC or BRAID_SERVICE_RC.
    int service;
    // The entry of the port's GID table that is its address. -1: the one of `bind`, or else the first
    // of RoCE v2 that is an IPv4 address, or else the first of RoCE v2.
    int64_t gid_index;
    // The addresses of this host's further rails, with commas between them, such as `10.1.0.1,10.2.0.1`; at most seven. `bind` is
    // the first rail's, and then has to be an address, too. A connection uses as many rails as both its ends have, the
    // first with the first and so on. NULL: one rail. With `device`, which is the first rail's, each is the address of an RDMA
    // device, too.
    const char *rails;
    // The rail policy by name: "least-loaded", "round-robin", "hash", "lpt" or "min-rtt". NULL: the default.
    const char *rail_policy;
    // Where the engine's metrics can be read from outside the process: `off`; `local`, by `braid-perf top PID` of the same user; an
    // address such as `127.0.0.1:9464`, there by HTTP too, as Prometheus does. NULL: what the environment variable BRAID_METRICS says,
    // or else `off`.
    const char *metrics;
    // A key file, made by `braid-perf keygen`, that nobody but its owner can read: connections are keyed, over UDP. With a
    // private key, `allowed_keys` has to name something. NULL: they are not.
    const char *key_file;
    // What the key is for: "off", "auth" (packets are authenticated), "encrypt" (they are encrypted as well), "required" (and a
    // listener turns away who has no key), behind it the ciphers that may be used if not all:
    // "required:aes-128-gcm,chacha20-poly1305". NULL: "required" with `key_file`, or else "off".
    const char *security;
    // The file of the public keys of those that are connected to and taken connections of, which nobody but its owner can change:
    // lines as `braid-perf keygen --static` prints them, `braid-public DIGITS [until YYYY-MM-DD] [# NAME]`. It goes with a
    // `key_file` that holds a private key. NULL: none.
    const char *allowed_keys;
    // 1: datagrams of up to 1200 bytes go by AF_XDP, past the network stack, which takes less time, and the others by UDP sockets.
    // `bind` is the IPv4 address of an Ethernet interface then, and `threads` is 1 or 0; it takes root, or CAP_NET_RAW,
    // CAP_NET_ADMIN and CAP_BPF, and one engine has it on an interface. Not with `fabric` or `device`. 0: UDP sockets alone.
    int xdp;
    // The datapath by name: "udp", "xdp", "verbs" (needs `device`) or "mem" (needs `fabric`). NULL:
    // the one that `fabric`, `device` or `xdp` selects, otherwise "udp". New programs name "xdp"
    // here instead of setting `xdp`.
    const char *datapath;
} braid_engine_config;

// Events since the engine was made.
typedef struct braid_engine_counters {
    // Set it to sizeof(braid_engine_counters).
    size_t size;
    // Datagrams handed to the link.
    uint64_t datagrams_sent;
    // Batches handed to the link; over UDP, a system call each.
    uint64_t batches_sent;
    // Times that the link was full and a batch had to wait.
    uint64_t link_full;
    // Batches that the link failed to send.
    uint64_t send_errors;
    // Datagrams received.
    uint64_t datagrams_received;
    // Received datagrams dropped because they are not Braid's, or contradict themselves.
    uint64_t malformed;
    // Received datagrams dropped because their version is not this library's.
    uint64_t version;
    // Received datagrams dropped because the header check failed: damaged on the way.
    uint64_t header_check;
    // Data packets dropped because the payload check failed: damaged on the way.
    uint64_t payload_check;
    // Packets dropped because no queue pair has that number.
    uint64_t unknown_qp;
    // Data packets that had arrived before.
    uint64_t duplicates;
    // Data packets refused: outside the window, no receive posted, no access, wrong state.
    uint64_t refused;
    // Set-up packets dropped or turned down.
    uint64_t setup_refused;
    // Datagrams that arrived at this host and found the receive buffer full.
    uint64_t overflowed;
    // Datagrams that the system refused to send: no route, a firewall.
    uint64_t unreachable;
    // Datagrams that injected faults dropped or damaged.
    uint64_t injected;
    // Times that the ways to a peer were found out, where `discover` is set.
    uint64_t ways_learnt;
    // Packets dropped because they have another token than the queue pair of that number: those of an earlier
    // connection, or guesses.
    uint64_t wrong_token;
    // Packets dropped because they have the number and token of a connection and come from another host than its peer.
    uint64_t wrong_source;
    // Connection requests put off because the backlog, or the share of it that one host may hold, was full.
    uint64_t setup_busy;
    // Times that what left from the ports of paths was found not to reach a peer, and what left from the receiving
    // port to do so: a NAT or a stateful firewall.
    uint64_t paths_blocked;
    // Packets dropped because the keys of their connection do not open them: forged, or changed on the way.
    uint64_t forged;
    // Packets of keyed connections dropped because their numbers had come before, or were too old to tell.
    uint64_t replayed;
    // Packets dropped because their connection is keyed and they are not protected, or are with the keys of another one.
    uint64_t unprotected;
} braid_engine_counters;

// What a memory region is.
typedef struct braid_mr_info {
    // Set it to sizeof(braid_mr_info).
    size_t size;
    // Its first byte.
    void *addr;
    // Its length in bytes.
    size_t len;
    // The key for work requests of this engine.
    uint32_t lkey;
    // The key for work requests of peers.
    uint32_t rkey;
} braid_mr_info;

// One piece of local memory.
typedef struct braid_sge {
    // Its first byte.
    uint64_t addr;
    // Its length in bytes.
    uint32_t len;
    // The key of the memory region that it lies in.
    uint32_t lkey;
} braid_sge;

// Memory of a peer, as its owner hands it out.
typedef struct braid_remote {
    // Its first byte, an address of the owner's.
    uint64_t addr;
    // Its length in bytes.
    uint64_t len;
    // The key that opens it.
    uint32_t rkey;
} braid_remote;

// How one work request ended. Completions of one queue come in posting order.
typedef struct braid_wc {
    // The id of the work request.
    uint64_t wr_id;
    // The number of the queue pair.
    uint32_t qp_num;
    // BRAID_WC_SUCCESS or why it failed. The fields below are valid on success only, but for `opcode`.
    int status;
    // What it was: BRAID_WC_SEND and so on.
    uint32_t opcode;
    // Bytes of the message.
    uint32_t byte_len;
    // Immediate data, where `flags` say so: a number, the same on both sides.
    uint32_t imm;
    // BRAID_WC_WITH_IMM, BRAID_WC_SOLICITED.
    uint32_t flags;
} braid_wc;

// How a queue pair behaves. Filled by braid_qp_options_init; the two queues have to be set.
typedef struct braid_qp_options {
    // Set by braid_qp_options_init.
    size_t size;
    // Where completions of sends go.
    struct braid_cq *send_cq;
    // Where completions of receives go; may be the same.
    struct braid_cq *recv_cq;
    // Work requests that the send queue holds, up to 1048576.
    uint32_t max_send_wr;
    // Work requests that the receive queue holds, up to 1048576.
    uint32_t max_recv_wr;
    // Most elements of a work request, up to BRAID_MAX_SGE.
    uint32_t max_sge;
    // Most bytes of inline data, up to 8192.
    uint32_t max_inline;
    // What the peer may do through it, whatever the memory region allows: BRAID_ACCESS_*.
    uint32_t access;
    // Packets beyond the first that is missing that it tracks, up to 4096.
    uint32_t window;
    // READs and atomics that it serves at a time, 1 to 255.
    uint32_t max_rd_atomic;
    // Times that the peer may answer "receiver not ready" to one message, 0 to 255; -1: no limit.
    int rnr_retry;
    // How many packets sent later have to arrive before one counts as lost, with "sack".
    uint32_t reorder_threshold;
    // Segments after which the next acknowledgement is asked for; 1: every segment asks.
    uint32_t ask_every;
    // How long a peer is told to wait when no receive is posted, in microseconds. This and the timers
    // below: a day at most.
    uint64_t rnr_delay_us;
    // Shortest retransmission time-out, in microseconds.
    uint64_t min_rto_us;
    // Longest retransmission time-out, in microseconds.
    uint64_t max_rto_us;
    // How long it tries without any progress before it gives up, in microseconds. 0: as long as `peer_timeout_us` of its
    // engine.
    uint64_t retry_timeout_us;
    // How long the acknowledgement of a request that was replied to may wait, in microseconds.
    uint64_t reply_hold_us;
    // How lost packets are told from late ones, by name, such as "fifo-path". NULL: the default.
    const char *recovery;
    // The congestion control, by name and parameters, such as "cubic", "fixed:2M" or "rate:10G". NULL: the default.
    const char *cc;
} braid_qp_options;

// What a queue pair is at the moment.
typedef struct braid_qp_info {
    // Set it to sizeof(braid_qp_info).
    size_t size;
    // Its number, 24 bits; completions carry it.
    uint32_t qp_num;
    // BRAID_QP_RESET and so on.
    int state;
    // Sends that are posted and have not ended.
    uint32_t outstanding_sends;
    // Receives that are posted and have not ended.
    uint32_t outstanding_recvs;
    // Payload bytes of a full packet, as agreed with the peer; 0: it is not connected.
    uint32_t packet_payload;
    // Whether payloads carry a check, as agreed with the peer: 0 or 1; -1: it is not connected.
    int payload_crc;
    // Where the peer's queue pair receives; empty: it is not connected.
    char peer[BRAID_ADDR_LEN];
} braid_qp_info;

// What a queue pair has seen since it was created or reset.
typedef struct braid_qp_counters {
    // Set it to sizeof(braid_qp_counters).
    size_t size;
    // Data segments sent, retransmissions included.
    uint64_t segments_sent;
    // Retransmissions among them.
    uint64_t retransmitted;
    // Segments declared lost.
    uint64_t lost;
    // Retransmissions that turned out to have been unnecessary.
    uint64_t spurious;
    // Congestion marks (ECN CE) that the peer has seen on what was sent.
    uint64_t ecn_marks;
    // Payload bytes in segments sent.
    uint64_t bytes_sent;
    // Data segments taken.
    uint64_t segments_received;
    // Payload bytes in segments taken.
    uint64_t bytes_received;
    // Segments that had been taken before.
    uint64_t duplicates;
    // Segments taken ahead of the first that is missing.
    uint64_t out_of_order;
    // Segments refused: beyond the window, forbidden, malformed.
    uint64_t refused;
    // Acknowledgements sent.
    uint64_t acks_sent;
    // Acknowledgements received.
    uint64_t acks_received;
    // "Receiver not ready" received.
    uint64_t rnr_naks;
    // Time-outs.
    uint64_t timeouts;
    // Acknowledgements of what had never left, each of which ended the queue pair.
    uint64_t untrue_acks;
} braid_qp_counters;

// A work request for a send queue.
typedef struct braid_send_wr {
    // Comes back in the completion.
    uint64_t id;
    // What to do: BRAID_WR_SEND and so on.
    uint32_t opcode;
    // BRAID_SEND_SIGNALED and so on.
    uint32_t flags;
    // With what local memory: `sge_count` elements. NULL if there are none.
    const struct braid_sge *sges;
    // How many there are.
    uint32_t sge_count;
    // Immediate data: a number, the same on both sides whatever their byte order.
    uint32_t imm;
    // Memory of the peer, for all but SENDs.
    uint64_t remote_addr;
    // The key that the peer has handed out.
    uint32_t rkey;
    // What to compare with, or what to add.
    uint64_t compare_add;
    // What to swap in.
    uint64_t swap;
} braid_send_wr;

// A work request for a receive queue.
typedef struct braid_recv_wr {
    // Comes back in the completion.
    uint64_t id;
    // Where a SEND lands: `sge_count` elements. NULL if there are none; a WRITE with immediate data
    // needs none.
    const struct braid_sge *sges;
    // How many there are.
    uint32_t sge_count;
} braid_recv_wr;

// Why a queue pair is in BRAID_QP_ERR.
typedef struct braid_qp_error {
    // Set it to sizeof(braid_qp_error).
    size_t size;
    // BRAID_END_NONE and so on.
    int cause;
    // How it was refused, or how the work request ended: BRAID_WC_SUCCESS where neither is the case.
    int status;
    // Whether a work request of its own failed, 0 or 1: the two below are valid then.
    int has_work;
    // BRAID_WC_SEND and so on.
    uint32_t opcode;
    // Its id.
    uint64_t wr_id;
} braid_qp_error;

// What happened outside of any completion (`ibv_get_async_event`).
typedef struct braid_event {
    // Set it to sizeof(braid_event).
    size_t size;
    // BRAID_EVENT_QP_ENDED and so on.
    int kind;
    // Of the queue pair; 0 with BRAID_EVENT_MISSED.
    uint32_t qp_num;
    // What `kind` says, or else 0.
    uint64_t value;
    // BRAID_END_PEER and so on; BRAID_END_NONE where no queue pair has ended.
    int cause;
    // As in braid_qp_error.
    int status;
} braid_event;

// Who this process is in a group, and where the others are: `root` or `addresses`. Filled by braid_group_config_init, or
// by braid_group_config_from_env with what a launcher has left in the environment.
typedef struct braid_group_config {
    // Set by braid_group_config_init.
    size_t size;
    // This process, 0 to `ranks` - 1.
    uint32_t rank;
    // How many there are, at most BRAID_MAX_RANKS.
    uint32_t ranks;
    // Where rank 0 is, which tells each rank where the others are: `10.0.0.1:4791`, or a name and a port. Empty: see
    // `addresses`.
    char root[BRAID_ADDR_LEN];
    // `ranks` addresses, that of each rank, the same at all of them. NULL: see `root`.
    const char *const *addresses;
    // How long to wait until all are there, in microseconds; a day at most.
    uint64_t timeout_us;
    // Congestion control of what this rank sends, by name, to each other rank on each rail. NULL: the default.
    const char *cc;
    // The run that the ranks belong to, the same at all of them: rank 0 takes no rank of another run, such as one that was left
    // over. Empty: only ranks that do not say it either belong together.
    char job[BRAID_JOB_LEN];
} braid_group_config;

// Why a group has ended.
typedef struct braid_group_end {
    // Set it to sizeof(braid_group_end).
    size_t size;
    // BRAID_BLAME_NONE and so on.
    int blame;
    // The rank that it ended by; with BRAID_BLAME_COUNTS the one that sends. -1: none.
    int32_t rank;
    // With BRAID_BLAME_COUNTS: the rank that receives. Otherwise -1.
    int32_t receiver;
    // The rank that has noticed it. -1: this one.
    int32_t told_by;
    // The round, with BRAID_BLAME_COUNTS and BRAID_BLAME_CANCELLED.
    uint64_t round;
    // Bytes, says the rank that sends, with BRAID_BLAME_COUNTS,
    uint64_t sent;
    // and the rank that receives.
    uint64_t expected;
} braid_group_end;

// A part of a memory region.
typedef struct braid_range {
    // Bytes before it.
    size_t offset;
    // Its bytes; 0: nothing.
    size_t len;
} braid_range;

// One path to one destination, as one thread of the engine sees it.
typedef struct braid_path_report {
    // Set it to sizeof(braid_path_report).
    size_t size;
    // The IP address of the destination. With several threads it appears once for each that sends there.
    char to[BRAID_ADDR_LEN];
    // The number of the path.
    uint32_t path;
    // 1: the path policy may pick it; 0: it is out of use, because it loses everything.
    int live;
    // Segments that left on it, and probes.
    uint64_t sent;
    // Those of them that were retransmissions.
    uint64_t retransmitted;
    // Packets found lost on it.
    uint64_t lost;
    // Packets acknowledged.
    uint64_t arrived;
    // Those of them whose feedback carried a congestion mark.
    uint64_t congested;
    // Round-trip time, smoothed, in nanoseconds; 0: not measured since it came into use.
    uint64_t rtt_ns;
    // How often it was taken out of use.
    uint64_t downs;
    // Probes sent on it.
    uint64_t probes;
} braid_path_report;

// A fallback of a connection: it works, but slower or less safely than it could. All connections
// to the same peer have the same ones. Each end knows its own.
typedef struct braid_degradation {
    // Set it to sizeof(braid_degradation).
    size_t size;
    // The rail of the connection, from 0.
    uint32_t rail;
    // 0.
    uint32_t reserved;
    // Its short name, which never changes: "path-ports-blocked", "segmentation-refused",
    // "rail-unused", "rail-misrouted", "ecn-always-marked", "ecn-dropped", "path-mtu",
    // "datapath-unavailable", "socket-option-refused". Later versions may have more.
    char name[BRAID_DEGRADATION_NAME_LEN];
    // One line: what fell back, why, and what helps.
    char text[BRAID_DEGRADATION_TEXT_LEN];
} braid_degradation;

// An engine at one moment.
typedef struct braid_engine_metrics {
    // Set it to sizeof(braid_engine_metrics).
    size_t size;
    // Where it receives.
    char local_addr[BRAID_ADDR_LEN];
    // Nanoseconds since it was made.
    uint64_t uptime_ns;
    // Queue pairs that it has.
    uint64_t queue_pairs;
} braid_engine_metrics;

// A queue pair at one moment.
typedef struct braid_qp_metrics {
    // Set it to sizeof(braid_qp_metrics).
    size_t size;
    // Its number, 24 bits.
    uint32_t qp_num;
    // BRAID_QP_RESET and so on.
    int state;
    // Why it is in BRAID_QP_ERR: BRAID_END_PEER and so on, or else BRAID_END_NONE.
    int cause;
    // As in braid_qp_error.
    int status;
    // Sends that are posted and have not ended.
    uint32_t outstanding_sends;
    // Receives that are posted and have not ended.
    uint32_t outstanding_recvs;
    // Payload bytes of a full packet; 0: it is not connected.
    uint32_t packet_payload;
    // Its subflows, see braid_metrics_get_subflow.
    uint32_t subflows;
    // Where its peer receives; empty: it is not connected.
    char peer[BRAID_ADDR_LEN];
    // Degradations of its connection, see braid_metrics_get_degradation.
    uint32_t degradations;
} braid_qp_metrics;

// A subflow at one moment: what a queue pair sends of one stream over one rail.
typedef struct braid_subflow_metrics {
    // Set it to sizeof(braid_subflow_metrics).
    size_t size;
    // BRAID_STREAM_REQUESTS or BRAID_STREAM_RESPONSES.
    int stream;
    // Its rail, from 0.
    uint32_t rail;
    // Round-trip time, smoothed, in nanoseconds; 0: not measured yet.
    uint64_t rtt_ns;
    // Bytes that its congestion control lets be in flight, headers included.
    uint64_t window;
    // Bits per second at which it lets packets leave; 0: it has no rate.
    uint64_t bits_per_second;
    // Bytes in flight, headers included.
    uint64_t in_flight;
} braid_subflow_metrics;

// How to find out. Filled by braid_discovery_config_init.
typedef struct braid_discovery_config {
    // Set by braid_discovery_config_init.
    size_t size;
    // Most hops that are followed, up to 255.
    uint32_t max_ttl;
    // How often to ask a hop that does not answer.
    uint32_t tries;
    // How long to wait for an answer, in microseconds.
    uint64_t timeout_us;
    // Least time between two probes, in microseconds.
    uint64_t spacing_us;
    // How long in all to ask again for hops that tell ways apart, in microseconds.
    uint64_t patience_us;
} braid_discovery_config;

// What a map holds.
typedef struct braid_path_map_info {
    // Set it to sizeof(braid_path_map_info).
    size_t size;
    // The destination.
    char to[BRAID_ADDR_LEN];
    // How many ways there are, sorted by their hops.
    size_t ways;
    // Paths that are in no way: nothing was heard of them, or too little to tell ways apart, or a router
    // refuses to carry them.
    size_t unanswered;
    // How long it took, in microseconds.
    uint64_t took_us;
    // 1: every path is in a way and every hop of the ways is known; or else 0.
    int complete;
} braid_path_map_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The BRAID_ABI_VERSION of the library that the program runs with.
//
// Threads: any.
uint32_t braid_abi_version(void);

// The release of the library that the program runs with, such as "0.1.0".
//
// Threads: any. The text is constant.
const char *braid_version(void);

// What an error code means, in one phrase; never NULL, whatever the number.
//
// Threads: any. The text is constant.
const char *braid_strerror(int code);

// What went wrong in the last call of this thread that failed: which argument, which value, what to
// do. Never NULL; empty before the first failure. A call that succeeds leaves it alone.
//
// Threads: each has its own. The text is valid until the thread ends or calls this again.
const char *braid_last_error(void);

// Hands the log of all engines of this process to `callback` from now on, with `user`, and to nobody else. NULL: it goes
// nowhere any more; a thread that is inside the last callback just now may still be. Without this call the log goes where the
// environment variable BRAID_LOG says when the first engine is made: unset, nowhere, else to standard error.
//
// `filter` says which events: levels (off, error, warn, info, debug, trace), or TARGET=LEVEL, with commas between them, such as
// `info,braid::verbs=debug`. NULL: what BRAID_LOG says, or else `info`. The events are listed in docs/logs.md.
//
// Threads: any.
int braid_set_log_callback(const char *filter,
                           braid_log_callback callback,
                           void *user);

// Makes a network with nobody on it.
//
// Threads: any.
int braid_fabric_create(struct braid_fabric **fabric);

// Closes a network; its engines are closed before.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_fabric_close(struct braid_fabric *fabric);

// Fills `config` with the defaults, which suit most programs; `size` is sizeof(braid_engine_config).
//
// Threads: any.
int braid_engine_config_init(struct braid_engine_config *config,
                             size_t size);

// Makes an engine, with its ports open and its threads running.
//
// Threads: any.
int braid_engine_create(const struct braid_engine_config *config, struct braid_engine **engine);

// Ends an engine: when this returns 0, its threads have ended and its sockets are closed. What was
// made with it is closed before.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_engine_close(struct braid_engine *engine);

// Writes where the engine receives, the address to connect to, into `text` of `size` bytes;
// BRAID_ADDR_LEN suffice.
//
// Threads: any.
int braid_engine_local_addr(const struct braid_engine *engine, char *text, size_t size);

// Runs the engine once, where its configuration has no threads: sends what is posted, takes what has
// arrived. Does not wait. Returns 1 if there was anything to do, or else 0.
//
// Threads: any, one at a time; others return 0 at once.
int braid_engine_progress(struct braid_engine *engine);

// Reads what the engine has seen.
//
// Threads: any.
int braid_engine_query_counters(const struct braid_engine *engine,
                                struct braid_engine_counters *counters);

// Makes a protection domain.
//
// Threads: any.
int braid_pd_create(struct braid_engine *engine, struct braid_pd **pd);

// Closes a protection domain; its memory regions and queue pairs are closed before.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_pd_close(struct braid_pd *pd);

// Allocates and registers `len` bytes, zeroed, resident and aligned to a page; `access` is of
// BRAID_ACCESS_*. With `huge` 1 they are of pages of 2 MiB, which `sysctl vm.nr_hugepages` has to have
// reserved; otherwise it is 0. The memory is there until the region is closed.
//
// Threads: any.
int braid_mr_alloc(struct braid_pd *pd,
                   size_t len,
                   uint32_t access,
                   int huge,
                   struct braid_mr **mr);

// Registers `len` bytes of the application at `start`; `access` is of BRAID_ACCESS_*. They stay mapped,
// and writable where `access` is more than BRAID_ACCESS_NONE, until the region is closed.
//
// Threads: any.
int braid_mr_register(struct braid_pd *pd,
                      void *start,
                      size_t len,
                      uint32_t access,
                      struct braid_mr **mr);

// Deregisters a region: when this returns 0, neither the engine nor a peer touches the memory, and
// what braid_mr_alloc has allocated is gone. Work requests that still use it fail.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it, or a round of a group that is not over uses it.
int braid_mr_close(struct braid_mr *mr);

// Reads where a region is, and its keys.
//
// Threads: any.
int braid_mr_query(const struct braid_mr *mr, struct braid_mr_info *info);

// Makes `sge` name `len` bytes of the region, from `offset` on, for a work request.
//
// Threads: any.
int braid_mr_slice(const struct braid_mr *mr, size_t offset, size_t len, struct braid_sge *sge);

// Reads what a peer has to know to reach the region; see braid_remote_pack.
//
// Threads: any.
int braid_mr_remote(const struct braid_mr *mr, struct braid_remote *remote);

// Reads the 8 bytes at `offset` whole, even while peers use atomics on them.
//
// Threads: any.
int braid_mr_load_u64(const struct braid_mr *mr, size_t offset, uint64_t *value);

// Writes the 8 bytes at `offset` whole.
//
// Threads: any.
int braid_mr_store_u64(struct braid_mr *mr, size_t offset, uint64_t value);

// Writes `remote` into `packed`, BRAID_REMOTE_LEN bytes, in the form that travels between machines,
// for example as private data of a connection.
//
// Threads: any.
int braid_remote_pack(const struct braid_remote *remote, void *packed);

// Reads what braid_remote_pack has written at the start of the `len` bytes at `packed`.
//
// Threads: any.
int braid_remote_unpack(const void *packed, size_t len, struct braid_remote *remote);

// Makes a completion queue for `capacity` completions.
//
// Threads: any.
int braid_cq_create(struct braid_engine *engine, size_t capacity, struct braid_cq **cq);

// Closes a completion queue; its queue pairs are closed before.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_cq_close(struct braid_cq *cq);

// Takes up to `max` completions into the array `wcs` and returns how many; does not wait. Where the
// application makes progress, an empty queue runs the engine once.
//
// BRAID_ERR_OVERRUN, after the completions that did find room, means that others are lost and that the
// queue pairs are in ERR.
//
// Threads: any; each completion goes to one of them.
int braid_cq_poll(struct braid_cq *cq,
                  struct braid_wc *wcs,
                  size_t max);

// As braid_cq_poll, but waits up to `timeout_us` microseconds until there is a completion. 0: none came
// in time. Where the application makes progress, this is where it does.
//
// Threads: any; each completion goes to one of them.
int braid_cq_wait(struct braid_cq *cq,
                  struct braid_wc *wcs,
                  size_t max,
                  uint64_t timeout_us);

// The descriptor, an eventfd, that becomes readable when the queue was armed and a completion comes; for
// poll, epoll and the like. It stays the queue's: do not read or close it.
//
// Threads: any.
int braid_cq_fd(const struct braid_cq *cq);

// Arms the queue: its descriptor is cleared, and becomes readable with the next completion, once; with
// `solicited_only` 1 with the next that failed or that the peer marked as solicited; otherwise that is
// 0. Poll after this call, because what came before it does not count.
//
// Threads: any; the last call counts.
int braid_cq_arm(struct braid_cq *cq,
                 int solicited_only);

// Writes how many completions the queue holds into `capacity`.
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

// Closes a queue pair: tells the peer, and forgets what is outstanding without completions.
// braid_qp_disconnect first where they matter.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_qp_close(struct braid_qp *qp);

// Changes the state: BRAID_QP_INIT to post receives before connecting, SQD to let the send queue drain,
// RTS to go on, ERR to flush, RESET to begin again (work requests are forgotten without completions, the
// peer is told). RTR and RTS are otherwise reached by connecting.
//
// Threads: any.
int braid_qp_modify(struct braid_qp *qp,
                    int state);

// Connects to the listener at `addr`, such as "10.0.0.2:4791" or "name:4791", waiting up to `timeout_us`
// microseconds. Names are looked up first, which takes as long as it takes; their addresses are
// tried in turn, 250 ms each, until one answers.
//
// `data`, `len` bytes (up to BRAID_MAX_PRIVATE_DATA; NULL for none), goes to the application there. What
// it hands back is written to `reply`, up to `*reply_len` bytes; `*reply_len` becomes its whole length.
// Where `reply` is NULL, only the length is told, and nothing where both are.
//
// On an error the queue pair stays in INIT, so it can be tried again.
//
// Threads: any, one at a time for a queue pair; another gets BRAID_ERR_STATE.
int braid_qp_connect(struct braid_qp *qp,
                     const char *addr,
                     const void *data,
                     size_t len,
                     uint64_t timeout_us,
                     void *reply,
                     size_t *reply_len);

// Tells the peer that this is the end: both sides go to ERR and flush what is outstanding. What was
// posted and has not completed may or may not take effect at the peer.
//
// Threads: any.
int braid_qp_disconnect(struct braid_qp *qp);

// Reads what the queue pair is at the moment.
//
// Threads: any.
int braid_qp_query(const struct braid_qp *qp, struct braid_qp_info *info);

// Writes what the list of allowed keys (`allowed_keys` of the engine) calls the peer, which has proved to have that key, into `text`
// of `size` bytes; BRAID_PEER_NAME_LEN suffice. Empty: keys are not static, or it is not connected.
//
// Threads: any.
int braid_qp_peer_name(const struct braid_qp *qp,
                       char *text,
                       size_t size);

// Reads what the queue pair has seen.
//
// Threads: any.
int braid_qp_query_counters(const struct braid_qp *qp, struct braid_qp_counters *counters);

// As braid_qp_connect, but does not wait for the other side: what comes of it is told by `connecting`, which is closed in the
// end. Names are looked up first, which takes as long as it takes.
//
// Threads: any, one at a time for a queue pair; another gets BRAID_ERR_STATE.
int braid_qp_connect_begin(struct braid_qp *qp,
                           const char *addr,
                           const void *data,
                           size_t len,
                           uint64_t timeout_us,
                           struct braid_connecting **connecting);

// The descriptor that becomes readable once the attempt has ended, and stays so; for poll, epoll and the like. It stays the
// attempt's: do not read or close it.
//
// Threads: any.
int braid_connecting_fd(const struct braid_connecting *connecting);

// How the attempt has ended: 1, the queue pair is connected, and `reply` is written as by braid_qp_connect; 0, it has not ended
// yet; an error as of braid_qp_connect, after which the queue pair is in INIT. 1 and errors are told once. Does not wait; where the
// application makes progress, this runs the engine once.
//
// Threads: any.
int braid_connecting_result(struct braid_connecting *connecting,
                            void *reply,
                            size_t *reply_len);

// Closes an attempt, and gives it up if it has not ended.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_connecting_close(struct braid_connecting *connecting);

// Takes connections at the engine's address from now on. Up to `backlog` of them wait to be accepted;
// those beyond it are told to try again, which they do until their time-out. An engine has one listener
// at a time.
//
// Threads: any.
int braid_listener_create(struct braid_engine *engine,
                          size_t backlog,
                          struct braid_listener **listener);

// Ends the listening, and turns down those that wait; accepted connections stay, and so do requests.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_listener_close(struct braid_listener *listener);

// Waits up to `timeout_us` microseconds for somebody who wants to connect; BRAID_ERR_TIMED_OUT: nobody
// came. The request has to be accepted or rejected.
//
// Threads: any; each request goes to one of them.
int braid_listener_accept(struct braid_listener *listener,
                          uint64_t timeout_us,
                          struct braid_request **request);

// The descriptor that is readable while requests wait, until a braid_listener_accept without time to wait finds none; for poll,
// epoll and the like. It stays the listener's: do not read or close it.
//
// Threads: any.
int braid_listener_fd(const struct braid_listener *listener);

// Writes where the request comes from into `text` of `size` bytes; BRAID_ADDR_LEN suffice.
//
// Threads: any.
int braid_request_peer(const struct braid_request *request, char *text, size_t size);

// Writes what the list of allowed keys calls who asks, as braid_qp_peer_name does once it is accepted. Empty: keys are not static.
//
// Threads: any.
int braid_request_peer_name(const struct braid_request *request,
                            char *text,
                            size_t size);

// Writes what the peer's application has given with its request to `data`, up to `*len` bytes; `*len`
// becomes its whole length, at most BRAID_MAX_PRIVATE_DATA.
//
// Threads: any.
int braid_request_private_data(const struct braid_request *request,
                               void *data,
                               size_t *len);

// Connects `qp`, of the same engine and in RESET or INIT, with the peer, and hands its application
// `data`, `len` bytes (up to BRAID_MAX_PRIVATE_DATA; NULL for none). Post receives before: the peer may
// send at once.
//
// The request is closed by this, and rejected on an error; not so on BRAID_ERR_NULL, BRAID_ERR_HANDLE and
// BRAID_ERR_BUSY, which leave it as it is.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_request_accept(struct braid_request *request,
                         struct braid_qp *qp,
                         const void *data,
                         size_t len);

// Turns a request down, and closes it: the peer's attempt to connect fails.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_request_reject(struct braid_request *request);

// Posts `count` work requests of the array `wrs` to the send queue, in order, up to the first that is
// refused. `posted`, where it is not NULL, tells how many were posted, on an error too.
//
// The memory that they name must not change (or, for READs and atomics, be used) before they have
// ended. One that is not signalled has no completion unless it fails: it has ended when a later one of
// the queue has completed. In the state ERR they complete at once, flushed.
//
// Threads: any; what threads post at the same time is ordered in one way or the other.
int braid_qp_post_send(struct braid_qp *qp,
                       const struct braid_send_wr *wrs,
                       size_t count,
                       size_t *posted);

// Posts `count` work requests of the array `wrs` to the receive queue, as braid_qp_post_send does. Their
// memory must not be used before they have completed.
//
// Threads: any, as for braid_qp_post_send.
int braid_qp_post_recv(struct braid_qp *qp,
                       const struct braid_recv_wr *wrs,
                       size_t count,
                       size_t *posted);

// Reads why the queue pair is in BRAID_QP_ERR: who or what ended it, and the work request that failed.
//
// Threads: any.
int braid_qp_query_error(const struct braid_qp *qp,
                         struct braid_qp_error *error);

// The meaning of a `cause`, in one phrase; never NULL, whatever the number.
//
// Threads: any. The text is constant.
const char *braid_end_cause_str(int cause);

// The descriptor that is readable while events wait, for poll, epoll and the like. It stays the engine's: do not read or close it.
//
// Threads: any.
int braid_engine_event_fd(const struct braid_engine *engine);

// Takes the oldest event that nobody has taken, waiting up to `timeout_us` microseconds for one; 0 does not wait.
// Returns 1, or 0 if there is none, with BRAID_EVENT_NONE in `event`. Where the application drives the engine, waiting does so too.
//
// Threads: any; each event goes to one of them.
int braid_engine_wait_event(struct braid_engine *engine,
                            struct braid_event *event,
                            uint64_t timeout_us);

// Finds the other ranks and connects with each. The engine must not listen while it joins; it may afterwards. It can be in
// several groups.
//
// Every rank has an error within `timeout_us` and a few seconds if any is missing or says something else than the others:
// BRAID_ERR_REJECTED with the same text at all, BRAID_ERR_UNREACHABLE where rank 0, or another, was not reached.
//
// Threads: any. It waits.
int braid_group_join(struct braid_engine *engine,
                     const struct braid_group_config *config,
                     struct braid_group **group);

// Leaves the group. The other ranks are told; a round that is not over ends there with an error that names this rank. When
// this returns 0, nobody touches the memory of its rounds any more.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it, or a round of it has not been closed.
int braid_group_close(struct braid_group *group);

// This process's number in the group, from 0.
//
// Threads: any.
int braid_group_rank(const struct braid_group *group);

// How many ranks there are.
//
// Threads: any.
int braid_group_size(const struct braid_group *group);

// Makes a handle of the protection domain that the memory of the group's rounds is registered with. It is closed as any other,
// after its regions, and may outlast the group.
//
// Threads: any.
int braid_group_pd(const struct braid_group *group,
                   struct braid_pd **pd);

// Fills `config` with the defaults; `size` is sizeof(braid_group_config). `rank`, `ranks`, and `root` or `addresses` have to be
// set.
//
// Threads: any.
int braid_group_config_init(struct braid_group_config *config,
                            size_t size);

// As braid_group_config_init, with `rank`, `ranks`, `root` and `job` from the environment: RANK and WORLD_SIZE (PyTorch), or
// OMPI_COMM_WORLD_RANK and _SIZE, or PMI_RANK and PMI_SIZE (mpirun), or SLURM_PROCID and SLURM_NTASKS (srun); MASTER_ADDR, and MASTER_PORT (4791); BRAID_JOB, or what the launcher
// calls the run (TORCHELASTIC_RUN_ID, PMIX_NAMESPACE, SLURM_JOB_ID and SLURM_STEP_ID and so on).
// BRAID_ERR_INVALID names the variable that is missing or cannot be.
//
// Threads: any, while none changes the environment.
int braid_group_config_from_env(struct braid_group_config *config,
                                size_t size);

// Writes where this rank's engine has to be bound into `text` of `size` bytes, for `bind` of braid_engine_config;
// BRAID_ADDR_LEN suffice. That is its own address where the others know it beforehand, or else any port.
//
// Threads: any.
int braid_group_config_bind(const struct braid_group_config *config,
                            char *text,
                            size_t size);

// Reads why the group has ended, and by which rank.
//
// Threads: any.
int braid_group_query_end(const struct braid_group *group, struct braid_group_end *end);

// The meaning of a `blame`, in one phrase; never NULL, whatever the number.
//
// Threads: any. The text is constant.
const char *braid_blame_str(int blame);

// Starts a round and returns at once, but for copying what this rank has for itself. `sends` are the parts of `send` for each of
// the `ranks` ranks, `receives` where in `recv` what they send goes, as long as what they send here; these do not overlap. All
// ranks start the same rounds in the same order; at most 8 are in flight, or this is BRAID_ERR_FULL.
//
// The regions are of the group's protection domain (braid_group_pd), and `recv` allows BRAID_ACCESS_LOCAL_WRITE and
// BRAID_ACCESS_REMOTE_WRITE. Until the round is over, what is sent must not change, and what is received belongs to the
// peers; they are closed afterwards.
//
// Threads: any; those that start rounds of one group take turns.
int braid_group_start(struct braid_group *group,
                      const struct braid_mr *send,
                      const struct braid_range *sends,
                      const struct braid_mr *recv,
                      const struct braid_range *receives,
                      size_t ranks,
                      struct braid_round **round);

// Returns 1 if the round is over, or else 0: all that this rank receives is here, and all that it sends is at its peers.
// BRAID_ERR_GROUP: the group has ended before; then nobody touches the memory any more, and braid_group_query_end says why.
//
// Threads: any.
int braid_round_test(const struct braid_round *round);

// Waits until the round is over. As braid_round_test on errors; BRAID_ERR_TIMED_OUT after `timeout_us`, with the ranks that are
// waited for in the text: it goes on, and can be waited for again.
//
// Threads: any.
int braid_round_wait(const struct braid_round *round,
                     uint64_t timeout_us);

// Gives the round up, and closes it: if it is not over, the group ends at all ranks with an error that names this one.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_round_cancel(struct braid_round *round);

// Closes the handle; the round goes on.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_round_close(struct braid_round *round);

// The meaning of a `status` of a completion, in one phrase; never NULL, whatever the number.
//
// Threads: any. The text is constant.
const char *braid_wc_status_str(int status);

// The name of an `opcode` of a completion, such as "SEND"; never NULL, whatever the number.
//
// Threads: any. The text is constant.
const char *braid_wc_opcode_str(uint32_t opcode);

// The name of a state of a queue pair, such as "RTS"; never NULL, whatever the number.
//
// Threads: any. The text is constant.
const char *braid_qp_state_str(int state);

// Makes a histogram of how far out of order the peer's packets have come so far; empty, if none has or
// the queue pair is not connected. Close it in the end.
//
// Threads: any.
int braid_qp_query_ooo(const struct braid_qp *qp,
                       struct braid_ooo **ooo);

// Closes a histogram.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_ooo_close(struct braid_ooo *ooo);

// Writes how many packets came out of order into `count`.
//
// Threads: any.
int braid_ooo_count(const struct braid_ooo *ooo, uint64_t *count);

// Writes the degree that the share `share`, 0 to 1, of all packets does not exceed into `degree`;
// `in_order` packets of degree 0 count among them.
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

// Makes a report of the paths to all destinations that have queue pairs. Close it in the end.
//
// Threads: any.
int braid_engine_query_paths(const struct braid_engine *engine, struct braid_paths **paths);

// Closes a report.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_paths_close(struct braid_paths *paths);

// Writes how many paths the report has into `count`.
//
// Threads: any.
int braid_paths_count(const struct braid_paths *paths, size_t *count);

// Reads the path at `index`, from 0 on, of the report.
//
// Threads: any.
int braid_paths_get(const struct braid_paths *paths,
                    size_t index,
                    struct braid_path_report *report);

// Reads the degradation at `index`, from 0 on, of the queue pair's connection. Returns 1, or 0 if
// there are not as many; then `degradation` is not touched. The list changes by itself: a program
// that wants it as of one moment takes braid_engine_query_metrics.
//
// Threads: any.
int braid_qp_get_degradation(const struct braid_qp *qp,
                             size_t index,
                             struct braid_degradation *degradation);

// Makes a snapshot of an engine: each of its threads is read between two of its turns. Close it in the end.
//
// Threads: any.
int braid_engine_query_metrics(const struct braid_engine *engine,
                               struct braid_metrics **metrics);

// Closes a snapshot.
//
// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
int braid_metrics_close(struct braid_metrics *metrics);

// Reads what the snapshot says of the engine itself, and how many queue pairs are in it.
//
// Threads: any.
int braid_metrics_get_engine(const struct braid_metrics *metrics,
                             struct braid_engine_metrics *engine);

// Reads what the engine had seen.
//
// Threads: any.
int braid_metrics_get_counters(const struct braid_metrics *metrics,
                               struct braid_engine_counters *counters);

// Reads the queue pair at `index`, from 0 on, of the snapshot.
//
// Threads: any.
int braid_metrics_get_qp(const struct braid_metrics *metrics,
                         size_t index,
                         struct braid_qp_metrics *qp);

// Reads what the queue pair at `index` of the snapshot had seen.
//
// Threads: any.
int braid_metrics_get_qp_counters(const struct braid_metrics *metrics,
                                  size_t index,
                                  struct braid_qp_counters *counters);

// Reads the subflow at `subflow_index`, from 0 on, of the queue pair at `index` of the snapshot.
//
// Threads: any.
int braid_metrics_get_subflow(const struct braid_metrics *metrics,
                              size_t index,
                              size_t subflow_index,
                              struct braid_subflow_metrics *subflow);

// Reads the degradation at `degradation_index`, from 0 on, of the queue pair at `index` of the
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

// Finds out which of the `count` paths (numbers below 4096) in the array `paths` take which way from the
// local address `from`, such as "10.0.0.1", or "::" for any, to `to`, such as "10.0.0.2:4791": where a peer's
// engine receives. That nobody answers is no error, but a map without ways. Close it in the end.
//
// Takes a second or so, and up to about `patience_us` more where routers limit their answers.
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

// Reads what the map holds.
//
// Threads: any.
int braid_path_map_query(const struct braid_path_map *map, struct braid_path_map_info *info);

// Writes how many hops the way at index `way`, from 0 on, has into `hops`, and how many paths take it into
// `paths`.
//
// Threads: any.
int braid_path_map_way(const struct braid_path_map *map,
                       size_t way,
                       size_t *hops,
                       size_t *paths);

// Writes the router at index `hop`, from 0 on, of a way, as it names itself, into `text` of `size` bytes;
// BRAID_ADDR_LEN suffice. Returns 1, or 0 and an empty text where it never answered. The last hop is the
// destination, if it was heard.
//
// Threads: any.
int braid_path_map_hop(const struct braid_path_map *map,
                       size_t way,
                       size_t hop,
                       char *text,
                       size_t size);

// Writes the paths that take a way, ascending, into the array `paths` with room for `max`; returns how
// many.
//
// Threads: any.
int braid_path_map_paths(const struct braid_path_map *map,
                         size_t way,
                         uint16_t *paths,
                         size_t max);

// Writes up to `max` paths that load all ways alike, the same number of each, one of each in turn, into the
// array `paths`; returns how many. 0: plain paths are as good, because no way is known or just one, or
// because `max` is less than the number of ways.
//
// Threads: any.
int braid_path_map_balanced(const struct braid_path_map *map,
                            uint16_t *paths,
                            size_t max);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BRAID_H */
