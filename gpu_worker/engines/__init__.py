"""The server's half of the job seam: rendering plans and reading events, without Django and without torch."""
