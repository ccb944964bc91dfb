/* The library of the tests in src/elf/tests.rs, made by gcc for x86-64, twice from this file and linked:
 *
 *     gcc -c -O1 -fPIC library.c -o one.o
 *     gcc -c -O1 -fPIC -DAGAIN library.c -o two.o
 *     gcc -shared -nostdlib -Wl,--version-script=library.map,-z,noseparate-code,--hash-style=sysv,--build-id=none \
 *         one.o two.o -o library.so
 *
 * library.map: V_1 { global: same; changed; removed; };
 *              V_2 { global: changed; chosen; chosen_twin; unused; calls; local: *; } V_1;
 */
#ifndef AGAIN
__asm__(".symver changed_old, changed@V_1");
__asm__(".symver changed_new, changed@@V_2");
__asm__(".symver removed_old, removed@V_1");

int changed_old(void)
{
	return 1;
}

int changed_new(void)
{
	return 2;
}

int removed_old(void)
{
	return 3;
}

int same(void)
{
	return 4;
}

static int code(void)
{
	return 5;
}

static void *resolve(void)
{
	return code;
}

static void *resolve_twin(void)
{
	return code;
}

static void *resolve_unused(void)
{
	return code;
}

int chosen(void) __attribute__((ifunc("resolve")));
int chosen_twin(void) __attribute__((ifunc("resolve_twin")));
int unused(void) __attribute__((ifunc("resolve_unused")));

#define INSIDE __attribute__((visibility("hidden")))
extern int chosen_inside(void) INSIDE __attribute__((alias("chosen")));
extern int twin_inside(void) INSIDE __attribute__((alias("chosen_twin")));

int calls(void)
{
	return chosen_inside() + twin_inside();
}
#endif

static int __attribute__((noinline, used)) twice(void)
{
	return 6;
}
