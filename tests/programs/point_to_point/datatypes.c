/* Bytes are those of the data, not of the memory that it is spread over, whatever the datatype. Where MPI has them, a
 * constructor for large counts makes one datatype: asking of it what it was made of is an error with the function for
 * small counts (MPI 4.0, 5.1.13). */
#include "program.h"
#include <stddef.h>

struct mixed {
    char c;
    double d;
    int i[3];
};

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Datatype vector, structure, wide, nothing;
#if MPI_VERSION >= 4
    MPI_Type_vector_c(5, 3, 11, MPI_INT, &vector); /* 60 bytes of data */
#else
    MPI_Type_vector(5, 3, 11, MPI_INT, &vector);
#endif
    MPI_Type_commit(&vector);
    int lengths[] = {1, 1, 3};
    MPI_Aint places[] = {offsetof(struct mixed, c), offsetof(struct mixed, d), offsetof(struct mixed, i)};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI_Type_create_struct(3, lengths, places, types, &structure); /* 21 bytes of data */
    MPI_Type_commit(&structure);
    MPI_Type_create_resized(MPI_SHORT, 0, 64, &wide); /* 2 bytes of data */
    MPI_Type_commit(&wide);
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);

    MPI_Datatype sent[] = {MPI_CHAR, MPI_INT, MPI_DOUBLE, MPI_LONG_DOUBLE, vector, structure, wide, nothing};
    int counts[] = {101, 103, 107, 109, 113, 127, 131, 137};
    static char data[1 << 20];
    for (int i = 0; i < 8; i++) {
        int bytes;
        MPI_Type_size(sent[i], &bytes);
        /* 0 sends as the type says, 1 receives bytes and answers with them; then both with requests. */
        if (rank == 0) {
            MPI_Send(data, counts[i], sent[i], 1, i, MPI_COMM_WORLD);
            MPI_Request request;
            MPI_Status status;
            int count;
            MPI_Irecv(data, counts[i], sent[i], 1, i, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, &status);
            MPI_Get_count(&status, sent[i], &count);
            EXPECT(count == (bytes ? counts[i] : 0));
        } else if (rank == 1) {
            MPI_Status status;
            MPI_Recv(data, sizeof data, bytes ? MPI_PACKED : nothing, 0, i, MPI_COMM_WORLD, &status);
            MPI_Request request;
            MPI_Isend(data, counts[i], sent[i], 0, i, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    MPI_Type_free(&vector);
    MPI_Type_free(&structure);
    MPI_Type_free(&wide);
    MPI_Type_free(&nothing);
    MPI_Finalize();
    return 0;
}
