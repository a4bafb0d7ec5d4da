/* Named regions and named memory for mpisee, the communicator profiler.
 *
 *     #include <mpi.h>
 *     #include <mpisee.h>
 *
 *     mpisee_region_begin("solver");
 *     ...                                    // calls in here are in the region "solver"
 *     mpisee_region_end();
 *
 * Regions nest: "halo" inside of "solver" is the region "solver/halo". They hold for all threads of the
 * process. Nothing needs to be linked: the calls go through MPI_Pcontrol, which does nothing when the program
 * runs without the profiler.
 *
 * MPI_Pcontrol(0) stops recording, MPI_Pcontrol(1) resumes it, MPI_Pcontrol(2) needs to do nothing, since every
 * count is in its place at once. Other levels change nothing.
 */
#ifndef MPISEE_H
#define MPISEE_H

#include <mpi.h>
#include <stddef.h>

/* Levels of MPI_Pcontrol, far from those that other profilers use. */
#define MPISEE_REGION_BEGIN 0x4d505300        /* followed by the name, a const char * */
#define MPISEE_REGION_END 0x4d505301
#define MPISEE_NAME_MEMORY 0x4d505302         /* followed by the address of a struct as below */
#define MPISEE_REGION_BEGIN_NUMBER 0x4d510000 /* plus a number from 0 to 65535 */
#define MPISEE_REGION_END_NUMBER 0x4d520000   /* plus the same number */

#ifdef __cplusplus
extern "C" {
#endif

/* The region begins. A name holds no '/'. */
static inline void mpisee_region_begin(const char *name) {
    MPI_Pcontrol(MPISEE_REGION_BEGIN, name);
}

/* The innermost region ends. */
static inline void mpisee_region_end(void) {
    MPI_Pcontrol(MPISEE_REGION_END);
}

/* Memory that CUDA allocated or registered is called so in gpu.csv, from now until it is freed; also a part of it. */
static inline void mpisee_name_memory(const void *address, size_t bytes, const char *name) {
    const struct {
        const void *address;
        size_t bytes;
        const char *name;
    } memory = {address, bytes, name};
    MPI_Pcontrol(MPISEE_NAME_MEMORY, &memory);
}

#ifdef __cplusplus
}
#endif

#endif
