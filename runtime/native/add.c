#include "add.h"

#include <string.h>

/* On x86-64 compiled twice, and chosen when it is loaded: the file may have been compiled on another machine. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define FASTEST __attribute__((target_clones("arch=haswell", "default")))
#else
#define FASTEST
#endif

#define ADD(name, type)                                                                                               \
	FASTEST static void name(type *restrict to, const type *restrict from, int64_t count)                         \
	{                                                                                                             \
		for (int64_t i = 0; i < count; i++)                                                                   \
			to[i] = (type)(to[i] + from[i]);                                                              \
	}

ADD(add_float, float)
ADD(add_double, double)
ADD(add_64, uint64_t)
ADD(add_32, uint32_t)
ADD(add_16, uint16_t)
ADD(add_8, uint8_t)

static inline float float_of(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline uint32_t bits_of(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* bfloat16 is the upper half of a float; rounded to the nearest, ties to even. */
static inline uint16_t bfloat_of(float value)
{
	uint32_t bits = bits_of(value);
	uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

FASTEST static void add_bfloat(uint16_t *restrict to, const uint16_t *restrict from, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		to[i] = bfloat_of(float_of((uint32_t)to[i] << 16) + float_of((uint32_t)from[i] << 16));
}

/* Half precision (IEEE 754 binary16) by whole numbers, for compilers that do not know it. */
static inline float float_of_half(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
	if (rest >= 0x7c00)
		return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	/* As a float whose exponent is 112 too small; the multiplication mends it, of subnormal numbers as well. */
	return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
}

static inline uint16_t half_of(float value)
{
	uint32_t bits = bits_of(value), sign = (bits >> 16) & 0x8000;
	bits &= 0x7fffffff;
	if (bits > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (bits >= 0x477ff000) /* 65520: rounds to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (bits < 0x38800000) { /* subnormal: the addition rounds to multiples of 2^-24 */
		uint32_t shifted = bits_of(float_of(bits) + 0.5f);
		return (uint16_t)(sign | (shifted - 0x3f000000));
	}
	uint32_t rounded = bits + 0xfff + ((bits >> 13) & 1);
	return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
}

FASTEST static void add_half(uint16_t *restrict to, const uint16_t *restrict from, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		to[i] = half_of(float_of_half(to[i]) + float_of_half(from[i]));
}

int add_itemsize(int kind)
{
	static const int sizes[] = {4, 2, 2, 8, 8, 4, 2, 1, 1};
	return kind >= 0 && kind < (int)(sizeof sizes / sizeof *sizes) ? sizes[kind] : 0;
}

void add(int kind, void *to, const void *from, int64_t count)
{
	switch (kind) {
	case 0:
		add_float(to, from, count);
		return;
	case 1:
		add_half(to, from, count);
		return;
	case 2:
		add_bfloat(to, from, count);
		return;
	case 3:
		add_double(to, from, count);
		return;
	case 4:
		add_64(to, from, count);
		return;
	case 5:
		add_32(to, from, count);
		return;
	case 6:
		add_16(to, from, count);
		return;
	default:
		add_8(to, from, count);
	}
}
