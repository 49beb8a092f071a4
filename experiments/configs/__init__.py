"""Config files: each is `get_config(arg)` around base, and says its command and source."""
