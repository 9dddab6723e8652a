"""What every face of Lahar calls: put in, ask, subscribe. No terminal, no HTTP."""
