#include "room.h"

#include <errno.h>

#include "frame.h"
#include "jobs.h"
#include "slurm_api.h"

int
licenses_write (void)
{
	license_info_msg_t *answer = NULL;
	if (slurm_load_licenses (0, &answer, SHOW_ALL) != SLURM_SUCCESS)
		return -1;
	for (uint32_t i = 0; i < answer->num_lic; i++) {
		const slurm_license_info_t *license = &answer->lic_array[i];
		frame_begin (FRAME_LICENSE);
		frame_u32 (license->total);
		frame_u32 (license->in_use);
		frame_u32 (license->reserved);
		frame_text (license->name);
		frame_end ();
	}
	slurm_free_license_info_msg (answer);
	return 0;
}

int
reservations_write (void)
{
	reserve_info_msg_t *answer = NULL;
	if (slurm_load_reservations (0, &answer) != SLURM_SUCCESS)
		return -1;
	for (uint32_t i = 0; i < answer->record_count; i++) {
		const reserve_info_t *reservation = &answer->reservation_array[i];
		frame_begin (FRAME_RESERVATION);
		frame_u64 ((uint64_t)reservation->start_time);
		frame_u64 ((uint64_t)reservation->end_time);
		frame_u64 (reservation->flags);
		frame_u32 (reservation->node_cnt);
		frame_text (reservation->name);
		frame_text (reservation->licenses);
		frame_end ();
	}
	slurm_free_reservation_info_msg (answer);
	return 0;
}

enum { FLAGS = SHOW_ALL | SHOW_LOCAL };

static node_info_msg_t *nodes;
static partition_info_msg_t *partitions;
static struct since nodes_since, partitions_since;

static int
load_nodes (void)
{
	node_info_msg_t *answer = NULL;
	if (slurm_load_node (since_ask (&nodes_since), &answer, FLAGS) != SLURM_SUCCESS)
		return nodes && errno == SLURM_NO_CHANGE_IN_DATA ? 0 : -1;
	slurm_free_node_info_msg (nodes);
	nodes = answer;
	since_told (&nodes_since, answer->last_update);
	return 0;
}

static int
load_partitions (void)
{
	partition_info_msg_t *answer = NULL;
	if (slurm_load_partitions (since_ask (&partitions_since), &answer, FLAGS)
	    != SLURM_SUCCESS)
		return partitions && errno == SLURM_NO_CHANGE_IN_DATA ? 0 : -1;
	slurm_free_partition_info_msg (partitions);
	partitions = answer;
	since_told (&partitions_since, answer->last_update);
	return 0;
}

/* Flags of nodes on which nothing starts until an administrator or slurmd acts. */
static uint32_t
unusable (void)
{
	uint32_t flags = NODE_STATE_DRAIN | NODE_STATE_FAIL | NODE_STATE_NO_RESPOND
			 | NODE_STATE_RES | NODE_STATE_MAINT;
#ifdef NODE_STATE_POWERING_DOWN
	flags |= NODE_STATE_POWERING_DOWN;
#endif
#ifdef NODE_STATE_REBOOT_ISSUED
	flags |= NODE_STATE_REBOOT_ISSUED;
#endif
#ifdef NODE_STATE_INVALID_REG
	flags |= NODE_STATE_INVALID_REG;
#endif
	return flags;
}

static int
is_usable (const node_info_t *node)
{
	uint32_t base = node->node_state & NODE_STATE_BASE;
	if (!node->name || node->node_state & unusable ())
		return 0;
	return base == NODE_STATE_IDLE || base == NODE_STATE_ALLOCATED
	       || base == NODE_STATE_MIXED;
}

/* Processors that jobs may have. */
static uint32_t
cpus_of (const node_info_t *node)
{
#ifdef HAS_CPUS_EFCTV
	if (node->cpus_efctv && node->cpus_efctv < node->cpus)
		return node->cpus_efctv;
#endif
	return node->cpus;
}

static uint32_t
allocated_on (const node_info_t *node)
{
#ifdef HAS_ALLOC_CPUS
	return node->alloc_cpus;
#else
	uint16_t count = 0;
	if (!node->select_nodeinfo
	    || slurm_get_select_nodeinfo (node->select_nodeinfo, SELECT_NODEDATA_SUBCNT,
					  NODE_STATE_ALLOCATED, &count)
		   != SLURM_SUCCESS)
		return 0;
	return count;
#endif
}

/* Processors of a node that are free for jobs of a partition. */
static uint32_t
free_on (const node_info_t *node, const partition_info_t *partition)
{
	if (!is_usable (node))
		return 0;
	uint32_t allocated = allocated_on (node), cpus = cpus_of (node);
	int takes_whole_nodes = (partition->max_share & ~SHARED_FORCE) == 0;
	if (allocated >= cpus || (takes_whole_nodes && allocated > 0))
		return 0;
	return cpus - allocated;
}

static void
write_partition (const partition_info_t *partition)
{
	uint32_t free_nodes = 0, free_cpus = 0;
	const int32_t *pairs = partition->node_inx; /* first, last, …, -1 */
	int is_open = partition->state_up & PARTITION_SCHED;
	for (; is_open && pairs && pairs[0] >= 0; pairs += 2)
		for (uint32_t i = (uint32_t)pairs[0];
		     i <= (uint32_t)pairs[1] && i < nodes->record_count; i++) {
			uint32_t count = free_on (&nodes->node_array[i], partition);
			free_nodes += count > 0;
			free_cpus += count;
		}
	frame_begin (FRAME_ROOM);
	frame_u32 (free_nodes);
	frame_u32 (free_cpus);
	frame_u32 (is_open && (partition->max_share & ~SHARED_FORCE) > 1);
	frame_text (partition->name);
	frame_end ();
}

int
room_write (void)
{
	if (load_partitions () != 0 || load_nodes () != 0)
		return -1;
	for (uint32_t i = 0; i < partitions->record_count; i++)
		write_partition (&partitions->partition_array[i]);
	return 0;
}
