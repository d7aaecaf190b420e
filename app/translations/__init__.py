"""What pages say in each language: the English of the code, and catalogues of the others."""
