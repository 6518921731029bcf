// An all-to-all between processes: rank r sends rank s the byte r, s + 1 times.
//
//   ./all_to_all RANK RANKS 10.0.0.1:4791  one rank; rank 0 receives at that address
//   srun -n 8 ./all_to_all                 or mpirun, torchrun; needs MASTER_ADDR to be set

#include <braid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_US 30000000 // 30 s

// Makes a call, and exits if it fails.
#define CHECK(call) check(call, #call)
static int check(int result, const char *call) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", call, braid_last_error());
        exit(1);
    }
    return result;
}

static braid_group_config config_of(int argc, char **argv) {
    braid_group_config config;
    if (argc == 1) {
        CHECK(braid_group_config_from_env(&config, sizeof config));
        return config;
    }
    CHECK(braid_group_config_init(&config, sizeof config));
    config.rank = (uint32_t)atoi(argv[1]);
    config.ranks = (uint32_t)atoi(argv[2]);
    snprintf(config.root, sizeof config.root, "%s", argv[3]);
    return config;
}

static braid_engine *engine_of(const braid_group_config *group) {
    char bind[BRAID_ADDR_LEN];
    CHECK(braid_group_config_bind(group, bind, sizeof bind));
    braid_engine_config config;
    CHECK(braid_engine_config_init(&config, sizeof config));
    config.bind = bind;
    braid_engine *engine;
    CHECK(braid_engine_create(&config, &engine));
    return engine;
}

// Waits for a round. On failure, prints whether the peer or the local side is to blame.
static int finish(const braid_group *group, braid_round *round) {
    int result = braid_round_wait(round, PATIENCE_US);
    if (result < 0) {
        braid_group_end end;
        end.size = sizeof end;
        fprintf(stderr, "%s\n", braid_last_error());
        CHECK(braid_group_query_end(group, &end));
        fprintf(stderr, "rank %d: %s\n", end.rank, braid_blame_str(end.blame));
    }
    CHECK(braid_round_close(round));
    return result;
}

// Counts the wrong bytes received from each rank.
static int wrong_bytes(const unsigned char *received, size_t ranks, size_t each) {
    int wrong = 0;
    for (size_t from = 0; from < ranks; from++)
        for (size_t i = 0; i < each; i++) wrong += received[from * each + i] != (unsigned char)from;
    return wrong;
}

static int exchange(braid_group *group, braid_pd *pd) {
    size_t rank = (size_t)CHECK(braid_group_rank(group));
    size_t ranks = (size_t)CHECK(braid_group_size(group));
    size_t each = rank + 1; // bytes that this rank gets from each
    braid_range *sends = (braid_range *)calloc(2 * ranks, sizeof *sends), *receives = sends + ranks;
    for (size_t peer = 0; peer < ranks; peer++) {
        sends[peer].len = peer + 1; // the same bytes to all ranks
        receives[peer].offset = peer * each;
        receives[peer].len = each;
    }
    // Registered once, for any number of rounds.
    unsigned char *memory = (unsigned char *)malloc(ranks + ranks * each);
    unsigned char *received = memory + ranks;
    memset(memory, (int)rank, ranks);
    uint32_t writable = BRAID_ACCESS_LOCAL_WRITE | BRAID_ACCESS_REMOTE_WRITE;
    braid_mr *send, *recv;
    CHECK(braid_mr_register(pd, memory, ranks, BRAID_ACCESS_NONE, &send));
    CHECK(braid_mr_register(pd, received, ranks * each, writable, &recv));

    int wrong = 0;
    for (int number = 0; number < 3; number++) {
        memset(received, 0xFF, ranks * each);
        braid_round *round;
        CHECK(braid_group_start(group, send, sends, recv, receives, ranks, &round));
        // The program could compute here, because the round progresses in the background.
        if (finish(group, round) < 0) exit(1);
        wrong += wrong_bytes(received, ranks, each);
    }
    CHECK(braid_mr_close(recv));
    CHECK(braid_mr_close(send));
    free(memory);
    free(sends);
    printf("rank %zu of %zu: 3 rounds, %d wrong bytes\n", rank, ranks, wrong);
    return wrong == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc != 1 && argc != 4) {
        fprintf(stderr, "usage: all_to_all [RANK RANKS ROOT_ADDRESS:PORT]\n");
        return 2;
    }
    braid_group_config config = config_of(argc, argv);
    braid_engine *engine = engine_of(&config);
    if (config.rank == 0) printf("listening on %s\n", config.root);
    fflush(stdout);
    braid_group *group;
    CHECK(braid_group_join(engine, &config, &group));
    braid_pd *pd;
    CHECK(braid_group_pd(group, &pd));
    int status = exchange(group, pd);
    CHECK(braid_group_close(group));
    CHECK(braid_pd_close(pd));
    CHECK(braid_engine_close(engine));
    return status;
}
