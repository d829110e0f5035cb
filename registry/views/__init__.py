"""Pages of the registry, one a module; importing them registers what home, box and search show of it."""

from registry.views import base_models, bundles, garbage, namespaces

__all__ = ["base_models", "bundles", "garbage", "namespaces"]
