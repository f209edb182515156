"""Problems that the reproductions share or that are too long to stand in one."""
