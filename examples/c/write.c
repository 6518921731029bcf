// A one-sided write. The server sends the client the key of a part of its memory. The client writes
// into it without involving the server, reads it back, and notifies the server with a last write.
//
//   ./write listen 0.0.0.0:4791
//   ./write connect 10.0.0.2:4791 "placed by the network"

#include <braid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOARD 4096
#define PATIENCE_US 10000000 // 10 s

struct side {
    braid_engine *engine;
    braid_pd *pd;
    braid_cq *cq;
    braid_mr *mr;
    braid_qp *qp;
    char *memory; // BOARD bytes of this program, registered as `mr`
};

// Makes a call, and exits if it fails.
#define CHECK(call) check(call, #call)
static int check(int result, const char *call) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", call, braid_last_error());
        exit(1);
    }
    return result;
}

static void set_up(struct side *side, const char *bind, uint32_t access) {
    braid_engine_config config;
    CHECK(braid_engine_config_init(&config, sizeof config));
    config.bind = bind;
    CHECK(braid_engine_create(&config, &side->engine));
    CHECK(braid_pd_create(side->engine, &side->pd));
    CHECK(braid_cq_create(side->engine, 256, &side->cq));
    side->memory = (char *)calloc(1, BOARD);
    CHECK(braid_mr_register(side->pd, side->memory, BOARD, access, &side->mr));

    braid_qp_options options;
    CHECK(braid_qp_options_init(&options, sizeof options));
    options.send_cq = options.recv_cq = side->cq;
    CHECK(braid_qp_create(side->pd, &options, &side->qp));
}

static void tear_down(struct side *side) {
    CHECK(braid_qp_close(side->qp));
    CHECK(braid_mr_close(side->mr));
    free(side->memory); // Only after the region is closed.
    CHECK(braid_cq_close(side->cq));
    CHECK(braid_pd_close(side->pd));
    CHECK(braid_engine_close(side->engine));
}

// Waits for the next completion, which must be a success.
static braid_wc complete(struct side *side) {
    braid_wc wc;
    int count = CHECK(braid_cq_wait(side->cq, &wc, 1, PATIENCE_US));
    if (count == 0 || wc.status != BRAID_WC_SUCCESS) {
        const char *cause = count == 0 ? "no completion in 10 s" : braid_wc_status_str(wc.status);
        fprintf(stderr, "%s\n", cause);
        exit(1);
    }
    return wc;
}

static void serve(const char *addr) {
    struct side side;
    set_up(&side, addr, BRAID_ACCESS_ALL);
    braid_listener *listener;
    CHECK(braid_listener_create(side.engine, 1, &listener));
    printf("listening on %s\n", addr);
    fflush(stdout);
    braid_request *request;
    CHECK(braid_listener_accept(listener, 6 * PATIENCE_US, &request));

    CHECK(braid_qp_modify(side.qp, BRAID_QP_INIT));
    braid_recv_wr recv; // Without memory, because it receives only immediate data.
    memset(&recv, 0, sizeof recv);
    CHECK(braid_qp_post_recv(side.qp, &recv, 1, NULL));

    braid_remote board;
    char key[BRAID_REMOTE_LEN];
    CHECK(braid_mr_remote(side.mr, &board));
    CHECK(braid_remote_pack(&board, key));
    CHECK(braid_request_accept(request, side.qp, key, sizeof key));

    braid_wc wc = complete(&side);
    printf("on the board: %.*s\n", (int)wc.imm, side.memory);
    CHECK(braid_listener_close(listener));
    tear_down(&side);
}

static void post(struct side *side, uint32_t opcode, size_t offset, size_t len,
                 const braid_remote *board, uint32_t imm) {
    braid_sge sge;
    CHECK(braid_mr_slice(side->mr, offset, len, &sge));
    braid_send_wr wr;
    memset(&wr, 0, sizeof wr);
    wr.opcode = opcode;
    wr.flags = BRAID_SEND_SIGNALED;
    wr.sges = &sge;
    wr.sge_count = 1;
    wr.remote_addr = board->addr;
    wr.rkey = board->rkey;
    wr.imm = imm;
    CHECK(braid_qp_post_send(side->qp, &wr, 1, NULL));
}

// Prints the state of the paths to the server.
static void show_paths(const struct side *side) {
    braid_paths *paths;
    braid_path_destination to;
    braid_path_report path;
    uint64_t sent = 0;
    to.size = sizeof to;
    path.size = sizeof path;
    CHECK(braid_engine_query_paths(side->engine, &paths));
    CHECK(braid_paths_get_destination(paths, 0, &to));
    for (size_t i = 0; i < to.paths; i++) {
        CHECK(braid_paths_get(paths, to.first + i, &path));
        sent += path.sent;
        if (path.state != BRAID_PATH_UP) {
            const char *state = path.state == BRAID_PATH_BLOCKED ? "blocked" : "down";
            printf("path %u, source port %u, is %s; it lost %llu packets\n", (unsigned)path.path,
                   (unsigned)path.source_port, state, (unsigned long long)path.lost);
        }
    }
    printf("%u of %u paths to %s in use, %llu packets sent\n", (unsigned)to.in_use,
           (unsigned)to.paths, to.to, (unsigned long long)sent);
    CHECK(braid_paths_close(paths));
}

static int run(const char *addr, const char *text) {
    struct side side;
    set_up(&side, NULL, BRAID_ACCESS_LOCAL_WRITE);
    char key[BRAID_REMOTE_LEN];
    size_t key_len = sizeof key;
    CHECK(braid_qp_connect(side.qp, addr, NULL, 0, PATIENCE_US, key, &key_len));
    braid_remote board;
    CHECK(braid_remote_unpack(key, key_len, &board));

    size_t len = strlen(text) < BOARD / 2 ? strlen(text) : BOARD / 2;
    memcpy(side.memory, text, len);
    post(&side, BRAID_WR_WRITE, 0, len, &board, 0);
    post(&side, BRAID_WR_READ, BOARD / 2, len, &board, 0); // After the write, into the other half.
    complete(&side);
    complete(&side);
    int same = memcmp(side.memory, side.memory + BOARD / 2, len) == 0;
    printf("read back: %.*s\n", (int)len, side.memory + BOARD / 2);
    post(&side, BRAID_WR_WRITE_WITH_IMM, 0, 0, &board, (uint32_t)len);
    complete(&side);
    show_paths(&side);
    tear_down(&side);
    return same ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "listen") == 0) {
        serve(argv[2]);
    } else if (argc == 4 && strcmp(argv[1], "connect") == 0) {
        return run(argv[2], argv[3]);
    } else {
        fprintf(stderr, "usage: write listen ADDRESS:PORT | write connect ADDRESS:PORT TEXT\n");
        return 2;
    }
    return 0;
}
