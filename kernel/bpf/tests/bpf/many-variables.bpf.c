// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The same with more of them than the pages that the headers name. */
#define SW_VARIABLES 8192
#include "variables.bpf.c"
