"""Synthesised runs: pattern × chunk × processes × layout × library × noise, as genuine logs."""
