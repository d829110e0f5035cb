"""The supervisor and the services it embeds. Standard library only: it must start before anything else works."""
