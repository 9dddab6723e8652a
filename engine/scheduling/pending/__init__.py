"""Jobs that wait: the queue of jobs to be admitted, by equivalence class, and the reasons that are published about them."""
