"""Cards: what a model or a data set is, where it comes from and what it must not be used for, in the hub's format."""
