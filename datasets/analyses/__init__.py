"""Analyses: what a dataset's rows look like under one base model, measured without a device."""
