"""Effects: what is done in the world because of committed events, by consumers that know whether they are live."""
