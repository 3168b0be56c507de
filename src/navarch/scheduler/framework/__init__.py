"""Sessions, statements and hooks: the rules that actions and plugins are written against."""
