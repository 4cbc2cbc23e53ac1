// Package plot draws results: a [Figure] for the times of a suite, for the memory of
// its operations, for each curve, each scale test and each distribution of latencies.
//
// # Guarantees
//
// A contender has the same colour in every figure and every run ([Color]), and a
// durability the same shape. Axes have units; those on which ratios matter are
// logarithmic. The same results give the same picture.
//
// # Testing
//
// Figures are drawn from a fixed file of results, and looked at.
package plot
