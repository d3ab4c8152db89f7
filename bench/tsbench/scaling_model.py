# SPDX-License-Identifier: MIT
"""How long an epoch takes on many nodes: the equations of Yang and Cong, and what sharing adds.

Units: samples, seconds, samples per second.  Numbers of equations are those of their paper
(Accelerating Data Loading in Deep Neural Network Training, HiPC 2019, arXiv 1910.01196):

    D   samples of the data set             p   nodes
    V   rate at which a node trains         U   rate at which a node makes samples of files
    R   rate of the storage, all nodes together
    Rc  rate at which a node gets samples from other nodes' caches
    Rb  the same for those that move to even out a batch
    a   share of the data set that the caches hold, alpha
    b   share of the data set that moves in an epoch, beta

The paper's Rc and Rb are rates of all nodes together.  Here they are of one node, times p.
"""
import math


def training_s(samples, nodes, node_rate):
    """(1)"""
    return samples / (nodes * node_rate)


def knee_nodes(storage_rate, node_rate):
    """(5): up to so many nodes training is what takes the time; from there on it is the storage."""
    return storage_rate / node_rate


def epoch_s(samples, nodes, node_rate, storage_rate):
    """(6), of a loader that reads everything from the storage."""
    if nodes <= knee_nodes(storage_rate, node_rate):
        return training_s(samples, nodes, node_rate)
    return samples / storage_rate


def cached_io_s(samples, nodes, storage_rate, peer_rate, held):
    """(7): the nodes' caches hold a share @held of the samples, each on a node of its own."""
    remote = (nodes - 1) / nodes
    return ((1 - held) * samples / storage_rate +
            held * samples / (nodes * peer_rate) * remote)


def local_io_s(samples, nodes, storage_rate, move_rate, held, moved):
    """(8): ranks take what their node holds; the share @moved goes elsewhere for the balance."""
    return ((1 - held) * samples / storage_rate +
            held * samples / (nodes * move_rate) * moved)


def overlapped_s(samples, nodes, node_rate, io_s, make_rate=math.inf):
    """(4) and the line below it: loading runs beside training, and the slower one counts."""
    return max(training_s(samples, nodes, node_rate), io_s + samples / (nodes * make_rate))


def moved_closed(local_batch):
    """beta of batches of @local_batch per cache, where samples lie anywhere: 1/sqrt(2 pi m).

    What a node finds of its own in a batch is nearly a Poisson number with the mean m.  Half of
    its mean distance from m is what moves; Stirling's formula makes the root of it.
    """
    return 1 / math.sqrt(2 * math.pi * local_batch)


def moved_exact(local_batch, caches):
    """The same without approximations but for a data set that has no end: a binomial number."""
    if caches == 1:
        return 0.0
    draws, chance = local_batch * caches, 1 / caches
    # De Moivre: E|X - np| = 2 (1-p)^(n-m) p^(m+1) (m+1) C(n, m+1), with m = np.
    log = (math.lgamma(draws + 1) - math.lgamma(local_batch + 1) -
           math.lgamma(draws - local_batch) + (draws - local_batch) * math.log1p(-chance) +
           (local_batch + 1) * math.log(chance))
    return math.exp(log) / local_batch


def finite(samples, global_batch):
    """By what beta is smaller since a batch does not draw a sample twice."""
    return math.sqrt((samples - global_batch) / (samples - 1))


# ---- contention -------------------------------------------------------------------------------

def storage_rate(readers, delay_s, limit_rate):
    """Files per second that @readers get together, each of which reads one after the other.

    A file takes @delay_s of one who is alone, whatever others do, until all together get
    @limit_rate, which they share.  So is the storage of the tests, whose link sends in turn; in
    queues of random times the bend would be round.
    """
    return min(readers / delay_s, limit_rate)


def fit_storage(rates):
    """(delay, limit) for storage_rate() from the measured @rates, {readers: files per second}."""
    few = min(rates)
    return few / rates[few], max(rates.values())


# ---- jobs of a sweep: K of them on each node, each with an epoch of its own over all samples -----

def sweep_epoch_s(job_rate, samples, storage_s, peer_s, make_s, parallel):
    """Seconds of an epoch of each job: it trains, or waits for what takes longest.

    @storage_s, @peer_s: until the storage and the links have brought what a node needs.
    @make_s: CPU seconds of the node for all its jobs; @parallel: its cores.
    """
    return max(samples / job_rate, storage_s + peer_s + make_s / parallel)


def across_pays_below(make_s, sample_bytes, link_bytes_s, take_s):
    """Cores of a node up to which a finished sample from another node is faster than making it.

    A link brings one in @sample_bytes / @link_bytes_s; cores make one in (@make_s - @take_s) each.
    """
    return (make_s - take_s) * link_bytes_s / sample_bytes
