//! Links between nodes: persistent, multiplexed, bounded
