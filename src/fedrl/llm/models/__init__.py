"""Language models: their trained parameters are sent as named arrays; all others stay in place."""
