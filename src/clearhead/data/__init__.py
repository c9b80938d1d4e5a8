"""Data: the files people have as rows of text, named data sets, tokens on disk, and the order they are read in."""

from clearhead.data.batches import Batches, Evenly, Integers, divide
from clearhead.data.catalogue import SETS, DataSet, RemoteFile
from clearhead.data.ragged import Column, Columns, Held, Ragged, open_columns, save_columns
from clearhead.data.readers import columns_of, read_rows
from clearhead.data.rows import Bad, Row, Rows
from clearhead.data.sets import data_home, fetch, locate, take

__all__ = [
    "SETS",
    "Bad",
    "Batches",
    "Column",
    "Columns",
    "DataSet",
    "Evenly",
    "Held",
    "Integers",
    "Ragged",
    "RemoteFile",
    "Row",
    "Rows",
    "columns_of",
    "data_home",
    "divide",
    "fetch",
    "locate",
    "open_columns",
    "read_rows",
    "save_columns",
    "take",
]
