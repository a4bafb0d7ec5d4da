/* NVBit's own functions on the GPU, needed once in every tool. */
#include "nvbit_tool.h"
