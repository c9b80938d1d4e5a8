"""Search: documents to passages, an index of words and vectors, and the passages that fit a query."""

from clearhead.search.ask import Answerer, AskResult, FoundAnswer
from clearhead.search.calibrate_index import calibrate_index
from clearhead.search.document_readers import Document, read_documents
from clearhead.search.index import Index, IndexConfig, SearchResult, UpdateReport
from clearhead.search.index_calibration import IndexCalibration
from clearhead.search.mining import PassageMiningConfig, mine_passages, pseudo_pairs
from clearhead.search.passages import Passage, PassageConfig, split_passages

__all__ = [
    "Answerer", "AskResult", "Document", "FoundAnswer", "Index", "IndexCalibration", "IndexConfig", "Passage",
    "PassageConfig", "PassageMiningConfig", "SearchResult", "UpdateReport", "calibrate_index", "mine_passages",
    "pseudo_pairs", "read_documents", "split_passages",
]  # fmt: skip
