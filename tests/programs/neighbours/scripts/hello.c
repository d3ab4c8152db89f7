/* SPDX-License-Identifier: MIT */
/* Each of some processes adds up who they all are. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int rank, count, sum;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &count);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("%d of %d: %d\n", rank, count, sum);
	MPI_Finalize();
	return 0;
}
