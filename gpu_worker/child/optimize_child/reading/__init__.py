"""Rows as they are read: from the lines of a dataset's files to tokens and labels, those too long or refused named."""
