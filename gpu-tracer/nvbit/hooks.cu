/* What NVBit needs once in every tool: its own functions on the GPU. */
#include "nvbit_tool.h"
