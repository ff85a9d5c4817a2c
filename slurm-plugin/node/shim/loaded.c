#include "loaded.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>

#include "libc.h"

/* Of an object's symbols; those of the wrong kind are passed over. */
enum kind { FUNCTION, VARIABLE };

struct object {
	uintptr_t base;
	const char *strings;
	const char *soname;
	const ElfW (Sym) * symbols;
	const uint16_t *versions;
	const uint32_t *hash, *gnu_hash; /* either may be missing */
};

extern ElfW (Dyn) _DYNAMIC[] __attribute__ ((visibility ("hidden")));

/* ---- one object ---- */

/* The loader has added the base to most addresses, and not in what it may not write to. */
static const void *
address_in (uintptr_t base, const ElfW (Dyn) * entry)
{
	uintptr_t address = entry->d_un.d_ptr;
	return (const void *)(address < base ? address + base : address);
}

static struct object
object_at (uintptr_t base, const ElfW (Dyn) * dynamic)
{
	struct object object = { .base = base };
	uintptr_t soname = 0;

	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == DT_STRTAB)
			object.strings = address_in (base, dynamic);
		else if (dynamic->d_tag == DT_SYMTAB)
			object.symbols = address_in (base, dynamic);
		else if (dynamic->d_tag == DT_VERSYM)
			object.versions = address_in (base, dynamic);
		else if (dynamic->d_tag == DT_HASH)
			object.hash = address_in (base, dynamic);
		else if (dynamic->d_tag == DT_GNU_HASH)
			object.gnu_hash = address_in (base, dynamic);
		else if (dynamic->d_tag == DT_SONAME)
			soname = dynamic->d_un.d_val;
	if (object.strings && soname)
		object.soname = object.strings + soname;
	return object;
}

static int
is_equal (const char *a, const char *b)
{
	for (; *a && *a == *b; a++)
		b++;
	return *a == *b;
}

static int
is_of_kind (const ElfW (Sym) * symbol, enum kind kind)
{
	int type = ELF64_ST_TYPE (symbol->st_info);

	if (kind == FUNCTION)
		return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
	return type != STT_TLS && type != STT_GNU_IFUNC;
}

/* Defined for others, and in the version that a plain name means. */
static int
is_meant (const struct object *object, uint32_t i, const char *name, enum kind kind)
{
	const ElfW (Sym) *symbol = &object->symbols[i];
	int visibility = ELF64_ST_VISIBILITY (symbol->st_other);

	return symbol->st_shndx != SHN_UNDEF && symbol->st_value
	       && ELF64_ST_BIND (symbol->st_info) != STB_LOCAL
	       && (visibility == STV_DEFAULT || visibility == STV_PROTECTED)
	       && is_of_kind (symbol, kind)
	       && !(object->versions && object->versions[i] & 0x8000)
	       && is_equal (object->strings + symbol->st_name, name);
}

/* The number of the symbol, or 0. */
static uint32_t
find_by_hash (const struct object *object, const char *name, enum kind kind)
{
	const uint32_t *buckets = object->hash + 2, *chain = buckets + object->hash[0];
	uint32_t hash = 0, i;

	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (unsigned char)*c;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	i = object->hash[0] ? buckets[hash % object->hash[0]] : 0;
	while (i && !is_meant (object, i, name, kind))
		i = chain[i];
	return i;
}

static uint32_t
find_by_gnu_hash (const struct object *object, const char *name, enum kind kind)
{
	enum { BITS = 8 * sizeof (ElfW (Addr)) };
	const uint32_t *table = object->gnu_hash, count = table[0], first = table[1];
	const ElfW (Addr) *bloom = (const ElfW (Addr) *)(table + 4);
	const uint32_t *buckets = (const uint32_t *)(bloom + table[2]);
	const uint32_t *chain = buckets + count;
	uint32_t hash = 5381, i;
	ElfW (Addr) word;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	word = bloom[hash / BITS % table[2]];
	if (!(word >> hash % BITS & word >> (hash >> table[3]) % BITS & 1) || !count)
		return 0;
	i = buckets[hash % count];
	for (; i >= first; i++) {
		if ((chain[i - first] | 1) == (hash | 1)
		    && is_meant (object, i, name, kind))
			return i;
		if (chain[i - first] & 1)
			break;
	}
	return 0;
}

static void *
find_in (const struct object *object, const char *name, enum kind kind)
{
	uint32_t i = 0;
	uintptr_t address;

	if (!object->strings || !object->symbols)
		return NULL;
	if (object->gnu_hash)
		i = find_by_gnu_hash (object, name, kind);
	else if (object->hash)
		i = find_by_hash (object, name, kind);
	if (!i)
		return NULL;
	address = object->base + object->symbols[i].st_value;
	if (ELF64_ST_TYPE (object->symbols[i].st_info) == STT_GNU_IFUNC)
		return ((void *(*)(unsigned long))address) (0);
	return (void *)address;
}

/* ---- the loader's list ---- */

/*
 * The loader calls this to learn what `in_loader` is, before it runs anything of the
 * program. So `in_loader` is an address in the loader's own code, and no symbol was looked
 * up for it.
 */
__attribute__ ((used, no_sanitize ("address", "thread", "undefined"))) static void (
    *resolve_in_loader (void)) (void)
{
	return (void (*) (void))__builtin_extract_return_addr (
	    __builtin_return_address (0));
}

void in_loader (void) __attribute__ ((ifunc ("resolve_in_loader")));
static void (*const volatile code_of_loader) (void) = in_loader;

static int
is_image (const ElfW (Ehdr) * image)
{
	return image->e_ident[EI_MAG0] == ELFMAG0 && image->e_ident[EI_MAG1] == ELFMAG1
	       && image->e_ident[EI_MAG2] == ELFMAG2 && image->e_ident[EI_MAG3] == ELFMAG3
	       && image->e_type == ET_DYN && image->e_phentsize == sizeof (ElfW (Phdr));
}

/* The loader lies in memory as one piece, which begins with its header. */
static const ElfW (Ehdr) * image_of_loader (void)
{
	enum { PAGE = 4096, MOST_PAGES = 1024 };
	uintptr_t page = (uintptr_t)code_of_loader & ~(uintptr_t)(PAGE - 1);

	for (int i = 0; i < MOST_PAGES; i++, page -= PAGE)
		if (is_image ((const ElfW (Ehdr) *)page))
			return (const ElfW (Ehdr) *)page;
	return NULL;
}

static struct object
object_of_loader (void)
{
	const ElfW (Ehdr) *image = image_of_loader ();
	const ElfW (Phdr) * parts, *dynamic = NULL;
	uintptr_t base = (uintptr_t)image;

	if (!image)
		return (struct object){ .base = 0 };
	parts = (const ElfW (Phdr) *)(base + image->e_phoff);
	for (int i = 0; i < image->e_phnum; i++)
		if (parts[i].p_type == PT_DYNAMIC)
			dynamic = &parts[i];
		else if (parts[i].p_type == PT_LOAD && parts[i].p_offset == 0)
			base -= parts[i].p_vaddr;
	return object_at (base,
			  dynamic ? (const ElfW (Dyn) *)(base + dynamic->p_vaddr) : NULL);
}

/* The program; all else follows it, in the order in which names are looked up. */
static const struct link_map *
first (void)
{
	static const struct r_debug *kept;
	const struct r_debug *known = __atomic_load_n (&kept, __ATOMIC_RELAXED);
	struct object loader;

	if (!known) {
		loader = object_of_loader ();
		known = find_in (&loader, "_r_debug", VARIABLE);
		__atomic_store_n (&kept, known, __ATOMIC_RELAXED);
	}
	return known ? known->r_map : NULL;
}

static const struct link_map *
behind_us (void)
{
	const struct link_map *map = first ();

	while (map && map->l_ld != _DYNAMIC)
		map = map->l_next;
	return map ? map->l_next : NULL;
}

static void *
find_from (const struct link_map *map, const char *name, enum kind kind,
	   struct object *object)
{
	void *found = NULL;

	for (; map && !found; map = map->l_next) {
		*object = object_at (map->l_addr, map->l_ld);
		found = find_in (object, name, kind);
	}
	return found;
}

/* Before glibc 2.34, threads have a library of their own. */
static int
is_libc (const struct object *object)
{
	return object->soname
	       && (is_equal (object->soname, "libc.so.6")
		   || is_equal (object->soname, "libpthread.so.0"));
}

void *
loaded_in_libc (const char *name)
{
	void *found = NULL;

	for (const struct link_map *map = first (); map && !found; map = map->l_next) {
		struct object object = object_at (map->l_addr, map->l_ld);
		if (is_libc (&object))
			found = find_in (&object, name, FUNCTION);
	}
	return found;
}

void *
loaded_next (const char *name)
{
	struct object object;
	return find_from (behind_us (), name, FUNCTION, &object);
}

void *
loaded_alongside (const char *other, const char *name)
{
	struct object object;
	return find_from (behind_us (), other, FUNCTION, &object)
		   ? find_in (&object, name, FUNCTION)
		   : NULL;
}

void *
loaded_variable (const char *name)
{
	struct object object;
	return find_from (first (), name, VARIABLE, &object);
}

/* ---- objects that come and go ---- */

struct search {
	const char *name;
	int is_behind_us;
	void *found;
};

static int
search_in (struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	const ElfW (Dyn) *dynamic = NULL;
	struct object object;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const ElfW (Dyn) *)(info->dlpi_addr
						       + info->dlpi_phdr[i].p_vaddr);
	if (search->is_behind_us) {
		object = object_at (info->dlpi_addr, dynamic);
		search->found = find_in (&object, search->name, FUNCTION);
	}
	search->is_behind_us |= dynamic == _DYNAMIC;
	return search->found != NULL;
}

/* Under the loader's own lock, so that none goes meanwhile. */
void *
loaded_now (const char *name)
{
	struct search search = { .name = name };

	if (LIBC (dl_iterate_phdr))
		LIBC (dl_iterate_phdr) (search_in, &search);
	return search.found;
}
