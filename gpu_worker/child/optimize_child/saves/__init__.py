"""Saves: captured at a boundary, written while training goes on, a manifest last."""
