// Package image writes container images without a registry and without a builder.
//
// Invariant: the same input gives the same bytes, so an image can be loaded again without becoming another one.
package image
