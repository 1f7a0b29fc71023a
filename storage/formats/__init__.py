"""Foreign formats of step labels, one module each, streamed row by row.

A module that can read has `read_row` (a row in, labelled solutions out), one that can write
has `SCHEMA` and `write_rows`; `rows` and `writing` know files, not what they mean. The exact
facts of each format stand in its module's docstring.
"""
