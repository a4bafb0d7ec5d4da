/* Compares src/backends/sanitizer/abi.rs with NVIDIA's headers, of CUDA 13.0: what is wrong does not compile. */
#include <cuda.h>
#include <sanitizer.h> /* has types that the next one needs */

#include <stddef.h>

#define IS(what, value) _Static_assert((what) == (value), #what)
#define AT(type, member, offset) IS(offsetof(type, member), offset)

IS(SANITIZER_CB_DOMAIN_DRIVER_API, 1);
IS(SANITIZER_CB_DOMAIN_RESOURCE, 3);
IS(SANITIZER_CB_DOMAIN_SYNCHRONIZE, 4);
IS(SANITIZER_CB_DOMAIN_LAUNCH, 5);
IS(SANITIZER_CB_DOMAIN_GRAPHS, 10);

IS(SANITIZER_CBID_RESOURCE_CONTEXT_CREATION_STARTING, 2);
IS(SANITIZER_CBID_RESOURCE_CONTEXT_CREATION_FINISHED, 3);
IS(SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 4);
IS(SANITIZER_CBID_RESOURCE_STREAM_DESTROY_STARTING, 7);
IS(SANITIZER_CBID_RESOURCE_MODULE_LOADED, 9);
IS(SANITIZER_CBID_RESOURCE_MODULE_UNLOAD_STARTING, 10);
IS(SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_ALLOC, 11);
IS(SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_FREE, 12);
IS(SANITIZER_CBID_RESOURCE_HOST_MEMORY_ALLOC, 13);
IS(SANITIZER_CBID_RESOURCE_HOST_MEMORY_FREE, 14);
IS(SANITIZER_CBID_RESOURCE_MEMORY_ALLOC_ASYNC, 15);
IS(SANITIZER_CBID_RESOURCE_MEMORY_FREE_ASYNC, 16);
IS(SANITIZER_CBID_RESOURCE_MEMPOOL_IMPORT_POINTER, 28);
IS(SANITIZER_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED, 1);
IS(SANITIZER_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED, 2);
IS(SANITIZER_CBID_LAUNCH_BEGIN, 1);
IS(SANITIZER_CBID_GRAPHS_GRAPHEXEC_CREATING, 1);
IS(SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN, 4);

IS(SANITIZER_CBID_DRIVER_API_cuMemHostRegister, 301);
IS(SANITIZER_CBID_DRIVER_API_cuMemHostUnregister, 302);
IS(SANITIZER_CBID_DRIVER_API_cuIpcGetMemHandle, 328);
IS(SANITIZER_CBID_DRIVER_API_cuIpcOpenMemHandle, 329);
IS(SANITIZER_CBID_DRIVER_API_cuIpcCloseMemHandle, 330);
IS(SANITIZER_CBID_DRIVER_API_cuMemHostRegister_v2, 379);
IS(SANITIZER_CBID_DRIVER_API_cuMemCreate, 549);
IS(SANITIZER_CBID_DRIVER_API_cuMemMap, 551);
IS(SANITIZER_CBID_DRIVER_API_cuMemUnmap, 552);
IS(SANITIZER_CBID_DRIVER_API_cuMemExportToShareableHandle, 554);
IS(SANITIZER_CBID_DRIVER_API_cuMemImportFromShareableHandle, 555);
IS(SANITIZER_CBID_DRIVER_API_cuMemRetainAllocationHandle, 565);
IS(SANITIZER_CBID_DRIVER_API_cuIpcOpenMemHandle_v2, 567);
IS(SANITIZER_CBID_DRIVER_API_cuMemPoolExportPointer, 615);
IS(SANITIZER_CBID_DRIVER_API_cuMemPoolImportPointer, 616);

IS(SANITIZER_MEMORY_FLAG_MANAGED, 0x2);
IS(SANITIZER_MEMORY_FLAG_HOST_PINNED, 0x8);
IS(SANITIZER_MEMORY_FLAG_PEER, 0x10);
IS(SANITIZER_MEMORY_FLAG_CG_RUNTIME, 0x40);
IS(SANITIZER_MEMORY_FLAG_CNP, 0x80);

IS(SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS, 3);
IS(SANITIZER_INSTRUCTION_MEMCPY_ASYNC, 14);
IS(SANITIZER_INSTRUCTION_BULK_COPY_GLOBAL_TO_SHARED, 30);
IS(SANITIZER_INSTRUCTION_BULK_COPY_SHARED_TO_GLOBAL, 35);
IS(SANITIZER_INSTRUCTION_BULK_REDUCTION_SHARED_TO_GLOBAL, 37);

IS(SANITIZER_API_EXIT, 1);
IS(CU_GRAPH_NODE_TYPE_KERNEL, 0);

AT(Sanitizer_CallbackData, functionParams, 16);
AT(Sanitizer_CallbackData, functionReturnValue, 24);
AT(Sanitizer_CallbackData, context, 40);
AT(Sanitizer_ResourceContextData, device, 8);
AT(Sanitizer_ResourceStreamData, hStream, 16);
AT(Sanitizer_ResourceModuleData, module, 8);
AT(Sanitizer_ResourceModuleData, cubinSize, 16);
AT(Sanitizer_ResourceModuleData, pCubin, 24);
AT(Sanitizer_ResourceMemoryData, size, 8);
AT(Sanitizer_ResourceMemoryData, context, 16);
AT(Sanitizer_ResourceMemoryData, device, 24);
AT(Sanitizer_ResourceMemoryData, memoryPool, 48);
AT(Sanitizer_ResourceMemoryData, flags, 56);
AT(Sanitizer_ResourceMemoryData, sourceDevice, 68);
AT(Sanitizer_SynchronizeData, hStream, 16);
AT(Sanitizer_LaunchData, stream, 8);
AT(Sanitizer_LaunchData, hStream, 16);
AT(Sanitizer_LaunchData, module, 24);
AT(Sanitizer_LaunchData, function, 32);
AT(Sanitizer_LaunchData, functionName, 40);
AT(Sanitizer_LaunchData, gridId, 88);
AT(Sanitizer_LaunchData, hLaunch, 96);
AT(Sanitizer_LaunchData, device, 104);
AT(Sanitizer_GraphNodeLaunchData, nodeType, 24);
AT(Sanitizer_GraphNodeLaunchData, launchData, 32);
