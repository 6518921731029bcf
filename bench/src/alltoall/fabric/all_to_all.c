/* MPI_Alltoallv with the counts of a file, for `braid-perf alltoall --fabric`: after one round that is not timed, but whose
   every byte is checked, rank 0 prints for each round and rank "RANK SECONDS". */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL)
        fail("no memory");
    return memory;
}

/* The counts of the whole matrix, row by row. */
static int *read_matrix(const char *path, int size)
{
    int ranks, *matrix = allocate((size_t)size * size, sizeof *matrix);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%d", &ranks) != 1 || ranks != size)
        fail("the matrix is not one of so many ranks");
    for (int i = 0; i < size * size; i++)
        if (fscanf(file, "%d", &matrix[i]) != 1 || matrix[i] < 0)
            fail("the matrix is not whole");
    fclose(file);
    return matrix;
}

/* Where each rank's part begins; returns how long all are together. */
static int place(const int *counts, int *places, int size)
{
    int end = 0;
    for (int rank = 0; rank < size; rank++) {
        places[rank] = end;
        end += counts[rank];
    }
    return end;
}

static unsigned char pattern(int from, int to, int at)
{
    return (unsigned char)(at * 7 + (at >> 8) + from * 31 + to * 57);
}

int main(int argc, char **argv)
{
    int rank, size, rounds;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3 || (rounds = atoi(argv[2])) < 1)
        fail("usage: all_to_all MATRIX ROUNDS");

    int *matrix = read_matrix(argv[1], size);
    int *counts[2], *places[2];
    unsigned char *bytes[2];
    for (int way = 0; way < 2; way++) {
        counts[way] = allocate(size, sizeof(int));
        places[way] = allocate(size, sizeof(int));
        for (int other = 0; other < size; other++)
            counts[way][other] = way == 0 ? matrix[rank * size + other] : matrix[other * size + rank];
        bytes[way] = allocate(place(counts[way], places[way], size), 1);
    }
    for (int to = 0; to < size; to++)
        for (int at = 0; at < counts[0][to]; at++)
            bytes[0][places[0][to] + at] = pattern(rank, to, at);

    double *seconds = allocate(size, sizeof *seconds);
    for (int round = 0; round <= rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        MPI_Alltoallv(bytes[0], counts[0], places[0], MPI_BYTE, bytes[1], counts[1], places[1], MPI_BYTE,
                      MPI_COMM_WORLD);
        double own = MPI_Wtime() - began;
        MPI_Gather(&own, 1, MPI_DOUBLE, seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        for (int from = 0; round == 0 && from < size; from++)
            for (int at = 0; at < counts[1][from]; at++)
                if (bytes[1][places[1][from] + at] != pattern(from, rank, at))
                    fail("a byte is not what was sent");
        for (int other = 0; round > 0 && rank == 0 && other < size; other++)
            printf("%d %.9f\n", other, seconds[other]);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
