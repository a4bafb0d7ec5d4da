// Kernels that shapes.cu loads when it has launched others.

#define STORES(name)                                                                                                   \
    extern "C" __global__ void name(unsigned *p) { ((volatile unsigned *)p)[blockIdx.x * blockDim.x + threadIdx.x] = 1; }

STORES(late)      // @late
STORES(later)     // @later
STORES(latest)    // @latest
STORES(elsewhere) // @elsewhere
