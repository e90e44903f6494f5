// Package helm tests the charts as a user's `helm install` would render them. It is a module of its own, so that Helm's
// dependencies stay out of the operator's.
package helm
