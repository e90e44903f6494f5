// Package podhealth reads from a pod, or from the refusal of one, what is wrong with it and what a person can do.
//
// Invariant: pure; the reasons are constants of the API.
package podhealth
