// Ping-pong: two processes send each other a small message in turn, and measure a round trip.
//
//   ./pingpong listen 0.0.0.0:4791
//   ./pingpong connect 10.0.0.2:4791
//
// Over an RDMA device, including Soft-RoCE (the device uses port 4791 itself):
//
//   ./pingpong listen 10.0.0.2:18515 rxe0
//   ./pingpong connect 10.0.0.2:18515 rxe0

#define _POSIX_C_SOURCE 199309L // clock_gettime
#include <braid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 1000
#define PATIENCE_US 10000000 // 10 s

struct side {
    braid_engine *engine;
    braid_pd *pd;
    braid_cq *cq;
    braid_mr *inbox; // `message`, registered
    braid_qp *qp;
    uint32_t message;
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

static void set_up(struct side *side, const char *bind, const char *device) {
    braid_engine_config config;
    CHECK(braid_engine_config_init(&config, sizeof config));
    config.bind = bind;
    config.device = device; // NULL: plain UDP.
    config.threads = 0; // This program drives the engine when it polls: the lowest latency.
    CHECK(braid_engine_create(&config, &side->engine));
    CHECK(braid_pd_create(side->engine, &side->pd));
    CHECK(braid_cq_create(side->engine, 256, &side->cq));
    CHECK(braid_mr_register(side->pd, &side->message, sizeof side->message,
                            BRAID_ACCESS_LOCAL_WRITE, &side->inbox));

    braid_qp_options options;
    CHECK(braid_qp_options_init(&options, sizeof options));
    options.send_cq = options.recv_cq = side->cq;
    CHECK(braid_qp_create(side->pd, &options, &side->qp));
    CHECK(braid_qp_modify(side->qp, BRAID_QP_INIT)); // Receives can be posted from now on.
}

static void tear_down(struct side *side) {
    CHECK(braid_qp_close(side->qp));
    CHECK(braid_mr_close(side->inbox));
    CHECK(braid_cq_close(side->cq));
    CHECK(braid_pd_close(side->pd));
    CHECK(braid_engine_close(side->engine));
}

static void post_recv(struct side *side) {
    braid_sge sge;
    CHECK(braid_mr_slice(side->inbox, 0, sizeof side->message, &sge));
    braid_recv_wr wr;
    memset(&wr, 0, sizeof wr);
    wr.sges = &sge;
    wr.sge_count = 1;
    CHECK(braid_qp_post_recv(side->qp, &wr, 1, NULL));
}

// A small message is sent inline: its bytes are copied and need not be registered.
static void post_send(struct side *side, uint32_t round, uint32_t flags) {
    braid_sge sge;
    sge.addr = (uintptr_t)&round;
    sge.len = sizeof round;
    sge.lkey = 0;
    braid_send_wr wr;
    memset(&wr, 0, sizeof wr);
    wr.opcode = BRAID_WR_SEND;
    wr.flags = BRAID_SEND_INLINE | flags;
    wr.sges = &sge;
    wr.sge_count = 1;
    CHECK(braid_qp_post_send(side->qp, &wr, 1, NULL));
}

// Waits for the next completion, which must be a success.
static void complete(struct side *side) {
    braid_wc wc;
    int count = CHECK(braid_cq_wait(side->cq, &wc, 1, PATIENCE_US));
    if (count == 0 || wc.status != BRAID_WC_SUCCESS) {
        const char *cause = count == 0 ? "no completion in 10 s" : braid_wc_status_str(wc.status);
        fprintf(stderr, "%s\n", cause);
        exit(1);
    }
}

static void receive(struct side *side, uint32_t round) {
    complete(side);
    if (side->message != round) {
        fprintf(stderr, "round %u received the message %u\n", (unsigned)round,
                (unsigned)side->message);
        exit(1);
    }
}

static void serve(const char *addr, const char *device) {
    struct side side;
    set_up(&side, addr, device);
    braid_listener *listener;
    CHECK(braid_listener_create(side.engine, 1, &listener));
    printf("listening on %s\n", addr);
    fflush(stdout);
    braid_request *request;
    CHECK(braid_listener_accept(listener, 6 * PATIENCE_US, &request));
    post_recv(&side); // Before the peer learns that it may send.
    CHECK(braid_request_accept(request, side.qp, NULL, 0));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        receive(&side, round);
        post_recv(&side);
        post_send(&side, round, round + 1 == ROUNDS ? BRAID_SEND_SIGNALED : 0);
    }
    complete(&side); // The last reply and all earlier ones have arrived.
    CHECK(braid_listener_close(listener));
    tear_down(&side);
}

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static void run(const char *addr, const char *device) {
    struct side side;
    set_up(&side, NULL, device);
    CHECK(braid_qp_connect(side.qp, addr, NULL, 0, PATIENCE_US, NULL, NULL));
    double sum = 0, best = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        double start = now_us();
        post_recv(&side);
        post_send(&side, round, 0);
        receive(&side, round);
        double took = now_us() - start;
        sum += took;
        if (round == 0 || took < best) best = took;
    }
    printf("%d round trips: %.2f us on average, %.2f us at best\n", ROUNDS, sum / ROUNDS, best);
    tear_down(&side);
}

int main(int argc, char **argv) {
    const char *device = argc == 4 ? argv[3] : NULL;
    if ((argc == 3 || argc == 4) && strcmp(argv[1], "listen") == 0) {
        serve(argv[2], device);
    } else if ((argc == 3 || argc == 4) && strcmp(argv[1], "connect") == 0) {
        run(argv[2], device);
    } else {
        fprintf(stderr, "usage: pingpong listen|connect ADDRESS:PORT [RDMA-DEVICE]\n");
        return 2;
    }
    return 0;
}
