"""A stand-in for the Messages API on a loopback address: for tests, benchmarks and a first look without a
credential.

It is a program of its own, `python -m proxy.demo_upstream --port 9100 --json`: it imports nothing of this
project and nothing imports it. What it answers is scripted over HTTP (`POST /_demo/script`), what it
received can be read (`GET /_demo/log`, `DELETE /_demo/log`). Unscripted it answers from the passages that
came with the question, and says that it is no language model.
"""
