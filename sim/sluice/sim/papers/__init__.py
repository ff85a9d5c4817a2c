"""Published figures, asked of the discrete-event storage model: `sluice lab reproduce`."""
