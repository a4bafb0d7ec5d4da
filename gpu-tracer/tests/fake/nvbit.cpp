/* Plays NVBit: kernels of the fake driver (cuda/) have instructions, of which some get calls. A call that
 * is not as device/nvbit.cu wants it ends the program.
 */
#include "fake.h"
#include "nvbit/nvbit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <map>
#include <string>

extern "C" int cuFuncGetModule(void **module, const void *function);

using InstrType::MemorySpace;

using InstrType::operand_t;
using InstrType::OperandType;

Instr::Instr(const char *text, uint32_t at, MemorySpace where, int size, std::vector<operand_t> all)
    : offset(at), space(where), bytes(size), operands(all) {
    snprintf(opcode, sizeof opcode, "%s", text);
}

namespace {

struct call {
    std::string function, arguments; /* a letter for each: of device/nvbit.cu's functions */
    uint64_t pc;
    std::vector<uint32_t> constants;
    std::vector<int> numbers;
};

struct kernel {
    std::vector<Instr *> instructions;
    bool is_gone; /* its module was unloaded */
    bool runs_calls;
    uint64_t value;
};

std::map<CUfunction, kernel> kernels;
std::map<const Instr *, std::vector<call>> calls;

void fatal(const char *why) {
    fprintf(stderr, "fake NVBit: %s\n", why);
    _exit(98);
}

/* A kernel of a library stands for its function, as in the driver. */
CUfunction plain(CUfunction function) { return (CUfunction)fake_function(function); }

kernel &of(CUfunction function) {
    function = plain(function);
    kernel &it = kernels[function];
    if (!it.instructions.empty()) {
        return it;
    }
    const std::string name = fake_function_name(function);
    auto add = [&](const char *opcode, uint32_t offset, MemorySpace space, int bytes) {
        std::vector<operand_t> operands;
        if (space != MemorySpace::NONE) {
            operands.push_back({OperandType::MREF, {}});
        }
        operands.push_back({OperandType::REG, {}});
        it.instructions.push_back(new Instr(opcode, offset, space, bytes, operands));
    };
    add("MOV", 0, MemorySpace::NONE, 4);
    if (name == "copy") {
        add("LDG.E.64", 0x50, MemorySpace::GLOBAL, 8);
        add("STS.64", 0x60, MemorySpace::SHARED, 8);
        add("STG.E.64", 0xe0, MemorySpace::GLOBAL, 8);
    } else if (name == "count") {
        add("ATOMG.E.ADD.STRONG.GPU", 0x40, MemorySpace::GLOBAL, 4);
        add("LD.E", 0x50, MemorySpace::GENERIC, 4);
        add("LDG.E", 0x60, MemorySpace::GLOBAL, 4);
        add("LDG.E.128", 0x70, MemorySpace::GLOBAL, 16);
    } else if (name == "other") {
        add("LDG.E.U8", 0x20, MemorySpace::GLOBAL, 1);
        /* UBLKCP.G.S [UR4], [UR6], UR7 */
        operand_t target = {OperandType::MREF, {}}, source = target, length = {OperandType::UREG, {}};
        target.u.mref = {true, 4};
        source.u.mref = {true, 6};
        length.u.reg.num = 7;
        it.instructions.push_back(new Instr("UBLKCP.G.S", 0x30, MemorySpace::NONE, 4, {target, source, length}));
        add("CCTL.E.PF2", 0x40, MemorySpace::NONE, 4);
    } else if (name == "calls") {
        add("LDG.E", 0x10, MemorySpace::GLOBAL, 4);
    } else if (name == "helper") {
        add("STG.E.64", 0x20, MemorySpace::GLOBAL, 8);
    } else if (name != "also") {
        add("LDG.E", 0x40, MemorySpace::GLOBAL, 4);
    }
    add("EXIT", 0x100, MemorySpace::NONE, 4);
    return it;
}

call &last(const Instr *instruction) {
    std::vector<call> &all = calls[instruction];
    if (all.empty()) {
        fatal("an argument of no call");
    }
    return all.back();
}

/* Functions that a kernel calls. */
CUfunction callee(CUfunction function) {
    function = plain(function);
    const std::string name = fake_function_name(function);
    const uintptr_t away = name == "calls" ? 2 : name == "also" ? 1 : 0;
    return away ? (CUfunction)((uintptr_t)function + away) : nullptr;
}

/* Related functions as NVBit reports them: those that the kernel calls, and another kernel of the module. */
std::vector<CUfunction> related(CUfunction function) {
    std::vector<CUfunction> all;
    if (callee(function)) {
        all.push_back(callee(function));
    }
    if (strcmp(fake_function_name(plain(function)), "copy") == 0) {
        all.push_back((CUfunction)((uintptr_t)plain(function) + 1)); /* count */
    }
    return all;
}

/* Code of a launch: whether there is a call before the instruction, and its argument. */
int call_at(void *function, uint64_t offset, struct fake_call *found) {
    CUfunction own = (CUfunction)function, called = callee(own);
    const uint64_t launch = of(own).value;
    if (called && offset >= 0x200) {
        offset += fake_function_address(own) - fake_function_address(called);
        own = called;
    }
    kernel &it = of(own);
    if (!it.runs_calls) {
        return 0;
    }
    for (Instr *instruction : it.instructions) {
        if (instruction->getOffset() != offset || calls[instruction].empty()) {
            continue;
        }
        const call &own = last(instruction);
        if (calls[instruction].size() != 1) {
            fatal("an instruction has two calls");
        }
        found->is_bulk = own.function == "mpisee_nvbit_bulk";
        /* Predicate, launch, constants of 64 and of 32 bits, then registers, or an address and a constant. */
        if (own.arguments != (found->is_bulk ? "plcurrr" : "plcuau")) {
            fatal(own.arguments.c_str());
        }
        if (found->is_bulk && (own.numbers[1] != own.numbers[0] + 1 || own.numbers[0] != 4 || own.numbers[2] != 7)) {
            fatal("the registers of a bulk copy");
        }
        found->launch = launch;
        found->pc = own.pc;
        found->kind = own.constants[0];
        found->bytes = found->is_bulk ? 0 : own.constants[1];
        return 1;
    }
    return 0;
}

const struct { const char *name; nvbit_api_cuda_t call; } known[] = {
#define KNOWN(name) {#name, API_CUDA_##name}
    KNOWN(cuMemAlloc_v2), KNOWN(cuMemAllocManaged), KNOWN(cuMemHostAlloc), KNOWN(cuMemFree_v2),
    KNOWN(cuMemFreeHost), KNOWN(cuMemHostRegister_v2), KNOWN(cuMemHostUnregister), KNOWN(cuIpcGetMemHandle),
    KNOWN(cuIpcOpenMemHandle_v2), KNOWN(cuIpcCloseMemHandle), KNOWN(cuLaunchKernel), KNOWN(cuLaunchKernelEx),
    KNOWN(cuMemCreate), KNOWN(cuMemMap), KNOWN(cuMemUnmap), KNOWN(cuMemExportToShareableHandle),
    KNOWN(cuMemImportFromShareableHandle), KNOWN(cuMemRetainAllocationHandle), KNOWN(cuMemAllocAsync),
    KNOWN(cuMemPoolExportPointer), KNOWN(cuMemPoolImportPointer),
    KNOWN(cuModuleUnload), KNOWN(cuLibraryUnload), KNOWN(cuStreamSynchronize), KNOWN(cuCtxSynchronize), KNOWN(cuCtxSynchronize_v2), KNOWN(cuGraphAddKernelNode_v2),
    KNOWN(cuGraphLaunch),
};

/* Of a function with the handle of one that was unloaded NVBit knows the earlier one's instructions and calls, which are not in
 * the code. */
void forget(const void *module) {
    for (auto &it : kernels) {
        void *own = nullptr;
        cuFuncGetModule(&own, it.first);
        it.second.is_gone |= own == module;
        it.second.runs_calls &= own != module;
    }
}

void event(void *context, int is_exit, const char *name, void *parameters) {
    CUresult status = 0;
    for (const auto &it : known) {
        if (strcmp(it.name, name) == 0) {
            nvbit_at_cuda_event((CUcontext)context, is_exit, it.call, name, parameters, &status);
            if (is_exit && strstr(name, "Unload")) {
                forget(*(void *const *)parameters);
            }
            return;
        }
    }
    fatal(name);
}

void context_event(void *context, int is_begin) {
    if (is_begin) {
        nvbit_at_ctx_init((CUcontext)context);
        nvbit_tool_init((CUcontext)context);
    } else {
        nvbit_at_ctx_term((CUcontext)context);
    }
}

void node_event(void *context, void *function, void *stream, uint64_t launch) {
    nvbit_at_graph_node_launch((CUcontext)context, (CUfunction)function, (CUstream)stream, launch);
}

__attribute__((constructor)) void begin() {
    static const struct fake_hooks hooks = {event, context_event, node_event, call_at};
    fake_hook(&hooks);
    nvbit_at_init();
}

} // namespace

std::vector<CUfunction> nvbit_get_related_functions(CUcontext, CUfunction function) {
    /* Itself and other kernels of its module are among them. */
    std::vector<CUfunction> all = related(function);
    all.push_back(plain(function));
    return all;
}
const std::vector<Instr *> &nvbit_get_instrs(CUcontext, CUfunction function) { return of(function).instructions; }
const char *nvbit_get_func_name(CUcontext, CUfunction function, bool) { return fake_function_name(plain(function)); }
uint64_t nvbit_get_func_addr(CUcontext, CUfunction function) { return fake_function_address(plain(function)); }
bool nvbit_is_func_kernel(CUcontext, CUfunction function) {
    return strcmp(fake_function_name(plain(function)), "helper") != 0;
}
bool nvbit_dump_cubin(CUcontext, CUfunction function, const char *file) {
    fake_dump(plain(function), file);
    return false; /* as the real one */
}
void nvbit_insert_call(const Instr *instruction, const char *function, ipoint_t point) {
    if (point != IPOINT_BEFORE) {
        fatal("a call after an instruction");
    }
    calls[instruction].push_back({function, "", 0, {}, {}});
}
void nvbit_add_call_arg_guard_pred_val(const Instr *instruction, bool) { last(instruction).arguments += 'p'; }
void nvbit_add_call_arg_const_val32(const Instr *instruction, uint32_t value, bool) {
    last(instruction).arguments += 'u';
    last(instruction).constants.push_back(value);
}
void nvbit_add_call_arg_const_val64(const Instr *instruction, uint64_t value, bool) {
    last(instruction).arguments += 'c';
    last(instruction).pc = value;
}
void nvbit_add_call_arg_ureg_val(const Instr *instruction, int number, bool) {
    last(instruction).arguments += 'r';
    last(instruction).numbers.push_back(number);
}
void nvbit_add_call_arg_launch_val64(const Instr *instruction, int, bool) { last(instruction).arguments += 'l'; }
void nvbit_add_call_arg_mref_addr64(const Instr *instruction, int, bool) { last(instruction).arguments += 'a'; }
void nvbit_enable_instrumented(CUcontext, CUfunction function, bool on, bool is_with_related) {
    if (of(function).is_gone) {
        fatal("a change of code that is gone");
    }
    of(function).runs_calls = on;
    if (is_with_related) {
        for (CUfunction it : related(function)) {
            if (of(it).is_gone) {
                fatal("a change of a called function's code that is gone");
            }
            of(it).runs_calls = on;
            of(it).value = of(function).value;
        }
    }
}
void nvbit_set_at_launch(CUcontext, CUfunction function, uint64_t value, CUstream, uint64_t launch) {
    if (launch) {
        fake_set_node(launch, value);
    } else {
        of(function).value = value;
    }
}
