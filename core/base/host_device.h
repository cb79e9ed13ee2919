// Marks functions that run on the host and on a GPU: nvcc needs the words, other compilers do not.
#pragma once

#ifdef __CUDACC__
#define TG_HD __host__ __device__
#else
#define TG_HD
#endif
