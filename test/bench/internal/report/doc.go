// Package report turns the figures of many trials into a table with ratios.
//
// Invariants: a figure is the median of the runs of its row; a ratio is one of medians of the same invocation; a row without a run that
// was judged has no figure, and says why.
package report
