"""Values and times as people write and read them: plain words, YAML, one argument or cell, one line."""
