/* Sums over all ranks, from one number to a million, and checks every number. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int count = 1; count <= 1 << 20; count *= 16) {
        int *ours = malloc(count * sizeof *ours), *sums = malloc(count * sizeof *sums);
        for (int i = 0; i < count; i++)
            ours[i] = rank + i;
        MPI_Allreduce(ours, sums, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) {
            if (sums[i] != ranks * (ranks - 1) / 2 + ranks * i) {
                fprintf(stderr, "rank %d: sum %d of %d is %d\n", rank, i, count, sums[i]);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        free(ours);
        free(sums);
    }
    if (rank == 0)
        printf("allreduce of %d ranks ok\n", ranks);
    MPI_Finalize();
    return 0;
}
