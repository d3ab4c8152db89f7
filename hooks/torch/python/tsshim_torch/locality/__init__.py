# SPDX-License-Identifier: MIT
"""
`tsrun --locality`: each global batch goes to the ranks by what their nodes hold.

That is the locality-aware loading of Yang and Cong (arXiv 1910.01196).  What all ranks together
take in step b of an epoch stays as it is, and so does how many samples each takes; but who takes
which follows from who has read it before.  The sum of the gradients is that of the same samples.
It is no bit for bit copy of the job without it (docs/exceptions.md), so it is off by default, and
who asks for an order of his own (--align, strict or free) gets that.

What is known without a word between ranks: the sampler's order of all of them, which follows
from its seed and epoch or from generators that all ranks have alike (samplers.py).  So each rank
works out the same answer for each step (assignment.py).

What is not: whether all ranks do.  One rank without the library would take samples that others
take too, and leave out some; so would one with another epoch's order for a beginning.  That is
agreed on once per loader in the process group's store (iteration.py): each rank tells its node and
what it has for a loader, and rank 0, once all have told the same, in which epoch that was.  The
order of this epoch, in which nothing is changed, says who holds what.  Later ones are shared out.
Rank 0 says so before it takes part in a step of that epoch, so nobody can have begun the next one.

Who holds what never changes after that, as in the paper: a node keeps what it has read, as staged
copies do (leader/files/stage.h).  What a node has no room for is read from the storage by whoever
takes it; how much room there is, ranks of different nodes need not know alike, so it is not asked.
What moved in later epochs lies on a second node as well, which is not noted: that would be
another table in a job that goes on than in one that resumes.  A job that resumes, and workers that a
launcher starts anew, agree anew: their first epoch is the one in which nothing changes.

Where anything of this is not understood nothing is changed, and `torch_locality` is counted.
"""
