"""Language models: what is trained of them travels as named arrays, the rest stays where it is."""
