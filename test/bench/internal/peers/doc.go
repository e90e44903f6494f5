// Package peers are other systems that hand jobs to workers, each in the mode that was found to be its fastest with the promise that its
// name states. What was tried is said beside each choice.
package peers
