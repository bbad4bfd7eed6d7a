/* Additions by kind of number; the kinds are numbered as netprobe.runtime.tensors.DTYPES. */
#ifndef NETPROBE_ADD_H
#define NETPROBE_ADD_H

#include <stdint.h>

/* Bytes of a number; 0 for a kind that is not known. */
int add_itemsize(int kind);

/* Add ``count`` numbers at ``from`` to those at ``to``; rounded in their own kind, whole numbers wrap round. */
void add(int kind, void *to, const void *from, int64_t count);

#endif
