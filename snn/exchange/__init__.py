"""Networks and spikes in the formats of other programs: NIR graphs, NIR's events, Brian2.

Needs the extras ``sparsespike[nir]`` and ``sparsespike[brian2]``; these packages are imported only when a
function is called.
"""

from snn.exchange.brian2_model import Brian2Model, to_brian2
from snn.exchange.nir_reader import ImportedNetwork, from_nir
from snn.exchange.nir_writer import to_nir

__all__ = ["Brian2Model", "ImportedNetwork", "from_nir", "to_brian2", "to_nir"]
