"""Which client has which tasks: the three kinds of heterogeneity of FedAgent (fedagent, App. B.1), and none of them.

`preference` (Algorithm 2), `coverage` (Algorithm 3), `hardness` (Algorithm 4) and `uniform` each return a `Partition`:
one ascending array of task indices per client. Tasks may be shared between clients, never repeated within one.
"""
