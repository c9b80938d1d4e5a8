"""Search: documents to passages, an index of words and vectors, and the passages that fit a query."""

from clearhead.search.document_readers import Document, read_documents
from clearhead.search.index import Index, IndexConfig, SearchResult, UpdateReport
from clearhead.search.passages import Passage, PassageConfig, split_passages

__all__ = [
    "Document", "Index", "IndexConfig", "Passage", "PassageConfig", "SearchResult", "UpdateReport", "read_documents",
    "split_passages",
]  # fmt: skip
