// Command demo runs Workpulling's main job on a real Kubernetes and proves that nothing was lost: it installs the charts,
// applies the samples, submits thousands of documents of this machine, and kills workers and the producer meanwhile.
//
// It ends with 1 if any line of its last table is false. It can be run again: each run has a source of its own.
package main
