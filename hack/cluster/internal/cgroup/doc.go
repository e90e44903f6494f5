// Package cgroup makes and removes one path in all cgroup hierarchies of the machine, version 1, 2 or both.
//
// Invariants: nothing outside the given path is changed, except that version 2 controllers are passed down to it; removing
// what is not there is no error.
package cgroup
