/* Copies of all kinds, with sizes that nothing else has; its argument says how it ends. */
#include "copies/copies.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 4096

/* In place of the profiler of MPI. */
static void (*collect)(void);
static void (*communicated)(uint32_t communicator, const void *buffer, uint64_t bytes, int is_sent);

void mpisee_gpu_attach(void (*given)(void), void (*name)(const void *, size_t, const char *)) {
    (void)name;
    collect = given;
}

void mpisee_gpu_attach_copies(void (*given)(uint32_t, const void *, uint64_t, int)) { communicated = given; }

/* Messages with copies beside them. */
static void stage(char *device, char *pinned, char *host, void *stream) {
    cuMemcpyDtoH_v2(host, device, 201);
    communicated(3, host, 200, 1);
    communicated(3, host, 200, 1); /* each byte once */
    cuMemcpyDtoHAsync_v2(pinned, device, 202, stream);
    communicated(4, pinned + 2, 500, 1);
    communicated(3, host, 203, 0);
    cuMemcpyHtoD_v2(device, host + 3, 300);
    communicated(3, device, 204, 1);
}

int main(int count, char **arguments) {
    static char host[MOST];
    void *stream = (void *)0x70, *captured = (void *)0x80, *graph;
    cuInit(0);
    fake_use_device(1);
    char *far = fake_alloc_device(MOST);
    fake_use_device(0);
    char *device = fake_alloc_device(MOST), *pinned = fake_alloc_pinned(MOST), *managed = fake_alloc_managed(MOST);

    cuMemcpyHtoD_v2(device, host, 101);
    cuMemcpyHtoD_v2(device, host, 102);
    cuMemcpyDtoH_v2(host, device, 103);
    cuMemcpyDtoH_v2(host, device, 0); /* fails */
    cuMemcpyDtoHAsync_v2(pinned, device, 104, stream);
    cuMemcpy(far, device, 105);
    cuMemcpyAsync(managed, device, 106, stream);
    cuMemcpyAsync_ptsz(managed, device, 107, NULL);
    cuMemcpyPeer(far, NULL, device, NULL, 108);
    cuMemcpyHtoA_v2((void *)0x5000, 0, host, 109);
    struct fake_rectangle rectangle = {.from_kind = 2, .from_device = device, .from_pitch = 64, .to_kind = 1, .to_host = host,
                                       .to_pitch = 32, .width = 11, .height = 10};
    cuMemcpy2D_v2(&rectangle);
    void *to[] = {host, device}, *from[] = {device, host + 1000};
    size_t sizes[] = {111, 112};
    cuMemcpyBatchAsync_v2(to, from, sizes, 2, NULL, NULL, 0, stream);
    cuMemsetD32_v2(device, 7, 113);
    for (int at = 0; at < 3; at++) {
        cuLaunchKernel(NULL, stream);
    }
    cuStreamBeginCapture_v2(captured, 0);
    cuMemcpyAsync(device, host, 114, captured);
    cuLaunchKernel(NULL, captured);
    cuStreamEndCapture(captured, &graph);
    cuGraphLaunch(graph, captured);
    cuMemcpyAsync(device, host, 115, captured);
    if (count > 1 && !strcmp(arguments[1], "kill")) {
        usleep(50000);
        cuMemcpy(device, host, 116);
        raise(SIGKILL);
    }
    if (communicated) {
        stage(device, pinned, host, stream);
    }
    if (count > 1 && !strcmp(arguments[1], "leave") && collect) {
        collect();
        _exit(0);
    }
    return 0;
}
