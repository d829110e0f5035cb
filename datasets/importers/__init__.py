"""Turns data of other tools into rows of the registry's formats, and reports what it changed, refused or dropped.

`sources` reads files of any layout record by record, one module a kind of record turns it into a row, `detect` tells
the kind from a record, `convert` does the whole and checks every row by the registry's rule.
"""
