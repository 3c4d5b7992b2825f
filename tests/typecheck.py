"""The checker that reads jaxtyping's shapes and all other annotations while tests run; an int is a float to it."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
