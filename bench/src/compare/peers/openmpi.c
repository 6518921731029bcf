/* Two MPI ranks: messages from rank 0 to rank 1, both ways, or to and fro. Rank 0 looks at the clock and reports.
 *
 *   openmpi one-way|both-ways|ping-pong BYTES SECONDS
 *
 * As in the OSU benchmarks a window of messages is under way, and its receiver answers each window with a short one. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, DATA = 1, GO = 2, ANSWER = 3, MOST_TIMES = 1 << 20 };

static const double WARM_UP = 0.05;
static const size_t WORKING_SET = 8u << 20;

static char *sent, *received;
static size_t bytes, slots;
static int window;

static int send_window(int other, MPI_Request *requests)
{
    for (int i = 0; i < window; i++)
        MPI_Isend(sent + i % slots * bytes, bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, requests + i);
    return window;
}

static int receive_window(int other, MPI_Request *requests)
{
    for (int i = 0; i < window; i++)
        MPI_Irecv(received + i % slots * bytes, bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, requests + i);
    return window;
}

/* Windows until the time is over; returns how many. Rank 1 learns of each by a word of rank 0's. */
static long bulk(int rank, int both, double seconds, double *took)
{
    MPI_Request requests[2 * WINDOW];
    double began = MPI_Wtime();
    long windows = 0;
    for (char go = 1;; windows++) {
        int count = 0;
        if (rank == 0) {
            go = MPI_Wtime() - began < seconds;
            MPI_Send(&go, 1, MPI_BYTE, 1, GO, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&go, 1, MPI_BYTE, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (!go)
            break;
        if (rank == 1 || both)
            count += receive_window(!rank, requests);
        if (rank == 0 || both)
            count += send_window(!rank, requests + count);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        if (rank == 1)
            MPI_Send(&go, 1, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
        else
            MPI_Recv(&go, 1, MPI_BYTE, 1, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    *took = MPI_Wtime() - began;
    return windows;
}

/* Keeps the last times, in microseconds for half a round trip; returns how many round trips there were. */
static long ping_pong(int rank, double seconds, double *times)
{
    double began = MPI_Wtime(), now = began;
    long trips = 0;
    for (int tag = DATA; tag == DATA; trips += tag == DATA) {
        MPI_Status status;
        if (rank == 0) {
            tag = now - began < seconds ? DATA : GO;
            MPI_Send(sent, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
            MPI_Recv(received, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &status);
            double then = now;
            now = MPI_Wtime();
            times[trips % MOST_TIMES] = (now - then) * 0.5e6;
        } else {
            MPI_Recv(received, bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            tag = status.MPI_TAG;
            MPI_Send(received, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
        }
    }
    return trips;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report_times(double *times, long trips)
{
    long kept = trips < MOST_TIMES ? trips : MOST_TIMES;
    qsort(times, kept, sizeof *times, ascending);
    printf("report {\"one_way_p50_us\":%f,\"one_way_p99_us\":%f,\"one_way_p999_us\":%f}\n",
           times[kept / 2], times[kept * 99 / 100], times[kept * 999 / 1000]);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bytes = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    if (ranks != 2 || bytes == 0 || bytes > 1u << 30) {
        fprintf(stderr, "two ranks: openmpi one-way|both-ways|ping-pong BYTES SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double seconds = strtod(argv[3], NULL), took;
    slots = WORKING_SET / bytes ? WORKING_SET / bytes : 1;
    window = slots < 2 ? 2 : slots < WINDOW ? (int)slots : WINDOW;
    sent = calloc(slots, bytes);
    received = calloc(slots, bytes);
    double *times = malloc(MOST_TIMES * sizeof *times);
    if (!sent || !received || !times)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (!strcmp(argv[1], "ping-pong")) {
        ping_pong(rank, WARM_UP, times);
        long trips = ping_pong(rank, seconds, times);
        if (rank == 0)
            report_times(times, trips);
    } else {
        int both = !strcmp(argv[1], "both-ways");
        bulk(rank, both, WARM_UP, &took);
        double messages = (double)bulk(rank, both, seconds, &took) * window * (1 + both);
        if (rank == 0)
            printf("report {\"goodput_gbytes_per_s\":%f,\"rate_mmsgs\":%f}\n", messages * bytes * 1e-9 / took,
                   messages * 1e-6 / took);
    }
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
