#include "counts.h"

#include "frame.h"
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
