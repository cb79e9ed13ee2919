// Marks functions that run on the host and on a GPU. nvcc needs the attributes; other compilers
// ignore the macro.
#pragma once

#ifdef __CUDACC__
#define TG_HD __host__ __device__
#else
#define TG_HD
#endif
