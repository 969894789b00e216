"""Federations of organisations: each site has environments of its own, which never leave, and a node of Flower.

    layout          which files there are
    agreement       federation.toml: what everybody agreed on        site          site.toml: what is a site's own
    init, certificates, node_keys, proxy                             make the folders, keys and certificates
    serve, join, processes, flower_link                              start Flower's programs and watch over them
    server_app, trips, answers, roster, status                       the server's side of a round
    node, worker, site_work, memory, secret                          a site's side of it
    check                                                            everything that can be found wrong beforehand

`node` is imported for every message, so this file and `layout` import neither JAX nor Flower.
"""
