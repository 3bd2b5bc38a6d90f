"""How results are shown: plain columns and pictures for people, JSON and YAML for programs. Pure text; no I/O."""
