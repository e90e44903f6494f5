// Package breakdown says what a trial spends its CPU on, from the CPU profiles of its Go processes. Servers that are no Go programs have
// no part in it.
//
// Invariants: each sample counts once, in the area of its innermost function that belongs to one; the shares add up to 1.
package breakdown
