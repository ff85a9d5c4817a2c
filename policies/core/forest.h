/*
 * Decision trees of the pattern classifier: how they are packed, and how they lie in
 * memory for the walk. What an evaluation costs is the number of cache lines it reads, and
 * how many misses overlap.
 */
#ifndef SLUICE_FOREST_H
#define SLUICE_FOREST_H

#include "base.h"

enum {
	SLUICE_MAX_FEATURES = 255, /* a block numbers them in a byte */
	SLUICE_MAX_TREES = 512,
	SLUICE_MAX_LEAVES = 256,		      /* a tree */
	SLUICE_MAX_NODES = 2 * SLUICE_MAX_LEAVES - 1, /* a tree */
	SLUICE_LEAF_NODE = 0xffff,
};

/*
 * A node: eight bytes, parents before children, the left child
 * right behind its parent. scikit-learn goes left when (double) x <= threshold;
 * for a float x that is exactly x <= the largest float not above the threshold,
 * so a float is kept. A leaf has feature SLUICE_LEAF_NODE and keeps in `right`
 * the index of its value vector among those of its tree: 0, 1, ... in order of
 * the nodes.
 */
struct sluice_node {
	float threshold;
	uint16_t feature;
	uint16_t right; /* from the tree's root */
};

struct sluice_tree_block; /* three levels of a tree in one cache line */

/* Where a tree lies, for the walk. */
struct sluice_tree {
	const struct sluice_tree_block *blocks;
	const double *leaves; /* value vectors, one behind the other */
};

/* Check that count nodes in preorder make one tree: every node reached exactly
 * once, leaves numbered in order. Returns the number of leaves, or -1. */
int sluice_tree_check (const struct sluice_node *nodes, uint32_t count,
		       struct sluice_error *err);

/* Room for the blocks of trees with so many nodes in all. NULL when there is no
 * memory. */
struct sluice_tree_block *sluice_blocks_allocate (uint64_t trees, uint64_t nodes);
void sluice_blocks_free (struct sluice_tree_block *blocks);

/* Lay a checked tree out; returns the first block behind it. */
struct sluice_tree_block *sluice_tree_lay_out (const struct sluice_node *nodes,
					       struct sluice_tree_block *blocks);

/* The mean of the value vectors, `outputs` long, that count trees reach for a
 * row of features, none of them NaN. At most SLUICE_MAX_TREES trees. Equal to
 * scikit-learn's bit for bit: summed in the order of the trees, then divided. */
void sluice_trees_mean (const struct sluice_tree *trees, uint32_t count, uint32_t outputs,
			const float *features, double *out);

#endif
