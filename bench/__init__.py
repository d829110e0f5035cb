"""Ratios against plain TRL and transformers, measured side by side: `python -m bench NAME`."""
