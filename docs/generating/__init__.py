"""How pages are made from the code: one module a page, or a few that belong together.

`markdown` has what all of them write with, `shown` runs commands that other pages show, and `writing` puts everything
into its files. `python docs/generate.py` starts it; nothing of it is a part of the product or of the site.
"""
