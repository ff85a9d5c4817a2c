#include "forest.h"

#include <math.h>
#include <stdlib.h>

enum {
	LEVELS = 3,
	INNER = (1 << LEVELS) - 1, /* nodes of a block */
	EXITS = 1 << LEVELS,	   /* ways out of it */
	LINE = 64,		   /* bytes of a cache line */
	LEAF = 0x8000,		   /* in an exit: the rest is the number of a leaf */
};

/*
 * Node i has the children 2i + 1 and 2i + 2; those of the lowest level are the
 * exits, to another block of the tree or to a leaf. Where the tree ends above
 * the lowest level, the rest is nodes that everything passes on the left, so
 * that every walk through a block takes the same steps.
 */
struct sluice_tree_block {
	_Alignas(LINE) float threshold[INNER];
	uint8_t feature[INNER];
	uint16_t exit[EXITS];
};
_Static_assert(sizeof (struct sluice_tree_block) == LINE, "one cache line a block");
_Static_assert(SLUICE_MAX_FEATURES <= UINT8_MAX, "a feature fits into a byte");

int
sluice_tree_check (const struct sluice_node *nodes, uint32_t count,
		   struct sluice_error *err)
{
	uint16_t waiting[SLUICE_MAX_LEAVES]; /* right children of the nodes above */
	int depth = 0, leaves = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct sluice_node *node = &nodes[i];
		if (!isfinite (node->threshold))
			return sluice_fail (err, "node %u has no finite threshold",
					    (unsigned int)i);
		if (node->feature != SLUICE_LEAF_NODE) {
			if (node->feature >= SLUICE_MAX_FEATURES)
				return sluice_fail (err, "node %u asks for feature %u",
						    (unsigned int)i,
						    (unsigned int)node->feature);
			if (depth == SLUICE_MAX_LEAVES)
				return sluice_fail (err, "node %u is too deep",
						    (unsigned int)i);
			waiting[depth++] = node->right;
			continue;
		}
		if (node->right != leaves)
			return sluice_fail (err, "leaf %u is numbered %u", (unsigned int)i,
					    (unsigned int)node->right);
		leaves++;
		/* Behind a leaf comes the right child of the latest node that waits. */
		int is_last = i + 1 == count;
		if (is_last != (depth == 0) || (!is_last && waiting[--depth] != i + 1))
			return sluice_fail (err, "the children of a node are out of place");
		if (is_last)
			return leaves;
	}
	return sluice_fail (err, "ends without a leaf");
}

/* A block holds one inner node at least, but that of a tree that is a leaf. */
struct sluice_tree_block *
sluice_blocks_allocate (uint64_t trees, uint64_t nodes)
{
	return sluice_allocate ((trees + nodes / 2 + 1)
				* sizeof (struct sluice_tree_block));
}

void
sluice_blocks_free (struct sluice_tree_block *blocks)
{
	free (blocks);
}

/* Fill a block from a tree's node down; exits[] become the nodes behind it. */
static void
fill_block (struct sluice_tree_block *block, const struct sluice_node *nodes, uint16_t top,
	    uint16_t *exits)
{
	uint16_t at[INNER + EXITS] = { top };

	for (unsigned int i = 0; i < INNER; i++) {
		const struct sluice_node *node = &nodes[at[i]];
		int is_leaf = node->feature == SLUICE_LEAF_NODE;
		block->threshold[i] = is_leaf ? INFINITY : node->threshold;
		block->feature[i] = is_leaf ? 0 : (uint8_t)node->feature;
		at[2 * i + 1] = is_leaf ? at[i] : (uint16_t)(at[i] + 1);
		at[2 * i + 2] = is_leaf ? at[i] : node->right;
	}
	for (unsigned int i = 0; i < EXITS; i++)
		exits[i] = at[INNER + i];
}

struct sluice_tree_block *
sluice_tree_lay_out (const struct sluice_node *nodes, struct sluice_tree_block *blocks)
{
	uint16_t tops[SLUICE_MAX_LEAVES] = { 0 }; /* the node that each block begins with */
	uint16_t exits[EXITS];
	unsigned int count = 1;

	for (unsigned int b = 0; b < count; b++) {
		fill_block (&blocks[b], nodes, tops[b], exits);
		for (unsigned int i = 0; i < EXITS; i++) {
			const struct sluice_node *node = &nodes[exits[i]];
			int is_leaf = node->feature == SLUICE_LEAF_NODE;
			blocks[b].exit[i]
			    = (uint16_t)(is_leaf ? LEAF | node->right : count);
			if (!is_leaf)
				tops[count++] = exits[i];
		}
	}
	return blocks + count;
}

/* Trees walked side by side, so that their cache misses overlap. */
enum { GROUP = 16 };

/* The way out of a block that a row of features takes. */
static inline uint16_t
walk_block (const struct sluice_tree_block *block, const float *features)
{
	unsigned int i = 0;
#pragma GCC unroll 3
	for (int level = 0; level < LEVELS; level++)
		i = 2 * i + 1 + !(features[block->feature[i]] <= block->threshold[i]);
	return block->exit[i - INNER];
}

/* Which leaf each of up to GROUP trees reaches. Every round takes each tree that
 * is not at a leaf yet one block down, by arithmetic that is never mispredicted. */
static void
find_leaves (const struct sluice_tree *trees, uint32_t count, const float *features,
	     uint16_t *at)
{
	uint32_t reached;

	for (uint32_t g = 0; g < count; g++)
		at[g] = walk_block (trees[g].blocks, features);
	do {
		reached = LEAF;
		for (uint32_t g = 0; g < count; g++) {
			uint16_t is_leaf = (uint16_t) - (at[g] >> 15);
			uint16_t next = walk_block (
			    &trees[g].blocks[at[g] & (uint16_t)~is_leaf], features);
			at[g] = (uint16_t)((at[g] & is_leaf) | (next & ~is_leaf));
			reached &= at[g];
		}
	} while (!(reached & LEAF));
}

/* Sums of what the trees reached, each tree after the one before: their order decides on
 * the last bit. */
static void
add_reached (const double *const *reached, uint32_t count, uint32_t outputs, double *out)
{
	for (uint32_t t = 0; t < count; t++)
		for (uint32_t k = 0; k < outputs; k++)
			out[k] += reached[t][k];
}

void
sluice_trees_mean (const struct sluice_tree *trees, uint32_t count, uint32_t outputs,
		   const float *features, double *out)
{
	const double *reached[GROUP] = { NULL };
	uint16_t leaves[GROUP];
	uint32_t waiting = 0; /* reached, on their way from memory, not added yet */

	for (uint32_t k = 0; k < outputs; k++)
		out[k] = 0.0;
	for (uint32_t t = 0; t < count; t += GROUP) {
		uint32_t left = count - t;
		uint32_t group = left < GROUP ? left : GROUP;
		find_leaves (trees + t, group, features, leaves);
		add_reached (reached, waiting, outputs, out);
		for (uint32_t g = 0; g < group; g++) {
			const double *values
			    = trees[t + g].leaves + (size_t)(leaves[g] & ~LEAF) * outputs;
			__builtin_prefetch (values);
			__builtin_prefetch (values + outputs - 1);
			reached[g] = values;
		}
		waiting = group;
	}
	add_reached (reached, waiting, outputs, out);
	for (uint32_t k = 0; k < outputs; k++)
		out[k] /= count;
}
