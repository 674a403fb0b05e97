"""limen: what training a network will do, before training it.

Four nouns (Problem, Theory, Result, Comparison) and four verbs (predict, simulate, compare, sweep). Everything is
imported when it is first used, so that `import limen` is instant.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
