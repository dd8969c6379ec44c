"""Values as people write them: plain words, YAML, and one argument or cell."""
