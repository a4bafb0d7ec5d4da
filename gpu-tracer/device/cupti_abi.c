/* Compares src/backends/cupti/abi.rs and src/copies/ with NVIDIA's headers, of CUDA 13.0: what is wrong does not compile. */
#include <cuda.h>
#include <cupti.h>
#include <stddef.h>

#define IS(what, value) _Static_assert((what) == (value), #what)
#define AT(type, member, offset) IS(offsetof(type, member), offset)
/* The numbers of a function and of the one for per-thread default streams. */
#define NUMBERS(name, number, suffix, of_thread)              \
    IS(CUPTI_DRIVER_TRACE_CBID_##name, number);               \
    IS(CUPTI_DRIVER_TRACE_CBID_##name##_##suffix, of_thread)
/* A parameter is the word of that number. */
#define WORD(name, member, word) AT(name##_params, member, 8 * (word))

IS(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, 39);
IS(CUPTI_CB_DOMAIN_DRIVER_API, 1);
IS(CUPTI_API_EXIT, 1);
AT(CUpti_CallbackData, callbackSite, 0);
AT(CUpti_CallbackData, functionParams, 16);
AT(CUpti_CallbackData, functionReturnValue, 24);
AT(CUpti_CallbackData, context, 40);
AT(CUpti_CallbackData, contextUid, 48);
AT(CUpti_CallbackData, correlationData, 56);
AT(CUpti_CallbackData, correlationId, 64);

NUMBERS(cuMemcpy, 305, ptds, 408);
NUMBERS(cuMemcpyAsync, 306, ptsz, 418);
NUMBERS(cuMemcpyHtoD_v2, 276, ptds, 397);
NUMBERS(cuMemcpyHtoDAsync_v2, 277, ptsz, 421);
NUMBERS(cuMemcpyDtoH_v2, 278, ptds, 398);
NUMBERS(cuMemcpyDtoHAsync_v2, 279, ptsz, 422);
NUMBERS(cuMemcpyDtoD_v2, 280, ptds, 399);
NUMBERS(cuMemcpyDtoDAsync_v2, 281, ptsz, 423);
NUMBERS(cuMemcpyAtoH_v2, 282, ptds, 403);
NUMBERS(cuMemcpyAtoHAsync_v2, 283, ptsz, 420);
NUMBERS(cuMemcpyAtoD_v2, 284, ptds, 401);
NUMBERS(cuMemcpyDtoA_v2, 285, ptds, 400);
NUMBERS(cuMemcpyAtoA_v2, 286, ptds, 404);
NUMBERS(cuMemcpyHtoA_v2, 292, ptds, 402);
NUMBERS(cuMemcpyHtoAAsync_v2, 293, ptsz, 419);
NUMBERS(cuMemcpyPeer, 318, ptds, 409);
NUMBERS(cuMemcpyPeerAsync, 319, ptsz, 426);
NUMBERS(cuMemcpy2D_v2, 287, ptds, 405);
NUMBERS(cuMemcpy2DUnaligned_v2, 288, ptds, 406);
NUMBERS(cuMemcpy2DAsync_v2, 289, ptsz, 424);
NUMBERS(cuMemcpy3D_v2, 290, ptds, 407);
NUMBERS(cuMemcpy3DAsync_v2, 291, ptsz, 425);
NUMBERS(cuMemcpy3DPeer, 320, ptds, 410);
NUMBERS(cuMemcpy3DPeerAsync, 321, ptsz, 427);
NUMBERS(cuMemcpyBatchAsync, 776, ptsz, 777);
NUMBERS(cuMemcpyBatchAsync_v2, 796, ptsz, 797);
NUMBERS(cuMemcpy3DBatchAsync, 778, ptsz, 779);
NUMBERS(cuMemcpy3DBatchAsync_v2, 798, ptsz, 799);
NUMBERS(cuMemsetD8_v2, 249, ptds, 411);
NUMBERS(cuMemsetD16_v2, 250, ptds, 412);
NUMBERS(cuMemsetD32_v2, 251, ptds, 413);
NUMBERS(cuMemsetD8Async, 216, ptsz, 428);
NUMBERS(cuMemsetD16Async, 218, ptsz, 429);
NUMBERS(cuMemsetD32Async, 220, ptsz, 430);
NUMBERS(cuMemsetD2D8_v2, 252, ptds, 414);
NUMBERS(cuMemsetD2D16_v2, 253, ptds, 415);
NUMBERS(cuMemsetD2D32_v2, 254, ptds, 416);
NUMBERS(cuMemsetD2D8Async, 222, ptsz, 431);
NUMBERS(cuMemsetD2D16Async, 224, ptsz, 432);
NUMBERS(cuMemsetD2D32Async, 226, ptsz, 433);
NUMBERS(cuLaunchKernel, 307, ptsz, 442);
NUMBERS(cuLaunchKernelEx, 652, ptsz, 653);
NUMBERS(cuLaunchCooperativeKernel, 477, ptsz, 478);
IS(CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice, 480);
NUMBERS(cuGraphLaunch, 514, ptsz, 515);
IS(CUPTI_DRIVER_TRACE_CBID_cuLaunch, 115);
IS(CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid, 116);
IS(CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync, 117);
NUMBERS(cuStreamBeginCapture, 495, ptsz, 496);
NUMBERS(cuStreamBeginCapture_v2, 539, ptsz, 540);
NUMBERS(cuStreamBeginCaptureToGraph, 720, ptsz, 721);

WORD(cuMemcpy, ByteCount, 2);
WORD(cuMemcpy, dst, 0);
WORD(cuMemcpy, src, 1);
WORD(cuMemcpyAsync, ByteCount, 2);
WORD(cuMemcpyAsync, dst, 0);
WORD(cuMemcpyAsync, src, 1);
WORD(cuMemcpyAsync, hStream, 3);
WORD(cuMemcpyHtoD_v2, ByteCount, 2);
WORD(cuMemcpyHtoD_v2, dstDevice, 0);
WORD(cuMemcpyHtoD_v2, srcHost, 1);
WORD(cuMemcpyHtoDAsync_v2, ByteCount, 2);
WORD(cuMemcpyHtoDAsync_v2, dstDevice, 0);
WORD(cuMemcpyHtoDAsync_v2, srcHost, 1);
WORD(cuMemcpyHtoDAsync_v2, hStream, 3);
WORD(cuMemcpyDtoH_v2, ByteCount, 2);
WORD(cuMemcpyDtoH_v2, dstHost, 0);
WORD(cuMemcpyDtoH_v2, srcDevice, 1);
WORD(cuMemcpyDtoHAsync_v2, ByteCount, 2);
WORD(cuMemcpyDtoHAsync_v2, dstHost, 0);
WORD(cuMemcpyDtoHAsync_v2, srcDevice, 1);
WORD(cuMemcpyDtoHAsync_v2, hStream, 3);
WORD(cuMemcpyDtoD_v2, ByteCount, 2);
WORD(cuMemcpyDtoD_v2, dstDevice, 0);
WORD(cuMemcpyDtoD_v2, srcDevice, 1);
WORD(cuMemcpyDtoDAsync_v2, ByteCount, 2);
WORD(cuMemcpyDtoDAsync_v2, dstDevice, 0);
WORD(cuMemcpyDtoDAsync_v2, srcDevice, 1);
WORD(cuMemcpyDtoDAsync_v2, hStream, 3);
WORD(cuMemcpyAtoH_v2, ByteCount, 3);
WORD(cuMemcpyAtoH_v2, dstHost, 0);
WORD(cuMemcpyAtoHAsync_v2, ByteCount, 3);
WORD(cuMemcpyAtoHAsync_v2, dstHost, 0);
WORD(cuMemcpyAtoHAsync_v2, hStream, 4);
WORD(cuMemcpyAtoD_v2, ByteCount, 3);
WORD(cuMemcpyAtoD_v2, dstDevice, 0);
WORD(cuMemcpyDtoA_v2, ByteCount, 3);
WORD(cuMemcpyDtoA_v2, srcDevice, 2);
WORD(cuMemcpyAtoA_v2, ByteCount, 4);
WORD(cuMemcpyHtoA_v2, ByteCount, 3);
WORD(cuMemcpyHtoA_v2, srcHost, 2);
WORD(cuMemcpyHtoAAsync_v2, ByteCount, 3);
WORD(cuMemcpyHtoAAsync_v2, srcHost, 2);
WORD(cuMemcpyHtoAAsync_v2, hStream, 4);
WORD(cuMemcpyPeer, ByteCount, 4);
WORD(cuMemcpyPeer, dstDevice, 0);
WORD(cuMemcpyPeer, srcDevice, 2);
WORD(cuMemcpyPeerAsync, ByteCount, 4);
WORD(cuMemcpyPeerAsync, dstDevice, 0);
WORD(cuMemcpyPeerAsync, srcDevice, 2);
WORD(cuMemcpyPeerAsync, hStream, 5);
WORD(cuMemcpy2D_v2, pCopy, 0);
WORD(cuMemcpy2DUnaligned_v2, pCopy, 0);
WORD(cuMemcpy2DAsync_v2, pCopy, 0);
WORD(cuMemcpy2DAsync_v2, hStream, 1);
WORD(cuMemcpy3D_v2, pCopy, 0);
WORD(cuMemcpy3DAsync_v2, pCopy, 0);
WORD(cuMemcpy3DAsync_v2, hStream, 1);
WORD(cuMemcpy3DPeer, pCopy, 0);
WORD(cuMemcpy3DPeerAsync, pCopy, 0);
WORD(cuMemcpy3DPeerAsync, hStream, 1);
WORD(cuMemcpyBatchAsync, dsts, 0);
WORD(cuMemcpyBatchAsync, srcs, 1);
WORD(cuMemcpyBatchAsync, sizes, 2);
WORD(cuMemcpyBatchAsync, count, 3);
WORD(cuMemcpyBatchAsync, hStream, 8);
WORD(cuMemcpyBatchAsync_v2, dsts, 0);
WORD(cuMemcpyBatchAsync_v2, srcs, 1);
WORD(cuMemcpyBatchAsync_v2, sizes, 2);
WORD(cuMemcpyBatchAsync_v2, count, 3);
WORD(cuMemcpyBatchAsync_v2, hStream, 7);
WORD(cuMemcpy3DBatchAsync, numOps, 0);
WORD(cuMemcpy3DBatchAsync, opList, 1);
WORD(cuMemcpy3DBatchAsync, hStream, 4);
WORD(cuMemcpy3DBatchAsync_v2, numOps, 0);
WORD(cuMemcpy3DBatchAsync_v2, opList, 1);
WORD(cuMemcpy3DBatchAsync_v2, hStream, 3);
WORD(cuMemsetD8_v2, dstDevice, 0);
WORD(cuMemsetD8_v2, N, 2);
WORD(cuMemsetD16_v2, dstDevice, 0);
WORD(cuMemsetD16_v2, N, 2);
WORD(cuMemsetD32_v2, dstDevice, 0);
WORD(cuMemsetD32_v2, N, 2);
WORD(cuMemsetD8Async, dstDevice, 0);
WORD(cuMemsetD8Async, N, 2);
WORD(cuMemsetD8Async, hStream, 3);
WORD(cuMemsetD16Async, dstDevice, 0);
WORD(cuMemsetD16Async, N, 2);
WORD(cuMemsetD16Async, hStream, 3);
WORD(cuMemsetD32Async, dstDevice, 0);
WORD(cuMemsetD32Async, N, 2);
WORD(cuMemsetD32Async, hStream, 3);
WORD(cuMemsetD2D8_v2, dstDevice, 0);
WORD(cuMemsetD2D8_v2, Width, 3);
WORD(cuMemsetD2D8_v2, Height, 4);
WORD(cuMemsetD2D8_v2, dstPitch, 1);
WORD(cuMemsetD2D16_v2, dstDevice, 0);
WORD(cuMemsetD2D16_v2, Width, 3);
WORD(cuMemsetD2D16_v2, Height, 4);
WORD(cuMemsetD2D16_v2, dstPitch, 1);
WORD(cuMemsetD2D32_v2, dstDevice, 0);
WORD(cuMemsetD2D32_v2, Width, 3);
WORD(cuMemsetD2D32_v2, Height, 4);
WORD(cuMemsetD2D32_v2, dstPitch, 1);
WORD(cuMemsetD2D8Async, dstDevice, 0);
WORD(cuMemsetD2D8Async, Width, 3);
WORD(cuMemsetD2D8Async, Height, 4);
WORD(cuMemsetD2D8Async, dstPitch, 1);
WORD(cuMemsetD2D8Async, hStream, 5);
WORD(cuMemsetD2D16Async, dstDevice, 0);
WORD(cuMemsetD2D16Async, Width, 3);
WORD(cuMemsetD2D16Async, Height, 4);
WORD(cuMemsetD2D16Async, dstPitch, 1);
WORD(cuMemsetD2D16Async, hStream, 5);
WORD(cuMemsetD2D32Async, dstDevice, 0);
WORD(cuMemsetD2D32Async, Width, 3);
WORD(cuMemsetD2D32Async, Height, 4);
WORD(cuMemsetD2D32Async, dstPitch, 1);
WORD(cuMemsetD2D32Async, hStream, 5);
WORD(cuLaunchKernel, hStream, 5);
WORD(cuLaunchKernelEx, config, 0);
WORD(cuLaunchCooperativeKernel, hStream, 5);
WORD(cuGraphLaunch, hStream, 1);
WORD(cuLaunchGridAsync, hStream, 2);
AT(CUlaunchConfig, hStream, 8 * 4);

AT(CUDA_MEMCPY2D, srcXInBytes, 8 * 0);
AT(CUDA_MEMCPY2D, srcMemoryType, 8 * 2);
AT(CUDA_MEMCPY2D, srcHost, 8 * 3);
AT(CUDA_MEMCPY2D, srcDevice, 8 * 4);
AT(CUDA_MEMCPY2D, srcPitch, 8 * 6);
AT(CUDA_MEMCPY2D, dstXInBytes, 8 * 7);
AT(CUDA_MEMCPY2D, dstMemoryType, 8 * 9);
AT(CUDA_MEMCPY2D, dstHost, 8 * 10);
AT(CUDA_MEMCPY2D, dstDevice, 8 * 11);
AT(CUDA_MEMCPY2D, dstPitch, 8 * 13);
AT(CUDA_MEMCPY2D, WidthInBytes, 8 * 14);
AT(CUDA_MEMCPY2D, Height, 8 * 15);
#define BLOCK(type)                       \
    AT(type, srcXInBytes, 8 * 0);         \
    AT(type, srcZ, 8 * 2);                \
    AT(type, srcMemoryType, 8 * 4);       \
    AT(type, srcHost, 8 * 5);             \
    AT(type, srcDevice, 8 * 6);           \
    AT(type, srcPitch, 8 * 9);            \
    AT(type, srcHeight, 8 * 10);          \
    AT(type, dstXInBytes, 8 * 11);        \
    AT(type, dstZ, 8 * 13);               \
    AT(type, dstMemoryType, 8 * 15);      \
    AT(type, dstHost, 8 * 16);            \
    AT(type, dstDevice, 8 * 17);          \
    AT(type, dstPitch, 8 * 20);           \
    AT(type, dstHeight, 8 * 21);          \
    AT(type, WidthInBytes, 8 * 22);       \
    AT(type, Depth, 8 * 24)
BLOCK(CUDA_MEMCPY3D);
BLOCK(CUDA_MEMCPY3D_PEER);
IS(sizeof(CUDA_MEMCPY3D_BATCH_OP), 8 * 14);
AT(CUDA_MEMCPY3D_BATCH_OP, dst, 8 * 5);
AT(CUDA_MEMCPY3D_BATCH_OP, extent, 8 * 10);
AT(CUmemcpy3DOperand, op.ptr.ptr, 8 * 1);
AT(CUmemcpy3DOperand, op.ptr.rowLength, 8 * 2);
AT(CUmemcpy3DOperand, op.ptr.layerHeight, 8 * 3);
IS(CU_MEMCPY_OPERAND_TYPE_POINTER, 1);

IS(CU_MEMORYTYPE_HOST, 1);
IS(CU_MEMORYTYPE_DEVICE, 2);
IS(CU_MEMORYTYPE_ARRAY, 3);
IS(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2);
IS(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8);
IS(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9);
IS(CU_STREAM_CAPTURE_STATUS_NONE, 0);
_Static_assert((size_t)CU_STREAM_PER_THREAD == 2, "CU_STREAM_PER_THREAD");
