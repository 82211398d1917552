/* A tensor of a shape that is known at run time. */
#ifndef LOOPSMITH_TENSOR
#define LOOPSMITH_TENSOR
#define LOOPSMITH_MOST_DIMENSIONS 8
typedef struct {
  void *data; /* row-major */
  int64_t shape[LOOPSMITH_MOST_DIMENSIONS];
  int32_t ndim;
  int32_t dtype; /* one of these numbers: DLPack's code of the kind, times 256, and the bits */
} loopsmith_tensor;
#define LOOPSMITH_INT8 0x008
#define LOOPSMITH_INT16 0x010
#define LOOPSMITH_INT32 0x020
#define LOOPSMITH_INT64 0x040
#define LOOPSMITH_UINT8 0x108
#define LOOPSMITH_UINT16 0x110
#define LOOPSMITH_UINT32 0x120
#define LOOPSMITH_UINT64 0x140
#define LOOPSMITH_FLOAT16 0x210
#define LOOPSMITH_FLOAT32 0x220
#define LOOPSMITH_FLOAT64 0x240
#define LOOPSMITH_BFLOAT16 0x410
#define LOOPSMITH_BOOL 0x608
#endif
