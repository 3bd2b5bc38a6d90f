"""The Helm chart `kube-rescheduler`, and what writes the parts of it that are made from elsewhere.

`python -m charts.generate` writes them, `tests/chart` keeps them in step. Nothing here is a part of the product.
"""
