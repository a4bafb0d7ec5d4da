/* A fake NVBit, as far as nvbit/tool.cpp uses it: the functions and types by which NVBit is called, and the
 * parameters of the driver's calls, as CUDA's headers have them. nvbit.cpp plays it.
 */
#ifndef FAKE_NVBIT_H
#define FAKE_NVBIT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <vector>

typedef struct fake_context *CUcontext;
typedef struct fake_function *CUfunction;
typedef struct fake_stream *CUstream;
typedef struct fake_kernel *CUkernel;
typedef int CUresult;
#define CUDA_SUCCESS 0

namespace InstrType {
enum class MemorySpace { NONE, LOCAL, GENERIC, GLOBAL, SHARED, CONSTANT, GLOBAL_TO_SHARED };
enum class OperandType { REG, UREG, MREF };
struct operand_t {
    OperandType type;
    union {
        struct {
            bool has_ur;
            int ur_num;
        } mref;
        struct {
            int num;
        } reg;
    } u;
};
} // namespace InstrType

class Instr {
  public:
    Instr(const char *opcode, uint32_t offset, InstrType::MemorySpace space, int bytes,
          std::vector<InstrType::operand_t> operands);
    const char *getOpcode() { return opcode; }
    uint32_t getOffset() { return offset; }
    InstrType::MemorySpace getMemorySpace() { return space; }
    int getSize() { return bytes; }
    int getNumOperands() { return (int)operands.size(); }
    const InstrType::operand_t *getOperand(int at) { return &operands[(size_t)at]; }

  private:
    char opcode[64];
    uint32_t offset;
    InstrType::MemorySpace space;
    int bytes;
    std::vector<InstrType::operand_t> operands;
};

/* The calls of the driver that are reported, with any numbers. */
typedef enum {
    API_CUDA_INVALID = 0,
    API_CUDA_cuMemAlloc_v2,
    API_CUDA_cuMemAllocPitch_v2,
    API_CUDA_cuMemAllocManaged,
    API_CUDA_cuMemAllocHost_v2,
    API_CUDA_cuMemHostAlloc,
    API_CUDA_cuMemAllocAsync,
    API_CUDA_cuMemAllocAsync_ptsz,
    API_CUDA_cuMemAllocFromPoolAsync,
    API_CUDA_cuMemAllocFromPoolAsync_ptsz,
    API_CUDA_cuMemPoolImportPointer,
    API_CUDA_cuMemFree_v2,
    API_CUDA_cuMemFreeHost,
    API_CUDA_cuMemFreeAsync,
    API_CUDA_cuMemFreeAsync_ptsz,
    API_CUDA_cuMemHostRegister,
    API_CUDA_cuMemHostRegister_v2,
    API_CUDA_cuMemHostUnregister,
    API_CUDA_cuIpcGetMemHandle,
    API_CUDA_cuIpcOpenMemHandle,
    API_CUDA_cuIpcOpenMemHandle_v2,
    API_CUDA_cuIpcCloseMemHandle,
    API_CUDA_cuMemCreate,
    API_CUDA_cuMemMap,
    API_CUDA_cuMemUnmap,
    API_CUDA_cuMemImportFromShareableHandle,
    API_CUDA_cuMemExportToShareableHandle,
    API_CUDA_cuMemRetainAllocationHandle,
    API_CUDA_cuMemPoolExportPointer,
    API_CUDA_cuLaunchKernel,
    API_CUDA_cuLaunchKernel_ptsz,
    API_CUDA_cuLaunchKernelEx,
    API_CUDA_cuLaunchKernelEx_ptsz,
    API_CUDA_cuLaunchCooperativeKernel,
    API_CUDA_cuLaunchCooperativeKernel_ptsz,
    API_CUDA_cuGraphAddKernelNode,
    API_CUDA_cuGraphAddKernelNode_v2,
    API_CUDA_cuGraphAddNode,
    API_CUDA_cuGraphAddNode_v2,
    API_CUDA_cuGraphKernelNodeSetParams,
    API_CUDA_cuGraphKernelNodeSetParams_v2,
    API_CUDA_cuGraphExecKernelNodeSetParams,
    API_CUDA_cuGraphExecKernelNodeSetParams_v2,
    API_CUDA_cuGraphNodeSetParams,
    API_CUDA_cuGraphExecNodeSetParams,
    API_CUDA_cuGraphLaunch,
    API_CUDA_cuGraphLaunch_ptsz,
    API_CUDA_cuModuleUnload,
    API_CUDA_cuLibraryUnload,
    API_CUDA_cuStreamSynchronize,
    API_CUDA_cuStreamSynchronize_ptsz,
    API_CUDA_cuStreamQuery,
    API_CUDA_cuStreamQuery_ptsz,
    API_CUDA_cuCtxSynchronize,
    API_CUDA_cuCtxSynchronize_v2,
    API_CUDA_cuEventSynchronize,
    API_CUDA_cuEventQuery,
    API_CUDA_cuMemcpyDtoH_v2,
    API_CUDA_cuMemcpyDtoH_v2_ptds
} nvbit_api_cuda_t;

struct cuLaunchKernel_params {
    CUfunction f;
    unsigned grid[3], block[3], shared;
    CUstream hStream;
    void **kernelParams, **extra;
};
typedef cuLaunchKernel_params cuLaunchCooperativeKernel_params;
struct CUlaunchConfig {
    unsigned grid[3], block[3], shared;
    CUstream hStream;
};
struct cuLaunchKernelEx_params {
    const CUlaunchConfig *config;
    CUfunction f;
};
struct CUDA_KERNEL_NODE_PARAMS_v1 {
    CUfunction func;
    unsigned numbers[7];
    void **kernelParams, **extra;
};
struct CUDA_KERNEL_NODE_PARAMS {
    CUfunction func;
    unsigned numbers[7];
    void **kernelParams, **extra;
    CUkernel kern;
    CUcontext ctx;
};
typedef enum { CU_GRAPH_NODE_TYPE_KERNEL } CUgraphNodeType;
struct CUgraphNodeParams {
    CUgraphNodeType type;
    int reserved[3];
    CUDA_KERNEL_NODE_PARAMS kernel;
};
struct cuGraphAddKernelNode_params {
    void *node, *graph, *dependencies;
    size_t count;
    const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams;
};
struct cuGraphAddKernelNode_v2_params {
    void *node, *graph, *dependencies;
    size_t count;
    const CUDA_KERNEL_NODE_PARAMS *nodeParams;
};
struct cuGraphAddNode_params {
    void *node, *graph, *dependencies;
    size_t count;
    CUgraphNodeParams *nodeParams;
};
struct cuGraphAddNode_v2_params {
    void *node, *graph, *dependencies, *data;
    size_t count;
    CUgraphNodeParams *nodeParams;
};
struct cuGraphKernelNodeSetParams_params {
    void *node;
    const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams;
};
struct cuGraphKernelNodeSetParams_v2_params {
    void *node;
    const CUDA_KERNEL_NODE_PARAMS *nodeParams;
};
struct cuGraphExecKernelNodeSetParams_params {
    void *graph, *node;
    const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams;
};
struct cuGraphExecKernelNodeSetParams_v2_params {
    void *graph, *node;
    const CUDA_KERNEL_NODE_PARAMS *nodeParams;
};
struct cuGraphNodeSetParams_params {
    void *node;
    CUgraphNodeParams *nodeParams;
};
struct cuGraphExecNodeSetParams_params {
    void *graph, *node;
    CUgraphNodeParams *nodeParams;
};
struct cuGraphLaunch_params {
    void *graph;
    CUstream hStream;
};

typedef enum { IPOINT_BEFORE, IPOINT_AFTER } ipoint_t;

extern "C" {
void nvbit_at_init();
void nvbit_at_term();
void nvbit_at_ctx_init(CUcontext context);
void nvbit_at_ctx_term(CUcontext context);
void nvbit_tool_init(CUcontext context);
void nvbit_at_cuda_event(CUcontext context, int is_exit, nvbit_api_cuda_t call, const char *name, void *parameters,
                         CUresult *status);
void nvbit_at_graph_node_launch(CUcontext context, CUfunction function, CUstream stream, uint64_t launch);

std::vector<CUfunction> nvbit_get_related_functions(CUcontext context, CUfunction function);
const std::vector<Instr *> &nvbit_get_instrs(CUcontext context, CUfunction function);
const char *nvbit_get_func_name(CUcontext context, CUfunction function, bool is_mangled = false);
uint64_t nvbit_get_func_addr(CUcontext context, CUfunction function);
bool nvbit_is_func_kernel(CUcontext context, CUfunction function);
bool nvbit_dump_cubin(CUcontext context, CUfunction function, const char *file);
void nvbit_insert_call(const Instr *instruction, const char *function, ipoint_t point);
void nvbit_add_call_arg_guard_pred_val(const Instr *instruction, bool is_variadic = false);
void nvbit_add_call_arg_const_val32(const Instr *instruction, uint32_t value, bool is_variadic = false);
void nvbit_add_call_arg_const_val64(const Instr *instruction, uint64_t value, bool is_variadic = false);
void nvbit_add_call_arg_ureg_val(const Instr *instruction, int number, bool is_variadic = false);
void nvbit_add_call_arg_launch_val64(const Instr *instruction, int offset, bool is_variadic = false);
void nvbit_add_call_arg_mref_addr64(const Instr *instruction, int which = 0, bool is_variadic = false);
void nvbit_enable_instrumented(CUcontext context, CUfunction function, bool on, bool with_related = true);
void nvbit_set_at_launch(CUcontext context, CUfunction function, uint64_t value, CUstream stream = nullptr,
                         uint64_t launch = 0);
}

#endif
