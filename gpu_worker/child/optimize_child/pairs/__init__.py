"""Learning from preference pairs: their tokens, the losses of DPO and IPO, and the reference that they compare with."""
