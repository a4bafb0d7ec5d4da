/* Calls inside callbacks: an error handler, a copy function of an attribute and an operation of the program call MPI; one
 * of them makes a communicator that is used later. Prints how often the operation was called. */
#include "program.h"

static MPI_Comm made = MPI_COMM_NULL;
static int additions;

static void handle(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    MPI_Barrier(MPI_COMM_SELF);
}

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    MPI_Comm_dup(MPI_COMM_SELF, &made);
    *flag = 0;
    return MPI_SUCCESS;
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
    int flag;
    (void)type, additions++;
    MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i];
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Errhandler handler;
    MPI_Comm dup;
    MPI_Op op;
    int key, data = 0, one = 1, sum = 0;
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Send(&data, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &data);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Op_create(add, 1, &op);
    MPI_Scan(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    EXPECT(sum == rank + 1);
    printf("additions of %d: %d\n", rank, additions);
    MPI_Op_free(&op);
    MPI_Barrier(made);
    MPI_Comm_free(&made);
    MPI_Barrier(dup);
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
