/* The part of the tracer that NVBit's functions are called in: no more than what has to be C++. src/nvbit decides.
 *
 * Compiled by `cargo xtask gpu` with the NVBit of NVBIT_HOME, and by the tests with a fake one.
 */
#include "layer.h"

#include "nvbit.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <string>

namespace {

mpisee_nvbit_events events;
bool is_listening;

/* Accesses of an instruction to memory that other devices can have, too. */
struct access {
    bool is_one;
    uint32_t kind; /* as in device/core.h */
    uint32_t bytes;
    int reference; /* which of the instruction's references to memory; of a bulk copy, which uniform register */
    int blocks;    /* the uniform register with the length of a bulk copy; else -1 */
};

const uint32_t load = 0, store = 1, atomic = 2;

bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Bulk copies and reductions between global and shared memory, as `UBLKCP.S.G [UR6], [UR4], UR8`: the second reference
 * is the source, a global address is in a pair of uniform registers, and the length in another, in blocks of 16 bytes. */
access bulk_copy(Instr *instruction) {
    const char *opcode = instruction->getOpcode();
    bool is_load = strstr(opcode, ".S.G") != nullptr, is_store = strstr(opcode, ".G.S") != nullptr;
    bool is_reduction = begins(opcode, "UBLKRED");
    int references[2] = {-1, -1}, count = 0, blocks = -1;
    for (int at = 0; at < instruction->getNumOperands(); at++) {
        const InstrType::operand_t *operand = instruction->getOperand(at);
        if (operand->type == InstrType::OperandType::MREF && count < 2) {
            references[count++] = operand->u.mref.has_ur ? operand->u.mref.ur_num : -1;
        } else if (operand->type == InstrType::OperandType::UREG) {
            blocks = operand->u.reg.num;
        }
    }
    int global = references[is_load ? 1 : 0];
    bool is_one = (is_load || is_store) && global >= 0 && blocks >= 0;
    return {is_one, is_reduction ? atomic : is_load ? load : store, 0, global, blocks};
}

/* Bytes of a lane's access. Of vectors of floats NVBit says 4, and of what is wider than 16 bytes. */
uint32_t bytes_of(Instr *instruction) {
    const char *opcode = instruction->getOpcode();
    const char *floats = strstr(opcode, "F16x"), *wider = strstr(opcode, "F32x");
    if (floats || wider) {
        return floats ? 2 * (uint32_t)atoi(floats + 4) : 4 * (uint32_t)atoi(wider + 4);
    }
    return strstr(opcode, ".256") ? 32 : (uint32_t)instruction->getSize();
}

access access_of(Instr *instruction) {
    const access none = {false, 0, 0, 0, -1};
    const char *opcode = instruction->getOpcode();
    if (begins(opcode, "UBLKCP") || begins(opcode, "UBLKRED")) {
        return bulk_copy(instruction);
    }
    /* A copy from global to shared memory has two references, that of shared memory first. */
    bool is_copy = instruction->getMemorySpace() == InstrType::MemorySpace::GLOBAL_TO_SHARED;
    bool is_global = instruction->getMemorySpace() == InstrType::MemorySpace::GLOBAL ||
                     instruction->getMemorySpace() == InstrType::MemorySpace::GENERIC;
    if (!is_copy && !is_global) {
        return none;
    }
    int references = 0;
    for (int at = 0; at < instruction->getNumOperands(); at++) {
        references += instruction->getOperand(at)->type == InstrType::OperandType::MREF;
    }
    uint32_t kind;
    if (begins(opcode, "ATOM") || begins(opcode, "RED")) {
        kind = atomic;
    } else if (begins(opcode, "LD")) {
        kind = load;
    } else if (begins(opcode, "ST")) {
        kind = store;
    } else {
        return none; /* prefetches and others that move nothing */
    }
    return {references > (is_copy ? 1 : 0), kind, bytes_of(instruction), is_copy ? 1 : 0, -1};
}

bool insert(Instr *instruction, uint64_t pc) {
    access it = access_of(instruction);
    if (!it.is_one) {
        return false;
    }
    nvbit_insert_call(instruction, it.blocks < 0 ? "mpisee_nvbit_access" : "mpisee_nvbit_bulk", IPOINT_BEFORE);
    nvbit_add_call_arg_guard_pred_val(instruction);
    nvbit_add_call_arg_launch_val64(instruction, 0);
    nvbit_add_call_arg_const_val64(instruction, pc);
    nvbit_add_call_arg_const_val32(instruction, it.kind);
    if (it.blocks < 0) {
        nvbit_add_call_arg_mref_addr64(instruction, it.reference);
        nvbit_add_call_arg_const_val32(instruction, it.bytes);
    } else {
        nvbit_add_call_arg_ureg_val(instruction, it.reference);
        nvbit_add_call_arg_ureg_val(instruction, it.reference + 1);
        nvbit_add_call_arg_ureg_val(instruction, it.blocks);
    }
    return true;
}

uint32_t instrument(void *context, void *function, mpisee_nvbit_selects selects, void *data) {
    CUcontext within = (CUcontext)context;
    std::vector<CUfunction> all = {(CUfunction)function};
    /* NVBit may name the other kernels of the module, too, and this one once more (1.7.6). */
    for (CUfunction one : nvbit_get_related_functions(within, (CUfunction)function)) {
        if (!nvbit_is_func_kernel(within, one)) {
            all.push_back(one);
        }
    }
    uint32_t calls = 0;
    for (CUfunction one : all) {
        uint64_t begin = nvbit_get_func_addr(within, one);
        const std::vector<Instr *> &instructions = nvbit_get_instrs(within, one);
        uint64_t bytes = instructions.empty() ? 0 : instructions.back()->getOffset() + 16;
        if (!selects(data, one, nvbit_get_func_name(within, one, true), begin, bytes)) {
            continue;
        }
        for (Instr *instruction : instructions) {
            calls += insert(instruction, begin + instruction->getOffset());
        }
    }
    return calls;
}

void enable(void *context, void *function, int on) {
    nvbit_enable_instrumented((CUcontext)context, (CUfunction)function, on != 0);
}

void set(void *context, void *function, uint64_t value, void *stream, uint64_t launch) {
    nvbit_set_at_launch((CUcontext)context, (CUfunction)function, value, (CUstream)stream, launch);
}

uint64_t address(void *context, void *function) {
    return nvbit_get_func_addr((CUcontext)context, (CUfunction)function);
}

const char *name(void *context, void *function) {
    return nvbit_get_func_name((CUcontext)context, (CUfunction)function, true);
}

void image(void *context, void *function, const char *file) {
    /* It returns false where it has written all as well (1.7.7.1). */
    nvbit_dump_cubin((CUcontext)context, (CUfunction)function, file);
}

/* Kind of a call of the driver; 0 if the tracer does not need it. */
uint32_t what(nvbit_api_cuda_t call) {
    switch (call) {
    case API_CUDA_cuMemAlloc_v2: return MPISEE_ALLOC;
    case API_CUDA_cuMemAllocPitch_v2: return MPISEE_ALLOC_PITCH;
    case API_CUDA_cuMemAllocManaged: return MPISEE_ALLOC_MANAGED;
    case API_CUDA_cuMemAllocHost_v2:
    case API_CUDA_cuMemHostAlloc: return MPISEE_ALLOC_HOST;
    case API_CUDA_cuMemAllocAsync:
    case API_CUDA_cuMemAllocAsync_ptsz:
    case API_CUDA_cuMemAllocFromPoolAsync:
    case API_CUDA_cuMemAllocFromPoolAsync_ptsz: return MPISEE_ALLOC_ASYNC;
    case API_CUDA_cuMemPoolImportPointer: return MPISEE_POOL_IMPORT;
    case API_CUDA_cuMemFree_v2:
    case API_CUDA_cuMemFreeHost:
    case API_CUDA_cuMemFreeAsync:
    case API_CUDA_cuMemFreeAsync_ptsz: return MPISEE_FREE;
    case API_CUDA_cuMemHostRegister:
    case API_CUDA_cuMemHostRegister_v2: return MPISEE_HOST_REGISTER;
    case API_CUDA_cuMemHostUnregister: return MPISEE_HOST_UNREGISTER;
    case API_CUDA_cuIpcGetMemHandle: return MPISEE_IPC_GET;
    case API_CUDA_cuIpcOpenMemHandle:
    case API_CUDA_cuIpcOpenMemHandle_v2: return MPISEE_IPC_OPEN;
    case API_CUDA_cuIpcCloseMemHandle: return MPISEE_IPC_CLOSE;
    case API_CUDA_cuMemCreate: return MPISEE_CREATE;
    case API_CUDA_cuMemMap: return MPISEE_MAP;
    case API_CUDA_cuMemUnmap: return MPISEE_UNMAP;
    case API_CUDA_cuMemImportFromShareableHandle: return MPISEE_IMPORT;
    case API_CUDA_cuMemExportToShareableHandle: return MPISEE_EXPORT;
    case API_CUDA_cuMemRetainAllocationHandle: return MPISEE_RETAIN;
    case API_CUDA_cuMemPoolExportPointer: return MPISEE_POOL_EXPORT;
    case API_CUDA_cuLaunchKernel:
    case API_CUDA_cuLaunchKernel_ptsz:
    case API_CUDA_cuLaunchKernelEx:
    case API_CUDA_cuLaunchKernelEx_ptsz:
    case API_CUDA_cuLaunchCooperativeKernel:
    case API_CUDA_cuLaunchCooperativeKernel_ptsz: return MPISEE_LAUNCH;
    case API_CUDA_cuGraphAddKernelNode:
    case API_CUDA_cuGraphAddKernelNode_v2:
    case API_CUDA_cuGraphAddNode:
    case API_CUDA_cuGraphAddNode_v2:
    case API_CUDA_cuGraphKernelNodeSetParams:
    case API_CUDA_cuGraphKernelNodeSetParams_v2:
    case API_CUDA_cuGraphExecKernelNodeSetParams:
    case API_CUDA_cuGraphExecKernelNodeSetParams_v2:
    case API_CUDA_cuGraphNodeSetParams:
    case API_CUDA_cuGraphExecNodeSetParams: return MPISEE_GRAPH_KERNEL;
    case API_CUDA_cuGraphLaunch:
    case API_CUDA_cuGraphLaunch_ptsz: return MPISEE_GRAPH_LAUNCH;
    case API_CUDA_cuModuleUnload: return MPISEE_UNLOAD_MODULE;
    case API_CUDA_cuLibraryUnload: return MPISEE_UNLOAD_LIBRARY;
    case API_CUDA_cuStreamSynchronize:
    case API_CUDA_cuStreamSynchronize_ptsz:
    case API_CUDA_cuStreamQuery:
    case API_CUDA_cuStreamQuery_ptsz: return MPISEE_WAITED_STREAM;
    case API_CUDA_cuCtxSynchronize:
    case API_CUDA_cuCtxSynchronize_v2: return MPISEE_WAITED_CONTEXT;
    case API_CUDA_cuEventSynchronize:
    case API_CUDA_cuEventQuery:
    case API_CUDA_cuMemcpyDtoH_v2:
    case API_CUDA_cuMemcpyDtoH_v2_ptds: return MPISEE_WAITED;
    default: return 0;
    }
}

/* Returns whether no stream stands for that of the thread. */
bool is_per_thread(nvbit_api_cuda_t call) {
    switch (call) {
    case API_CUDA_cuLaunchKernel_ptsz:
    case API_CUDA_cuLaunchKernelEx_ptsz:
    case API_CUDA_cuLaunchCooperativeKernel_ptsz:
    case API_CUDA_cuGraphLaunch_ptsz:
    case API_CUDA_cuStreamSynchronize_ptsz:
    case API_CUDA_cuStreamQuery_ptsz: return true;
    default: return false;
    }
}

/* The function of a kernel of a graph. The kernel of a library may stand for it. */
CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS_v1 *it) { return it->func; }
CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS *it) { return it->func ? it->func : (CUfunction)it->kern; }
CUfunction function_of(const CUgraphNodeParams *it) {
    const bool is_kernel = it->type == CU_GRAPH_NODE_TYPE_KERNEL;
    return !is_kernel ? nullptr : it->kernel.func ? it->kernel.func : (CUfunction)it->kernel.kern;
}

/* A node that is put into a graph, or changed there. */
template <typename Parameters> mpisee_nvbit_launch in_graph(const void *parameters) {
    const auto *node = ((const Parameters *)parameters)->nodeParams;
    return {node ? function_of(node) : nullptr, nullptr, 0};
}

/* The function and the stream of a launch; that of a kernel that is put into a graph has none, that of a graph no function.
 */
mpisee_nvbit_launch launch_of(nvbit_api_cuda_t call, const void *parameters) {
    switch (call) {
    case API_CUDA_cuLaunchKernelEx:
    case API_CUDA_cuLaunchKernelEx_ptsz: {
        const cuLaunchKernelEx_params *it = (const cuLaunchKernelEx_params *)parameters;
        return {it->f, it->config->hStream, 0};
    }
    case API_CUDA_cuLaunchCooperativeKernel:
    case API_CUDA_cuLaunchCooperativeKernel_ptsz: {
        const cuLaunchCooperativeKernel_params *it = (const cuLaunchCooperativeKernel_params *)parameters;
        return {it->f, it->hStream, 0};
    }
    case API_CUDA_cuGraphAddKernelNode: return in_graph<cuGraphAddKernelNode_params>(parameters);
    case API_CUDA_cuGraphAddKernelNode_v2: return in_graph<cuGraphAddKernelNode_v2_params>(parameters);
    case API_CUDA_cuGraphAddNode: return in_graph<cuGraphAddNode_params>(parameters);
    case API_CUDA_cuGraphAddNode_v2: return in_graph<cuGraphAddNode_v2_params>(parameters);
    case API_CUDA_cuGraphKernelNodeSetParams: return in_graph<cuGraphKernelNodeSetParams_params>(parameters);
    case API_CUDA_cuGraphKernelNodeSetParams_v2: return in_graph<cuGraphKernelNodeSetParams_v2_params>(parameters);
    case API_CUDA_cuGraphExecKernelNodeSetParams: return in_graph<cuGraphExecKernelNodeSetParams_params>(parameters);
    case API_CUDA_cuGraphExecKernelNodeSetParams_v2: return in_graph<cuGraphExecKernelNodeSetParams_v2_params>(parameters);
    case API_CUDA_cuGraphNodeSetParams: return in_graph<cuGraphNodeSetParams_params>(parameters);
    case API_CUDA_cuGraphExecNodeSetParams: return in_graph<cuGraphExecNodeSetParams_params>(parameters);
    case API_CUDA_cuGraphLaunch:
    case API_CUDA_cuGraphLaunch_ptsz: return {nullptr, ((const cuGraphLaunch_params *)parameters)->hStream, 0};
    default: {
        const cuLaunchKernel_params *it = (const cuLaunchKernel_params *)parameters;
        return {it->f, it->hStream, 0};
    }
    }
}

/* The tracer, which is beside this library. */
void *find_tracer() {
    Dl_info own;
    if (!dladdr((void *)&find_tracer, &own) || !own.dli_fname) {
        return nullptr;
    }
    std::string path = own.dli_fname;
    path.erase(path.rfind('/') + 1);
    return dlopen((path + "libmpisee_gpu.so").c_str(), RTLD_NOW | RTLD_LOCAL);
}

} // namespace

extern "C" {

/* CUDA's driver calls this function of the injected library; NVBit is at work since that was loaded. */
int InitializeInjection() { return 1; }

void nvbit_at_init() {
    static const mpisee_nvbit nvbit = {MPISEE_NVBIT_LAYER, instrument, enable, set, address, name, image};
    void *tracer = find_tracer();
    mpisee_nvbit_start start = tracer ? (mpisee_nvbit_start)dlsym(tracer, "mpisee_gpu_nvbit_start") : nullptr;
    is_listening = start && start(&nvbit, &events);
}

void nvbit_at_term() {}

void nvbit_at_ctx_init(CUcontext) {}

void nvbit_tool_init(CUcontext) {}

void nvbit_at_ctx_term(CUcontext context) {
    if (is_listening) {
        events.context_end(context);
    }
}

void nvbit_at_graph_node_launch(CUcontext context, CUfunction function, CUstream stream, uint64_t launch) {
    if (is_listening) {
        events.node(context, function, stream, launch);
    }
}

void nvbit_at_cuda_event(CUcontext context, int is_exit, nvbit_api_cuda_t call, const char *, void *parameters,
                         CUresult *status) {
    uint32_t it = is_listening ? what(call) : 0;
    /* A launch that failed is over, too. */
    const bool is_launch = it == MPISEE_LAUNCH || it == MPISEE_GRAPH_LAUNCH;
    if (it == 0 || (is_exit && !is_launch && *status != CUDA_SUCCESS)) {
        return;
    }
    mpisee_nvbit_launch launch = {nullptr, nullptr, is_per_thread(call)};
    const void *given = parameters;
    if (is_launch || it == MPISEE_GRAPH_KERNEL) {
        mpisee_nvbit_launch own = launch_of(call, parameters);
        if (it == MPISEE_GRAPH_KERNEL && !own.function) {
            return; /* another kind of node */
        }
        launch.function = own.function;
        launch.stream = own.stream;
        given = &launch;
    } else if (it == MPISEE_WAITED_STREAM) {
        launch.stream = *(void *const *)parameters;
        given = &launch;
    } else if (call == API_CUDA_cuCtxSynchronize_v2) {
        CUcontext waited = *(CUcontext *)parameters;
        context = waited ? waited : context;
    } else if (it == MPISEE_UNLOAD_MODULE || it == MPISEE_UNLOAD_LIBRARY) {
        given = *(void *const *)parameters;
    }
    events.call(context, is_exit, it, given);
}
}
