// OpenBLAS's header without the macro I of <complex.h>, which is a template parameter in other
// headers.
#pragma once

#include <cblas.h>
#undef I
