// Package kubeconfig writes the files with which clients find and enter the API server.
//
// Invariant: a file is complete or absent (written beside and renamed), holds everything it needs inline, and has mode 0600.
package kubeconfig
