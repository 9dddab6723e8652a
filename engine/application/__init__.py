"""Operations that every interface of Lahar calls: append inputs, ask, subscribe. No terminal, no HTTP."""
