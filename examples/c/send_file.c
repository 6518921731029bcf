// A file transfer: the sender keeps several chunks in flight, and the receiver takes them in order.
//
//   ./send_file receive 0.0.0.0:4791 COPY
//   ./send_file send 10.0.0.2:4791 FILE

#include <braid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE (256u << 10)
#define SLOTS 8
#define FNV_START 2166136261u
#define PATIENCE_US 10000000 // 10 s

struct side {
    braid_engine *engine;
    braid_pd *pd;
    braid_cq *cq;
    braid_mr *mr; // `memory`, registered
    braid_qp *qp;
};

static unsigned char memory[SLOTS * PIECE];

// Makes a call, and exits if it fails.
#define CHECK(call) check(call, #call)
static int check(int result, const char *call) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", call, braid_last_error());
        exit(1);
    }
    return result;
}

// The FNV-1a hash, which shows that both sides have the same bytes.
static uint32_t add_to(uint32_t hash, const unsigned char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

static void set_up(struct side *side, const char *bind) {
    braid_engine_config config;
    CHECK(braid_engine_config_init(&config, sizeof config));
    config.bind = bind;
    CHECK(braid_engine_create(&config, &side->engine));
    CHECK(braid_pd_create(side->engine, &side->pd));
    CHECK(braid_cq_create(side->engine, 256, &side->cq));
    CHECK(braid_mr_register(side->pd, memory, sizeof memory, BRAID_ACCESS_LOCAL_WRITE, &side->mr));

    braid_qp_options options;
    CHECK(braid_qp_options_init(&options, sizeof options));
    options.send_cq = options.recv_cq = side->cq;
    CHECK(braid_qp_create(side->pd, &options, &side->qp));
}

static void tear_down(struct side *side) {
    CHECK(braid_qp_close(side->qp));
    CHECK(braid_mr_close(side->mr));
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

static void post_recv(struct side *side, uint64_t slot) {
    braid_sge sge;
    CHECK(braid_mr_slice(side->mr, slot * PIECE, PIECE, &sge));
    braid_recv_wr wr;
    wr.id = slot;
    wr.sges = &sge;
    wr.sge_count = 1;
    CHECK(braid_qp_post_recv(side->qp, &wr, 1, NULL));
}

static int receive(const char *addr, FILE *file) {
    struct side side;
    set_up(&side, addr);
    CHECK(braid_qp_modify(side.qp, BRAID_QP_INIT)); // Receives can be posted from now on.
    for (uint64_t slot = 0; slot < SLOTS; slot++) post_recv(&side, slot);
    braid_listener *listener;
    CHECK(braid_listener_create(side.engine, 1, &listener));
    printf("listening on %s\n", addr);
    fflush(stdout);
    braid_request *request;
    CHECK(braid_listener_accept(listener, 6 * PATIENCE_US, &request));
    CHECK(braid_request_accept(request, side.qp, NULL, 0));

    uint32_t hash = FNV_START;
    braid_wc wc = complete(&side);
    for (; !(wc.flags & BRAID_WC_WITH_IMM); wc = complete(&side)) {
        const unsigned char *piece = memory + wc.wr_id * PIECE;
        hash = add_to(hash, piece, wc.byte_len);
        fwrite(piece, 1, wc.byte_len, file);
        post_recv(&side, wc.wr_id);
    }
    int good = hash == wc.imm && !ferror(file);
    printf("received %ld bytes, %s\n", ftell(file), good ? "all correct" : "DAMAGED");
    CHECK(braid_listener_close(listener));
    tear_down(&side);
    return good ? 0 : 1;
}

static int send_file(const char *addr, FILE *file) {
    struct side side;
    set_up(&side, NULL);
    CHECK(braid_qp_connect(side.qp, addr, NULL, 0, PATIENCE_US, NULL, NULL));
    uint32_t hash = FNV_START;
    uint64_t posted = 0;
    size_t len;
    do {
        uint64_t slot = posted % SLOTS;
        if (posted >= SLOTS) complete(&side); // Sends complete in order: the slot is free.
        len = fread(memory + slot * PIECE, 1, PIECE, file);
        hash = add_to(hash, memory + slot * PIECE, len);

        braid_sge sge;
        CHECK(braid_mr_slice(side.mr, slot * PIECE, len, &sge));
        braid_send_wr wr;
        memset(&wr, 0, sizeof wr);
        wr.opcode = len > 0 ? BRAID_WR_SEND : BRAID_WR_SEND_WITH_IMM;
        wr.flags = BRAID_SEND_SIGNALED;
        wr.sges = &sge;
        wr.sge_count = 1;
        wr.imm = hash; // Sent with the empty message at the end.
        CHECK(braid_qp_post_send(side.qp, &wr, 1, NULL));
        posted++;
    } while (len > 0);
    for (uint64_t left = posted < SLOTS ? posted : SLOTS; left > 0; left--) complete(&side);
    int good = !ferror(file);
    printf("sent %ld bytes%s\n", ftell(file), good ? "" : ", and could read no more");
    tear_down(&side);
    return good ? 0 : 1;
}

int main(int argc, char **argv) {
    int sends = argc == 4 && strcmp(argv[1], "send") == 0;
    if (!sends && (argc != 4 || strcmp(argv[1], "receive") != 0)) {
        fprintf(stderr, "usage: send_file receive|send ADDRESS:PORT FILE\n");
        return 2;
    }
    FILE *file = fopen(argv[3], sends ? "rb" : "wb");
    if (file == NULL) {
        perror(argv[3]);
        return 1;
    }
    int status = sends ? send_file(argv[2], file) : receive(argv[2], file);
    return fclose(file) == 0 ? status : 1;
}
