"""The campaign of faults: people at work on real workers while everything under them breaks, and what must hold.

    python -m chaos --seed 7 --ops 2000

`plan` says what happens, from a seed alone; `stage` has the servers; `tabs`, `people` and `faults` do it; `rest` brings
everything to rest; `evidence` gathers what there is to be seen, and `invariants`, `words` and `orders` judge it.
"""
