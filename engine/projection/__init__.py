"""Read models: tables that follow the log and answer listings, sums and names at once; rebuilt from the log at any time."""
