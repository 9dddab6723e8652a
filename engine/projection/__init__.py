"""Read models: tables that follow the log and answer lists, sums and filters; rebuilt from the log at any time."""
