"""Data: readers of common file formats, named data sets, tokenized columns on disk, and batching."""

from clearhead.data.batches import DistinctBatches, FixedSizeBatches, Integers, TokenBudgetBatches, split_batch
from clearhead.data.catalog import DATASETS, Dataset, RemoteFile
from clearhead.data.datasets import data_home, fetch, import_files, locate
from clearhead.data.hub_dataset import HubDataset
from clearhead.data.ragged import Column, Columns, InMemoryColumns, Ragged, open_columns, save_columns
from clearhead.data.readers import columns_of, read_rows
from clearhead.data.rows import Row, Rows, SkippedRow

__all__ = [
    "DATASETS",
    "Column",
    "Columns",
    "Dataset",
    "DistinctBatches",
    "FixedSizeBatches",
    "HubDataset",
    "InMemoryColumns",
    "Integers",
    "Ragged",
    "RemoteFile",
    "Row",
    "Rows",
    "SkippedRow",
    "TokenBudgetBatches",
    "columns_of",
    "data_home",
    "fetch",
    "import_files",
    "locate",
    "open_columns",
    "read_rows",
    "save_columns",
    "split_batch",
]
