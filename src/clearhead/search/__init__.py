"""Search: documents to passages, an index of words and vectors, and the passages that fit a query."""

from clearhead.search.ask import Answerer, AskResult, FoundAnswer
from clearhead.search.document_readers import Document, read_documents
from clearhead.search.index import Index, IndexConfig, SearchResult, UpdateReport
from clearhead.search.mining import PassageMiningConfig, mine_passages, pseudo_pairs
from clearhead.search.passages import Passage, PassageConfig, split_passages

__all__ = [
    "Answerer", "AskResult", "Document", "FoundAnswer", "Index", "IndexConfig", "Passage", "PassageConfig",
    "PassageMiningConfig", "SearchResult", "UpdateReport", "mine_passages", "pseudo_pairs", "read_documents",
    "split_passages",
]  # fmt: skip
